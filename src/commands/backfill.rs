//! `highwater backfill`: edge logs into the lake.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use ingest::edge::{Format, IdMode};
use processor::import::{Checks, ImportOptions, Importer, Progress, State, Summary, UnknownCodes};

use super::{open, print};
use crate::cli::{Backfill, IdMode as IdFlag, UnknownCodes as UnknownFlag};
use crate::config::Config;
use crate::logs::{self, Found};
use crate::run::{enricher, imports};

/// Takes logs in.
pub(crate) async fn run(arguments: Backfill, config: &Config) -> anyhow::Result<ExitCode> {
    take_all(config, &arguments.paths, &options(&arguments)?, arguments.json).await
}

/// Takes each path in; a file that is refused doesn't stop the others, but the command then ends with 1.
pub(super) async fn take_all(
    config: &Config,
    paths: &[String],
    options: &ImportOptions,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let importer = importer(config).await?;
    let mut summaries = Vec::new();
    for log in logs::find(paths).await? {
        match take_in(config, &importer, &log, options.clone()).await {
            Ok(summary) => {
                if !json {
                    print::line(&text(&summary))?;
                }
                summaries.push(summary);
            }
            Err(error) => {
                let why = crate::explain(&error);
                eprintln!("highwater: {why}");
                summaries.push(failed(&log, why, options.dry_run));
            }
        }
    }
    let mut is_whole = summaries.iter().all(|summary| summary.state != State::Failed);
    if !options.dry_run
        && let Err(error) = importer.correct().await
    {
        is_whole = false;
        eprintln!(
            "highwater: the lines are counted, but rows that they know better than aren't corrected yet: {error}"
        );
    }
    if json {
        print::json(&summaries)?;
    } else if summaries.len() > 1 {
        print::line(&total(&summaries))?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The summary of a file that was refused: one entry a file, whatever became of it.
fn failed(log: &Found, why: String, dry_run: bool) -> Summary {
    let mut summary = Summary::new(String::new(), log.name().to_owned(), String::new(), dry_run);
    summary.state = State::Failed;
    summary.note = Some(why);
    summary
}

fn options(arguments: &Backfill) -> anyhow::Result<ImportOptions> {
    let format = match arguments.format.as_str() {
        "auto" => None,
        word => Some(word.parse::<Format>().context("--format")?),
    };
    Ok(ImportOptions {
        events: None,
        format,
        id: match arguments.id {
            None | Some(IdFlag::Auto) => IdMode::Auto,
            Some(IdFlag::Trusted) => IdMode::Trusted,
            Some(IdFlag::StatusOnly) => IdMode::StatusOnly,
        },
        source: arguments.source.clone(),
        unknown_codes: unknown_codes(arguments.unknown_codes),
        dry_run: arguments.dry_run,
        workspace: None,
    })
}

pub(super) fn unknown_codes(flag: UnknownFlag) -> UnknownCodes {
    match flag {
        UnknownFlag::Keep => UnknownCodes::Keep,
        UnknownFlag::Ignore => UnknownCodes::Ignore,
    }
}

/// What takes logs in, for commands.
pub(super) async fn importer(config: &Config) -> anyhow::Result<Importer> {
    let store = open::link_store(config).await?;
    imports::importer(config, &store, open::lake(config)?, Arc::new(enricher(config)?))
}

async fn take_in(config: &Config, importer: &Importer, log: &Found, options: ImportOptions) -> anyhow::Result<Summary> {
    let bar = bar(log.name())?;
    let fetched = |bytes, of| {
        bar.set_length(of);
        bar.set_position(bytes);
        bar.set_message("fetched");
    };
    let input = log.input(&imports::spool_dir(config)?, fetched).await?;
    let shown = bar.clone();
    let began = std::time::Instant::now();
    let summary = importer
        .import(input, options, move |progress: Progress| {
            shown.set_length(progress.of);
            shown.set_position(progress.bytes);
            let rate = progress.lines as f64 / began.elapsed().as_secs_f64().max(0.001);
            shown.set_message(format!("{} lines, {rate:.0}/s", progress.lines));
        })
        .await;
    bar.finish_and_clear();
    Ok(summary?)
}

fn bar(name: &str) -> anyhow::Result<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {bytes}/{total_bytes} {msg}, {eta} left")?;
    Ok(ProgressBar::no_length().with_style(style).with_prefix(name.to_owned()))
}

/// A summary for people: what came, and what became of the rest.
pub(crate) fn text(summary: &Summary) -> String {
    let mut lines = Vec::new();
    let did = if summary.dry_run { "would add" } else { "added" };
    let format = if summary.format.is_empty() { "empty" } else { &summary.format };
    lines.push(format!("{} ({format}, id {})", summary.name, summary.id));
    let added = &summary.added;
    let came = match added.origin {
        None => format!("{} answered by the edge and {} recovered", added.edge, added.recovered),
        Some(_) => format!("{} events", added.total()),
    };
    let waiting = if added.origin.is_none() { "waiting for their event" } else { "waiting to be settled" };
    lines.push(format!(
        "  {} records: {did} {came}, {} already counted, {} {waiting}",
        summary.records, summary.already_counted, summary.waiting
    ));
    if summary.waiting > 0 && !summary.dry_run {
        lines.push("  (what waits is settled by `up` or `process`, or by `highwater compact`, when its event can't come any more)".to_owned());
    }
    let counts = serde_json::to_value(summary.ignored).unwrap_or_default();
    let ignored =
        nonzero(counts.as_object().into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_u64()?))));
    if !ignored.is_empty() {
        lines.push(format!("  ignored: {ignored}"));
    }
    let rejected = nonzero(summary.rejected.iter().map(|(reason, n)| (reason.as_str(), *n)));
    if !rejected.is_empty() {
        let kept = if summary.dry_run { "" } else { " (kept in table `rejects`)" };
        lines.push(format!("  rejected{kept}: {rejected}"));
    }
    lines.extend(summary.mismatched.iter().map(|one| {
        let hour = one.hour.to_string();
        format!(
            "  mismatched: in the hour {hour} the request ids of {} lines meet no event; decide what they are with\n    \
             highwater edge-logs settle --provider {} --hour {} --as recovered|counted",
            one.waiting, one.provider, &hour[..13.min(hour.len())]
        )
    }));
    if let (Some(first), Some(last)) = (summary.first, summary.last) {
        // of a moment's work a rate says nothing
        let rate = (summary.seconds >= 1.0).then(|| format!(", {:.0} lines/s", summary.lines as f64 / summary.seconds));
        lines.push(format!("  from {first} to {last}; {:.1} s{}", summary.seconds, rate.unwrap_or_default()));
    }
    lines.extend(summary.checks.as_ref().map(odd));
    for (title, planned) in [("day", &summary.days), ("link", &summary.links)] {
        for plan in planned.iter().flatten() {
            lines.push(format!("  {title} {}: {} would be added, {} would wait", plan.of, plan.added, plan.waiting));
        }
    }
    lines.extend(summary.note.iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}

/// What is odd about the lines, in words.
fn odd(checks: &Checks) -> String {
    let said = [
        (checks.lost, "reached the origin and have no event there (lost, and recovered from this log)"),
        (checks.surprise, "were answered by the edge, yet the origin has their event (surprise)"),
        (checks.reused_id, "have the id of another network's or agent's request (reused_id)"),
    ];
    let said = said.iter().filter(|(lines, _)| *lines > 0).map(|(lines, what)| format!("{lines} {what}"));
    format!("  check: {}", said.collect::<Vec<_>>().join("; "))
}

fn nonzero<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    counts.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

fn total(summaries: &[Summary]) -> String {
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(of).sum::<u64>();
    let did = if summaries.iter().any(|summary| summary.dry_run) { "would be added" } else { "added" };
    format!(
        "{} files, {} records: {} {did}, {} already counted, {} waiting, {} ignored, {} rejected",
        summaries.len(),
        sum(|s| s.records),
        sum(|s| s.added.total()),
        sum(|s| s.already_counted),
        sum(|s| s.waiting),
        sum(|s| s.ignored.total()),
        sum(Summary::rejected_total)
    )
}
