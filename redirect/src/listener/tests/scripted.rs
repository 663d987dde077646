//! A source of links that does as it is told.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::{Semaphore, broadcast};

use super::super::lookup::Lookup;
use crate::links::{Changed, LinkError, Target};

/// How many changes a receiver may be behind.
const KEPT: usize = 4;

#[derive(Debug)]
pub(super) struct Scripted {
    links: Mutex<HashMap<String, Target>>,
    /// Lookups begun.
    asked: AtomicUsize,
    fails: AtomicBool,
    /// Lookups wait for a permit each.
    gate: Semaphore,
    changes: broadcast::Sender<Changed>,
    sent: AtomicU64,
}

impl Scripted {
    /// With no links, and open gates.
    pub(super) fn new() -> Self {
        Self {
            links: Mutex::default(),
            asked: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
            gate: Semaphore::new(1_000_000),
            changes: broadcast::channel(KEPT).0,
            sent: AtomicU64::new(0),
        }
    }

    /// Lookups wait from now on.
    pub(super) fn close(&self) {
        self.gate.forget_permits(usize::MAX);
    }

    /// So many more lookups may go on.
    pub(super) fn open(&self, lookups: usize) {
        self.gate.add_permits(lookups);
    }

    pub(super) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Another process's change: nobody here is told.
    pub(super) fn set(&self, code: &str, target: Option<Target>) {
        let mut links = self.links.lock().unwrap();
        match target {
            Some(target) => links.insert(code.to_owned(), target),
            None => links.remove(code),
        };
    }

    /// A change of a link on `domain` made in this process.
    pub(super) fn announce(&self, domain: &str, code: &str) {
        let _ = self.changes.send(Changed { domain: domain.to_owned(), code: code.to_owned() });
        self.sent.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Lookup for Scripted {
    async fn lookup(&self, _domain: &str, code: &str) -> Result<Option<Target>, LinkError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert_ne!(code, "panics");
        // read first: what comes back may be old by the time it does
        let found = self.links.lock().unwrap().get(code).cloned();
        self.gate.acquire().await.unwrap().forget();
        match self.fails.load(Ordering::SeqCst) {
            true => Err(LinkError::Database { doing: "looking up a link", source: sqlx::Error::PoolTimedOut }),
            false => Ok(found),
        }
    }

    fn changes(&self) -> broadcast::Receiver<Changed> {
        self.changes.subscribe()
    }

    fn changes_sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}
