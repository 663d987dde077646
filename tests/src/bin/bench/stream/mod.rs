//! The stream under a magnifying glass: how fast it comes into the lake, and what a bad broker does to it.

mod away;
mod enrich;
mod fill;
mod kills;
mod knobs;
mod made_up;
mod places;
mod replay;
mod rig;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::{Setup, table::Table};

/// How large and how long.
#[derive(Clone, Debug, Args)]
pub(crate) struct StreamOptions {
    /// `enrich`, `throughput`: clicks.
    #[arg(long, default_value_t = 3_000_000)]
    clicks: u64,
    /// `replay`: clicks in the journal.
    #[arg(long, default_value_t = 10_000_000)]
    replay: u64,
    /// `knobs`: seconds of each run; there are six for each fault. `overload`: seconds of the load.
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// `knobs`: only the faults whose name contains this. `overload`: only the ways and bounds.
    #[arg(long, default_value = "")]
    pub(crate) only: String,
    /// `away`: seconds that the broker is away.
    #[arg(long, default_value_t = 600)]
    away: u64,
    /// `kills`: how many.
    #[arg(long, default_value_t = 30)]
    kills: u32,
    /// `kills`: another course of events.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The parts, each by its own name too.
pub(crate) const PARTS: [&str; 7] = ["enrich", "throughput", "replay", "knobs", "idle", "away", "kills"];

/// Runs one of [`PARTS`].
pub(crate) async fn run(setup: &Setup, part: &str, options: &StreamOptions, table: &mut Table) -> Result<()> {
    const MEMORY: &str = "< 600 MB";
    let seconds = Duration::from_secs(options.seconds);
    let done = match part {
        "enrich" => enrich::run(options.clicks.min(1_000_000), table),
        "throughput" => {
            replay::embedded(setup, options.clicks, [">= 250,000/s", MEMORY], table).await?;
            replay::through_a_topic(setup, options.clicks, [">= 150,000/s", MEMORY], table).await
        }
        "replay" => replay::embedded(setup, options.replay, ["", MEMORY], table).await,
        "knobs" => knobs::run(setup, seconds, &options.only, table).await,
        "idle" => knobs::idle(setup, seconds.min(Duration::from_secs(20)), table).await,
        "away" => away::run(setup, Duration::from_secs(options.away), table).await,
        "kills" => kills::run(setup, options.kills, options.seed, table).await,
        _ => Ok(()),
    };
    done.with_context(|| part.to_owned())
}
