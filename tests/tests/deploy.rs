//! What `deploy/` watches is there to be watched: a node with every role, whose clicks go through a topic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tests::node::Node;
use tests::standin::{Options, StandIn};

/// The longest that anything may take, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const PARTITIONS: usize = 4;

/// The names that samples may have, each with its samples, of what `/metrics` shows.
fn shown(text: &str) -> BTreeMap<String, Vec<&str>> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = kinds.flat_map(|(name, kind)| {
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => &[""],
        };
        endings.iter().map(move |ending| format!("{name}{ending}"))
    });
    let samples = |name: &str| {
        let is_of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        text.lines().filter(is_of).collect()
    };
    names.map(|name| (name.clone(), samples(&name))).collect()
}

/// What an expression asks for of ours: names, each with what is asked of its labels.
fn asked(expression: &str) -> Vec<(String, Vec<String>)> {
    let parts = expression.match_indices("highwater_").map(|(at, _)| &expression[at..]);
    let one = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let labels =
            rest[end..].strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(|label| label.trim().to_owned());
        (rest[..end].to_owned(), labels.collect())
    };
    parts.map(one).collect()
}

fn alerts() -> Result<Vec<(String, String)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus/alerts.yml");
    let rules: serde_yaml::Value = serde_yaml::from_str(&std::fs::read_to_string(path)?)?;
    let groups = rules["groups"].as_sequence().context("no groups")?;
    let rules = groups.iter().flat_map(|group| group["rules"].as_sequence().into_iter().flatten());
    let text = |rule: &serde_yaml::Value, key: &str| rule[key].as_str().unwrap_or_default().to_owned();
    Ok(rules.map(|rule| (text(rule, "alert"), text(rule, "expr"))).collect())
}

/// Waits until the node reads all partitions.
async fn until_reads_all(node: &Node) -> Result<()> {
    let begin = Instant::now();
    loop {
        let owned = node.metric("highwater_stream_partition_owned", &[]).await?;
        if owned == PARTITIONS as u64 {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "{owned} partitions are read\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The owners of all partitions, as status tells.
async fn owners(node: &Node) -> Result<BTreeSet<String>> {
    let is_told = |status: &serde_json::Value| {
        let parts = status["stream"]["partitions"].as_array();
        parts.is_some_and(|parts| parts.len() == PARTITIONS && parts.iter().all(|part| part["owner"].is_string()))
    };
    let status = node.wait_for("/v1/status", PATIENCE, is_told).await?;
    let parts = status["stream"]["partitions"].as_array().context("no partitions")?;
    Ok(parts.iter().filter_map(|part| part["owner"].as_str()).map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_asks_for_what_a_node_shows_and_a_killed_node_gets_its_partitions_back() -> Result<()> {
    let records = tempfile::tempdir()?;
    let broker = StandIn::start(Options::new(records.path())).await?;
    let settings = format!(
        "[process]\nlease = \"5m\"\n[stream]\nbackend = \"fluvio\"\n[stream.fluvio]\nendpoint = \"{}\"\n\
         partitions = {PARTITIONS}",
        broker.address()
    );
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", &settings)?;
    node.start().await?;
    until_reads_all(&node).await?;
    let first = owners(&node).await?;
    assert_eq!(first.len(), 1, "{first:?}");

    let text = node.metrics().await?;
    let shown = shown(&text);
    let alerts = alerts()?;
    assert!(alerts.len() > 15, "{alerts:?}");
    for (alert, expression) in alerts {
        for (name, labels) in asked(&expression) {
            let samples = shown.get(&name).with_context(|| format!("{alert} asks for {name}, and there is\n{text}"))?;
            for label in labels {
                let is_there = samples.iter().any(|sample| sample.contains(&label));
                ensure!(is_there, "{alert} asks for {name} with {label}, and there is {samples:#?}");
            }
        }
    }

    // whoever comes back under another name doesn't wait until its own lease ends
    node.kill()?;
    node.start().await?;
    until_reads_all(&node).await?;
    let second = owners(&node).await?;
    ensure!(second.len() == 1 && second.is_disjoint(&first), "{first:?}, then {second:?}");
    node.stop().await
}

#[test]
fn what_an_expression_asks_for_is_found() {
    let asked = asked("sum(rate(highwater_a_total{x=\"1\", y=\"2\"}[5m])) > max by (z) (highwater_b) or up");
    let labels = vec!["x=\"1\"".to_owned(), "y=\"2\"".to_owned()];
    assert_eq!(asked, [("highwater_a_total".to_owned(), labels), ("highwater_b".to_owned(), vec![])]);
    let shown = shown("# TYPE a counter\na_total{x=\"1\"} 2\n# TYPE b gauge\nb 1\n");
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["a_total", "b"]);
    assert_eq!(shown["a_total"], ["a_total{x=\"1\"} 2"]);
}
