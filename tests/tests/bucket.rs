//! A lake in a bucket of a real S3 server: everything works as in a folder, and one that can't hold a lake is refused.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::load::Connection;
use tests::logs::{EPOCH, hits};
use tests::node::Node;
use tests::s3::S3;

use crate::roles::{click, rows};

fn node(s3: &S3) -> anyhow::Result<Node> {
    let node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", "")?;
    let place = vec![("HIGHWATER_LAKE", "s3://data/lakes/one".to_owned())];
    Ok(node.with_environment(s3.environment()).with_environment(place))
}

async fn until_rows(node: &Node, code: &str, expected: u64) -> anyhow::Result<()> {
    let begin = Instant::now();
    while rows(node, code).await? != expected {
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(90), "{code}: not {expected} rows\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_in_a_bucket_is_a_lake() -> anyhow::Result<()> {
    let s3 = S3::start(&["data"]).await?;
    let mut node = node(&s3)?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "live"])?;
    node.ok(&["link", "add", "https://example.com/", "--code", "abc"])?;
    let mut connection = Connection::open(node.redirect).await?;
    for _ in 0..25 {
        assert_eq!(connection.send(&click("live")).await?.status, 302);
    }
    // another process commits at the same time
    let log = node.folder().join("edge.log");
    std::fs::write(&log, hits("a", "abc", EPOCH, 300))?;
    let log = log.display().to_string();
    let taken = node.json(&["backfill", &log, "--json"])?;
    assert_eq!(taken[0]["added"]["edge"], 300, "{taken:#}");
    assert_eq!(node.json(&["backfill", &log, "--json"])?[0]["added"]["edge"], 0);
    // an upload is staged in the lake's storage
    let url = format!("http://127.0.0.1:{}/v1/edge-logs?name=up.log&format=nginx-json", node.manage);
    let sent = reqwest::Client::new().post(url).bearer_auth(node.token()?).body(hits("b", "abc", EPOCH, 40));
    let sent = sent.send().await?;
    assert_eq!(sent.status().as_u16(), 202);
    until_rows(&node, "abc", 340).await?;
    until_rows(&node, "live", 25).await?;
    assert!(s3.path("data", "lakes/one/clicks/_delta_log/00000000000000000000.json").exists());
    assert!(!node.data().join("lake").exists(), "nothing of the lake is in the data folder");

    node.kill()?;
    node.start().await?;
    node.ok(&["compact"])?;
    assert_eq!((rows(&node, "abc").await?, rows(&node, "live").await?), (340, 25));
    let imports = node.json(&["edge-logs", "list", "--json"])?;
    assert_eq!(imports.as_array().map(Vec::len), Some(2), "{imports:#}");
    let report = node.get("/v1/reports/clicks?code=live&interval_preset=24h").await?;
    assert_eq!(report["totals"]["clicks"], 25, "{report:#}");
    node.stop().await?;
    let verified: Value = node.json(&["verify", "--json"])?;
    assert_eq!(verified["ok"], true, "{verified:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_overwrites_is_refused() -> anyhow::Result<()> {
    let s3 = S3::careless(&["data"]).await?;
    let mut node = node(&s3)?;
    let refused = node.start().await.unwrap_err().to_string();
    assert!(refused.contains("can't hold one") && refused.contains("s3://data/lakes/one"), "{refused}");
    let log = node.folder().join("edge.log");
    std::fs::write(&log, hits("a", "abc", EPOCH, 3))?;
    let output = node.cli(&["backfill", &log.display().to_string()])?;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("If-None-Match"), "{output:?}");
    Ok(())
}
