//! `highwater verify`: recounts, and compares the lake with the journals. Ends with 1 on any difference.

use std::process::ExitCode;

use ingest::ports::{JournalState, Registry as _};
use processor::lake::Lake;
use query::VerifyReport;
use redirect::links::LinkStore;
use schemas::UtcMicros;
use schemas::tables::Table;
use serde::Serialize;

use super::{open, print};
use crate::cli::Json;
use crate::config::Config;

/// A journal against the lake.
#[derive(Debug, Serialize)]
struct JournalProgress {
    id: String,
    state: &'static str,
    /// First position that the lake lacks, by the registry.
    registered: u64,
    /// The same, by the lake's own transaction: the registry may be behind it, never before it.
    in_lake: u64,
    ok: bool,
}

#[derive(Debug, Serialize)]
struct Verified {
    ok: bool,
    complete_through: UtcMicros,
    clicks: VerifyReport,
    journals: Vec<JournalProgress>,
}

/// Recounts and prints.
pub(crate) async fn run(flags: Json, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let lake = open::lake(config)?;
    let journals = journals(&store, &lake).await?;
    let complete_through = store.complete_through(UtcMicros::now()).await?;
    let clicks = open::query_service(config).await?.verify().await?;
    let ok = clicks.ok && journals.iter().all(|journal| journal.ok);
    let verified = Verified { ok, complete_through, clicks, journals };
    if flags.json {
        print::json(&verified)?;
    } else {
        print::line(&text(&verified))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn journals(store: &LinkStore, lake: &Lake) -> anyhow::Result<Vec<JournalProgress>> {
    // the registry first: it may only be behind what the lake holds
    let registered = store.journals().await?;
    let clicks = lake.table(Table::Clicks).await?;
    let progress = registered.into_iter().map(|journal| {
        let in_lake = clicks.txn(&format!("stream/{}", journal.id)).unwrap_or_default().max(0) as u64;
        let is_over = journal.state != JournalState::Open;
        let ok = journal.committed <= in_lake || is_over;
        let state = journal.state.as_str();
        JournalProgress { id: journal.id.to_string(), state, registered: journal.committed, in_lake, ok }
    });
    Ok(progress.collect())
}

fn text(verified: &Verified) -> String {
    let clicks = &verified.clicks;
    let classes: Vec<String> = clicks.by_class.iter().map(|(class, n)| format!("{class} {n}")).collect();
    let mut lines = vec![
        format!("clicks: {} rows ({})", clicks.rows, classes.join(", ")),
        format!("duplicate ids: {}", clicks.duplicates),
    ];
    lines.extend(clicks.duplicate_ids.iter().map(|id| format!("  {id}")));
    lines.extend(clicks.broken.iter().map(|(rule, n)| format!("rule broken: {rule}, {n} rows")));
    for journal in &verified.journals {
        let word = if journal.ok { "ok" } else { "THE LAKE IS BEHIND THE REGISTRY" };
        lines.push(format!(
            "journal {} {}: in the lake below position {}, {word}",
            journal.id, journal.state, journal.in_lake
        ));
    }
    lines.push(format!("complete through {}", verified.complete_through));
    lines.push(if verified.ok { "all is well" } else { "there are differences" }.to_owned());
    lines.join("\n")
}
