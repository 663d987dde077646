//! `highwater retention`: rows that are older than their workspace keeps any go, and what that comes to.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use processor::settle::{Retained, Settler};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{open, print};
use crate::cli::Retention;
use crate::config::Config;
use crate::run::{enricher, limits, settle_config, stop_at_signals};

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    dry_run: bool,
    #[serde(flatten)]
    retained: Retained,
}

/// Takes rows out, and prints.
pub(crate) async fn run(arguments: Retention, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let lake = open::lake(config)?;
    let (limits, enricher) = (limits(config, &store), Arc::new(enricher(config, &Arc::default())?));
    let settler = Settler::new(&lake, Arc::new(store), enricher, settle_config(config)).await?;
    let stop = CancellationToken::new();
    stop_at_signals(stop.clone()).context("signals")?;
    let mut settler = settler.keeping(limits).until(stop);
    let Retention { dry_run, json } = arguments;
    let retained = settler.retain(dry_run).await?;
    if !dry_run {
        settler.clean().await?;
    }
    let outcome = Outcome { dry_run, retained };
    if json {
        print::json(&outcome)?;
    } else {
        print::line(&text(&outcome))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(outcome: &Outcome) -> String {
    let Outcome { dry_run, retained } = outcome;
    let rows: Vec<Vec<String>> = retained
        .workspaces
        .iter()
        .map(|one| {
            let from = one.from.map_or_else(|| "-".to_owned(), |from| from.to_datetime().format("%F").to_string());
            vec![one.workspace.clone(), one.keep.clone(), from, one.clicks.to_string()]
        })
        .collect();
    let mut lines = vec![print::columns(&["workspace", "keeps", "rows from", "clicks removed"], &rows), String::new()];
    let by_table: Vec<String> = retained.removed.iter().map(|(table, rows)| format!("{table} {rows}")).collect();
    lines.push(match (retained.rows(), dry_run) {
        (0, _) => format!(
            "nothing is older than its workspace keeps it, as far as days are final (before {})",
            retained.final_before
        ),
        (rows, true) => format!("{rows} rows would go ({}): a dry run, nothing has changed", by_table.join(", ")),
        (rows, false) => format!(
            "{rows} rows are gone ({}); their bytes leave the store an hour from now, with the next clean-up by `process`, \
             `compact` or `retention`",
            by_table.join(", ")
        ),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use processor::settle::Kept;
    use schemas::UtcMicros;
    use std::collections::BTreeMap;

    #[test]
    fn what_went_is_told_by_workspace_and_table() {
        let kept = |workspace: &str, keep: &str, from, clicks| Kept {
            workspace: workspace.into(),
            keep: keep.into(),
            from,
            clicks,
        };
        let retained = Retained {
            workspaces: vec![kept("acme", "30d", Some(UtcMicros(0)), 7), kept("default", "default (forever)", None, 0)],
            removed: BTreeMap::from([("clicks", 7), ("sampling", 2)]),
            ..Retained::default()
        };
        let mut outcome = Outcome { dry_run: false, retained };
        let told = text(&outcome);
        for part in ["acme       30d                1970-01-01  7", "9 rows are gone (clicks 7, sampling 2)", "an hour"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
        outcome.dry_run = true;
        assert!(text(&outcome).contains("9 rows would go"));
        outcome.retained.removed.clear();
        assert!(text(&outcome).contains("nothing is older"));
        assert_eq!(serde_json::to_value(&outcome).unwrap()["workspaces"][0]["keep"], "30d");
    }
}
