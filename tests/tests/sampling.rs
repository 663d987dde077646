//! More clicks than can be brought in within the limit: `internal` links are sampled, all else is exact, and edge logs that come
//! afterwards move nothing.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tests::load::{Connection, Request};
use tests::node::Node;
use tests::s3::S3;

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0";
const SENDERS: u64 = 4;
/// Clicks that each sends in a second, at most: the backlog is to be of several seconds.
const PACE: u64 = 700;
/// Clicks of each of the two heavy links.
const EACH: u64 = 5_000;
/// What the lake's store takes in, of an object, in a second.
const BYTES: f64 = 100_000.0;
/// Clicks of the heavy `internal` link in a second that are surely more than the cap that sampling begins with.
const DENSE: u64 = 500;

/// A click that was answered.
struct Answered {
    code: &'static str,
    id: String,
    at: Duration,
}

/// Sends clicks of both heavy links in turn, and of a light one no more often than once a second.
async fn send(port: u16, sender: u64) -> anyhow::Result<Vec<Answered>> {
    let mut connection = Connection::open(port).await?;
    let (mut answered, mut last_light) = (Vec::new(), 0);
    let (share, begin) = (2 * EACH / SENDERS, Instant::now());
    for n in 0..share {
        tokio::time::sleep_until((begin + Duration::from_millis(n * 1_000 / PACE)).into()).await;
        let second = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let is_light = sender == 0 && second > last_light + 1;
        let code = match (is_light, n % 2) {
            (true, _) => "light",
            (false, 0) => "heavy",
            (false, _) => "paid",
        };
        if is_light {
            last_light = second;
        }
        let id = format!("{:032x}", u128::from(sender) << 64 | u128::from(n) << 8 | 1);
        let request = Request {
            method: "GET",
            target: format!("/{code}"),
            host: "go.test".into(),
            user_agent: AGENT.into(),
            headers: vec![("X-Request-Id", id.clone()), ("X-Forwarded-For", format!("203.0.113.{}", n % 250 + 1))],
        };
        anyhow::ensure!(connection.send(&request).await?.status == 302);
        answered.push(Answered { code, id, at: SystemTime::now().duration_since(UNIX_EPOCH)? });
    }
    Ok(answered)
}

/// The log that an edge would have written of these.
fn log(answered: &[Answered]) -> String {
    let mut text = String::new();
    for (n, Answered { code, id, at }) in answered.iter().enumerate() {
        // writing into a String can't fail
        let _ = writeln!(
            text,
            "{{\"msec\":\"{}.{:03}\",\"remote_addr\":\"203.0.113.{}\",\"host\":\"go.test\",\"request_method\":\"GET\",\
             \"request_uri\":\"/{code}\",\"status\":\"302\",\"http_referer\":\"\",\"http_user_agent\":\"{AGENT}\",\
             \"upstream_cache_status\":\"MISS\",\"request_id\":\"{id}\",\"scheme\":\"https\"}}",
            at.as_secs(),
            at.subsec_millis(),
            n % 250 + 1,
        );
    }
    text
}

/// By code: rows, what they weigh together, and the variance of that.
fn weights(node: &Node) -> anyhow::Result<Vec<(String, u64, f64, f64)>> {
    let sql = "SELECT code, count(*) AS n, sum(weight) AS w, sum(weight * (weight - 1)) AS v FROM clicks GROUP BY code ORDER BY code";
    let rows = node.json(&["sql", sql, "--format", "json"])?;
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_default();
    let rows = rows.as_array().cloned().unwrap_or_default();
    let of = |row: &Value| {
        let code = row["code"].as_str().unwrap_or_default().to_owned();
        (code, number(row, "n") as u64, number(row, "w"), number(row, "v"))
    };
    Ok(rows.iter().map(of).collect())
}

/// The same to a thousandth: the order that weights are added in is nobody's promise.
fn rounded(rows: Vec<(String, u64, f64, f64)>) -> Vec<(String, u64, i64, i64)> {
    let thousandths = |number: f64| (number * 1_000.0).round() as i64;
    rows.into_iter().map(|(code, n, w, v)| (code, n, thousandths(w), thousandths(v))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_sampled_fairly_and_its_edge_log_moves_nothing() -> anyhow::Result<()> {
    // what can be done follows from the store, not from the machine: a backlog that is soon gone is none to be sampled
    let store = S3::narrow(&["data"], BYTES).await?;
    let settings = "[process]\nlag_limit = \"2s\"\nbuffer_bytes = \"256KiB\"\ncommit_after = \"50ms\"\n[edge]\nprovider = \"nginx\"\nskew = \"1s\"\n\
                    repeat = \"1s\"\nrecover_after = \"2s\"\nmax_skew = \"1m\"";
    let node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", settings)?;
    let lake = vec![("HIGHWATER_LAKE", "s3://data/lake".to_owned())];
    let mut node = node.with_environment(store.environment()).with_environment(lake);
    for (code, analytics) in [("heavy", "internal"), ("light", "internal"), ("paid", "billed")] {
        node.ok(&["link", "add", "https://example.com/", "--code", code, "--analytics", analytics])?;
    }
    // nobody brings clicks into the lake until they are far older than the limit
    node.start_with(&["redirect"]).await?;
    let senders: Vec<_> = (0..SENDERS).map(|sender| tokio::spawn(send(node.redirect, sender))).collect();
    let mut answered = Vec::new();
    for sender in senders {
        answered.extend(sender.await??);
    }
    node.stop().await?;
    let count = |code: &str| answered.iter().filter(|one| one.code == code).count() as u64;
    let seconds = answered.iter().map(|one| one.at.as_secs());
    let took = seconds.clone().max().unwrap_or(0) - seconds.min().unwrap_or(0) + 1;
    if EACH / took < DENSE {
        // no service is missing: there is nothing to be sampled where so few clicks come
        eprintln!("no sampled backlog: this machine answers too few clicks a second now");
        return Ok(());
    }

    node.start().await?;
    let landed =
        |code: &str, rows: &[(String, u64, f64, f64)]| rows.iter().any(|(of, n, ..)| of == code && *n == count(code));
    let begin = Instant::now();
    let rows = loop {
        let rows = weights(&node)?;
        if landed("paid", &rows) && landed("light", &rows) {
            break rows;
        }
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(90), "{rows:?}\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let away = node.metric("highwater_sampled_away_total", &["human"]).await?;
    assert!(away > 100, "{away} sampled away\n{}", node.log());
    for (code, n, weight, variance) in &rows {
        if code == "heavy" {
            assert_eq!(n + away, count("heavy"), "each is kept or sampled away");
            let off = (weight - count("heavy") as f64).abs();
            assert!(off <= 5.0 * variance.sqrt(), "{weight} of {}, variance {variance}", count("heavy"));
        } else {
            assert_eq!((*n, *weight), (count(code), count(code) as f64), "{code}");
        }
    }
    // after the peak all is kept again
    node.wait_for("/v1/status", Duration::from_secs(60), |status| status["sampling"]["active"] == false).await?;
    let report = node.get("/v1/reports/clicks?code=heavy&interval_preset=24h").await?;
    assert_eq!(report["meta"]["sampled"], true, "{report:#}");

    std::fs::write(node.folder().join("edge.log"), log(&answered))?;
    let summary = node.json(&["backfill", "edge.log", "--json"])?[0].clone();
    node.wait_for("/v1/status", Duration::from_secs(90), |status| status["edge_logs"]["waiting"] == 0).await?;
    let shown = node.json(&["edge-logs", "show", summary["id"].as_str().unwrap_or_default(), "--json"])?;
    assert_eq!(shown["ignored"]["sampled"], away, "{shown:#}");
    assert_eq!(shown["added"]["recovered"], 0, "{shown:#}");
    assert_eq!(rounded(weights(&node)?), rounded(rows), "an edge log of the whole time moves nothing");
    node.ok(&["verify"])?;
    node.stop().await
}
