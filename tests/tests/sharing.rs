//! Two processors share a topic by leases on PostgreSQL, each on a data folder of its own; one ends, is killed or paused under
//! load, and comes back. The broker stands in for Fluvio.

use std::process::Command;
use std::time::{Duration, Instant};

use schemas::UtcMicros;
use tests::load::Connection;
use tests::node::Node;
use tests::postgres::Postgres;
use tests::standin::{Options, StandIn};

use crate::roles::{click, rows};

/// The longest that anything may take, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const PARTITIONS: usize = 4;

struct Shared {
    server: Postgres,
    redirect: Node,
    one: Node,
    other: Node,
    sent: u64,
    /// When the last click had been answered.
    last: UtcMicros,
}

impl Shared {
    /// Sends clicks, all of which are answered.
    async fn send(&mut self, clicks: u64) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.redirect.redirect).await?;
        for _ in 0..clicks {
            assert_eq!(connection.send(&click("shared")).await?.status, 302);
        }
        self.sent += clicks;
        self.last = UtcMicros::now();
        Ok(())
    }

    /// Waits until every click that was sent is a row, and said to be; checks that none is two.
    async fn all_there(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        let complete = "SELECT at FROM store_0.published WHERE name = 'complete_through'";
        loop {
            let counted = rows(&self.redirect, "shared").await?;
            let through = UtcMicros(self.server.psql(complete)?.parse().unwrap_or_default());
            if counted == self.sent && through >= self.last {
                return Ok(());
            }
            let logs = (self.one.log(), self.other.log());
            anyhow::ensure!(counted <= self.sent, "{counted} rows of {} clicks", self.sent);
            let is_in_time = begin.elapsed() < PATIENCE;
            anyhow::ensure!(
                is_in_time,
                "{counted} of {}, complete through {through} of {}\n{}\n{}",
                self.sent,
                self.last,
                logs.0,
                logs.1
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Sends a signal to the second processor.
    fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.other.pid().unwrap_or_default().to_string();
        anyhow::ensure!(Command::new("kill").args([signal, &pid]).status()?.success(), "kill {signal} failed");
        Ok(())
    }

    /// Waits until the partitions are held like this, the fewest first.
    async fn until_held(&self, expected: &[usize]) -> anyhow::Result<()> {
        let held = "SELECT count(*) FROM store_0.leases WHERE until > extract(epoch FROM clock_timestamp()) * 1000000
                    GROUP BY owner ORDER BY 1";
        let begin = Instant::now();
        loop {
            let counts: Vec<usize> = self.server.psql(held)?.lines().filter_map(|line| line.parse().ok()).collect();
            if counts == expected {
                return Ok(());
            }
            let logs = (self.one.log(), self.other.log());
            anyhow::ensure!(begin.elapsed() < PATIENCE, "{counts:?}, not {expected:?}\n{}\n{}", logs.0, logs.1);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processors_share_a_topic_and_take_over_from_one_another() -> anyhow::Result<()> {
    let Some(server) = Postgres::own("processors_share_a_topic")? else { return Ok(()) };
    let (records, lake) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let broker = StandIn::start(Options::new(records.path())).await?;
    let settings = format!(
        "[links]\nurl = \"{}\"\n[process]\nlease = \"3s\"\n[stream]\nbackend = \"fluvio\"\n\
         [stream.fluvio]\nendpoint = \"{}\"\npartitions = {PARTITIONS}",
        server.fresh()?,
        broker.address()
    );
    let node = || {
        let node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", &settings)?;
        anyhow::Ok(node.with_environment(vec![("HIGHWATER_LAKE", lake.path().display().to_string())]))
    };
    let mut all =
        Shared { server, redirect: node()?, one: node()?, other: node()?, sent: 0, last: UtcMicros::default() };
    all.redirect.ok(&["link", "add", "https://example.com/", "--code", "shared"])?;
    all.redirect.start_with(&["redirect"]).await?;
    all.one.start_with(&["process"]).await?;
    all.send(100).await?;
    all.until_held(&[4]).await?;
    all.other.start_with(&["process"]).await?;
    all.send(100).await?;
    all.until_held(&[2, 2]).await?;
    all.send(100).await?;
    all.all_there().await?;
    come_and_go(&mut all).await?;

    // one is killed, with clicks in its hands; the other takes over when its word has ended
    all.send(100).await?;
    all.one.kill()?;
    all.send(100).await?;
    all.until_held(&[4]).await?;
    all.all_there().await?;

    // it comes back; then the other ends, which gives its share back at once
    all.one.start_with(&["process"]).await?;
    all.until_held(&[2, 2]).await?;
    all.send(100).await?;
    all.other.stop().await?;
    all.send(100).await?;
    all.until_held(&[4]).await?;
    all.all_there().await?;

    // the journals of another redirect are nobody's loss
    let mut second = node()?;
    second.start_with(&["redirect"]).await?;
    second.stop().await?;
    assert!(!second.log().contains("a journal is gone"), "{}", second.log());

    // a share that is told takes no lease
    all.one.stop().await?;
    all.one.spawn(&["process", "--partitions", "0/2"])?;
    all.other.spawn(&["process", "--partitions", "1,3"])?;
    all.one.wait_until_ready().await?;
    all.other.wait_until_ready().await?;
    all.send(100).await?;
    all.all_there().await?;
    all.until_held(&[]).await?;

    for node in [&mut all.redirect, &mut all.one, &mut all.other] {
        node.stop().await?;
    }
    let verified = all.one.json(&["verify", "--json"])?;
    assert_eq!(verified["ok"], true, "{verified:#}");
    Ok(())
}

/// The second of two that share ends, and comes back; then it is paused for a moment, and ends with a backlog; then it is paused
/// until the first has taken over. Each goes on where the other was.
async fn come_and_go(all: &mut Shared) -> anyhow::Result<()> {
    all.other.stop().await?;
    all.until_held(&[4]).await?;
    all.send(100).await?;
    all.all_there().await?;
    all.other.start_with(&["process"]).await?;
    all.until_held(&[2, 2]).await?;
    all.send(100).await?;
    all.all_there().await?;

    all.signal("-STOP")?;
    all.send(500).await?;
    all.signal("-CONT")?;
    all.other.stop().await?;
    all.until_held(&[4]).await?;
    all.all_there().await?;
    all.other.start_with(&["process"]).await?;
    all.until_held(&[2, 2]).await?;

    all.signal("-STOP")?;
    all.send(100).await?;
    all.until_held(&[4]).await?;
    all.send(100).await?;
    all.signal("-CONT")?;
    all.until_held(&[2, 2]).await?;
    all.send(100).await?;
    all.all_there().await
}
