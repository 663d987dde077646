//! `kill -9` of redirect, broker and two processors at random, under clicks.

use std::time::Duration;

use anyhow::Result;
use tests::kills::{Cast, Deaths};
use tests::postgres::Postgres;
use tests::standin::{Launch, Process};

use super::rig::settings;
use crate::{Setup, table::Table};

const RATE: u64 = 1_000;

pub(super) async fn run(setup: &Setup, kills: u32, seed: u64, table: &mut Table) -> Result<()> {
    let records = tempfile::tempdir()?;
    let mut broker = Process::new(Launch::Binary(setup.standin.clone()), records.path())?;
    broker.start()?;
    let server = Postgres::own("kills")?;
    let settings = settings(&broker);
    let cast = Cast::start(&setup.binary, Some(broker), &settings, server.as_ref()).await?;
    let patience = Duration::from_secs(120);
    let Deaths { answered, unsure } = cast.die(kills, seed, RATE, patience).await?;
    let store = if server.is_some() { "PostgreSQL" } else { "SQLite" };
    let what = format!("{kills} kills of redirect, broker, two processors ({store})");
    let ours = format!("{answered} answered, each once in the lake; {unsure} unsure");
    table.row(&what, &ours, "", "", "exact");
    Ok(())
}
