//! From the stream to the committed lake, enriched, on one core: how fast, and in how much memory.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tests::node::Node;
use tests::standin::{Answer, Command as Tell, Launch, Process};
use tests::usage::{peak_bytes, processor_time};

use super::fill::{NO_LIMIT, fill};
use super::places;
use crate::{Setup, table::Table};

/// The core that the processor has for itself; everything else is kept off it.
const CORE: usize = 0;
const OTHER_CORE: usize = 1;
/// The longest stretch without a commit.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a replay has cost.
struct Cost {
    /// Clicks a second, from the first commit on.
    per_second: f64,
    /// Clicks a second of processor time, likewise.
    per_processor_second: f64,
    /// From the start of the process to the last commit.
    whole: Duration,
    peak: u64,
}

/// The journal itself, read by `process`.
pub(super) async fn embedded(setup: &Setup, clicks: u64, bars: [&str; 2], table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let settings = format!("{NO_LIMIT}{}", places::settings(folder.path())?);
    let mut node = Node::new(&setup.binary, "domains = [\"go.test\"]", &settings)?.pinned_to(CORE);
    let bytes = fill(&node, clicks).await?;
    eprintln!("a journal of {clicks} clicks, {} bytes each", bytes / clicks.max(1));
    let cost = replay(&mut node, clicks).await?;
    cost.tell(&format!("replay of {clicks} clicks, embedded, one core"), bars, table);
    Ok(())
}

/// The same through a topic of one partition, which `redirect` has filled.
pub(super) async fn through_a_topic(setup: &Setup, clicks: u64, bars: [&str; 2], table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut broker = Process::new(Launch::Binary(setup.standin.clone()), folder.path())?;
    broker.start()?;
    let settings = format!(
        "{NO_LIMIT}{}[stream]\nbackend = \"fluvio\"\n[stream.fluvio]\nendpoint = \"{}\"\npartitions = 1\n",
        places::settings(folder.path())?,
        broker.address()
    );
    let mut node = Node::new(&setup.binary, "domains = [\"go.test\"]\nworkers = 1", &settings)?.pinned_to(CORE);
    fill(&node, clicks).await?;
    let begin = Instant::now();
    node.start_with(&["redirect"]).await?;
    let topic = until_all_is_sent(&broker).await?;
    let sent = begin.elapsed().as_secs_f64();
    eprintln!("{topic} bytes in the topic after {sent:.1} s, {:.0} clicks a second", clicks as f64 / sent);
    node.stop().await?;
    let pid = broker.pid().context("the stand-in has ended")?.to_string();
    let pinned = Command::new("taskset").args(["-a", "-c", "-p", &OTHER_CORE.to_string(), &pid]).output()?;
    ensure!(pinned.status.success(), "taskset: {}", String::from_utf8_lossy(&pinned.stderr));
    let cost = replay(&mut node, clicks).await?;
    cost.tell(&format!("replay of {clicks} clicks, stand-in, one core"), bars, table);
    Ok(())
}

/// Waits until nothing more comes into the topic. Gives its bytes.
async fn until_all_is_sent(broker: &Process) -> Result<u64> {
    let (mut before, mut since) = (0, Instant::now());
    loop {
        let Answer::Partitions(extents) = broker.tell(Tell::Partitions).await? else { bail!("no partitions") };
        let now: u64 = extents.iter().map(|extent| extent.bytes).sum();
        if now != before {
            (before, since) = (now, Instant::now());
        } else if before > 1 << 20 && since.elapsed() > Duration::from_secs(3) {
            return Ok(before);
        }
        ensure!(since.elapsed() < PATIENCE, "nothing comes into the topic");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Lets `process` bring all into the lake, and checks that it has.
async fn replay(node: &mut Node, clicks: u64) -> Result<Cost> {
    let begin = Instant::now();
    node.start_with(&["process"]).await?;
    let pid = node.pid().context("it doesn't run")?;
    let used = || processor_time(pid).context("it has ended");
    let (mut committed, mut since) = (0, Instant::now());
    let mut first = None;
    while committed < clicks {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = node.metric("highwater_clicks_committed_total", &[]).await?;
        if now > committed {
            (committed, since) = (now, Instant::now());
            first = first.or(Some((now, since, used()?)));
        }
        ensure!(since.elapsed() < PATIENCE, "{committed} of {clicks} clicks are in the lake\n{}", node.log());
    }
    let (before, at, used_before) = first.context("nothing to bring")?;
    let measured = (clicks - before) as f64;
    let cost = Cost {
        per_second: measured / at.elapsed().as_secs_f64(),
        per_processor_second: measured / (used()? - used_before).as_secs_f64(),
        whole: begin.elapsed(),
        peak: peak_bytes(pid).context("it has ended")?,
    };
    node.stop().await?;
    let rows = node.json(&["sql", "SELECT count(*) AS n FROM clicks", "--format", "json"])?;
    ensure!(rows[0]["n"].as_u64() == Some(clicks), "{rows} of {clicks} clicks are in the lake");
    node.ok(&["verify"])?;
    Ok(cost)
}

impl Cost {
    fn tell(&self, what: &str, [speed, memory]: [&str; 2], table: &mut Table) {
        let Self { per_second, per_processor_second, whole, peak } = self;
        let figures = format!("{per_second:.0}/s, {per_processor_second:.0} a processor second");
        table.row(what, &figures, &format!("exact, {:.1} s with the start", whole.as_secs_f64()), "", speed);
        table.row("  peak memory", &format!("{} MB", peak / 1_000_000), "", "", memory);
    }
}
