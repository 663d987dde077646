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
    let failed = node.json(&["edge-logs", "show", &id("a.log"), "--json"])?;
    assert_eq!((failed["state"].as_str(), &failed["again_for"]), (Some("failed"), &id("b.log").into()), "{failed:#}");
    assert!(node.ok(&["edge-logs", "list"])?.contains("deliver it again"));
    let verified = node.cli(&["verify"])?;
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.code() == Some(1) && said.contains("a.log"), "{said}");
    let again = node.cli(&["edge-logs", "revert", &id("b.log")])?;
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.status.code() == Some(1) && said.contains("was taken back before"), "{said}");
    assert!(said.contains("deliver these again"), "{said}");
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

/// Begins a command, and kills it so many milliseconds after the first commit of `clicks`.
async fn killed(node: &Node, arguments: &[&str], pause: u64) -> anyhow::Result<()> {
    let entries = || {
        let folder = node.data().join("lake").join("clicks").join("_delta_log");
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    };
    let before = entries();
    let mut command = std::process::Command::new(node.binary());
    command.arg("--config").arg(node.config()).current_dir(node.folder()).args(arguments);
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn()?;
    while entries() <= before && child.try_wait()?.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // somewhere in what it does then
    tokio::time::sleep(Duration::from_millis(pause)).await;
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// A revert that is killed at any moment loses nothing of what others hold: `up` goes on with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_revert_is_ended_and_nothing_of_others_is_lost() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "", "")?;
    node.start().await?;
    let mut total = 0;
    for (round, pause) in [0, 20, 60, 150].into_iter().enumerate() {
        let round = round as u64;
        let (at, from) = (UtcMicros(UtcMicros::now().0 - (5_000 + round as i64 * 20_000) * SECOND), round * 10_000);
        let common = |numbers: std::ops::Range<u64>| lines("x.example.com", "HIT", numbers, at);
        let b = write(node.folder(), &format!("b{round}.log"), &common(from..from + 200))?;
        let reverted = backfill(&node, &b)?;
        for part in 0..4 {
            let text =
                [common(from + part * 50..from + part * 50 + 50), common(from + 1_000 + part..from + 1_001 + part)];
            backfill(&node, &write(node.folder(), &format!("a{round}-{part}.log"), &text.concat())?)?;
        }
        total += 204;
        killed(&node, &["edge-logs", "revert", reverted["id"].as_str().unwrap_or_default()], pause).await?;
    }
    let until = std::time::Instant::now() + Duration::from_secs(120);
    let open = |list: &Value| {
        let states = list.as_array().into_iter().flatten().filter_map(|log| log["state"].as_str());
        states.filter(|state| !matches!(*state, "done" | "reverted")).count()
    };
    while open(&node.json(&["edge-logs", "list", "--json"])?) > 0 && std::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    node.ok(&["verify"])?;
    assert_eq!(rows(&node)?, total, "{}", node.ok(&["edge-logs", "list"])?);
    assert_eq!(node.get("/v1/status").await?["edge_logs"]["queued"], 0);
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_of_an_edge_without_ids_are_held_for_the_operator() -> anyhow::Result<()> {
    const CLICKS: u64 = 240;
    const FEW: u64 = 60;
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
        // so few misses count beside their clicks
        let few = write(node.folder(), "few.log", &lines("go.example.com", "MISS", 0..FEW, before))?;
        backfill(&node, &few)?;
        let all_in = |status: &Value| status["edge_logs"]["waiting"] == 0;
        node.wait_for("/v1/status", Duration::from_secs(60), all_in).await?;
        let log = write(node.folder(), "edge.log", &lines("go.example.com", "MISS", FEW..CLICKS, before))?;
        let summary = backfill(&node, &log)?;
        assert_eq!(summary["added"]["recovered"], 0, "{summary:#}");
        let is_named = |status: &Value| status["edge_logs"]["mismatched"][0]["waiting"] == CLICKS - FEW;
        let status = node.wait_for("/v1/status", Duration::from_secs(60), is_named).await?;
        assert_eq!(status["edge_logs"]["mismatched"][0]["provider"], "nginx");
        assert_eq!(rows(&node)?, CLICKS + FEW);
        let id = summary["id"].as_str().unwrap_or_default();
        let shown = node.ok(&["edge-logs", "show", id])?;
        assert!(shown.contains("mismatched: in the hour"), "{shown}");
        // the node hears of what a command has found with its next round
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while node.metric("highwater_edge_log_mismatched_hours", &[]).await? != 1 {
            anyhow::ensure!(std::time::Instant::now() < until, "no hour is named in the metrics");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let hour = status["edge_logs"]["mismatched"][0]["hour"].as_str().unwrap_or_default().to_owned();
        let decide = ["edge-logs", "settle", "--provider", "nginx", "--hour", &hour[..13], "--json", "--as"];
        // killed somewhere, `up` goes on with it
        killed(&node, &[&decide[..], &[word]].concat(), 0).await?;
        let none = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
        let is_ended = |status: &Value| none(&status["edge_logs"]["deciding"]);
        node.wait_for("/v1/status", Duration::from_secs(60), is_ended).await?;
        node.json(&[&decide[..], &[word]].concat())?;
        let is_over = |status: &Value| {
            let logs = &status["edge_logs"];
            logs["waiting"] == 0 && none(&logs["mismatched"]) && none(&logs["deciding"])
        };
        node.wait_for("/v1/status", Duration::from_secs(60), is_over).await?;
        assert_eq!(rows(&node)?, counted, "{word}");
        node.ok(&["verify"])?;
        // and as the other
        let (other, other_counted) = if word == "counted" { ("recovered", 2 * CLICKS) } else { ("counted", CLICKS) };
        let changed = node.json(&[&decide[..], &[other]].concat())?;
        assert_eq!(changed["was"], word, "{changed:#}");
        assert_eq!(rows(&node)?, other_counted, "{other}");
        node.ok(&["verify"])?;
        node.stop().await?;
    }
    Ok(())
}
