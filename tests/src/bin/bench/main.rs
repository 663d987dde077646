//! The benchmark command: ours beside a peer in the same run, as a table.
//!
//! ```text
//! cargo build --release --workspace && target/release/bench [redirects] [backfill] [logs] [month] [fresh] [bounded] [overload] [stream]
//! ```
//! Without names it runs all. `stream` is `enrich`, `throughput`, `replay`, `knobs`, `idle`, `away` and `kills`, of which each can be
//! named too; `--help` says how they can be made shorter than the hours that they take in full. Peers are those of `../shared/bench` (see its README for what they need); one that
//! can't run is said so and left out. `HIGHWATER_BENCH_PYTHON` names the Python that has duckdb.

mod backfill;
mod bounded;
mod fresh;
mod overload;
mod redirects;
mod stream;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use stream::StreamOptions;
use table::Table;

/// What every benchmark needs.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The release binary under test, beside this one.
    pub(crate) binary: PathBuf,
    /// The stand-in broker, beside it.
    pub(crate) standin: PathBuf,
    /// The folder of the peers.
    pub(crate) peers: PathBuf,
    /// A Python that has duckdb.
    pub(crate) python: PathBuf,
}

fn setup() -> Result<Setup> {
    let own = std::env::current_exe()?;
    let beside = |name: &str| {
        let binary = own.parent().context("no folder")?.join(name);
        anyhow::ensure!(binary.is_file(), "{} is missing: cargo build --release --workspace first", binary.display());
        Ok(binary)
    };
    let (binary, standin) = (beside("highwater")?, beside("standin")?);
    let peers = PathBuf::from("../shared/bench");
    let python = std::env::var_os("HIGHWATER_BENCH_PYTHON").map_or_else(
        || {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            let venv = home.join("peers/bin/python");
            if venv.is_file() { venv } else { PathBuf::from("python3") }
        },
        PathBuf::from,
    );
    Ok(Setup { binary, standin, peers: std::fs::canonicalize(&peers).unwrap_or(peers), python })
}

const NAMES: [&str; 15] = [
    "redirects",
    "backfill",
    "logs",
    "month",
    "fresh",
    "bounded",
    "overload",
    "stream",
    "enrich",
    "throughput",
    "replay",
    "knobs",
    "idle",
    "away",
    "kills",
];

/// Measures Highwater, beside others where there are any.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure; all of it when nothing is named.
    #[arg(value_parser = NAMES)]
    names: Vec<String>,
    #[command(flatten)]
    stream: StreamOptions,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { names, stream: options } = Arguments::parse();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|word| word == name);
    let setup = setup()?;
    let mut table = Table::default();
    if is_wanted("redirects") {
        redirects::run(&setup, &mut table).await.context("redirects")?;
    }
    if is_wanted("backfill") {
        backfill::run(&setup, 1_000_000, &mut table).await.context("backfill")?;
    }
    if is_wanted("logs") {
        backfill::run(&setup, 2_000_000, &mut table).await.context("logs")?;
    }
    if is_wanted("month") {
        backfill::month(&setup, &mut table).await.context("month")?;
    }
    if is_wanted("fresh") {
        fresh::run(&setup, &mut table).await.context("fresh")?;
    }
    if is_wanted("bounded") {
        bounded::run(&setup, &mut table).await.context("bounded")?;
    }
    if is_wanted("overload") {
        overload::run(&setup, Duration::from_secs(options.seconds), &options.only, &mut table)
            .await
            .context("overload")?;
    }
    for part in stream::PARTS {
        if is_wanted(part) || is_wanted("stream") {
            stream::run(&setup, part, &options, &mut table).await?;
        }
    }
    println!("{table}");
    Ok(())
}
