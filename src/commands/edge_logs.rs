//! `highwater edge-logs list|show`: what logs came in, and what became of their lines.

use std::process::ExitCode;

use anyhow::Context;
use processor::import::Summary;
use query::{Format, QueryService, SqlAnswer};
use serde_json::Value;

use super::{backfill, open, print};
use crate::cli::EdgeLogs;
use crate::config::Config;

/// Lists the logs, or shows one as it stands now.
pub(crate) async fn run(command: EdgeLogs, config: &Config) -> anyhow::Result<ExitCode> {
    let service = open::query_service(config).await?;
    match command {
        EdgeLogs::List(flags) => {
            let sql = "SELECT id, name, format, source_name, records, ignored, rejected, first, last, imported_at \
                       FROM edge_files ORDER BY imported_at";
            let rows = rows(&service, sql).await?;
            if flags.json { print::json(&rows)? } else { print::line(&table(&rows))? }
        }
        EdgeLogs::Show { id, json } => {
            let summary = current(&service, &id).await?;
            if json { print::json(&summary)? } else { print::line(&backfill::text(&summary))? }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The stored summary, with the counts that move as waiting lines settle taken from the lake.
async fn current(service: &QueryService, id: &str) -> anyhow::Result<Summary> {
    // ids are hexadecimal: nothing else is put into the statement
    anyhow::ensure!(!id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id:?} is no import's id");
    let stored = rows(service, &format!("SELECT summary FROM edge_files WHERE id = '{id}' LIMIT 1")).await?;
    let text =
        stored.first().and_then(|row| row["summary"].as_str()).with_context(|| format!("there is no import {id}"))?;
    let mut summary: Summary = serde_json::from_str(text)?;
    let counted = |sql: String| async move {
        let found = rows(service, &sql).await?;
        anyhow::Ok(found.first().and_then(|row| row["n"].as_u64()).unwrap_or_default())
    };
    let of =
        |table: &str, condition: &str| format!("SELECT count(*) AS n FROM {table} WHERE import_id = '{id}'{condition}");
    // what waits is read first: a line that settles in between is then missing from no count, at worst in `waiting`
    summary.waiting = counted(of("arrivals", "")).await?;
    summary.added.edge = counted(of("clicks", " AND source = 'edge'")).await?;
    summary.added.recovered = counted(of("clicks", " AND source = 'recovered'")).await?;
    let known = summary.added.edge + summary.added.recovered + summary.ignored.total() + summary.rejected_total();
    summary.waiting = summary.waiting.min(summary.records.saturating_sub(known));
    summary.already_counted = summary.records.saturating_sub(known + summary.waiting);
    Ok(summary)
}

async fn rows(service: &QueryService, sql: &str) -> anyhow::Result<Vec<Value>> {
    use futures::TryStreamExt as _;
    let bytes = match service.sql(&open::operator(), sql, Format::Json).await? {
        SqlAnswer::Whole(bytes) => bytes.to_vec(),
        SqlAnswer::Stream(stream) => stream.try_collect::<Vec<_>>().await?.concat(),
    };
    Ok(serde_json::from_slice(&bytes)?)
}

fn table(rows: &[Value]) -> String {
    let head = ["id", "name", "format", "source_name", "records", "ignored", "rejected", "imported_at"];
    let cell = |row: &Value, key: &str| match &row[key] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let cells: Vec<Vec<String>> = rows.iter().map(|row| head.iter().map(|key| cell(row, key)).collect()).collect();
    print::columns(&head, &cells)
}
