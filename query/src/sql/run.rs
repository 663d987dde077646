//! Runs a statement.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use futures::StreamExt;
use schemas::Principal;
use tokio::sync::OwnedSemaphorePermit;

use super::check::check;
use super::encode::{EncodeError, Encoder, Format};
use super::out::{self, Limits, Out, SqlStream};
use super::pairs;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::failure::classify;
use crate::limits::within;
use crate::metrics::QueryMetrics;

/// Rows of a batch of a statement that makes long texts: a batch of them is in no one's account.
const FEW_ROWS: usize = 512;

/// An answer.
#[derive(Debug)]
pub enum SqlAnswer {
    /// All of it.
    Whole(Bytes),
    /// The rest comes; it ends with an error when it isn't whole.
    Stream(SqlStream),
}

/// All that a query needs.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) engine: Arc<Engine>,
    pub(crate) principal: Principal,
    pub(crate) sql: String,
    pub(crate) format: Format,
    pub(crate) limits: Limits,
    pub(crate) metrics: QueryMetrics,
    /// Kept until the last byte is made, and until its planning ends even when nobody waits for that any more.
    pub(crate) _place: OwnedSemaphorePermit,
}

/// Starts `job`, and waits until its answer is whole or too long to be held back.
pub(crate) async fn start(job: Job) -> Result<SqlAnswer, QueryError> {
    let (mut out, receiving) = out::pair(job.limits);
    let (engine, job) = (Arc::clone(&job.engine), Arc::new(job));
    let query = engine.spawn(async move {
        let began = Instant::now();
        let result = within(job.limits.deadline, answer(&job, &mut out)).await;
        job.metrics.took("sql", began.elapsed());
        // its place is free before the client has read the last byte
        drop(job);
        out.end(result).await;
    });
    receiving.begin(query).await
}

async fn answer(job: &Arc<Job>, out: &mut Out) -> Result<(), QueryError> {
    match rows(job, None, out).await {
        // A fresh snapshot doesn't have the file that is gone. Only while nothing has been sent.
        Err(QueryError::Stale(_)) if out.forget() => rows(job, Some(Instant::now()), out).await,
        result => result,
    }
}

async fn rows(job: &Arc<Job>, not_before: Option<Instant>, out: &mut Out) -> Result<(), QueryError> {
    let mut stream = job.engine.apart(plan(Arc::clone(job), not_before)).await??;
    let schema = stream.schema();
    if job.format.needs_distinct_names()
        && let Some(name) = twice(schema.fields().iter().map(|field| field.name().as_str()))
    {
        return Err(QueryError::Statement(format!(
            "column {name:?} comes twice; give one of them another name with AS"
        )));
    }
    // not every format has all types
    let media_type = job.format.media_type();
    let failed = |error: EncodeError| QueryError::Statement(format!("this can't be written as {media_type}: {error}"));
    let mut encoder = Encoder::new(job.format, &schema).map_err(failed)?;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| classify(&error))?;
        encoder.write(&batch).map_err(failed)?;
        out.put(encoder.take(), batch.num_rows() as u64).await?;
    }
    out.put(encoder.finish().map_err(failed)?, 0).await
}

/// From the text to a stream that is about to begin. Once it has the tables it yields to nobody.
async fn plan(job: Arc<Job>, not_before: Option<Instant>) -> Result<SendableRecordBatchStream, QueryError> {
    let checked = check(&job.sql)?;
    let session = job.engine.session();
    if checked.longer_texts {
        let state = session.state_ref();
        let mut state = state.write();
        let config = state.config().clone().with_batch_size(FEW_ROWS);
        *state.config_mut() = config;
    }
    let mut longest = 1;
    for &table in &checked.tables {
        let snapshot = job.engine.tables.snapshot(table, not_before).await?;
        longest = longest.max(snapshot.rows().unwrap_or(u64::MAX));
        let provider = job.engine.tables.provider(&snapshot, &job.principal);
        session.register_table(table.as_str(), provider).map_err(|error| classify(&error))?;
    }
    let state = session.state();
    let plan = state.statement_to_plan(checked.statement).await.map_err(|error| classify(&error))?;
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)
        .map_err(|error| classify(&error))?;
    let physical = state.create_physical_plan(&plan).await.map_err(|error| classify(&error))?;
    pairs::check(&physical, longest).map_err(QueryError::Statement)?;
    execute_stream(physical, session.task_ctx()).map_err(|error| classify(&error))
}

fn twice<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}
