//! Clicks under way: sent at a steady rate until told to stop, each with an id of its own, and a ledger of what became of
//! them.
//!
//! The redirect in front believes the ids (`edge.provider = "nginx"`), so that each can be looked for in the lake.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use schemas::ClickId;

use crate::load::{Connection, Request};
use crate::node::Node;

/// Codes that clicks are on.
const CODES: u64 = 5;
/// Connections.
const SENDERS: u64 = 8;
/// A sender that is behind by more doesn't make up for it: nobody clicks twice because a server was down.
const BEHIND: Duration = Duration::from_millis(50);
/// How long a click may go unanswered, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the links that clicks are on.
///
/// # Errors
/// When a link can't be made.
pub fn make_links(node: &Node) -> Result<()> {
    for n in 0..CODES {
        node.ok(&["link", "add", "https://example.com/", "--code", &format!("c{n}")])?;
    }
    Ok(())
}

/// Clicks under way.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    senders: Vec<tokio::task::JoinHandle<Ledger>>,
}

/// What became of clicks.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Those that were answered.
    pub answered: HashSet<ClickId>,
    /// Those whose answer never came.
    pub unsure: HashSet<ClickId>,
    /// When each was answered, and how long that took.
    pub took: Vec<(Instant, Duration)>,
}

impl Ledger {
    /// How long answers took that came within a stretch of time, in order.
    pub fn times(&self, from: Instant, to: Instant) -> Vec<Duration> {
        let within = self.took.iter().filter(|(at, _)| (from..to).contains(at));
        let mut times: Vec<Duration> = within.map(|(_, took)| *took).collect();
        times.sort_unstable();
        times
    }

    /// Those of another load too.
    pub fn add(&mut self, part: Self) {
        self.answered.extend(part.answered);
        self.unsure.extend(part.unsure);
        self.took.extend(part.took);
    }
}

impl Load {
    /// About `rate` clicks a second, to the redirect at `port`.
    pub fn start(port: u16, rate: u64) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let pause = Duration::from_micros(1_000_000 * SENDERS / rate.max(1));
        // no two loads send the same ids
        let load: u64 = rand::random();
        let sender = |number| {
            let name = format!("{load:016x}{number:04x}");
            tokio::spawn(send(port, name, pause, Arc::clone(&stop), Arc::clone(&sent)))
        };
        let senders = (0..SENDERS).map(sender).collect();
        Self { stop, sent, senders }
    }

    /// Waits until so many more have been answered.
    ///
    /// # Errors
    /// When they aren't.
    pub async fn more(&self, clicks: u64) -> Result<()> {
        let (begin, wanted) = (Instant::now(), self.sent.load(Ordering::Relaxed) + clicks);
        while self.sent.load(Ordering::Relaxed) < wanted {
            ensure!(begin.elapsed() < PATIENCE, "clicks are not answered");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Sends no more.
    ///
    /// # Errors
    /// When a sender has met an answer that is no redirect.
    pub async fn end(self) -> Result<Ledger> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Ledger::default();
        for sender in self.senders {
            all.add(sender.await.context("a click was answered by something else than a redirect")?);
        }
        Ok(all)
    }
}

async fn send(port: u16, name: String, pause: Duration, stop: Arc<AtomicBool>, sent: Arc<AtomicU64>) -> Ledger {
    let mut ledger = Ledger::default();
    let (mut connection, mut n, mut due) = (None, 0u64, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep_until(due.into()).await;
        due = (due + pause).max(Instant::now().checked_sub(BEHIND).unwrap_or(due));
        let Some(open) = connection.as_mut() else {
            connection = Connection::open(port).await.ok();
            continue;
        };
        n += 1;
        let (key, code) = (format!("{name}{n:012x}"), format!("c{}", n % CODES));
        let request = Request {
            method: "GET",
            target: format!("/{code}"),
            host: "go.test".into(),
            user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
            headers: vec![("X-Request-Id", key.clone())],
        };
        let id = ClickId::from_edge("nginx", key.as_bytes(), &code);
        let begin = Instant::now();
        match open.send(&request).await {
            Ok(answer) => {
                assert_eq!(answer.status, 302, "{answer:?}");
                let now = Instant::now();
                ledger.took.push((now, now - begin));
                ledger.answered.insert(id);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                ledger.unsure.insert(id);
                connection = None;
            }
        }
    }
    ledger
}

/// Waits until the lake holds each answered click, and checks that it holds it once and nothing else. `node` runs commands
/// on the lake.
///
/// # Errors
/// When a click is missing in the end, is there twice, or was never sent.
pub async fn all_once(node: &Node, ledger: &Ledger, patience: Duration) -> Result<()> {
    let begin = Instant::now();
    loop {
        let rows = node.json(&["sql", "SELECT click_id FROM clicks", "--format", "json"])?;
        let mut times: HashMap<ClickId, u32> = HashMap::new();
        for row in rows.as_array().into_iter().flatten() {
            let id = row["click_id"].as_str().and_then(|hex| u128::from_str_radix(hex, 16).ok());
            *times.entry(ClickId::from(id.context("a row without an id")?)).or_default() += 1;
        }
        let lost = ledger.answered.iter().filter(|id| !times.contains_key(*id)).count();
        let twice = times.values().filter(|n| **n > 1).count();
        let strange = times.keys().filter(|id| !ledger.answered.contains(*id) && !ledger.unsure.contains(*id)).count();
        if lost == 0 && twice == 0 && strange == 0 {
            return Ok(());
        }
        let all = ledger.answered.len();
        ensure!(
            begin.elapsed() < patience && twice == 0 && strange == 0,
            "{all} answered; {lost} lost, {twice} twice, {strange} never sent\n{}",
            node.log()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
