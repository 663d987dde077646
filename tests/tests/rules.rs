//! An operator's own rules: checked before anything starts, followed while it runs, used by all that judges requests.

use std::time::Duration;

use tests::load::{Connection, Request};
use tests::node::Node;

const PATIENCE: Duration = Duration::from_secs(60);

/// A probe of our own is a monitor by this version of the file.
fn rules(version: u32, class: &str) -> String {
    format!(
        "version = {version}\n[[group]]\nid = \"own\"\nclass = \"{class}\"\nwhy = \"our probes\"\nsource = \"ourselves\"\n\
         [group.agents]\n\"Acme\" = [\"AcmeProbe/\"]\n"
    )
}

fn probe() -> Request {
    Request {
        method: "GET",
        target: "/hello".into(),
        host: "go.test".into(),
        user_agent: "AcmeProbe/1.0".into(),
        headers: Vec::new(),
    }
}

async fn wait_for_metric(node: &Node, name: &str, value: u64) -> anyhow::Result<()> {
    let begin = std::time::Instant::now();
    while node.metric(name, &[]).await? != value {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{name} is never {value}: {}", node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_follow_their_file_and_a_bad_one_leaves_the_last_good() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("own.toml");
    let settings = format!("[classify]\nrules = {:?}\nreload = \"100ms\"\n", file.display().to_string());
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", &settings)?;

    std::fs::write(&file, "version = 1\noff = [\"nothing\"]")?;
    for command in [&["config", "check"][..], &["up"], &["classify", "--ua", "x"]] {
        let output = node.cli(command)?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("off: \"nothing\" is no built-in rule"), "{said}");
    }
    std::fs::write(&file, rules(1, "monitor"))?;
    node.ok(&["config", "check"])?;
    let judged = node.json(&["classify", "--ua", "AcmeProbe/1.0", "--json"])?;
    assert_eq!((&judged["class"], &judged["reason"]), (&"monitor".into(), &"own/acme".into()), "{judged}");
    let built_in = judged["rules_version"].as_u64().unwrap() - 1;

    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "hello"])?;
    let mut connection = Connection::open(node.redirect).await?;
    let clicks = |class: &str, count: u64| {
        let by = format!("/totals/by_class/{class}");
        move |report: &serde_json::Value| report.pointer(&by) == Some(&count.into())
    };
    let path = "/v1/reports/clicks?code=hello&interval_preset=24h&class=all";
    connection.send(&probe()).await?;
    node.wait_for(path, PATIENCE, clicks("monitor", 1)).await?;

    std::fs::write(&file, rules(2, "scanner"))?;
    wait_for_metric(&node, "highwater_rules_version", built_in + 2).await?;
    connection.send(&probe()).await?;
    node.wait_for(path, PATIENCE, clicks("scanner", 1)).await?;

    std::fs::write(&file, rules(3, "robot"))?;
    wait_for_metric(&node, "highwater_rules_refused", 1).await?;
    assert_eq!(node.metric("highwater_rules_version", &[]).await?, built_in + 2);
    connection.send(&probe()).await?;
    node.wait_for(path, PATIENCE, clicks("scanner", 2)).await?;
    assert!(node.log().contains("unknown variant `robot`"), "{}", node.log());
    let refused = |status: &serde_json::Value| status["refused"][0]["what"] == "classify.rules";
    let status = node.wait_for("/v1/status", PATIENCE, refused).await?;
    assert!(status["refused"][0]["why"].as_str().is_some_and(|why| why.contains("unknown variant")), "{status:#}");

    std::fs::write(&file, rules(4, "feed"))?;
    wait_for_metric(&node, "highwater_rules_version", built_in + 4).await?;
    wait_for_metric(&node, "highwater_rules_refused", 0).await?;
    node.stop().await
}
