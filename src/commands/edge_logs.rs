//! `highwater edge-logs …`: what logs came in, what became of their lines, and taking one back.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use processor::import::{Importer, Reverted, Stored, Summary, stored};
use processor::settle::{Settler, Standing};
use serde::Serialize;
use serde_json::json;

use super::{backfill, open, print, summary};
use crate::cli::{EdgeLogs, SettleAs};
use crate::config::Config;
use crate::run::{enricher, reopen, settle_config};

/// Lists the logs, or shows one, as they stand now.
pub(crate) async fn run(command: EdgeLogs, config: &Config) -> anyhow::Result<ExitCode> {
    let lake = open::lake(config)?;
    match command {
        EdgeLogs::List(flags) => {
            let imports = stored(&lake, None).await?;
            if flags.json { print::json(&imports)? } else { print::line(&table(&imports))? }
        }
        EdgeLogs::Show { id, json } => {
            let found = stored(&lake, Some(&id)).await?.pop();
            let import = found.with_context(|| format!("there is no import {id}; `edge-logs list` names them"))?;
            if json { print::json(&import)? } else { print::line(&text(&import))? }
        }
        EdgeLogs::Settle { provider, hour, settle_as, json } => {
            let registry = Arc::new(open::link_store(config).await?);
            let mut settler = Settler::new(&lake, registry, Arc::new(enricher(config)?), settle_config(config)).await?;
            let standing = match settle_as {
                SettleAs::Recovered => Standing::Recovered,
                SettleAs::Counted => Standing::Counted,
            };
            let settled = settler.decide_hour(&provider, hour, standing).await?;
            if json {
                print::json(&json!({
                    "provider": provider, "hour": hour, "as": standing.as_str(), "added": settled.added,
                    "already_counted": settled.already_counted, "taken_out": settled.taken_out,
                }))?;
            } else {
                let gone = match settled.taken_out {
                    0 => String::new(),
                    rows => format!(", {rows} rows that had been recovered taken out"),
                };
                print::line(&format!(
                    "the hour {hour} of {provider} is decided: {}; {} rows added, {} lines counted already{gone}",
                    standing.as_str(),
                    settled.added,
                    settled.already_counted
                ))?;
            }
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
    /// Logs taken in again.
    again: Vec<Summary>,
    /// Logs that can't be read any more.
    deliver_again: Vec<Missing>,
}

/// A log to be delivered again.
#[derive(Debug, Serialize)]
struct Missing {
    id: String,
    name: String,
    location: Option<String>,
    sha256: String,
    why: String,
}

/// Takes an import back and takes in again what overlaps with it. Ends with 1 while something is to be delivered again.
async fn revert(id: &str, json: bool, config: &Config) -> anyhow::Result<ExitCode> {
    let importer = backfill::importer(config).await?;
    let Reverted { import, removed, removed_waiting, again } = importer.revert(id).await?;
    let mut outcome =
        Outcome { reverted: import, removed, removed_waiting, again: Vec::new(), deliver_again: Vec::new() };
    for other in again {
        match take_in_again(config, &importer, &other).await {
            Ok(summary) => outcome.again.push(summary),
            Err(error) => outcome.deliver_again.push(Missing {
                id: other.summary.id,
                name: other.summary.name,
                location: other.location,
                sha256: other.sha256,
                why: crate::explain(&error),
            }),
        }
    }
    if json {
        print::json(&outcome)?
    } else {
        print::line(&told(&outcome))?
    }
    Ok(if outcome.deliver_again.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Takes a log in once more, from where it came and as it was told then.
async fn take_in_again(config: &Config, importer: &Importer, log: &Stored) -> anyhow::Result<Summary> {
    let location = log.location.as_deref().context("it came through a pipe, and can't be read again")?;
    let options = log.options.clone().context("it was taken in with options that this version doesn't know")?;
    let (store, lake) = (open::link_store(config).await?, open::lake(config)?);
    let mut input = reopen(config, &store, &lake, location).await?;
    input.name.clone_from(&log.summary.name);
    Ok(importer.import(input.expecting(&log.sha256), options, |_| {}).await?)
}

/// The outcome for people.
fn told(outcome: &Outcome) -> String {
    let summary = &outcome.reverted.summary;
    let mut lines = vec![format!(
        "{} (id {}) is taken back: {} rows and {} waiting records are gone",
        summary.name, summary.id, outcome.removed, outcome.removed_waiting
    )];
    if !outcome.again.is_empty() {
        lines.push("taken in again, as lines of theirs may have been counted by those rows:".to_owned());
        lines.extend(outcome.again.iter().map(summary::text));
    }
    if !outcome.deliver_again.is_empty() {
        lines.push("deliver these again; until then lines of theirs may be missing:".to_owned());
        let missing = |log: &Missing| format!("  {} (id {}): {}", log.name, log.id, log.why);
        lines.extend(outcome.deliver_again.iter().map(missing));
    }
    lines.join("\n")
}

/// One import for people.
fn text(import: &Stored) -> String {
    let source = import.source_name.as_ref().map(|name| format!(", source {name}")).unwrap_or_default();
    let location = import.location.as_ref().map(|location| format!(", from {location}")).unwrap_or_default();
    format!(
        "{}\n  {} at {}, workspace {}{source}{location}",
        summary::text(&import.summary),
        import.summary.state.as_str(),
        import.imported_at,
        import.workspace,
    )
}

/// All imports for people, one a line.
fn table(imports: &[Stored]) -> String {
    let head = [
        "id",
        "state",
        "name",
        "format",
        "source",
        "records",
        "added",
        "counted",
        "waiting",
        "ignored",
        "rejected",
        "imported_at",
    ];
    let cells = imports.iter().map(|import| {
        let summary = &import.summary;
        vec![
            summary.id.clone(),
            summary.state.as_str().to_owned(),
            summary.name.clone(),
            summary.format.clone(),
            import.source_name.clone().unwrap_or_else(|| "-".to_owned()),
            summary.records.to_string(),
            summary.added.total().to_string(),
            summary.already_counted.to_string(),
            summary.waiting.to_string(),
            summary.ignored.total().to_string(),
            summary.rejected_total().to_string(),
            import.imported_at.to_string(),
        ]
    });
    print::columns(&head, &cells.collect::<Vec<_>>())
}
