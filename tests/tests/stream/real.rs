//! The same on a real cluster, where one is named.

use anyhow::Result;

use super::{check, load, node, settings};

#[tokio::test(flavor = "multi_thread")]
async fn clicks_go_through_a_real_cluster() -> Result<()> {
    let Ok(endpoint) = std::env::var("HIGHWATER_TEST_FLUVIO") else {
        println!("skipped: HIGHWATER_TEST_FLUVIO names no cluster");
        return Ok(());
    };
    let mut node = node(&settings(&endpoint, 3))?;
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
    check(&node, &ledger).await
}
