//! Memory at rest and under 5,000 clicks a second for a minute, and whether the lake keeps up.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tests::load::{Connection, Request};
use tests::node::Node;
use tests::usage::resident_bytes;

use crate::{Setup, table::Table};

const RATE: u64 = 5_000;
const SENDERS: u64 = 8;
const SPAN: Duration = Duration::from_secs(60);

async fn send(port: u16, sender: u64, rate: u64) -> Result<u64> {
    let mut connection = Connection::open(port).await?;
    let begin = Instant::now();
    let mut sent = 0u64;
    while begin.elapsed() < SPAN {
        let due = (begin.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due {
            let version = 90 + (sent * 7 + sender) % 40;
            let request = Request {
                method: "GET",
                target: format!("/b{}", (sent * sender + sent) % 100),
                host: "go.test".into(),
                user_agent: format!(
                    "Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
                ),
                headers: vec![("X-Forwarded-For", format!("203.0.113.{}", sent % 250))],
            };
            connection.send(&request).await?;
            sent += 1;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(sent)
}

pub(crate) async fn run(setup: &Setup, table: &mut Table) -> Result<()> {
    let mut node = Node::new(&setup.binary, "domains = [\"go.test\"]", "")?;
    node.start().await?;
    for n in 0..100 {
        node.ok(&["link", "add", "https://example.com/", "--code", &format!("b{n}")])?;
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    let rest = node.pid().and_then(resident_bytes).context("no memory figure")?;
    table.row("memory at rest", &megabytes(rest), "", "", "< 250 MB");

    let senders: Vec<_> = (0..SENDERS).map(|n| tokio::spawn(send(node.redirect, n, RATE / SENDERS))).collect();
    let begin = Instant::now();
    let (mut peak, mut worst_lag) = (0, 0.0f64);
    while begin.elapsed() < SPAN {
        tokio::time::sleep(Duration::from_millis(500)).await;
        peak = peak.max(node.pid().and_then(resident_bytes).unwrap_or_default());
        let status = node.get("/v1/status").await?;
        worst_lag = worst_lag.max(status["stream"]["lag_seconds"].as_f64().unwrap_or_default());
    }
    let mut sent = 0;
    for sender in senders {
        sent += sender.await??;
    }
    let path = "/v1/reports/clicks?interval_preset=24h&class=all";
    let ended = Instant::now();
    node.wait_for(path, Duration::from_secs(60), |report| report["totals"]["clicks"].as_u64() == Some(sent)).await?;
    let after = ended.elapsed();
    let offered = format!("{:.0}/s answered, worst lag {worst_lag:.1} s", sent as f64 / SPAN.as_secs_f64());
    table.row(
        "5,000 clicks/s for 60 s",
        &offered,
        &format!("all in the report {} ms later", after.as_millis()),
        "",
        "keeps up",
    );
    table.row("  peak memory", &megabytes(peak), "", "", "< 600 MB");
    node.stop().await
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
