//! Roles in processes of their own, and a disk budget that is used up: redirects go on, what was written is counted.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::load::{Connection, Request};
use tests::node::Node;

pub(crate) fn click(code: &str) -> Request {
    Request {
        method: "GET",
        target: format!("/{code}?utm_campaign={}", "long".repeat(100)),
        host: "go.test".into(),
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
        headers: Vec::new(),
    }
}

/// Sends clicks, all of which must be answered, until `done` or for too long.
pub(crate) async fn send_until(node: &Node, code: &str, outcome: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(node.redirect).await?;
    for _ in 0..100 {
        for _ in 0..50 {
            assert_eq!(connection.send(&click(code)).await?.status, 302);
        }
        if node.metric("highwater_events_total", &[&format!("outcome=\"{outcome}\"")]).await? > 0 {
            return Ok(());
        }
    }
    anyhow::bail!("no event was {outcome}")
}

/// Rows of `clicks`, by code.
pub(crate) async fn rows(node: &Node, code: &str) -> anyhow::Result<u64> {
    let sql = format!("SELECT count(*) AS n FROM clicks WHERE code = '{code}'");
    let rows = node.json(&["sql", &sql, "--format", "json"])?;
    Ok(rows[0]["n"].as_u64().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_internal_clicks_first_and_no_redirect() -> anyhow::Result<()> {
    let settings = "[journal]\nmax_bytes = \"1MiB\"\nreserve = \"256KiB\"";
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", settings)?;
    node.ok(&["link", "add", "https://example.com/", "--code", "paid"])?;
    node.ok(&["link", "add", "https://example.com/", "--code", "own", "--analytics", "internal"])?;

    // nobody brings clicks into the lake, so the journal grows to its budget
    node.start_with(&["redirect"]).await?;
    send_until(&node, "own", "dropped").await?;
    let internal = node.metric("highwater_events_total", &["outcome=\"written\""]).await?;
    // billed clicks go on into the reserve, until that is full too; the loss is counted
    send_until(&node, "paid", "lost").await?;
    let billed = node.metric("highwater_events_total", &["outcome=\"written\""]).await? - internal;
    assert!(billed > 100, "only {billed} billed clicks fitted into the reserve");
    node.stop().await?;

    node.start_with(&["process"]).await?;
    let begin = Instant::now();
    loop {
        let counted = (rows(&node, "own").await?, rows(&node, "paid").await?);
        if counted == (internal, billed) {
            break;
        }
        let log = node.log();
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "{counted:?} of {internal}, {billed}\n{log}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    node.stop().await?;

    // behind what the lake holds the journal is trimmed, and all is well again
    node.start().await?;
    let begin = Instant::now();
    let mut connection = Connection::open(node.redirect).await?;
    while node.metric("highwater_events_total", &["outcome=\"written\""]).await? < 5 {
        assert_eq!(connection.send(&click("own")).await?.status, 302);
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "internal clicks are still dropped\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let verified: Value = node.json(&["verify", "--json"])?;
    assert_eq!(verified["ok"], true, "{verified:#}");
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_runs_alone() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", "")?;
    node.start_with(&["manage"]).await?;
    let token = node.ok(&["token", "add", "--operator"])?.trim().to_owned();
    let client = reqwest::Client::new();
    let made = client
        .post(format!("http://127.0.0.1:{}/v1/links", node.manage))
        .bearer_auth(&token)
        .json(&serde_json::json!({"destination": "https://example.com/", "code": "solo"}))
        .send()
        .await?;
    assert_eq!(made.status().as_u16(), 201);
    node.stop().await?;

    node.start_with(&["redirect"]).await?;
    assert_eq!(Connection::open(node.redirect).await?.send(&click("solo")).await?.status, 302);
    node.stop().await?;
    node.log_says("\"clicks\":1").await?;
    node.log_says("they wait in this node's journals").await?;

    node.start_with(&["process"]).await?;
    let begin = Instant::now();
    while rows(&node, "solo").await? != 1 {
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "the click is not in the lake\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    node.stop().await?;

    node.start_with(&["query"]).await?;
    let report = client
        .get(format!("http://127.0.0.1:{}/v1/reports/clicks?code=solo&interval_preset=24h", node.query))
        .bearer_auth(&token)
        .send()
        .await?;
    let report: Value = serde_json::from_str(&report.text().await?)?;
    assert_eq!(report["totals"]["clicks"], 1, "{report:#}");
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_becomes_a_gap_that_answers_name() -> anyhow::Result<()> {
    let settings = "[journal]\nmax_bytes = \"256KiB\"\nreserve = \"64KiB\"";
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", settings)?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "paid"])?;
    send_until(&node, "paid", "lost").await?;
    let path = "/v1/reports/clicks?code=paid&interval_preset=24h";
    let is_named = |report: &Value| report["meta"]["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty());
    let report = node.wait_for(path, Duration::from_secs(30), is_named).await?;
    assert_eq!(report["meta"]["gaps"][0]["reason"], "full", "{report:#}");
    let lost = node.metric("highwater_events_total", &["outcome=\"lost\""]).await?;
    let rows = node.json(&["sql", "SELECT sum(lost) AS lost FROM gaps", "--format", "json"])?;
    assert_eq!(rows[0]["lost"].as_u64(), Some(lost), "{rows:#}");
    node.stop().await
}

/// The redirect is well, and is not what the operator is sent to.
#[tokio::test(flavor = "multi_thread")]
async fn that_nobody_brings_the_journals_into_the_lake_is_told() -> anyhow::Result<()> {
    let patience = Duration::from_secs(120);
    let mut redirect = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 2", "")?;
    let another = || Node::new(crate::binary(), "domains = [\"go.test\"]", "");
    let mut query = another()?.sharing_data_of(&redirect);
    let mut process = another()?.sharing_data_of(&redirect);
    redirect.ok(&["link", "add", "https://example.com/", "--code", "solo"])?;
    std::fs::write(query.data().join("admin.token"), query.ok(&["token", "add", "--operator"])?)?;
    redirect.start_with(&["redirect"]).await?;
    assert_eq!(Connection::open(redirect.redirect).await?.send(&click("solo")).await?.status, 302);
    query.start_with(&["query"]).await?;
    let says = |status: &Value, by: &str| status["held_back_by"].as_str().is_some_and(|why| why.starts_with(by));
    let is_told = |status: &Value| says(status, "process: nobody brings the journals into the lake");
    let status = query.wait_for("/v1/status", patience, is_told).await?;
    let journals = status["journals"].as_array().cloned().unwrap_or_default();
    assert!(journals.len() == 2 && journals.iter().all(|journal| journal["state"] == "open"), "{status:#}");
    // an end without a reader leaves journals that nobody closes: they are not what is waited for either
    redirect.stop().await?;
    query.wait_for("/v1/status", patience, is_told).await?;
    redirect.start_with(&["redirect"]).await?;
    process.start_with(&["process"]).await?;
    query.wait_for("/v1/status", patience, |status| status["held_back_by"].is_null()).await?;
    for node in [&mut redirect, &mut query, &mut process] {
        node.stop().await?;
    }
    Ok(())
}
