//! All in one process, through a broker that is well.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::{Rig, check, load};

#[tokio::test(flavor = "multi_thread")]
async fn clicks_go_through_the_topic_and_all_is_complete() -> Result<()> {
    let mut rig = Rig::start(3).await?;
    let node = &mut rig.node;
    let clicks = load(node);
    clicks.more(500).await?;
    let ledger = clicks.end().await?;
    check(node, &ledger).await?;

    let is_whole = |status: &Value| {
        let stream = &status["stream"];
        stream["backend"] == "fluvio" && stream["partitions"].as_array().is_some_and(|parts| parts.len() == 3)
    };
    let status = node.wait_for("/v1/status", Duration::from_secs(30), is_whole).await?;
    // nothing of the stream: only logs of the edge are still to come
    let held = status["held_back_by"].as_str();
    assert!(held.is_none_or(|by| by.starts_with("source: ")), "{status:#}");
    // what was answered is said to be complete soon
    let now = status["as_of"].as_str().unwrap_or_default().to_owned();
    let is_complete = |status: &Value| status["complete_through"].as_str().unwrap_or_default() > now.as_str();
    node.wait_for("/v1/status", Duration::from_secs(30), is_complete).await?;
    // a clean stop leaves nothing to replay: the journals end in the lake
    node.stop().await?;
    let journals = node.json(&["journal", "list", "--json"])?;
    let states: Vec<&str> = journals.as_array().into_iter().flatten().filter_map(|one| one["state"].as_str()).collect();
    assert!(!states.is_empty() && states.iter().all(|state| *state == "closed"), "{journals:#}\n{}", node.log());
    node.ok(&["verify"])?;
    check(node, &ledger).await
}
