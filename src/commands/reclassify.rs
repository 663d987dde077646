//! `highwater reclassify`: history judged anew by the rules in force, and what moved.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use processor::settle::{Looked, Moved, Reclassified, Settler};
use query::Bound;
use schemas::UtcMicros;
use schemas::time::DAY;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{WrongUsage, open, print};
use crate::cli::Reclassify;
use crate::config::Config;
use crate::run::{enricher_of_history, settle_config, stop_at_signals};

/// So many ways from agent to agent, and from reason to reason, are shown to people.
const SHOWN: usize = 20;

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    start: UtcMicros,
    end: UtcMicros,
    workspace: Option<String>,
    dry_run: bool,
    #[serde(flatten)]
    found: Reclassified,
    seconds: f64,
    /// What wasn't judged anew.
    notes: Vec<String>,
}

/// Judges anew, and prints.
pub(crate) async fn run(arguments: Reclassify, config: &Config) -> anyhow::Result<ExitCode> {
    let (start, end) = (begin_of(arguments.start), end_of(arguments.end));
    if start >= end {
        let [start, end] = [arguments.start, arguments.end].map(typed);
        return Err(WrongUsage(format!("--end {end} must be later than --start {start}")).into());
    }
    let store = open::link_store(config).await?;
    if let Some(workspace) = &arguments.workspace {
        store.require_workspace(workspace).await?;
    }
    let lake = open::lake(config)?;
    let enricher = Arc::new(enricher_of_history(config)?);
    let stop = CancellationToken::new();
    stop_at_signals(stop.clone()).context("signals")?;
    let settler = Settler::new(&lake, Arc::new(store), enricher, settle_config(config)).await?;
    let mut settler = settler.until(stop);
    let Reclassify { workspace, dry_run, json, .. } = arguments;
    let asked = processor::settle::Reclassify { start, end, workspace: workspace.clone(), dry_run };
    let (bar, began) = (bar(), Instant::now());
    let found = settler.reclassify(&asked, &mut |looked| show(&bar, looked)).await;
    bar.finish_and_clear();
    let found = found?;
    let notes = notes(&found);
    let seconds = began.elapsed().as_secs_f64();
    let outcome = Outcome { start, end, workspace, dry_run, found, seconds, notes };
    if json {
        print::json(&outcome)?;
    } else {
        print::line(&text(&outcome))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A day, in UTC, begins at midnight.
fn begin_of(bound: Bound) -> UtcMicros {
    match bound {
        Bound::Instant(instant) => instant,
        Bound::Date(date) => UtcMicros::from(date.and_time(chrono::NaiveTime::MIN).and_utc()),
    }
}

/// A day is part of what it ends.
fn end_of(bound: Bound) -> UtcMicros {
    match bound {
        Bound::Instant(instant) => instant,
        date @ Bound::Date(_) => begin_of(date).plus(Duration::from_micros(DAY as u64)),
    }
}

/// As it was given.
fn typed(bound: Bound) -> String {
    match bound {
        Bound::Instant(instant) => instant.to_string(),
        Bound::Date(date) => date.to_string(),
    }
}

/// A bar of files; none where nobody sees it.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} files, {msg}, {eta} left");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, looked: Looked) {
    bar.set_length(looked.of as u64);
    bar.set_position(looked.files as u64);
    bar.set_message(format!("{} rows", looked.rows));
}

/// What was not judged anew, and why.
fn notes(found: &Reclassified) -> Vec<String> {
    let mut notes = Vec::new();
    if found.left > 0 {
        notes.push(format!(
            "{} rows stay as they are: headers judged them, by rules that there are no more or that are switched off, and \
             nothing else is left of those",
            found.left
        ));
    }
    if found.sampled_away {
        notes.push(
            "clicks of internal links were sampled away in this time: nothing but their link, class, hour and visitors is \
             kept (clicks_hourly), so their visitors stay in the classes that they were in"
                .to_owned(),
        );
    }
    notes
}

fn text(outcome: &Outcome) -> String {
    let Outcome { found, .. } = outcome;
    if found.rows == 0 {
        return format!("there are no clicks from {} to {}: nothing to judge", outcome.start, outcome.end);
    }
    let (did, files) = if outcome.dry_run { ("would change", "would be") } else { ("changed", "were") };
    let mut lines = vec![
        format!(
            "{} rows from {} to {}, judged by version {} of the rules: {} {did}; {} that older or other rules had judged say the \
             same",
            found.rows, outcome.start, outcome.end, found.rules_version, found.changed, found.same
        ),
        format!("{} of {} files {files} written anew", found.rewritten, found.files),
    ];
    let classes: Vec<Vec<String>> = found
        .before
        .keys()
        .chain(found.after.keys().filter(|class| !found.before.contains_key(*class)))
        .map(|class| {
            let (before, after) = (found.before.get(class).unwrap_or(&0), found.after.get(class).unwrap_or(&0));
            vec![class.clone(), before.to_string(), after.to_string()]
        })
        .collect();
    lines.push(String::new());
    lines.push(print::columns(&["class", "before", "after"], &classes));
    for (what, ways) in [("class", &found.classes), ("agent", &found.agents), ("reason", &found.reasons)] {
        lines.extend(moved(what, ways));
    }
    lines.extend(outcome.notes.iter().map(|note| format!("note: {note}")));
    if outcome.dry_run {
        lines.push("a dry run: nothing has changed".to_owned());
    }
    lines.join("\n")
}

/// From what to what rows moved, as a table; none when none did.
fn moved(what: &str, ways: &[Moved]) -> Option<String> {
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> =
        ways.iter().take(SHOWN).map(|way| vec![word(&way.from), word(&way.to), way.rows.to_string()]).collect();
    let more = ways.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("\n… and {more} more (--json lists all)") } else { String::new() };
    let head = [&format!("{what} before"), &format!("{what} after"), "rows"];
    (!rows.is_empty()).then(|| format!("\n{}{more}", print::columns(&head, &rows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn at(text: &str) -> UtcMicros {
        begin_of(text.parse().unwrap())
    }

    #[test]
    fn a_day_is_whole_and_an_instant_is_itself() {
        assert_eq!(at("2026-03-14"), at("2026-03-14T00:00:00Z"));
        assert_eq!(end_of("2026-03-14".parse().unwrap()), at("2026-03-15T00:00:00Z"));
        assert_eq!(typed("2026-03-14".parse().unwrap()), "2026-03-14");
        assert_eq!(end_of("2026-03-14T01:00:00+01:00".parse().unwrap()), at("2026-03-14"));
    }

    #[test]
    fn what_moved_is_told_and_what_could_not_is_too() {
        let way = |from: &str, to: &str, rows| Moved { from: Some(from.into()), to: Some(to.into()), rows };
        let found = Reclassified {
            rules_version: 3,
            rows: 10,
            changed: 4,
            same: 6,
            left: 1,
            files: 2,
            rewritten: 1,
            before: BTreeMap::from([("human".into(), 10)]),
            after: BTreeMap::from([("human".into(), 6), ("scanner".into(), 4)]),
            classes: vec![way("human", "scanner", 4)],
            agents: vec![Moved { from: None, to: Some("Barracuda".into()), rows: 4 }],
            reasons: (0..30).map(|n| way("person", &format!("r{n}"), 1)).collect(),
            sampled_away: true,
        };
        let notes = notes(&found);
        let (start, end) = (at("2026-03-14"), at("2026-03-15"));
        let outcome = Outcome { start, end, workspace: None, dry_run: true, found, seconds: 0.1, notes };
        let told = text(&outcome);
        for part in [
            "10 rows from 2026-03-14",
            "4 would change; 6 that older or other rules had judged say the same",
            "scanner  0       4",
            "-             Barracuda",
            "10 more",
            "nothing else is left",
            "sampled away",
            "a dry run",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let json = serde_json::to_value(&outcome).unwrap();
        assert_eq!((&json["rows"], &json["classes"][0]["to"]), (&10.into(), &"scanner".into()));
    }
}
