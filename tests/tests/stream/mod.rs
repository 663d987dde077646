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

use anyhow::Result;
use schemas::ClickId;
use tests::clicks::{Ledger, Load, all_once, make_links};
use tests::node::Node;
use tests::standin::{Launch, Process};

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
