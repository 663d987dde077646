//! Clicks through a topic, on the stand-in broker and, where `HIGHWATER_TEST_FLUVIO=host:port` names one, on a real cluster:
//! every answered click is in the lake exactly once, whatever the broker does.

mod apart;
mod copies;
mod faults;
mod flow;
mod kills;
mod outages;
mod real;
mod tls;
mod topics;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use schemas::ClickId;
use tempfile::TempDir;
use tests::clicks::{Ledger, Load, all_once, make_links};
use tests::node::Node;
use tests::standin::{Launch, Process};
use tests::usage::processor_time;

/// How long the lake may take to hold all, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker that can be killed; this very binary, so that it is built once.
pub(super) fn broker(folder: &Path) -> Result<Process> {
    let mut broker = Process::new(Launch::Test("standin::serve"), folder)?;
    broker.start()?;
    Ok(broker)
}

/// The settings of a node whose clicks go through `endpoint`.
pub(super) fn settings(endpoint: &str, partitions: u32) -> String {
    // a topic of its own, in case the cluster is a real one
    let topic = format!("highwater-{}", ClickId::unique());
    format!(
        "[edge]\nprovider = \"nginx\"\nskew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"\nmax_skew = \"5m\"\n\
         [stream]\nbackend = \"fluvio\"\n[stream.fluvio]\nendpoint = \"{endpoint}\"\ntopic = \"{topic}\"\npartitions = {partitions}"
    )
}

/// The value of `key` in settings.
pub(super) fn value<'a>(settings: &'a str, key: &str) -> &'a str {
    let line = settings.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
    line.map_or("", |line| line.trim_end_matches('"'))
}

/// A broker that does as it is told, and a node whose clicks go through it.
pub(super) struct Rig {
    pub(super) broker: Process,
    pub(super) node: Node,
    pub(super) settings: String,
    _folder: TempDir,
}

impl Rig {
    /// With a node that runs every role.
    pub(super) async fn start(partitions: u32) -> Result<Self> {
        let mut rig = Self::new(partitions)?;
        rig.node.start().await?;
        Ok(rig)
    }

    /// With a node that doesn't run yet.
    pub(super) fn new(partitions: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let broker = broker(folder.path())?;
        let settings = settings(&broker.address(), partitions);
        Ok(Self { node: node(&settings)?, broker, settings, _folder: folder })
    }

    /// The topic.
    pub(super) fn topic(&self) -> String {
        value(&self.settings, "topic").to_owned()
    }

    /// Every answered click is in the lake, once, before and after the node has stopped, and all is well.
    pub(super) async fn end(mut self, ledger: &Ledger) -> Result<()> {
        check(&self.node, ledger).await?;
        self.node.readyz_says("ready\n").await?;
        self.node.stop().await?;
        self.node.ok(&["verify"])?;
        check(&self.node, ledger).await
    }
}

/// A node with links.
pub(super) fn node(settings: &str) -> Result<Node> {
    let node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 2", settings)?;
    make_links(&node)?;
    Ok(node)
}

/// Clicks at the rate that a debug build keeps up with.
pub(super) fn load(node: &Node) -> Load {
    Load::start(node.redirect, 800)
}

/// Every answered click is in the lake, once, and nothing else is.
pub(super) async fn check(node: &Node, ledger: &Ledger) -> Result<()> {
    all_once(node, ledger, PATIENCE).await
}

/// Nothing uses much processor time though there is nothing that can be done. A twentieth is promised of a release build on a
/// quiet machine: `bench idle`.
pub(super) async fn does_not_spin(node: &Node) -> Result<()> {
    let pid = node.pid().context("it doesn't run")?;
    let used = || processor_time(pid).context("it has ended");
    let before = used()?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let spent = (used()? - before).as_secs_f64();
    ensure!(spent < 1.5, "{spent} s of processor time in 3 s, though nothing can be done");
    Ok(())
}
