//! What is older than its workspace keeps it goes, on demand and by itself, and answers say so.

use std::time::Duration;

use serde_json::{Value, json};
use tests::logs::{EPOCH, hits};
use tests::node::Node;

const PATIENCE: Duration = Duration::from_secs(60);
const DAY: i64 = 86_400;
/// The logs are older, whenever this runs.
const KEEP: &str = "1d";

fn clicks(report: &Value) -> u64 {
    report["totals"]["clicks"].as_u64().unwrap_or_default()
}

/// A log of one day, so many days after the first.
fn log(node: &Node, day: i64, code: &str, lines: u64) -> anyhow::Result<String> {
    let path = node.folder().join(format!("{code}-{day}.log"));
    std::fs::write(&path, hits(&format!("{code}{day}"), code, EPOCH + day * DAY, lines))?;
    Ok(path.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_goes_for_real_and_what_others_keep_stays() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]", "[edge]\nprovider = \"nginx\"\n")?;
    node.ok(&["workspace", "add", "acme"])?;
    node.ok(&["link", "add", "https://example.com/", "--code", "a", "--workspace", "acme"])?;
    node.ok(&["link", "add", "https://example.com/", "--code", "b"])?;
    let mut logs = Vec::new();
    for day in 0..3 {
        logs.extend([log(&node, day, "a", 20)?, log(&node, day, "b", 10)?]);
    }
    let backfill: Vec<&str> =
        ["backfill"].into_iter().chain(logs.iter().map(String::as_str)).chain(["--json"]).collect();
    node.json(&backfill)?;

    // nobody has said that anything goes
    let nothing = node.json(&["retention", "--json"])?;
    assert_eq!(nothing["removed"], json!({}), "{nothing}");
    let unknown = node.cli(&["workspace", "set", "nobody", "--keep", "30d"])?;
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no workspace \"nobody\""));
    assert_eq!(node.cli(&["workspace", "set", "acme", "--keep", "48h"])?.status.code(), Some(2));
    node.ok(&["workspace", "set", "acme", "--keep", KEEP])?;
    let list = node.json(&["workspace", "list", "--json"])?;
    assert_eq!(list, json!([{"name": "acme", "keep": KEEP}, {"name": "default", "keep": "default"}]));

    let told = node.json(&["retention", "--dry-run", "--json"])?;
    assert_eq!(told["removed"], json!({"clicks": 60}), "{told}");
    let count = "SELECT workspace, count(*) AS n FROM clicks GROUP BY workspace ORDER BY workspace";
    let sql = |node: &Node| node.json(&["sql", count, "--format", "json"]);
    assert_eq!(sql(&node)?, json!([{"workspace": "acme", "n": 60}, {"workspace": "default", "n": 30}]));
    let done = node.json(&["retention", "--json"])?;
    assert_eq!((&done["removed"], &done["workspaces"][0]["clicks"]), (&json!({"clicks": 60}), &json!(60)), "{done}");
    assert_eq!(sql(&node)?, json!([{"workspace": "default", "n": 30}]));
    let verified = node.json(&["verify", "--json"])?;
    assert_eq!(verified["ok"], json!(true), "{verified}");

    // answers say so, and other workspaces' aren't touched
    let report = node.json(&["report", "a", "--start", "2026-03-01", "--end", "2026-03-20", "--json"])?;
    assert_eq!((clicks(&report), &report["meta"]["kept_from"]), (0, &json!("2026-03-17T00:00:00Z")), "{report}");
    assert_eq!(report["meta"]["restated_at"], Value::Null);
    assert_eq!(clicks(&node.json(&["report", "b", "--json"])?), 30);

    // a log brought again is known, and adds nothing; its summary is that of its end
    let again = node.json(&["backfill", &logs[0], "--json"])?;
    assert_eq!((&again[0]["added"]["edge"], &again[0]["already_counted"]), (&json!(0), &json!(20)), "{again}");
    let list = node.json(&["edge-logs", "list", "--json"])?;
    let mut logs = list.as_array().into_iter().flatten();
    let first = logs.find(|one| one["name"].as_str().is_some_and(|name| name.ends_with("a-0.log")));
    let first = first.unwrap();
    assert_eq!(first["added"]["edge"], json!(20), "{first}");

    // by itself: a late log comes in whole, and goes with the next day's run, or the next start's
    node.ok(&["workspace", "set", "acme", "--keep", "forever"])?;
    node.json(&["backfill", &log(&node, 4, "a", 5)?, "--json"])?;
    node.start().await?;
    let all = "/v1/reports/clicks?code=a&start=2026-03-01&end=2026-03-31";
    node.wait_for(all, PATIENCE, |report| clicks(report) == 5).await?;
    node.stop().await?;
    node.ok(&["workspace", "set", "acme", "--keep", KEEP])?;
    node.start().await?;
    node.wait_for(all, PATIENCE, |report| {
        clicks(report) == 0 && report["meta"]["kept_from"] == json!("2026-03-19T00:00:00Z")
    })
    .await?;
    assert_eq!(clicks(&node.get("/v1/reports/clicks?code=b").await?), 30);
    node.stop().await
}
