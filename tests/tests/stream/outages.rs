//! A broker that is away, silent, without leaders, or all of that by chance: what was answered arrives, once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tests::standin::{Command, Knobs};
use tests::usage::processor_time;

use super::{PATIENCE, broker, check, load, node, settings};

/// How long anything may go wrong by chance.
const LASTS: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn faults_by_chance_lose_and_double_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let mut node = node(&settings(&broker.address(), 2))?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(100).await?;
    let (mut chance, begin) = (StdRng::seed_from_u64(5), Instant::now());
    while begin.elapsed() < LASTS {
        broker.turn(Knobs::any(&mut chance)).await?;
        if chance.random_bool(0.2) {
            broker.tell(Command::Drop).await?;
        }
        if chance.random_bool(0.2) {
            broker.change_leaders(Duration::from_millis(chance.random_range(1..500))).await?;
        }
        tokio::time::sleep(Duration::from_millis(chance.random_range(100..1_000))).await;
    }
    broker.turn(Knobs::default()).await?;
    clicks.more(100).await?;
    let ledger = clicks.end().await?;
    ensure!(ledger.unsure.is_empty(), "{} clicks were not answered", ledger.unsure.len());
    check(&node, &ledger).await?;
    node.stop().await?;
    node.ok(&["verify"])?;
    check(&node, &ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn other_leaders_go_on_where_the_old_ones_were() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let mut node = node(&settings(&broker.address(), 2))?;
    node.start().await?;
    let clicks = load(&node);
    for _ in 0..4 {
        clicks.more(200).await?;
        broker.change_leaders(Duration::from_millis(300)).await?;
    }
    clicks.more(200).await?;
    let ledger = clicks.end().await?;
    check(&node, &ledger).await?;
    node.readyz_says("ready\n").await?;
    node.stop().await?;
    check(&node, &ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_worked_off_while_clicks_go_on() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let mut node = node(&settings(&broker.address(), 2))?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(200).await?;
    broker.turn(Knobs { away: true, ..Knobs::default() }).await?;
    clicks.more(3_000).await?;
    let unsent = node.metric("highwater_journal_unsent_records", &[]).await?;
    ensure!(unsent >= 2_000, "only {unsent} clicks wait in the journals");
    broker.turn(Knobs::default()).await?;
    let caught_up = |status: &Value| status["stream"]["lag_seconds"].as_f64().is_some_and(|lag| lag < 2.0);
    node.wait_for("/v1/status", PATIENCE, caught_up).await?;
    let ledger = clicks.end().await?;
    ensure!(ledger.unsure.is_empty(), "{} clicks were not answered", ledger.unsure.len());
    check(&node, &ledger).await?;
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_doesn_t_spin_while_the_broker_stalls() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let mut node = node(&settings(&broker.address(), 2))?;
    node.start_with(&["redirect"]).await?;
    let clicks = load(&node);
    clicks.more(200).await?;
    broker.turn(Knobs { stall: true, ..Knobs::default() }).await?;
    clicks.more(1_000).await?;
    let ledger = clicks.end().await?;
    let pid = node.pid().unwrap_or_default();
    let used = || processor_time(pid).context("it has ended");
    let before = used()?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let spent = (used()? - before).as_secs_f64();
    // a twentieth is promised of a release build on a quiet machine: `bench idle`
    ensure!(spent < 1.5, "{spent} s of processor time in 3 s, though nothing can be done");
    broker.turn(Knobs::default()).await?;
    node.stop().await?;
    node.start().await?;
    check(&node, &ledger).await?;
    node.stop().await
}

/// Its clicks come into the topic when everybody has gone on without them: they are late, and counted all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_was_given_up_and_returns_is_counted_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let mut node = node(&settings(&broker.address(), 2))?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(300).await?;
    // the rest stays on the disk of a redirect that is gone
    broker.turn(Knobs { away: true, ..Knobs::default() }).await?;
    clicks.more(300).await?;
    node.kill()?;
    let ledger = clicks.end().await?;
    let journals = node.json(&["journal", "list", "--json"])?;
    for journal in journals.as_array().into_iter().flatten().filter_map(|journal| journal["id"].as_str()) {
        node.ok(&["journal", "retire", journal])?;
    }
    broker.turn(Knobs::default()).await?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(300).await?;
    let mut all = clicks.end().await?;
    all.answered.extend(ledger.answered);
    all.unsure.extend(ledger.unsure);
    check(&node, &all).await?;
    node.stop().await?;
    node.ok(&["verify"])?;
    check(&node, &all).await
}
