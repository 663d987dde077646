//! A broker that does wrong while clicks come: redirects stay fast, nothing is lost or doubled.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::node::Node;
use tests::standin::{Answer, Command, Knobs, Lose, Refusal};
use tests::usage::processor_time;

use super::{broker, check, load, node, settings, value};

/// How long each fault lasts.
const LASTS: Duration = Duration::from_millis(2_500);

async fn is_well(node: &Node) -> Result<()> {
    node.readyz_says("ready\n").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_in_turn_loses_and_doubles_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let mut node = node(&settings(&broker.address(), 2))?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(200).await?;
    let faults = [
        Knobs { refuse: Some(Refusal::NotLeader), ..Knobs::default() },
        Knobs { refuse: Some(Refusal::PartitionFull), ..Knobs::default() },
        Knobs { stall: true, ..Knobs::default() },
        Knobs { half_open: true, ..Knobs::default() },
        Knobs { away: true, ..Knobs::default() },
        Knobs { ack_delay_ms: 400, duplicates: 20, ..Knobs::default() },
        Knobs { lost_acks: 10, ..Knobs::default() },
    ];
    for fault in faults {
        broker.turn(fault).await?;
        tokio::time::sleep(LASTS).await;
        broker.turn(Knobs::default()).await?;
        broker.tell(Command::Drop).await?;
        clicks.more(50).await?;
    }
    let ledger = clicks.end().await?;
    check(&node, &ledger).await?;
    is_well(&node).await?;
    node.stop().await?;
    node.ok(&["verify"])?;
    check(&node, &ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_and_answers_without_the_broker_and_says_so() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut broker = broker(folder.path())?;
    let mut node = node(&settings(&broker.address(), 2))?;
    broker.kill()?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(300).await?;
    let said = node.readyz_says("ready, but").await?;
    assert!(said.contains("connecting"), "{said}");
    let held = |status: &Value| status["held_back_by"].as_str().is_some_and(|why| why.starts_with("stream:"));
    node.wait_for("/v1/status", Duration::from_secs(30), held).await?;
    let ledger = clicks.end().await?;
    // nothing spins while there is nobody
    let pid = node.pid().unwrap_or_default();
    let used = || processor_time(pid).context("it has ended");
    let before = used()?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let spent = (used()? - before).as_secs_f64();
    ensure!(spent < 1.5, "{spent} s of processor time in 3 s, though there is nothing to do");
    broker.start()?;
    check(&node, &ledger).await?;
    is_well(&node).await?;
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_has_lost_is_sent_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut broker = broker(folder.path())?;
    let settings = settings(&broker.address(), 2);
    let mut node = node(&settings)?;
    node.start().await?;
    let clicks = load(&node);
    let topic = value(&settings, "topic").to_owned();
    for round in 0..3 {
        clicks.more(300).await?;
        broker.kill()?;
        let lose = |partition, records| Lose { topic: topic.clone(), partition, records };
        // acknowledged records, some of them in the lake already
        broker.start_losing(&[lose(0, 1 + round), lose(1, 5)])?;
    }
    clicks.more(300).await?;
    let ledger = clicks.end().await?;
    check(&node, &ledger).await?;
    node.stop().await?;
    node.ok(&["verify"])?;
    check(&node, &ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_evicted_unread_is_sent_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let settings = settings(&broker.address(), 2);
    let mut node = node(&settings)?;
    // a redirect alone: nobody reads what it sends
    node.start_with(&["redirect"]).await?;
    let clicks = load(&node);
    clicks.more(500).await?;
    let ledger = clicks.end().await?;
    node.stop().await?;
    let topic = value(&settings, "topic").to_owned();
    let evicted = broker.tell(Command::Evict { topic, partition: 0, before: 10 }).await?;
    assert!(matches!(evicted, Answer::Evicted(begin) if begin > 0), "{evicted:?}");
    node.start().await?;
    check(&node, &ledger).await?;
    node.stop().await?;
    node.ok(&["verify"])?;
    Ok(())
}
