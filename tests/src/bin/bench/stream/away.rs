//! The broker is away for long: redirects go on, journals grow, and all is drained afterwards.

use std::time::{Duration, Instant};

use anyhow::Result;
use tests::standin::Knobs;

use super::rig::{RATE, Rig, at, millis};
use crate::{Setup, table::Table};

/// How long the redirects are watched before.
const BEFORE: Duration = Duration::from_secs(10);

pub(super) async fn run(setup: &Setup, lasts: Duration, table: &mut Table) -> Result<()> {
    let rig = Rig::start(setup).await?;
    let clicks = rig.load();
    clicks.more(2 * RATE).await?;
    let bytes = async || rig.redirect.metric("highwater_journal_bytes", &[]).await;
    let quiet = Instant::now();
    tokio::time::sleep(BEFORE).await;
    let (away, bytes_before) = (Instant::now(), bytes().await?);
    rig.broker.turn(Knobs { away: true, ..Knobs::default() }).await?;
    tokio::time::sleep(lasts).await;
    let (back, grown) = (Instant::now(), bytes().await?.saturating_sub(bytes_before));
    let drained = rig.recover().await?;
    let end = Instant::now();
    let ledger = rig.end(clicks).await?;
    let p99 = |from, to| at(&ledger.times(from, to), 0.99);
    let (before, during, after) = (p99(quiet, away), p99(away, back), p99(back, end));
    let what = format!("the broker away for {} s at {RATE} clicks/s", lasts.as_secs());
    let peer = format!("p99 {} before, {} while it drains", millis(before), millis(after));
    table.row(&what, &format!("p99 {}", millis(during)), &peer, "", "unchanged");
    let drain = format!("{:.1} s until the lag is below 2 s", drained.as_secs_f64());
    table.row("  journal grown by", &format!("{:.1} MB", grown as f64 / 1e6), &drain, "", "drained");
    table.row("  answered", &format!("{} clicks, each once in the lake", ledger.answered.len()), "", "", "exact");
    Ok(())
}
