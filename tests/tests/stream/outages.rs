//! A broker that is away, silent, without leaders, or all of that by chance: what was answered arrives, once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tests::node::Node;
use tests::standin::{Command, Knobs};

use super::{PATIENCE, Rig, does_not_spin, load};

/// How long anything may go wrong by chance.
const LASTS: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn faults_by_chance_lose_and_double_nothing() -> Result<()> {
    let rig = Rig::start(2).await?;
    let clicks = load(&rig.node);
    clicks.more(100).await?;
    let (mut chance, begin) = (StdRng::seed_from_u64(5), Instant::now());
    while begin.elapsed() < LASTS {
        rig.broker.turn(Knobs::any(&mut chance)).await?;
        if chance.random_bool(0.2) {
            rig.broker.tell(Command::Drop).await?;
        }
        if chance.random_bool(0.2) {
            rig.broker.change_leaders(Duration::from_millis(chance.random_range(1..500))).await?;
        }
        tokio::time::sleep(Duration::from_millis(chance.random_range(100..1_000))).await;
    }
    rig.broker.turn(Knobs::default()).await?;
    clicks.more(100).await?;
    let ledger = clicks.end().await?;
    ensure!(ledger.unsure.is_empty(), "{} clicks were not answered", ledger.unsure.len());
    rig.end(&ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn other_leaders_go_on_where_the_old_ones_were() -> Result<()> {
    let rig = Rig::start(2).await?;
    let clicks = load(&rig.node);
    for _ in 0..4 {
        clicks.more(200).await?;
        rig.broker.change_leaders(Duration::from_millis(300)).await?;
    }
    clicks.more(200).await?;
    rig.end(&clicks.end().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_worked_off_while_clicks_go_on() -> Result<()> {
    let rig = Rig::start(2).await?;
    let clicks = load(&rig.node);
    clicks.more(200).await?;
    rig.broker.turn(Knobs { away: true, ..Knobs::default() }).await?;
    clicks.more(3_000).await?;
    let unsent = rig.node.metric("highwater_journal_unsent_records", &[]).await?;
    ensure!(unsent >= 2_000, "only {unsent} clicks wait in the journals");
    rig.broker.turn(Knobs::default()).await?;
    let caught_up = |status: &Value| status["stream"]["lag_seconds"].as_f64().is_some_and(|lag| lag < 2.0);
    rig.node.wait_for("/v1/status", PATIENCE, caught_up).await?;
    let ledger = clicks.end().await?;
    ensure!(ledger.unsure.is_empty(), "{} clicks were not answered", ledger.unsure.len());
    rig.end(&ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_doesn_t_spin_while_the_broker_stalls() -> Result<()> {
    let mut rig = Rig::new(2)?;
    rig.node.start_with(&["redirect"]).await?;
    let clicks = load(&rig.node);
    clicks.more(200).await?;
    rig.broker.turn(Knobs { stall: true, ..Knobs::default() }).await?;
    clicks.more(1_000).await?;
    let ledger = clicks.end().await?;
    does_not_spin(&rig.node).await?;
    rig.broker.turn(Knobs::default()).await?;
    rig.node.stop().await?;
    rig.node.start().await?;
    rig.end(&ledger).await
}

/// The journals in a state.
fn journals_of(node: &Node, state: &str) -> Result<Vec<String>> {
    let all = node.json(&["journal", "list", "--json"])?;
    let of = all.as_array().into_iter().flatten().filter(|journal| journal["state"] == state);
    Ok(of.filter_map(|journal| journal["id"].as_str().map(str::to_owned)).collect())
}

/// Its clicks come into the topic when everybody has gone on without them: they are late, and counted all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_was_given_up_and_returns_is_counted_once() -> Result<()> {
    let mut rig = Rig::start(2).await?;
    let clicks = load(&rig.node);
    clicks.more(300).await?;
    // the rest stays on the disk of a redirect that is gone
    rig.broker.turn(Knobs { away: true, ..Knobs::default() }).await?;
    clicks.more(300).await?;
    rig.node.kill()?;
    let mut all = clicks.end().await?;
    for journal in journals_of(&rig.node, "open")? {
        rig.node.ok(&["journal", "retire", &journal])?;
    }
    rig.broker.turn(Knobs::default()).await?;
    rig.node.start().await?;
    let clicks = load(&rig.node);
    clicks.more(300).await?;
    all.add(clicks.end().await?);
    rig.end(&all).await
}

/// Nobody else can say what a redirect had answered and not sent when its disk is gone: so much may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_gone_with_its_machine_is_a_gap_and_a_healthy_one_is_not_given_up_by_mistake() -> Result<()> {
    let mut rig = Rig::start(2).await?;
    let clicks = load(&rig.node);
    clicks.more(300).await?;
    let url = format!("[links]\nurl = \"{}\"", rig.node.data().join("links.sqlite").display());
    let lake = rig.node.data().join("lake").display().to_string();
    let elsewhere = Node::new(crate::binary(), "domains = [\"go.test\"]", &format!("{}\n{url}", rig.settings))?;
    let elsewhere = elsewhere.with_environment(vec![("HIGHWATER_LAKE", lake)]);
    let journals = journals_of(&elsewhere, "open")?;
    // not before each partition is known to be read can anybody be heard
    let begun = Instant::now();
    loop {
        ensure!(begun.elapsed() < PATIENCE, "nobody is heard");
        let refused = elsewhere.cli(&["journal", "retire", &journals[0]])?;
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("--force"), "{said}");
        if said.contains("is heard of") {
            break;
        }
        assert!(said.contains("is not read up to its end"), "{said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    rig.broker.turn(Knobs { away: true, ..Knobs::default() }).await?;
    clicks.more(300).await?;
    rig.node.kill()?;
    clicks.end().await?;
    std::fs::remove_dir_all(rig.node.data().join("journals"))?;
    for journal in &journals {
        let told = elsewhere.ok(&["journal", "retire", journal, "--force"])?;
        assert!(told.contains("may be missing"), "{told}");
    }
    rig.broker.turn(Knobs::default()).await?;
    rig.node.start().await?;
    let report = rig.node.get("/v1/reports/clicks?class=all&interval_preset=24h").await?;
    let gaps = report["meta"]["gaps"].as_array().context("no gaps")?;
    assert!(gaps.len() == journals.len() && gaps.iter().all(|gap| gap["reason"] == "node gone"), "{report:#}");
    rig.node.stop().await
}
