//! Exact through a real cache: what the sender counted is what the reports say, for every link and class.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tests::edge::Edge;
use tests::load::{Connection, Request};
use tests::node::Node;
use tests::{free_port, skip};

const REQUESTS: usize = 20_000;
const LINKS: usize = 50;
const SENDERS: usize = 4;
const PERSON: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
const PREVIEW: &str = "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)";

/// What the sender counted: (code, class) to requests.
type Ledger = BTreeMap<(String, String), u64>;

fn code_of(link: usize) -> String {
    if link == 0 { "hot".to_owned() } else { format!("link-{link:02}") }
}

/// One request and the class that it must be counted as; none for a code that doesn't exist.
fn request(chance: &mut impl Rng, host: &str) -> (Request, Option<(String, String)>) {
    let hot = chance.random_bool(0.5);
    let link = if hot { 0 } else { chance.random_range(1..LINKS) };
    let unknown = chance.random_bool(0.02);
    let head = chance.random_bool(0.1);
    let preview = chance.random_bool(0.1);
    let class = match (head, preview) {
        (_, true) => "preview",
        (true, false) => "probe",
        (false, false) => "human",
    };
    let code = if unknown { format!("nobody-{}", chance.random_range(0..9)) } else { code_of(link) };
    let request = Request {
        method: if head { "HEAD" } else { "GET" },
        target: format!("/{code}{}", ["", "", "?utm_source=mail", "/"].choose(chance).unwrap()),
        host: host.to_owned(),
        user_agent: if preview { PREVIEW } else { PERSON }.to_owned(),
        headers: Vec::new(),
    };
    (request, (!unknown).then(|| (code, class.to_owned())))
}

async fn send_all(port: u16, host: String, seed: u64, count: usize) -> anyhow::Result<(Ledger, u64)> {
    let mut chance = rand::rngs::StdRng::seed_from_u64(seed);
    let mut connection = Connection::open(port).await?;
    let (mut ledger, mut hits) = (Ledger::new(), 0);
    for _ in 0..count {
        let (request, counted) = request(&mut chance, &host);
        let answer = connection.send(&request).await?;
        match &counted {
            Some(key) => {
                anyhow::ensure!(answer.status == 302, "{request:?}: {answer:?}");
                *ledger.entry(key.clone()).or_default() += 1;
                hits += u64::from(key.0 == "hot");
            }
            None => anyhow::ensure!(answer.status == 404, "{request:?}: {answer:?}"),
        }
    }
    Ok((ledger, hits))
}

/// The counts of the report, by class, of one link.
async fn reported(node: &Node, code: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let report = node.get(&format!("/v1/reports/clicks?code={code}&interval_preset=24h")).await?;
    let by_class = report["totals"]["by_class"].as_object().cloned().unwrap_or_default();
    Ok(by_class.into_iter().filter_map(|(class, n)| Some((class, n.as_u64()?))).filter(|(_, n)| *n > 0).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_and_class_is_exact_through_a_real_cache() -> anyhow::Result<()> {
    if !Edge::is_there() {
        skip("exact through a real cache", "nginx is not installed");
        return Ok(());
    }
    let port = free_port()?;
    let host = format!("127.0.0.1:{port}");
    let redirect = format!("domains = [\"{host}\"]\nworkers = 2\ns_maxage = \"2s\"");
    let edge_settings =
        "[edge]\nprovider = \"nginx\"\nskew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"\nmax_skew = \"1m\"";
    let mut node = Node::new(crate::binary(), &redirect, edge_settings)?;
    node.start().await?;
    for link in 0..LINKS {
        let analytics = if link == 0 { "internal" } else { "billed" };
        node.ok(&["link", "add", "https://example.com/", "--code", &code_of(link), "--analytics", analytics])?;
    }
    let edge = Edge::start(port, node.redirect).await?;

    let senders: Vec<_> =
        (0..SENDERS).map(|n| tokio::spawn(send_all(port, host.clone(), n as u64, REQUESTS / SENDERS))).collect();
    let (mut ledger, mut hot) = (Ledger::new(), 0);
    for sender in senders {
        let (part, hits) = sender.await??;
        hot += hits;
        for (key, n) in part {
            *ledger.entry(key).or_default() += n;
        }
    }

    // both logs tell the same requests; one comes twice
    let (json, combined) = (edge.json_log().display().to_string(), edge.combined_log().display().to_string());
    let summaries = node.json(&["backfill", &json, &combined, &json, "--unknown-codes", "ignore", "--json"])?;
    let summaries = summaries.as_array().cloned().unwrap_or_default();
    assert_eq!(summaries.len(), 3);
    for summary in &summaries {
        assert_adds_up(summary);
    }
    let edge_hits = std::fs::read_to_string(edge.json_log())?.matches("\"upstream_cache_status\":\"HIT\"").count();
    assert!(edge_hits as u64 > hot / 2, "only {edge_hits} of {hot} requests of the hot link were edge hits");

    // rest: every line that waited for its event has been settled
    let sql = "/v1/status";
    node.wait_for(sql, Duration::from_secs(90), |status| status["edge_logs"]["waiting"] == 0).await?;
    let mut wrong = Vec::new();
    for link in 0..LINKS {
        let code = code_of(link);
        let sent: BTreeMap<String, u64> =
            ledger.iter().filter(|((c, _), _)| *c == code).map(|((_, class), n)| (class.clone(), *n)).collect();
        let counted = reported(&node, &code).await?;
        if counted != sent {
            wrong.push(format!("{code}: sent {sent:?}, reported {counted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), node.log());
    let clicks = &node.json(&["verify", "--json"])?["clicks"];
    assert!(clicks["answered"].as_u64() > Some(0) && clicks["missing"] == 0, "{clicks:#}");
    node.stop().await
}

/// `records = added.* + already_counted + waiting + ignored.* + rejected.*`, always.
fn assert_adds_up(summary: &Value) {
    let sum = |key: &str| -> u64 {
        summary[key].as_object().map_or(0, |parts| parts.values().filter_map(Value::as_u64).sum())
    };
    let one = |key: &str| summary[key].as_u64().unwrap_or_default();
    let parts = sum("added") + one("already_counted") + one("waiting") + sum("ignored") + sum("rejected");
    assert_eq!(one("records"), parts, "{summary:#}");
    assert_eq!(sum("rejected"), 0, "{summary:#}");
}
