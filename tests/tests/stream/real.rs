//! The same on a real cluster, where `HIGHWATER_TEST_FLUVIO` names one. Nothing of it is killed from here; whoever does so
//! beside [`kills_of_each_part_lose_and_double_nothing_on_a_real_cluster`] makes that last by `HIGHWATER_TEST_FLUVIO_KILLS`.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::kills::Cast;

use super::topics::{self, Operator};
use super::{check, load, node, settings};

/// Long enough for a broker that is started again.
const PATIENCE: Duration = Duration::from_secs(120);

/// The cluster that is named.
fn cluster() -> Option<String> {
    let endpoint = std::env::var("HIGHWATER_TEST_FLUVIO").ok();
    if endpoint.is_none() {
        println!("skipped: HIGHWATER_TEST_FLUVIO names no cluster");
    }
    endpoint
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_go_through_a_real_cluster() -> Result<()> {
    let Some(endpoint) = cluster() else { return Ok(()) };
    let settings = settings(&endpoint, 3);
    let mut node = node(&settings)?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(2_000).await?;
    node.kill()?;
    node.start().await?;
    clicks.more(2_000).await?;
    let ledger = clicks.end().await?;
    check(&node, &ledger).await?;
    node.stop().await?;
    node.ok(&["verify"])?;
    check(&node, &ledger).await?;
    Operator::of(&settings).await?.delete().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_topic_is_made_as_configured_and_one_that_is_there_is_compared() -> Result<()> {
    let Some(endpoint) = cluster() else { return Ok(()) };
    topics::compared(&endpoint).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_topic_that_was_made_anew_is_refused_until_an_operator_renews_it() -> Result<()> {
    let Some(endpoint) = cluster() else { return Ok(()) };
    topics::made_anew(&endpoint).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_topic_without_brokers_says_so_and_clicks_wait() -> Result<()> {
    let Some(endpoint) = cluster() else { return Ok(()) };
    topics::without_brokers(&endpoint).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_each_part_lose_and_double_nothing_on_a_real_cluster() -> Result<()> {
    let Some(endpoint) = cluster() else { return Ok(()) };
    let kills = match std::env::var("HIGHWATER_TEST_FLUVIO_KILLS") {
        Ok(kills) => kills.parse().context("HIGHWATER_TEST_FLUVIO_KILLS")?,
        Err(_) => 8,
    };
    let settings = settings(&endpoint, 3);
    let cast = Cast::start(crate::binary(), None, &settings, None).await?;
    let deaths = cast.die(kills, 3, 800, PATIENCE).await?;
    println!("{deaths:?}");
    Operator::of(&settings).await?.delete().await
}
