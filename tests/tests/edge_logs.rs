//! The operator's side of edge logs: taking an import back, and hours in which request ids don't meet.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemas::UtcMicros;
use schemas::time::SECOND;
use serde_json::Value;
use tests::load::{Connection, Request};
use tests::node::Node;

const PERSON: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";

fn lines(host: &str, cache: &str, numbers: std::ops::Range<u64>, at: UtcMicros) -> String {
    numbers.fold(String::new(), |mut log, number| {
        let time = at.0 + number as i64 * 1_000;
        let msec = format!("{}.{:03}", time / SECOND, time % SECOND / 1_000);
        // writing into a String can't fail
        let _ = writeln!(
            log,
            r#"{{"msec":"{msec}","remote_addr":"203.0.113.9","host":"{host}","request_method":"GET","request_uri":"/k","status":"302","http_referer":"","http_user_agent":"{PERSON}","upstream_cache_status":"{cache}","request_id":"{number:032x}","scheme":"https"}}"#
        );
        log
    })
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, text)?;
    Ok(path)
}

fn rows(node: &Node) -> anyhow::Result<u64> {
    let counted = node.json(&["sql", "SELECT count(*) AS n FROM clicks", "--format", "json"])?;
    Ok(counted[0]["n"].as_u64().unwrap_or_default())
}

fn backfill(node: &Node, path: &Path) -> anyhow::Result<Value> {
    let summaries = node.json(&["backfill", &path.display().to_string(), "--json"])?;
    Ok(summaries[0].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_taken_back_and_what_overlaps_is_taken_in_again() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "", "")?;
    let at = UtcMicros(UtcMicros::now().0 - 5_000 * SECOND);
    let a = write(node.folder(), "a.log", &lines("x.example.com", "HIT", 0..60, at))?;
    let b = write(node.folder(), "b.log", &lines("x.example.com", "HIT", 40..100, at))?;
    for runs in [false, true] {
        if runs {
            node.start().await?;
        }
        let (first, second) = (backfill(&node, &a)?, backfill(&node, &b)?);
        assert_eq!(rows(&node)?, 100);
        let id = first["id"].as_str().unwrap_or_default().to_owned();
        let outcome = node.json(&["edge-logs", "revert", &id, "--json"])?;
        let removed = if runs { 40 } else { 60 };
        assert_eq!((outcome["removed"].as_u64(), rows(&node)?), (Some(removed), 60), "{outcome:#}");
        // the second time all lines of the other are rows of its own already
        let again: Vec<&Value> = outcome["again"].as_array().into_iter().flatten().map(|one| &one["id"]).collect();
        assert_eq!(again, if runs { vec![] } else { vec![&second["id"]] }, "{outcome:#}");
        let list = node.json(&["edge-logs", "list", "--json"])?;
        let states: Vec<(&str, &str)> = list
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| (one["id"].as_str().unwrap_or_default(), one["state"].as_str().unwrap_or_default()))
            .collect();
        assert!(states.contains(&(id.as_str(), "reverted")) && states.len() == 2, "{list:#}");
        let shown = node.json(&["edge-logs", "show", second["id"].as_str().unwrap_or_default(), "--json"])?;
        assert_eq!((shown["added"]["edge"].as_u64(), shown["already_counted"].as_u64()), (Some(60), Some(0)));
        assert!(node.ok(&["edge-logs", "list"])?.contains("reverted"));
    }
    // taken in again, but the other's source is gone: it is named, and its redelivery settles it
    let first = backfill(&node, &a)?;
    assert_eq!((first["added"]["edge"].as_u64(), first["already_counted"].as_u64()), (Some(40), Some(20)));
    let second = node.json(&["edge-logs", "list", "--json"])?;
    let id = |name: &str| -> String {
        let mut all = second.as_array().into_iter().flatten();
        all.find(|one| one["name"].as_str().is_some_and(|of| of.ends_with(name)))
            .and_then(|one| one["id"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let kept = std::fs::read(&a)?;
    std::fs::remove_file(&a)?;
    let output = node.cli(&["edge-logs", "revert", &id("b.log"), "--json"])?;
    assert_eq!(output.status.code(), Some(1));
    let outcome: Value = serde_json::from_slice(&output.stdout)?;
    assert!(outcome["deliver_again"][0]["name"].as_str().is_some_and(|name| name.ends_with("a.log")), "{outcome:#}");
    assert_eq!(rows(&node)?, 40);
    std::fs::write(&a, kept)?;
    let again = backfill(&node, &a)?;
    assert_eq!((again["state"].as_str(), rows(&node)?), (Some("done"), 60), "{again:#}");
    let report = node.get("/v1/reports/clicks?interval_preset=24h").await?;
    assert_eq!(report["totals"]["clicks"], 60);
    assert!(report["meta"]["restated_at"].is_string(), "{report:#}");
    node.ok(&["verify"])?;
    assert_eq!(node.cli(&["edge-logs", "revert", "nothing"])?.status.code(), Some(1));
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_of_an_edge_without_ids_are_held_for_the_operator() -> anyhow::Result<()> {
    const CLICKS: u64 = 240;
    for (word, counted) in [("counted", CLICKS), ("recovered", 2 * CLICKS)] {
        let settings =
            "[edge]\nprovider = \"nginx\"\nskew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"\nmax_skew = \"1m\"";
        let mut node = Node::new(crate::binary(), "domains = [\"go.example.com\"]", settings)?;
        node.start().await?;
        node.ok(&["link", "add", "https://example.com/", "--code", "k"])?;
        let before = UtcMicros::now();
        // as an edge does that forwards requests and not its id
        let mut connection = Connection::open(node.redirect).await?;
        let request = Request {
            method: "GET",
            target: "/k".to_owned(),
            host: "go.example.com".to_owned(),
            user_agent: PERSON.to_owned(),
            headers: Vec::new(),
        };
        for _ in 0..CLICKS {
            assert_eq!(connection.send(&request).await?.status, 302);
        }
        if before.hour() != UtcMicros::now().hour() {
            eprintln!("not told: a new hour has just begun");
            return node.stop().await;
        }
        let log = write(node.folder(), "edge.log", &lines("go.example.com", "MISS", 0..CLICKS, before))?;
        let summary = backfill(&node, &log)?;
        assert_eq!(summary["added"]["recovered"], 0, "{summary:#}");
        let is_named = |status: &Value| status["edge_logs"]["mismatched"][0]["waiting"] == CLICKS;
        let status = node.wait_for("/v1/status", Duration::from_secs(60), is_named).await?;
        assert_eq!(status["edge_logs"]["mismatched"][0]["provider"], "nginx");
        assert_eq!(rows(&node)?, CLICKS);
        let id = summary["id"].as_str().unwrap_or_default();
        let shown = node.ok(&["edge-logs", "show", id])?;
        assert!(shown.contains("mismatched: in the hour"), "{shown}");
        assert_eq!(node.metric("highwater_edge_log_mismatched_hours", &[]).await?, 1);

        let hour = status["edge_logs"]["mismatched"][0]["hour"].as_str().unwrap_or_default().to_owned();
        let decide = ["edge-logs", "settle", "--provider", "nginx", "--hour", &hour[..13], "--as", word];
        node.ok(&decide)?;
        let is_over = |status: &Value| {
            let logs = &status["edge_logs"];
            logs["waiting"] == 0 && logs["mismatched"].as_array().is_some_and(Vec::is_empty)
        };
        node.wait_for("/v1/status", Duration::from_secs(60), is_over).await?;
        assert_eq!(rows(&node)?, counted, "{word}");
        node.ok(&["verify"])?;
        node.stop().await?;
    }
    Ok(())
}
