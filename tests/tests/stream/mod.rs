//! Clicks through a topic, on the stand-in broker and, where `HIGHWATER_TEST_FLUVIO=host:port` names one, on a real cluster:
//! every answered click is in the lake exactly once, whatever the broker does.

mod faults;
mod flow;
mod kills;
mod real;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use schemas::ClickId;
use tests::load::{Connection, Request};
use tests::node::Node;
use tests::standin::{Launch, Process};

/// Codes that clicks are on.
const CODES: u64 = 5;
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
    for n in 0..CODES {
        node.ok(&["link", "add", "https://example.com/", "--code", &format!("c{n}")])?;
    }
    Ok(node)
}

/// Clicks sent until told to stop, with what became of them.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    senders: Vec<tokio::task::JoinHandle<Ledger>>,
}

/// Ids that were answered, and ids whose answer never came.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) answered: BTreeSet<String>,
    unsure: BTreeSet<String>,
    /// The longest that an answer took.
    pub(super) slowest: Duration,
}

impl Load {
    /// Several senders, about a thousand clicks a second together.
    pub(super) fn start(port: u16) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sender = |number| tokio::spawn(send(port, number, Arc::clone(&stop), Arc::clone(&sent)));
        let senders = (0..4).map(sender).collect();
        Self { stop, sent, senders }
    }

    /// Waits until so many more have been answered.
    pub(super) async fn more(&self, clicks: u64) -> Result<()> {
        let (begin, wanted) = (Instant::now(), self.sent.load(Ordering::Relaxed) + clicks);
        while self.sent.load(Ordering::Relaxed) < wanted {
            ensure!(begin.elapsed() < PATIENCE, "clicks are not answered");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    pub(super) async fn end(self) -> Result<Ledger> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Ledger::default();
        for sender in self.senders {
            let part = sender.await?;
            all.answered.extend(part.answered);
            all.unsure.extend(part.unsure);
            all.slowest = all.slowest.max(part.slowest);
        }
        Ok(all)
    }
}

async fn send(port: u16, sender: u64, stop: Arc<AtomicBool>, sent: Arc<AtomicU64>) -> Ledger {
    let mut ledger = Ledger::default();
    let (mut connection, mut n) = (None, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = Connection::open(port).await.ok();
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        n += 1;
        let (key, code) = (format!("{sender:08x}{n:024x}"), format!("c{}", n % CODES));
        let request = Request {
            method: "GET",
            target: format!("/{code}"),
            host: "go.test".into(),
            user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
            headers: vec![("X-Request-Id", key.clone())],
        };
        let id = ClickId::from_edge("nginx", key.as_bytes(), &code).to_string();
        let begin = Instant::now();
        match open.send(&request).await {
            Ok(answer) if answer.status == 302 => {
                ledger.slowest = ledger.slowest.max(begin.elapsed());
                ledger.answered.insert(id);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Ok(answer) => panic!("{answer:?}"),
            Err(_) => {
                ledger.unsure.insert(id);
                connection = None;
            }
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    ledger
}

/// Waits until the lake holds each answered click, and checks that it holds it once and nothing else.
pub(super) async fn check(node: &Node, ledger: &Ledger) -> Result<()> {
    let begin = Instant::now();
    loop {
        let rows = node.json(&["sql", "SELECT click_id FROM clicks", "--format", "json"])?;
        let mut times: HashMap<String, u32> = HashMap::new();
        for row in rows.as_array().cloned().unwrap_or_default() {
            *times.entry(row["click_id"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        let lost = ledger.answered.iter().filter(|id| !times.contains_key(*id)).count();
        let twice = times.values().filter(|n| **n > 1).count();
        let strange = times.keys().filter(|id| !ledger.answered.contains(*id) && !ledger.unsure.contains(*id)).count();
        if lost == 0 && twice == 0 && strange == 0 {
            return Ok(());
        }
        let all = ledger.answered.len();
        ensure!(
            begin.elapsed() < PATIENCE && twice == 0 && strange == 0,
            "{all} answered; {lost} lost, {twice} twice, {strange} never sent\n{}",
            node.log()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
