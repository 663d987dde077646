//! CloudFront in front: it hides agents and referrers from the origin, and makes a GET of a HEAD; its log tells.

use std::fmt::Write as _;
use std::time::Duration;

use schemas::UtcMicros;
use serde_json::Value;
use tests::load::{Connection, Request};
use tests::node::Node;

const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0";
const SLACK: &str = "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)";
const PATIENCE: Duration = Duration::from_secs(60);

/// Method and agent of a request, by its number.
fn client(number: usize) -> (&'static str, &'static str) {
    match number {
        0..6 => ("GET", CHROME),
        6..8 => ("GET", FIREFOX),
        8 => ("GET", SLACK),
        _ => ("HEAD", CHROME),
    }
}

/// A line of CloudFront's log.
fn line(number: usize, host: &str, result: &str) -> String {
    let now = UtcMicros::now().to_datetime();
    let (method, agent) = client(number);
    let referrer = if number < 3 { "https://news.example.org/post" } else { "-" };
    format!(
        "{}\tFRA56-P4\t512\t203.0.113.10\t{method}\td1.cloudfront.net\t/k\t302\t{referrer}\t{}\t-\t-\t{result}\tid{number}==\t{host}\n",
        now.format("%Y-%m-%d\t%H:%M:%S"),
        agent.replace(' ', "%20"),
    )
}

/// The values of a report and their clicks.
fn grouped(report: &Value) -> Vec<(String, u64)> {
    let rows = report["data"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| Some((row["value"].as_str()?.to_owned(), row["clicks"].as_u64()?));
    let mut rows: Vec<(String, u64)> = rows.iter().filter_map(row).collect();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_tell_who_clicked_once_the_log_is_in() -> anyhow::Result<()> {
    let edge = "[edge]\nprovider = \"cloudfront\"\nskew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"";
    let host = "go.example.com";
    let mut node = Node::new(crate::binary(), &format!("domains = [\"{host}\"]"), edge)?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "k"])?;
    let mut connection = Connection::open(node.redirect).await?;
    let mut log = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem \
                   sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type \
                   x-edge-request-id x-host-header\n"
        .to_owned();
    for number in 0..10 {
        let request = Request {
            method: "GET",
            target: "/k".to_owned(),
            host: host.to_owned(),
            user_agent: "Amazon CloudFront".to_owned(),
            headers: vec![("X-Amz-Cf-Id", format!("id{number}==")), ("X-Forwarded-For", "203.0.113.10".to_owned())],
        };
        assert_eq!(connection.send(&request).await?.status, 302);
        write!(log, "{}", line(number, host, "Miss"))?;
    }
    let report = |more: &str| format!("/v1/reports/clicks?code=k&interval_preset=24h{more}");
    let all = report("&class=all");
    let before = node.wait_for(&all, PATIENCE, |report| report["totals"]["clicks"] == 10).await?;
    assert_eq!(before["totals"]["by_class"]["monitor"], 10, "{before:#}");

    let file = node.folder().join("E1.log");
    std::fs::write(&file, log)?;
    let summaries = node.json(&["backfill", &file.display().to_string(), "--json"])?;
    assert_eq!(summaries[0]["already_counted"], 10, "{summaries:#}");
    assert_eq!((&summaries[0]["waiting"], summaries[0].get("checks")), (&Value::from(0), None));

    let after = node.wait_for(&all, PATIENCE, |report| report["totals"]["by_class"]["human"] == 8).await?;
    let by_class = &after["totals"]["by_class"];
    assert_eq!((&by_class["preview"], &by_class["probe"]), (&Value::from(1), &Value::from(1)), "{after:#}");
    assert_eq!(after["totals"]["clicks"], 10);
    let browsers = node.get(&report("&group_by=browser")).await?;
    assert_eq!(grouped(&browsers), [("Chrome".to_owned(), 6), ("Firefox".to_owned(), 2)]);
    let referrers = node.get(&report("&group_by=referrer")).await?;
    assert_eq!(grouped(&referrers), [("news.example.org".to_owned(), 3)]);
    assert_eq!(node.get("/v1/status").await?["edge_logs"]["waiting"], 0);
    node.ok(&["verify"])?;
    node.stop().await
}
