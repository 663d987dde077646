//! How soon a click just answered is in the report.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tests::load::{Connection, Request};
use tests::node::Node;

use crate::{Setup, table::Table};

const TRIES: usize = 200;

pub(crate) async fn run(setup: &Setup, table: &mut Table) -> Result<()> {
    let mut node = Node::new(&setup.binary, "domains = [\"go.test\"]\nworkers = 1", "")?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "fresh"])?;
    let mut connection = Connection::open(node.redirect).await?;
    let request = Request {
        method: "GET",
        target: "/fresh".into(),
        host: "go.test".into(),
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
        headers: Vec::new(),
    };
    let mut waits = Vec::with_capacity(TRIES);
    for n in 1..=TRIES as u64 {
        connection.send(&request).await?;
        let answered = Instant::now();
        loop {
            let report = node.get("/v1/reports/clicks?code=fresh&interval_preset=24h").await?;
            if report["totals"]["clicks"].as_u64() == Some(n) {
                break;
            }
            anyhow::ensure!(answered.elapsed() < Duration::from_secs(20), "click {n} is not in {report:#}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        waits.push(answered.elapsed());
        // spread over the commit interval, so that no phase of it is preferred
        tokio::time::sleep(Duration::from_millis(n * 37 % 400)).await;
    }
    node.stop().await?;
    waits.sort();
    let at = |share: f64| waits.get((waits.len() as f64 * share) as usize).or(waits.last()).copied();
    let (p50, p99) = (at(0.5).context("none")?, at(0.99).context("none")?);
    let ours = format!("p50 {} ms, p99 {} ms", p50.as_millis(), p99.as_millis());
    table.row("a click is in the report after", &ours, "", "", "p99 <= 2,000 ms");
    Ok(())
}
