//! What a user does first: `up`, a link, a click, a report.

use std::time::Duration;

use tests::load::{Connection, Request, header};
use tests::node::Node;

fn click(code: &str) -> Request {
    Request {
        method: "GET",
        target: format!("/{code}"),
        host: "go.test".into(),
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
        headers: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_is_in_every_report_and_a_takedown_is_seen_at_once() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 2", "")?;
    node.start().await?;
    let client = reqwest::Client::new();
    let manage = format!("http://127.0.0.1:{}", node.manage);
    let made = client
        .post(format!("{manage}/v1/links"))
        .bearer_auth(node.token()?)
        .json(&serde_json::json!({"destination": "https://example.com/landing", "code": "hello"}))
        .send()
        .await?;
    assert_eq!(made.status().as_u16(), 201);
    let mut connection = Connection::open(node.redirect).await?;
    let answer = connection.send(&click("hello")).await?;
    assert_eq!(answer.status, 302);
    assert_eq!(header(&answer.head, "location"), Some("https://example.com/landing"));

    let path = "/v1/reports/clicks?code=hello&interval_preset=24h";
    let report = node.wait_for(path, Duration::from_secs(20), |report| report["totals"]["clicks"] == 1).await?;
    assert_eq!(report["totals"]["by_class"]["human"], 1, "{report:#}");
    let cli = node.json(&["report", "hello", "--json"])?;
    assert_eq!(cli["totals"]["clicks"], 1, "{cli:#}");
    let sql = node.json(&["sql", "SELECT code, browser, os FROM clicks", "--format", "json"])?;
    assert_eq!(sql, serde_json::json!([{"code": "hello", "browser": "Firefox", "os": "Linux"}]));

    let disabled = client
        .post(format!("{manage}/v1/links/hello/disable"))
        .bearer_auth(node.token()?)
        .json(&serde_json::json!({"reason": "phishing"}))
        .send()
        .await?;
    assert!(disabled.status().is_success());
    assert_eq!(connection.send(&click("hello")).await?.status, 410);
    assert_eq!(connection.send(&click("never-made")).await?.status, 404);
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_shows_life_within_seconds() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", "")?;
    node.start_with(&["up", "--demo"]).await?;
    let path = "/v1/reports/clicks?interval_preset=24h&class=all&group_by=code&limit=20";
    let is_alive = |report: &serde_json::Value| {
        let of = |class: &str| report["totals"]["by_class"][class].as_u64().unwrap_or_default();
        report["data"].as_array().is_some_and(|rows| rows.len() > 5) && of("preview") > 0 && of("human") > 10
    };
    node.wait_for(path, Duration::from_secs(60), is_alive).await?;
    node.stop().await
}
