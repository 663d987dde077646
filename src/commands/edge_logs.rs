//! `highwater edge-logs …`: what logs came in, what became of their lines, and taking one back.

use std::process::ExitCode;

use anyhow::{Context, bail};
use processor::import::{Reverted, State, Stored, Summary};
use processor::settle::{Standing, Word};
use serde::Serialize;
use serde_json::json;

use super::logs_again::Missing;
use super::logs_known::{Known, known};
use super::{backfill, edge_hours, logs_again, logs_failed, open, print, summary};
use crate::cli::{EdgeLogs, SettleAs};
use crate::config::Config;
use crate::run::{Again, turn};

/// Lists the logs, or shows one, as they stand now.
pub(crate) async fn run(command: EdgeLogs, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        EdgeLogs::List(flags) => {
            let logs = known(config, None).await?;
            if flags.json {
                print::json(&logs)?;
            } else {
                let words = edge_hours::under_way(&open::lake(config)?).await?;
                let words = words.iter().map(edge_hours::text);
                print::line(&std::iter::once(table(&logs)).chain(words).collect::<Vec<_>>().join("\n"))?;
            }
        }
        EdgeLogs::Show { id, json } => {
            let found = known(config, Some(&id)).await?.pop();
            let log = found.with_context(|| format!("there is no edge log {id}; `edge-logs list` names them"))?;
            if json { print::json(&log)? } else { print::line(&text(&log))? }
        }
        EdgeLogs::Settle { provider, hour, settle_as, json } => {
            let word = match settle_as {
                SettleAs::Recovered => Standing::Recovered,
                SettleAs::Counted => Standing::Counted,
            };
            return edge_hours::settle(Word { provider, hour, word }, json, config).await;
        }
        EdgeLogs::EndSource { name, json } => end_source(&name, json, config).await?,
        EdgeLogs::Revert { id, json } => return revert(&id, json, config).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends a continuous source.
async fn end_source(name: &str, json: bool, config: &Config) -> anyhow::Result<()> {
    let store = open::link_store(config).await?;
    if !store.end_source(name).await? {
        let sources = store.edge_sources().await?;
        if sources.iter().any(|source| source.name == name) {
            bail!("{name} is watched; take it out of edge_logs.watch, and restart what processes logs");
        }
        let named: Vec<String> = sources.into_iter().filter(|one| !one.watched).map(|one| one.name).collect();
        bail!(
            "there is no source {name:?}; there is {}",
            if named.is_empty() { "none".into() } else { named.join(", ") }
        );
    }
    if json {
        print::json(&json!({"ended": name}))
    } else {
        print::line(&format!("{name} is ended: final_through waits for it no longer, unless another log of it comes"))
    }
}

/// What became of a revert.
#[derive(Debug, Serialize)]
struct Outcome {
    /// The import that was taken back, as it stands now.
    reverted: Stored,
    /// Rows that have left `clicks`.
    removed: u64,
    /// Records that have left `arrivals`.
    removed_waiting: u64,
    /// Whether it had been taken back before, so that nothing of it was left.
    was_gone: bool,
    /// Its lines that were rows of others: what they have told of those stays there.
    counted_elsewhere: u64,
    /// Logs decided anew.
    again: Vec<Summary>,
    /// Logs that can't be read any more.
    deliver_again: Vec<Missing>,
}

/// Takes an import back and takes in again what overlaps with it. Ends with 1 while something is to be delivered again
/// because of it.
async fn revert(id: &str, json: bool, config: &Config) -> anyhow::Result<ExitCode> {
    if let Some(off) = logs_failed::outside(id, config).await? {
        if json {
            print::json(&off)?
        } else {
            print::line(&off.text())?
        }
        return Ok(ExitCode::SUCCESS);
    }
    let importer = backfill::importer(config).await?;
    let _turn = turn(&config.data_dir).await?;
    let (store, lake) = (open::link_store(config).await?, open::lake(config)?);
    let Reverted { import, removed, removed_waiting, was_gone, counted_elsewhere, again } = importer.revert(id).await?;
    // an upload that broke off is the import and a failed one: neither is left
    logs_failed::dismiss(&store, id).await?;
    let intake = Again::new(config, &store, &lake, importer.clone())?;
    let (again, deliver_again) = logs_again::take_in(&intake, again, id).await;
    let outcome =
        Outcome { reverted: import, removed, removed_waiting, was_gone, counted_elsewhere, again, deliver_again };
    // events that were to correct rows that went are rows of their own now
    importer.correct().await?;
    if json {
        print::json(&outcome)?
    } else {
        print::line(&told(&outcome))?
    }
    let is_whole = outcome.deliver_again.iter().all(|log| !log.is_new());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The outcome for people.
fn told(outcome: &Outcome) -> String {
    let summary = &outcome.reverted.summary;
    let of = format!("{} (id {})", summary.name, summary.id);
    let mut lines = vec![if outcome.was_gone {
        format!("{of} was taken back before: nothing of it is left")
    } else {
        format!("{of} is taken back: {} rows and {} waiting records are gone", outcome.removed, outcome.removed_waiting)
    }];
    if outcome.counted_elsewhere > 0 {
        lines.push(format!(
            "{} lines of it were counted by rows of others; what they have told of those (an agent, a referrer) stays there",
            outcome.counted_elsewhere
        ));
    }
    lines.extend(logs_again::text(&outcome.again, &outcome.deliver_again, "by rows that went"));
    lines.join("\n")
}

/// One log for people.
fn text(log: &Known) -> String {
    let source = log.source_name().map(|name| format!(", source {name}")).unwrap_or_default();
    let location = log.location().map(|location| format!(", from {location}")).unwrap_or_default();
    let (summary, workspace) = (log.summary(), log.workspace());
    let facts = format!("{}, workspace {workspace}{source}{location}", log.standing());
    match log {
        Known::Taken(_) => format!("{}\n  {facts}", summary::text(summary)),
        Known::Outside(_) => {
            let note = summary.note.as_ref().map(|note| format!("\n  note: {note}")).unwrap_or_default();
            format!("{} (id {})\n  {facts}{note}", summary.name, summary.id)
        }
    }
}

/// All logs for people, one a line; then what is to be known of those that aren't done.
fn table(logs: &[Known]) -> String {
    let head = [
        "id",
        "state",
        "name",
        "format",
        "provider",
        "source",
        "records",
        "added",
        "counted",
        "waiting",
        "ignored",
        "rejected",
        "imported_at",
    ];
    let cells = logs.iter().map(|log| {
        let summary = log.summary();
        let known = |count: u64| if log.is_counted() { count.to_string() } else { "-".to_owned() };
        let held = |count: u64| if matches!(log, Known::Taken(_)) { count.to_string() } else { known(count) };
        vec![
            summary.id.clone(),
            summary.state.as_str().to_owned(),
            summary.name.clone(),
            if summary.format.is_empty() { "-".to_owned() } else { summary.format.clone() },
            log.provider().unwrap_or("-").to_owned(),
            log.source_name().unwrap_or("-").to_owned(),
            known(summary.records),
            held(summary.added.total()),
            known(summary.already_counted),
            held(summary.waiting),
            known(summary.ignored.total()),
            known(summary.rejected_total()),
            log.imported_at().map_or_else(|| "-".to_owned(), |at| at.to_string()),
        ]
    });
    let mut text = print::columns(&head, &cells.collect::<Vec<_>>());
    let open = |summary: &&Summary| !matches!(summary.state, State::Done | State::Reverted);
    for summary in logs.iter().map(Known::summary).filter(open) {
        if let Some(note) = &summary.note {
            text.push_str(&format!("\n{} {}: {note}", summary.id, summary.state.as_str()));
        }
    }
    text
}
