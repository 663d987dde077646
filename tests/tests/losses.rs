//! What is lost is named, and not forgotten: losses that a kill follows, journals that are damaged or gone, a lake or a
//! link store that is not there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::load::Connection;
use tests::node::Node;

use crate::roles::{click, rows, send_until};

const PATIENCE: Duration = Duration::from_secs(60);

fn node(settings: &str) -> anyhow::Result<Node> {
    let node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", settings)?;
    node.ok(&["link", "add", "https://example.com/", "--code", "paid"])?;
    Ok(node)
}

/// The one number that a statement answers.
fn number(node: &Node, sql: &str) -> anyhow::Result<u64> {
    let rows = node.json(&["sql", &format!("SELECT coalesce({sql}, 0) AS n"), "--format", "json"])?;
    Ok(rows[0]["n"].as_u64().unwrap_or_default())
}

async fn until_rows(node: &Node, expected: u64) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let there = rows(node, "paid").await?;
        if there == expected {
            return Ok(());
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{there} rows of {expected}\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Sends clicks and waits until they are synced, with a mark behind them. A sync that was under way when the last one came may
/// lack it, and so may its mark; the one behind that doesn't.
async fn synced_clicks(node: &Node, clicks: u64) -> anyhow::Result<()> {
    let mut connection = Connection::open(node.redirect).await?;
    for _ in 0..clicks {
        assert_eq!(connection.send(&click("paid")).await?.status, 302);
    }
    let sent = node.metric("highwater_journal_unsent_records", &[]).await?;
    let begin = Instant::now();
    while node.metric("highwater_journal_unsent_records", &[]).await? < sent + 2 {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "no mark behind the clicks\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The journals in a state.
fn journals(node: &Node, state: &str) -> anyhow::Result<Vec<String>> {
    let all = node.json(&["journal", "list", "--json"])?;
    let all = all.as_array().cloned().unwrap_or_default();
    let ids = all.iter().filter(|journal| journal["state"] == state).filter_map(|journal| journal["id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

/// What `verify` says, and whether all is well.
fn verify(node: &Node) -> anyhow::Result<(bool, String)> {
    let output = node.cli(&["verify"])?;
    Ok((output.status.success(), String::from_utf8(output.stdout)?))
}

fn folder_of(node: &Node, journal: &str) -> PathBuf {
    node.data().join("journals").join(journal)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_outlives_a_kill_and_becomes_a_gap_once() -> anyhow::Result<()> {
    let mut node = node("[journal]\nmax_bytes = \"256KiB\"\nreserve = \"64KiB\"")?;
    // nobody brings clicks into the lake, and nobody writes losses down
    node.start_with(&["redirect"]).await?;
    send_until(&node, "paid", "lost").await?;
    let written = node.metric("highwater_events_total", &["outcome=\"written\""]).await?;
    let lost = node.metric("highwater_events_total", &["outcome=\"lost\""]).await?;
    node.kill()?;
    for _ in 0..2 {
        node.start().await?;
        until_rows(&node, written).await?;
        let path = "/v1/reports/clicks?code=paid&interval_preset=24h";
        let is_named = |report: &Value| report["meta"]["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty());
        let report = node.wait_for(path, PATIENCE, is_named).await?;
        assert_eq!(report["meta"]["gaps"][0]["reason"], "full, at least so many", "{report:#}");
        node.stop().await?;
        assert_eq!(number(&node, "(SELECT sum(lost) FROM gaps)")?, lost);
        assert_eq!(number(&node, "(SELECT count(*) FROM gaps)")?, 1);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_journal_and_one_that_is_gone_are_named_until_they_are_given_up() -> anyhow::Result<()> {
    let mut node = node("")?;
    node.start_with(&["redirect"]).await?;
    synced_clicks(&node, 50).await?;
    node.kill()?;
    let damaged = journals(&node, "open")?.remove(0);
    let segment = folder_of(&node, &damaged).join(format!("{:020}.seg", 0));
    let mut bytes = std::fs::read(&segment)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes)?;
    let (ok, told) = verify(&node)?;
    assert!(!ok && told.contains(&format!("journal {damaged} open")) && told.contains("damaged"), "{told}");

    node.start_with(&["redirect"]).await?;
    synced_clicks(&node, 5).await?;
    node.kill()?;
    let gone = journals(&node, "open")?.into_iter().find(|id| *id != damaged).unwrap_or_default();
    std::fs::remove_dir_all(folder_of(&node, &gone))?;
    let (ok, told) = verify(&node)?;
    assert!(!ok && told.contains("its folder is gone") && told.contains(&format!("retire {gone}")), "{told}");

    node.start().await?;
    let log = node.log();
    assert!(log.contains("a journal is gone") && log.contains(&format!("retire {gone}")), "{log}");
    assert!(log.contains("synced clicks are gone") && log.contains(&format!("retire {damaged}")), "{log}");
    for id in [&damaged, &gone] {
        let told = node.ok(&["journal", "retire", id])?;
        assert!(told.contains("may be missing"), "{told}");
    }
    assert!(verify(&node)?.0, "{}", verify(&node)?.1);
    let path = "/v1/reports/clicks?code=paid&interval_preset=24h";
    let both = |report: &Value| report["meta"]["gaps"].as_array().is_some_and(|gaps| gaps.len() == 2);
    let report = node.wait_for(path, PATIENCE, both).await?;
    let mut reasons: Vec<&str> =
        report["meta"]["gaps"].as_array().into_iter().flatten().filter_map(|gap| gap["reason"].as_str()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["journal damaged", "journal missing"], "{report:#}");
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_whose_journal_was_given_up_goes_on_in_another() -> anyhow::Result<()> {
    let mut node = node("[edge]\nskew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"")?;
    node.start().await?;
    let mut connection = Connection::open(node.redirect).await?;
    assert_eq!(connection.send(&click("paid")).await?.status, 302);
    until_rows(&node, 1).await?;
    let first = journals(&node, "open")?.remove(0);
    let refused = node.cli(&["journal", "retire", &first])?;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("writes into it") && said.contains("--force"), "{said}");
    node.ok(&["journal", "retire", &first, "--force"])?;
    // into the old one, or already into the new one: late, or not
    assert_eq!(connection.send(&click("paid")).await?.status, 302);
    let is_another = |status: &Value| {
        let all = status["journals"].as_array().cloned().unwrap_or_default();
        all.iter().any(|journal| journal["state"] == "open" && journal["id"] != first.as_str())
    };
    node.wait_for("/v1/status", PATIENCE, is_another).await?;
    assert_eq!(connection.send(&click("paid")).await?.status, 302);
    until_rows(&node, 3).await?;
    // said when the worker has gone over, which may be a moment after the new one is known
    let until = std::time::Instant::now() + PATIENCE;
    while !node.log().contains("clicks go on in a new one") {
        anyhow::ensure!(std::time::Instant::now() < until, "{}", node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(connection);
    node.stop().await?;
    assert!(verify(&node)?.0, "{}", verify(&node)?.1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_that_is_not_the_one_is_left_alone_and_said_so() -> anyhow::Result<()> {
    let mut node = node("")?;
    node.start().await?;
    let mut connection = Connection::open(node.redirect).await?;
    assert_eq!(connection.send(&click("paid")).await?.status, 302);
    drop(connection);
    node.stop().await?;
    until_rows(&node, 1).await?;
    let (lake, elsewhere) = (node.data().join("lake"), node.folder().join("elsewhere"));
    std::fs::rename(&lake, &elsewhere)?;

    node.spawn(&["up"])?;
    let told = node.readyz_says("behind the registry").await?;
    assert!(told.contains("journal retire --lost"), "{told}");
    let status = node.get("/v1/status").await?;
    assert!(status["held_back_by"].as_str().is_some_and(|by| by.starts_with("lake: ")), "{status:#}");
    assert!(!verify(&node)?.0);
    let mut connection = Connection::open(node.redirect).await?;
    assert_eq!(connection.send(&click("paid")).await?.status, 302, "redirects go on");
    std::fs::remove_dir_all(&lake)?;
    std::fs::rename(&elsewhere, &lake)?;
    node.wait_until_ready().await?;
    until_rows(&node, 2).await?;
    node.stop().await?;

    // it is lost for good
    std::fs::remove_dir_all(&lake)?;
    node.spawn(&["up"])?;
    node.readyz_says("behind the registry").await?;
    let mut connection = Connection::open(node.redirect).await?;
    assert_eq!(connection.send(&click("paid")).await?.status, 302);
    let told = node.ok(&["journal", "retire", "--lost"])?;
    assert!(told.contains("lake lost"), "{told}");
    node.wait_until_ready().await?;
    until_rows(&node, 1).await?;
    assert!(verify(&node)?.0, "{}", verify(&node)?.1);
    node.stop().await?;

    for name in ["links.sqlite", "links.sqlite-wal", "links.sqlite-shm"] {
        let _gone = std::fs::remove_file(node.data().join(name));
    }
    let refused = node.cli(&["up"])?;
    let told = String::from_utf8(refused.stderr)?;
    assert!(!refused.status.success() && told.contains("links.sqlite is missing"), "{told}");
    Ok(())
}
