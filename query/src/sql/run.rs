//! Runs a statement and sends its rows, held back at first, then as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use futures::{Stream, StreamExt};
use schemas::Principal;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::check::{Checked, check};
use super::encode::{EncodeError, Encoder, Format};
use crate::engine::{Engine, Running};
use crate::error::QueryError;
use crate::failure::classify;
use crate::limits::within;
use crate::metrics::QueryMetrics;

/// Pieces of a body between the query and its client: enough to keep both busy, few enough to hold the query back.
const PIECES: usize = 4;

/// An answer.
#[derive(Debug)]
pub enum SqlAnswer {
    /// All of it.
    Whole(Bytes),
    /// The rest comes; it ends with an error when it isn't whole.
    Stream(SqlStream),
}

enum Piece {
    Bytes(Bytes),
    End,
    Failed(QueryError),
}

/// A body as it comes. Dropping it stops the query.
#[derive(Debug)]
pub struct SqlStream {
    pieces: mpsc::Receiver<Piece>,
    done: bool,
    _query: Running<()>,
}

impl Stream for SqlStream {
    type Item = Result<Bytes, QueryError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let piece = match std::task::ready!(self.pieces.poll_recv(context)) {
            Some(Piece::Bytes(bytes)) => return Poll::Ready(Some(Ok(bytes))),
            Some(Piece::End) => None,
            Some(Piece::Failed(error)) => Some(Err(error)),
            // closed without a word: stopped by its deadline while the client didn't read
            None => Some(Err(QueryError::lake("sending an answer", "the query was stopped"))),
        };
        self.done = true;
        Poll::Ready(piece)
    }
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
    /// Kept until the last byte is made.
    pub(crate) _place: OwnedSemaphorePermit,
}

/// What one answer may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) deadline: Duration,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) hold: usize,
}

/// Starts `job`, and waits until its answer is whole or too long to be held back.
pub(crate) async fn start(job: Job) -> Result<SqlAnswer, QueryError> {
    let (begun, beginning) = oneshot::channel();
    let (sender, pieces) = mpsc::channel(PIECES);
    let engine = Arc::clone(&job.engine);
    let query = engine.spawn(async move {
        let began = Instant::now();
        let mut out = Out { begun: Some(begun), sender, held: Vec::new(), bytes: 0, rows: 0, limits: job.limits };
        let result = within(job.limits.deadline, answer(&job, &mut out)).await;
        job.metrics.took("sql", began.elapsed());
        // its place is free before the client has read the last byte
        drop(job);
        out.end(result).await;
    });
    match beginning.await {
        Ok(Ok(Begin::Whole(bytes))) => Ok(SqlAnswer::Whole(bytes)),
        Ok(Ok(Begin::Stream)) => Ok(SqlAnswer::Stream(SqlStream { pieces, done: false, _query: query })),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(QueryError::lake("running a query", "it stopped without a word")),
    }
}

async fn answer(job: &Job, out: &mut Out) -> Result<(), QueryError> {
    let checked = check(&job.sql)?;
    match rows(job, &checked, None, out).await {
        // A fresh snapshot doesn't have the file that is gone. Only while nothing has been sent.
        Err(QueryError::Stale(_)) if out.begun.is_some() => {
            (out.rows, out.bytes) = (0, 0);
            out.held.clear();
            rows(job, &checked, Some(Instant::now()), out).await
        }
        result => result,
    }
}

async fn rows(job: &Job, checked: &Checked, not_before: Option<Instant>, out: &mut Out) -> Result<(), QueryError> {
    let mut stream = plan(job, checked, not_before).await?;
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

async fn plan(
    job: &Job,
    checked: &Checked,
    not_before: Option<Instant>,
) -> Result<SendableRecordBatchStream, QueryError> {
    let session = job.engine.session();
    for &table in &checked.tables {
        let snapshot = job.engine.tables.snapshot(table, not_before).await?;
        let provider = job.engine.tables.provider(&snapshot, &job.principal);
        session.register_table(table.as_str(), provider).map_err(|error| classify(&error))?;
    }
    let state = session.state();
    let plan = state.statement_to_plan(checked.statement.clone()).await.map_err(|error| classify(&error))?;
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)
        .map_err(|error| classify(&error))?;
    let physical = state.create_physical_plan(&plan).await.map_err(|error| classify(&error))?;
    execute_stream(physical, session.task_ctx()).map_err(|error| classify(&error))
}

fn twice<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

enum Begin {
    Whole(Bytes),
    Stream,
}

/// Where an answer goes: held back while it is short, then on its way.
struct Out {
    /// Taken when the answer is on its way.
    begun: Option<oneshot::Sender<Result<Begin, QueryError>>>,
    sender: mpsc::Sender<Piece>,
    held: Vec<u8>,
    bytes: u64,
    rows: u64,
    limits: Limits,
}

impl Out {
    async fn put(&mut self, bytes: Vec<u8>, rows: u64) -> Result<(), QueryError> {
        self.rows += rows;
        self.bytes += bytes.len() as u64;
        for (count, limit, unit) in [(self.rows, self.limits.rows, "rows"), (self.bytes, self.limits.bytes, "bytes")] {
            if count > limit {
                return Err(QueryError::TooLarge { limit, unit });
            }
        }
        if self.begun.is_none() {
            return self.send(bytes).await;
        }
        self.held.extend_from_slice(&bytes);
        if self.held.len() > self.limits.hold
            && let Some(begun) = self.begun.take()
        {
            let _ = begun.send(Ok(Begin::Stream));
            let held = std::mem::take(&mut self.held);
            return self.send(held).await;
        }
        Ok(())
    }

    async fn send(&self, bytes: Vec<u8>) -> Result<(), QueryError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let gone = |_| QueryError::lake("sending an answer", "the client is gone");
        self.sender.send(Piece::Bytes(bytes.into())).await.map_err(gone)
    }

    /// Says how it ended.
    async fn end(mut self, result: Result<(), QueryError>) {
        match (self.begun.take(), result) {
            (Some(begun), result) => {
                let held = std::mem::take(&mut self.held);
                let _ = begun.send(result.map(|()| Begin::Whole(held.into())));
            }
            (None, Ok(())) => drop(self.sender.send(Piece::End).await),
            // no waiting for a client that doesn't read: a body that just stops is cut too
            (None, Err(error)) => drop(self.sender.try_send(Piece::Failed(error))),
        }
    }
}
