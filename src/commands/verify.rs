//! `highwater verify`: recounts, and compares the lake with the journals. Ends with 1 on any difference. What is on its way
//! into the lake is none, and is noted.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ingest::ports::{JournalState, Registry as _};
use processor::import::{State, Stored, unfinished};
use processor::lake::Lake;
use processor::settle::{Mismatched, Waiting, Word, mismatched, waiting};
use query::VerifyReport;
use redirect::links::LinkStore;
use schemas::UtcMicros;
use schemas::tables::Table;
use serde::Serialize;

use super::answered::InJournals;
use super::{edge_hours, open, print};
use crate::cli::Json;
use crate::config::{Backend, Config};
use crate::run::{Found, Held, lost_offsets, made_here, trouble};

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
    /// Clicks of it that the lake lacks; none where nobody here can tell, as of another machine's journal.
    not_in_lake: Option<u64>,
    /// What is wrong, and what to do about it.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Verified {
    ok: bool,
    complete_through: UtcMicros,
    clicks: VerifyReport,
    journals: Vec<JournalProgress>,
    /// What the lake has lost of a topic, of which journals tell nothing: they are known by what was published.
    stream: Option<String>,
    /// Logs of which lines may be missing.
    edge_logs: Vec<LogProgress>,
    /// Hours whose misses may be counted otherwise than an operator has said.
    deciding: Vec<Word>,
    /// Hours whose ids don't meet, for an operator to decide.
    mismatched: Vec<Mismatched>,
    /// What is no difference, and yet not all that was answered or handed in.
    notes: Vec<String>,
}

/// What of logs is not in the lake.
#[derive(Clone, Copy, Debug, Default)]
struct Logs {
    /// Logs that wait for their turn, or are being taken in.
    queued: u64,
    /// Logs that could not be taken in.
    failed: u64,
    /// What waits to be counted: lines also of hours whose ids don't meet.
    waiting: Waiting,
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
    let mut journals = journals(&store, &lake, config).await?;
    for _ in 1..LOOKS {
        if journals.iter().all(|journal| journal.ok) {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
        journals = self::journals(&store, &lake, config).await?;
    }
    let held = journals.iter().filter_map(|journal| Some((journal.id.parse().ok()?, journal.in_lake))).collect();
    let answered = Arc::new(InJournals::of(&lake, config.journal_dir(), held).await?);
    let stream = lost_offsets(&lake, &store).await?;
    let complete_through = store.complete_through(UtcMicros::now()).await?;
    let clicks = open::query_service(config).await?.verify(config.edge.max_skew.0, answered).await?;
    let (edge_logs, now) = (unfinished(&lake).await?, UtcMicros::now());
    let deciding = edge_hours::under_way(&lake).await?;
    let ok = clicks.ok
        && journals.iter().all(|journal| journal.ok)
        && stream.is_none()
        && edge_logs.iter().all(|log| is_on_its_way(log, now));
    let edge_logs: Vec<LogProgress> = edge_logs.into_iter().map(LogProgress::of).collect();
    let mismatched = mismatched(&lake).await?;
    let logs = Logs {
        queued: store.queued_logs().await?,
        failed: store.failed_logs().await?,
        waiting: waiting(&lake.table(Table::Arrivals).await?).await?,
    };
    let notes = notes(&journals, &edge_logs, logs, &mismatched);
    let verified = Verified { ok, complete_through, clicks, journals, stream, edge_logs, deciding, mismatched, notes };
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

async fn journals(store: &LinkStore, lake: &Lake, config: &Config) -> anyhow::Result<Vec<JournalProgress>> {
    let directory = config.journal_dir();
    // the registry first: it may only be behind what the lake holds
    let registered = store.journals().await?;
    let clicks = lake.table(Table::Clicks).await?;
    let made_here = made_here(&directory);
    let mut progress = Vec::with_capacity(registered.len());
    for mut known in registered {
        let held = Held::of(&clicks, &known);
        // of a journal that is over nothing needs to be there
        let found = match known.state {
            JournalState::Open => Found::look(&directory, known.id, held.below).await,
            JournalState::Closed | JournalState::Retired => Found::Nothing,
        };
        // one that the topic hasn't been reached for yet is no other node's loss either
        known.forwarded |= config.stream.backend == Backend::Fluvio;
        let trouble = trouble(&known, held, &found, made_here.contains(&known.id));
        let problem = trouble.map(|trouble| format!("{trouble}; {}", trouble.way_out(known.id)));
        let (id, state) = (known.id.to_string(), known.state.as_str());
        let (registered, in_lake, ok) = (known.committed, held.below, problem.is_none());
        let not_in_lake = match &found {
            Found::Here(found) => Some(found.clicks.clicks),
            _ if known.state == JournalState::Open => None,
            _ => Some(0),
        };
        progress.push(JournalProgress { id, state, registered, in_lake, ok, not_in_lake, problem });
    }
    Ok(progress)
}

/// What is on its way into the lake, or waits for a word, in words.
fn notes(
    journals: &[JournalProgress],
    edge_logs: &[LogProgress],
    logs: Logs,
    mismatched: &[Mismatched],
) -> Vec<String> {
    let mut notes = Vec::new();
    for journal in journals {
        let id = &journal.id;
        match journal.not_in_lake {
            Some(0) => {}
            Some(clicks) => notes.push(format!(
                "{clicks} clicks of journal {id} are answered and not in the lake yet: `up` or `process` brings them in"
            )),
            None => notes
                .push(format!("journal {id} is not here: how many of its clicks are not in the lake yet is not known")),
        }
    }
    notes.extend(edge_logs.iter().map(|log| format!("import {} ({}) is {}", log.id, log.name, log.state)));
    if logs.queued > 0 {
        notes.push(format!("{} logs are queued or being taken in: `edge-logs list` names them", logs.queued));
    }
    if logs.failed > 0 {
        notes.push(format!("{} logs could not be taken in: `edge-logs list` says why", logs.failed));
    }
    let undecided = mismatched.iter().map(|one| one.waiting).sum();
    let waiting = logs.waiting.lines.saturating_sub(undecided);
    if waiting > 0 {
        notes.push(format!("{waiting} lines of logs wait until it is sure whether their event comes"));
    }
    let late = logs.waiting.late;
    if late > 0 {
        notes.push(format!(
            "{late} late clicks wait until it is sure that they are not counted yet: `up` or `process` adds them"
        ));
    }
    notes.extend(mismatched.iter().map(|one| {
        format!(
            "{} lines of {} in the hour {} meet no event and wait for a word: `edge-logs settle`",
            one.waiting, one.provider, one.hour
        )
    }));
    notes
}

/// The last line: that nothing is wrong is not that all is in.
fn verdict(verified: &Verified) -> &'static str {
    match (verified.ok, verified.notes.is_empty()) {
        (true, true) => "all is well",
        (true, false) => "nothing is wrong; not all is in the lake yet, or decided: see the notes",
        (false, _) => "there are differences",
    }
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
    let (answered, missing) = (clicks.answered, clicks.missing);
    lines.push(format!("answered clicks that journals still hold: {answered}, of which {missing} have no row"));
    lines.extend(clicks.missing_ids.iter().map(|id| format!("  {id}")));
    lines.extend(clicks.broken.iter().map(|(rule, n)| format!("rule broken: {rule}, {n} rows")));
    for journal in &verified.journals {
        let word = journal.problem.as_ref().map_or("ok".to_owned(), |problem| format!("BUT {problem}"));
        lines.push(format!(
            "journal {} {}: in the lake below position {}, {word}",
            journal.id, journal.state, journal.in_lake
        ));
    }
    lines.extend(verified.stream.iter().map(|lost| format!("stream: BUT {lost}")));
    lines.extend(verified.edge_logs.iter().map(|log| {
        let note = log.note.as_deref().unwrap_or("lines of it may be missing");
        format!("edge log {} (id {}) {}: {note}", log.name, log.id, log.state)
    }));
    lines.extend(verified.deciding.iter().map(edge_hours::text));
    lines.push(format!("complete through {}", verified.complete_through));
    lines.extend(verified.notes.iter().map(|note| format!("note: {note}")));
    lines.push(verdict(verified).to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(not_in_lake: Option<u64>) -> JournalProgress {
        let (id, problem) = ("j".to_owned(), None);
        JournalProgress { id, state: "open", registered: 5, in_lake: 5, ok: true, not_in_lake, problem }
    }

    #[test]
    fn what_is_not_in_yet_is_noted_and_all_is_not_simply_well() {
        let log = LogProgress { id: "i".into(), name: "a.log".into(), state: "running", note: None };
        let hour = Mismatched { provider: "nginx".into(), hour: UtcMicros(0), waiting: 120 };
        assert!(notes(&[journal(Some(0))], &[], Logs::default(), &[]).is_empty());
        let journals = [journal(Some(7)), journal(Some(0)), journal(None)];
        let logs = Logs { queued: 2, failed: 1, waiting: Waiting { lines: 123, late: 17 } };
        let told = notes(&journals, std::slice::from_ref(&log), logs, std::slice::from_ref(&hour));
        for (note, part) in told.iter().zip([
            "7 clicks of journal j",
            "is not known",
            "import i (a.log) is running",
            "2 logs are queued",
            "1 logs could not be taken in",
            "3 lines of logs wait",
            "17 late clicks wait",
            "120 lines of nginx in the hour 1970-01-01T00:00:00",
        ]) {
            assert!(note.contains(part), "{part}: {note}");
        }
        assert_eq!(told.len(), 8, "{told:?}");
        let (clicks, now) = (VerifyReport { ok: true, ..VerifyReport::default() }, UtcMicros(0));
        let (edge_logs, deciding, mismatched) = (vec![log], Vec::new(), vec![hour]);
        let mut verified = Verified {
            ok: true,
            complete_through: now,
            clicks,
            journals: journals.into(),
            stream: None,
            edge_logs,
            deciding,
            mismatched,
            notes: told,
        };
        let said = text(&verified);
        assert!(said.contains("note: 7 clicks of journal j") && !said.contains("all is well"), "{said}");
        verified.notes.clear();
        assert!(text(&verified).ends_with("all is well"));
        verified.ok = false;
        verified.stream = Some("the lake is behind".to_owned());
        let said = text(&verified);
        assert!(said.contains("stream: BUT the lake is behind") && said.ends_with("there are differences"), "{said}");
    }
}
