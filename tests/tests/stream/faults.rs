//! A broker that does wrong while clicks come: redirects stay fast, nothing is lost or doubled.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use tests::standin::{Answer, Command, Knobs, Lose, Refusal};

use super::{Rig, does_not_spin, load};

/// How long each fault lasts.
const LASTS: Duration = Duration::from_millis(2_500);

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_in_turn_loses_and_doubles_nothing() -> Result<()> {
    let rig = Rig::start(2).await?;
    let clicks = load(&rig.node);
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
        rig.broker.turn(fault).await?;
        tokio::time::sleep(LASTS).await;
        rig.broker.turn(Knobs::default()).await?;
        rig.broker.tell(Command::Drop).await?;
        clicks.more(50).await?;
    }
    rig.end(&clicks.end().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_and_answers_without_the_broker_and_says_so() -> Result<()> {
    let mut rig = Rig::new(2)?;
    rig.broker.kill()?;
    rig.node.start().await?;
    let clicks = load(&rig.node);
    clicks.more(300).await?;
    let said = rig.node.readyz_says("ready, but").await?;
    assert!(said.contains("connecting"), "{said}");
    let held = |status: &Value| status["held_back_by"].as_str().is_some_and(|why| why.starts_with("stream:"));
    rig.node.wait_for("/v1/status", Duration::from_secs(30), held).await?;
    let ledger = clicks.end().await?;
    does_not_spin(&rig.node).await?;
    rig.broker.start()?;
    rig.end(&ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_has_lost_is_sent_again() -> Result<()> {
    let mut rig = Rig::start(2).await?;
    let (clicks, topic) = (load(&rig.node), rig.topic());
    for round in 0..3 {
        clicks.more(300).await?;
        rig.broker.kill()?;
        let lose = |partition, records| Lose { topic: topic.clone(), partition, records };
        // acknowledged records, some of them in the lake already
        rig.broker.start_losing(&[lose(0, 1 + round), lose(1, 5)])?;
    }
    clicks.more(300).await?;
    rig.end(&clicks.end().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_evicted_unread_is_sent_again() -> Result<()> {
    let mut rig = Rig::new(2)?;
    // a redirect alone: nobody reads what it sends
    rig.node.start_with(&["redirect"]).await?;
    let clicks = load(&rig.node);
    clicks.more(500).await?;
    let ledger = clicks.end().await?;
    rig.node.stop().await?;
    let evicted = rig.broker.tell(Command::Evict { topic: rig.topic(), partition: 0, before: 10 }).await?;
    assert!(matches!(evicted, Answer::Evicted(begin) if begin > 0), "{evicted:?}");
    rig.node.start().await?;
    rig.end(&ledger).await
}
