//! All journals of a node, on their way into the topic.
//!
//! ```text
//! journal ─► forward: read, cut ─┐   room: 4 MiB    ┌─► lane of partition 0 ─► its leader
//! journal ─► forward: read, cut ─┼──────────────────┼─► lane of partition 1 ─► its leader
//!                                └── once a second: what the lake holds, and what it asks for again ◄── link store
//! ```
//! Nothing here is kept on disk: after a restart each journal goes on from what the lake is known to hold. A topic that
//! can't be reached holds nobody up but these tasks: journals grow, redirects go on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schemas::JournalId;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::forward::{Forward, Way, within};
use super::lanes::Lanes;
use super::rows::Rows;
use super::whole::Topic;
use crate::journal::Journal;
use crate::ports::{Coverage, Generation, Missing};

/// How often the link store is asked what the lake holds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Whether every journal is sealed, and all of it is acknowledged by the brokers.
    pub all: bool,
}

/// Sends a node's journals into the topic.
#[derive(Debug)]
pub struct Forwarder {
    topic: Topic,
    journals: watch::Receiver<Vec<Journal>>,
    present: watch::Receiver<Option<Arc<Generation>>>,
    forwarded: watch::Sender<Forwarded>,
}

impl Forwarder {
    /// For `journals`, those that join later too, into the generation that `present` tells.
    pub fn new(
        topic: Topic,
        journals: watch::Receiver<Vec<Journal>>,
        present: watch::Receiver<Option<Arc<Generation>>>,
    ) -> Self {
        Self { topic, journals, present, forwarded: watch::Sender::default() }
    }

    /// What has been sent, kept current.
    pub fn forwarded(&self) -> watch::Receiver<Forwarded> {
        self.forwarded.subscribe()
    }

    /// Until `stop`. What isn't acknowledged then is sent by the next start.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                let present = self.present.borrow_and_update().clone();
                match present {
                    Some(generation) => self.run_generation(generation).await,
                    None if self.present.changed().await.is_err() => std::future::pending().await,
                    None => {}
                }
            }
        })
        .await;
    }

    /// Until another generation begins.
    async fn run_generation(&mut self, generation: Arc<Generation>) {
        let mut tasks = JoinSet::new();
        let lanes = Lanes::open(self.topic.cluster(), generation.partitions, self.topic.health(), &mut tasks);
        let rows = watch::Sender::new(Arc::new(Rows::default()));
        let mut node = Node {
            coverage: Arc::clone(self.topic.coverage()),
            generation,
            lanes,
            rows,
            known: HashMap::new(),
            answered: HashMap::new(),
            tasks,
        };
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let journals = self.journals.borrow_and_update().clone();
            if node.is_broken() {
                tracing::error!("a task of the forwarder has died: all of them begin anew");
                return;
            }
            node.employ(&journals);
            node.look(&journals).await;
            self.forwarded.send_replace(Forwarded { all: node.has_all(&journals) });
            tokio::select! {
                _ = self.present.changed() => return,
                Ok(()) = self.journals.changed() => {}
                _ = ticks.tick() => {}
            }
        }
    }
}

/// The journals of a node and one generation.
#[derive(Debug)]
struct Node {
    coverage: Arc<dyn Coverage>,
    generation: Arc<Generation>,
    lanes: Lanes,
    rows: watch::Sender<Arc<Rows>>,
    /// Each journal that has a task, and whether all of it has been handed to the lanes.
    known: HashMap<JournalId, Arc<AtomicBool>>,
    answered: HashMap<(JournalId, u32), Missing>,
    /// Ended with the generation.
    tasks: JoinSet<()>,
}

impl Node {
    /// Gives each journal a task.
    fn employ(&mut self, journals: &[Journal]) {
        let is_new = |journal: &&Journal| !self.known.contains_key(&journal.id());
        let new: Vec<&Journal> = journals.iter().filter(is_new).collect();
        for journal in new {
            let is_sent = Arc::new(AtomicBool::new(false));
            self.known.insert(journal.id(), Arc::clone(&is_sent));
            let forward = Forward { way: self.way_of(journal), rows: self.rows.subscribe(), is_sent };
            self.tasks.spawn(forward.run());
        }
    }

    /// Whether a task has died: what it was to send may be nowhere. Those that have done their work are let go.
    fn is_broken(&mut self) -> bool {
        while let Some(ended) = self.tasks.try_join_next() {
            if ended.is_err() {
                return true;
            }
        }
        false
    }

    fn way_of(&self, journal: &Journal) -> Way {
        let (coverage, generation) = (Arc::clone(&self.coverage), Arc::clone(&self.generation));
        Way { journal: journal.clone(), lanes: self.lanes.clone(), coverage, generation }
    }

    /// Hears what the lake holds, and answers what it asks for.
    async fn look(&mut self, journals: &[Journal]) {
        let rows = match within(self.coverage.covered(&self.generation)).await {
            Ok(rows) => Arc::new(Rows::new(rows)),
            Err(error) => return tracing::debug!(%error, "what the lake holds of journals can't be heard now"),
        };
        for row in rows.asked(&self.answered) {
            let Some(journal) = journals.iter().find(|journal| journal.id() == row.journal) else { continue };
            let Some(missing) = row.missing else { continue };
            self.answered.insert((row.journal, row.partition), missing);
            self.tasks.spawn(self.way_of(journal).again(row, missing.to));
        }
        self.rows.send_if_modified(|known| std::mem::replace(known, Arc::clone(&rows)) != rows);
    }

    /// Whether all journals have been sent to their ends, and all is acknowledged.
    fn has_all(&self, journals: &[Journal]) -> bool {
        let is_sent =
            |journal: &Journal| self.known.get(&journal.id()).is_some_and(|sent| sent.load(Ordering::Acquire));
        journals.iter().all(is_sent) && self.lanes.are_empty()
    }
}
