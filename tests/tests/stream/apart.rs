//! Roles in processes of their own: whoever is asked tells what holds up others, and what the lake has lost.

use std::time::Instant;

use serde_json::Value;

use super::*;

/// Whether status says that something of this sort holds clicks up.
fn is_held_up(by: &'static str) -> impl Fn(&Value) -> bool {
    move |status| status["held_back_by"].as_str().is_some_and(|why| why.starts_with(by))
}

/// Whether nothing does but logs of the edge, of which none come here.
fn is_free(status: &Value) -> bool {
    status["held_back_by"].as_str().is_none_or(|why| why.starts_with("source"))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_reads_tells_what_holds_clicks_up_and_what_the_lake_has_lost() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut broker = broker(folder.path())?;
    let settings = settings(&broker.address(), 2);
    let mut redirect = node(&settings)?;
    let role = || Node::new(crate::binary(), "domains = [\"go.test\"]", &settings);
    let (mut process, mut query) = (role()?.sharing_data_of(&redirect), role()?.sharing_data_of(&redirect));
    std::fs::write(redirect.data().join("admin.token"), redirect.ok(&["token", "add", "--operator"])?)?;
    redirect.start_with(&["redirect"]).await?;
    process.start_with(&["process"]).await?;
    query.start_with(&["query"]).await?;

    let load = load(&redirect);
    load.more(200).await?;
    broker.kill()?;
    query.wait_for("/v1/status", PATIENCE, is_held_up("stream: ")).await?;
    broker.start()?;
    query.wait_for("/v1/status", PATIENCE, is_free).await?;
    let ledger = load.end().await?;
    check(&query, &ledger).await?;

    for node in [&mut redirect, &mut process, &mut query] {
        node.stop().await?;
    }
    query.ok(&["verify"])?;
    let (lake, elsewhere) = (query.data().join("lake"), query.folder().join("elsewhere"));
    std::fs::rename(&lake, &elsewhere)?;
    query.start_with(&["query"]).await?;
    query.wait_for("/v1/status", PATIENCE, is_held_up("lake: ")).await?;
    let report = query.get("/v1/reports/clicks?class=all&interval_preset=24h").await?;
    assert!(report["meta"]["complete_through"].is_null(), "{report:#}");
    let verified = query.cli(&["verify", "--json"])?;
    let told: Value = serde_json::from_slice(&verified.stdout)?;
    let lost = told["stream"].as_str().unwrap_or_default();
    assert!(
        !verified.status.success() && told["ok"] == false && lost.contains("behind what was published"),
        "{told:#}"
    );
    query.stop().await?;

    std::fs::remove_dir_all(&lake)?;
    std::fs::rename(&elsewhere, &lake)?;
    query.ok(&["verify"])?;
    // nobody else runs by now, and after a while that is said
    query.start_with(&["query"]).await?;
    query.wait_for("/v1/status", PATIENCE, |status| !is_held_up("lake: ")(status)).await?;
    query.stop().await
}

/// How much has come since then nobody can tell, and that it isn't nothing is said.
#[tokio::test(flavor = "multi_thread")]
async fn that_nobody_reads_the_topic_is_told() -> Result<()> {
    let mut rig = Rig::new(2)?;
    let mut process = Node::new(crate::binary(), "domains = [\"go.test\"]", &rig.settings)?.sharing_data_of(&rig.node);
    let mut query = Node::new(crate::binary(), "domains = [\"go.test\"]", &rig.settings)?.sharing_data_of(&rig.node);
    std::fs::write(query.data().join("admin.token"), query.ok(&["token", "add", "--operator"])?)?;
    rig.node.start_with(&["redirect"]).await?;
    process.start_with(&["process"]).await?;
    query.start_with(&["query"]).await?;
    let clicks = load(&rig.node);
    clicks.more(300).await?;
    query.wait_for("/v1/status", PATIENCE, is_free).await?;
    process.kill()?;
    let is_told = |status: &Value| {
        is_held_up("process: nobody reads partitions 0, 1")(status)
            && status["stream"]["lag_seconds"].as_f64().is_some_and(|seconds| seconds > 30.0)
    };
    query.wait_for("/v1/status", PATIENCE, is_told).await?;
    process.start_with(&["process"]).await?;
    let ledger = clicks.end().await?;
    check(&query, &ledger).await?;
    query.wait_for("/v1/status", PATIENCE, is_free).await?;
    for node in [&mut rig.node, &mut process, &mut query] {
        node.stop().await?;
    }
    Ok(())
}

/// The backlog is for whoever comes next: a processor is told to stop when it has just begun with one, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_processor_with_a_backlog_stops_and_its_next_start_goes_on() -> Result<()> {
    let mut rig = Rig::new(2)?;
    let mut process = Node::new(crate::binary(), "domains = [\"go.test\"]", &rig.settings)?.sharing_data_of(&rig.node);
    rig.node.start_with(&["redirect"]).await?;
    let clicks = load(&rig.node);
    for n in 1..=3 {
        clicks.more(1_000).await?;
        process.spawn(&["process"])?;
        // its log holds what it said before
        let begun = |process: &Node| process.log().matches("reading").count() >= 2 * n;
        let begin = Instant::now();
        while !begun(&process) {
            ensure!(begin.elapsed() < PATIENCE, "it reads nothing:\n{}", process.log());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        process.stop().await?;
    }
    ensure!(!process.log().contains("within 10s"), "{}", process.log());
    let ledger = clicks.end().await?;
    process.start_with(&["process"]).await?;
    check(&process, &ledger).await?;
    process.stop().await?;
    rig.node.stop().await?;
    process.ok(&["verify"])?;
    Ok(())
}
