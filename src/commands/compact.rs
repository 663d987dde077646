//! `highwater compact`: settles what can be settled, compacts and cleans the lake, until nothing is left to do.

use std::process::ExitCode;
use std::sync::Arc;

use processor::settle::{Settler, waiting};
use schemas::tables::Table;
use serde_json::json;

use super::{open, print};
use crate::cli::Json;
use crate::config::Config;
use crate::run::{enricher, settle_config};

/// Passes after which it is enough; `process` goes on with the rest.
const MOST_PASSES: usize = 10_000;

/// Runs passes until one finds nothing to do.
pub(crate) async fn run(flags: Json, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let lake = open::lake(config)?;
    let mut settler =
        Settler::new(&lake, Arc::new(store), Arc::new(enricher(config, &Arc::default())?), settle_config(config))
            .await?;
    let mut all = settler.correct_now().await?;
    for _ in 0..MOST_PASSES {
        let pass = settler.pass().await?;
        all.added += pass.added;
        all.already_counted += pass.already_counted;
        all.corrected += pass.corrected;
        all.merges += pass.merges;
        all.cleaned += pass.cleaned;
        if !pass.is_busy() {
            break;
        }
    }
    let left = waiting(&lake.table(Table::Arrivals).await?).await?;
    all.waiting = left.lines + left.late;
    if flags.json {
        print::json(&json!({
            "added": all.added, "already_counted": all.already_counted, "corrected": all.corrected,
            "waiting": all.waiting, "merges": all.merges, "cleaned": all.cleaned,
        }))?;
    } else {
        print::line(&format!(
            "{} rows added, {} counted already, {} rows corrected, {} waiting; {} merges, {} checkpoints made or dead \
             files removed",
            all.added, all.already_counted, all.corrected, all.waiting, all.merges, all.cleaned
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
