//! `highwater verify`: recounts, and compares the lake with the journals. Ends with 1 on any difference.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ingest::ports::{JournalState, Registry as _};
use processor::import::{State, Stored, unfinished};
use processor::lake::Lake;
use processor::settle::Word;
use query::VerifyReport;
use redirect::links::LinkStore;
use schemas::UtcMicros;
use schemas::tables::Table;
use serde::Serialize;

use super::{edge_hours, open, print};
use crate::cli::Json;
use crate::config::Config;
use crate::run::{Found, Held, trouble};

/// How often journals are looked at anew while something seems to be wrong: `up` may be at work on them.
const LOOKS: u32 = 4;
/// The pause between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// No log takes longer to come in: whoever has brought it was killed.
const UNDER_WAY: Duration = Duration::from_secs(3_600);

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
    /// What is wrong, and what to do about it.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Verified {
    ok: bool,
    complete_through: UtcMicros,
    clicks: VerifyReport,
    journals: Vec<JournalProgress>,
    /// Logs of which lines may be missing.
    edge_logs: Vec<LogProgress>,
    /// Hours whose misses may be counted otherwise than an operator has said.
    deciding: Vec<Word>,
}

/// A log that is coming in, is being taken back, or was to be taken in again.
#[derive(Debug, Serialize)]
struct LogProgress {
    id: String,
    name: String,
    state: &'static str,
    /// What is known of it, and what to do about it.
    note: Option<String>,
}

/// Recounts and prints.
pub(crate) async fn run(flags: Json, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let lake = open::lake(config)?;
    let mut journals = journals(&store, &lake, &config.journal_dir()).await?;
    for _ in 1..LOOKS {
        if journals.iter().all(|journal| journal.ok) {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
        journals = self::journals(&store, &lake, &config.journal_dir()).await?;
    }
    let complete_through = store.complete_through(UtcMicros::now()).await?;
    let clicks = open::query_service(config).await?.verify(config.edge.max_skew.0).await?;
    let (edge_logs, now) = (unfinished(&lake).await?, UtcMicros::now());
    let deciding = edge_hours::under_way(&lake).await?;
    let ok =
        clicks.ok && journals.iter().all(|journal| journal.ok) && edge_logs.iter().all(|log| is_on_its_way(log, now));
    let edge_logs: Vec<LogProgress> = edge_logs.into_iter().map(LogProgress::of).collect();
    let verified = Verified { ok, complete_through, clicks, journals, edge_logs, deciding };
    if flags.json {
        print::json(&verified)?;
    } else {
        print::line(&text(&verified))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Whether lines of a log are likely to be coming in right now: nothing to worry about, unless its rows were taken back
/// before.
fn is_on_its_way(log: &Stored, now: UtcMicros) -> bool {
    let is_new = log.summary.state == State::Running && log.summary.again_for.is_none();
    is_new && now.since(log.imported_at) < UNDER_WAY
}

impl LogProgress {
    fn of(log: Stored) -> Self {
        let Stored { summary, .. } = log;
        Self { id: summary.id, name: summary.name, state: summary.state.as_str(), note: summary.note }
    }
}

async fn journals(store: &LinkStore, lake: &Lake, directory: &Path) -> anyhow::Result<Vec<JournalProgress>> {
    // the registry first: it may only be behind what the lake holds
    let registered = store.journals().await?;
    let clicks = lake.table(Table::Clicks).await?;
    let mut progress = Vec::with_capacity(registered.len());
    for known in registered {
        let held = Held::of(&clicks, &known);
        // of a journal that is over nothing needs to be there
        let found = match known.state {
            JournalState::Open => Found::look(directory, known.id, held.below).await,
            JournalState::Closed | JournalState::Retired => Found::Nothing,
        };
        let trouble = trouble(&known, held, &found);
        let problem = trouble.map(|trouble| format!("{trouble}; {}", trouble.way_out(known.id)));
        let (id, state) = (known.id.to_string(), known.state.as_str());
        let (registered, in_lake, ok) = (known.committed, held.below, problem.is_none());
        progress.push(JournalProgress { id, state, registered, in_lake, ok, problem });
    }
    Ok(progress)
}

fn text(verified: &Verified) -> String {
    let clicks = &verified.clicks;
    let classes: Vec<String> = clicks.by_class.iter().map(|(class, n)| format!("{class} {n}")).collect();
    let mut lines = vec![
        format!("clicks: {} rows ({})", clicks.rows, classes.join(", ")),
        format!("duplicate ids: {}", clicks.duplicates),
    ];
    if clicks.reused_ids > 0 {
        lines.push(format!("ids used again for another request, more than edge.max_skew apart: {}", clicks.reused_ids));
    }
    lines.extend(clicks.duplicate_ids.iter().map(|id| format!("  {id}")));
    lines.extend(clicks.broken.iter().map(|(rule, n)| format!("rule broken: {rule}, {n} rows")));
    for journal in &verified.journals {
        let word = journal.problem.as_ref().map_or("ok".to_owned(), |problem| format!("BUT {problem}"));
        lines.push(format!(
            "journal {} {}: in the lake below position {}, {word}",
            journal.id, journal.state, journal.in_lake
        ));
    }
    lines.extend(verified.edge_logs.iter().map(|log| {
        let note = log.note.as_deref().unwrap_or("lines of it may be missing");
        format!("edge log {} (id {}) {}: {note}", log.name, log.id, log.state)
    }));
    lines.extend(verified.deciding.iter().map(edge_hours::text));
    lines.push(format!("complete through {}", verified.complete_through));
    lines.push(if verified.ok { "all is well" } else { "there are differences" }.to_owned());
    lines.join("\n")
}
