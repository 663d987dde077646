//! All journals of a node, on their way into the topic.
//!
//! ```text
//! journal ─► forward: read, cut ─┐   room: 4 MiB    ┌─► lane of partition 0 ─► its leader
//! journal ─► forward: read, cut ─┼──────────────────┼─► lane of partition 1 ─► its leader
//!                                └── once a second: what the lake holds, and what it asks for again ◄── link store
//! ```
//! Nothing here is kept on disk: after a restart each journal goes on from what the lake is known to hold. A topic that
//! can't be reached holds nobody up but these tasks: journals grow, redirects go on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use schemas::JournalId;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, chance};
use super::error::TopicError;
use super::forward::{Forward, again};
use super::lanes::Lanes;
use super::rows::Rows;
use super::whole::{STORE_WITHIN, Topic};
use crate::journal::Journal;
use crate::ports::{Coverage, Covered, Generation, PortError};

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
            known: HashSet::new(),
            answered: HashMap::new(),
            tasks,
        };
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let journals = self.journals.borrow_and_update().clone();
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
    known: HashSet<JournalId>,
    answered: HashMap<(JournalId, u32), u32>,
    /// Ended with the generation.
    tasks: JoinSet<()>,
}

impl Node {
    /// Gives each journal a task.
    fn employ(&mut self, journals: &[Journal]) {
        for journal in journals {
            if self.known.insert(journal.id()) {
                let forward =
                    Forward { journal: journal.clone(), lanes: self.lanes.clone(), rows: self.rows.subscribe() };
                let (coverage, generation) = (Arc::clone(&self.coverage), Arc::clone(&self.generation));
                self.tasks.spawn(async move {
                    let starts = enter(coverage.as_ref(), &forward.journal, &generation).await;
                    forward.run(starts).await;
                });
            }
        }
    }

    /// Hears what the lake holds, and answers what it asks for.
    async fn look(&mut self, journals: &[Journal]) {
        while self.tasks.try_join_next().is_some() {}
        let rows = match within(self.coverage.covered(&self.generation)).await {
            Ok(rows) => Arc::new(Rows::new(rows)),
            Err(error) => return tracing::debug!(%error, "what the lake holds of journals can't be heard now"),
        };
        for row in rows.asked(&self.answered) {
            let Some(journal) = journals.iter().find(|journal| journal.id() == row.journal) else { continue };
            let Some(missing) = row.missing else { continue };
            self.answered.insert((row.journal, row.partition), missing.asked);
            let (journal, lanes, partitions) =
                (journal.clone(), self.lanes.clone(), self.generation.partitions as usize);
            self.tasks.spawn(async move { again(&journal, &lanes, row, partitions, missing.to).await });
        }
        self.rows.send_if_modified(|known| std::mem::replace(known, Arc::clone(&rows)) != rows);
    }

    /// Whether all journals are sealed and acknowledged to their ends.
    fn has_all(&self, journals: &[Journal]) -> bool {
        let rows = self.rows.borrow();
        journals.iter().all(|journal| rows.has_ended(journal.id()))
            || (self.lanes.are_empty() && journals.iter().all(Journal::is_sealed))
    }
}

/// Has a journal go through the generation, as soon as the link store can be asked.
async fn enter(coverage: &dyn Coverage, journal: &Journal, generation: &Generation) -> Vec<Covered> {
    let mut backoff = Backoff::default();
    loop {
        match within(coverage.enter(journal.id(), generation)).await {
            Ok(rows) => return rows,
            Err(error) => {
                let pause = backoff.pause(chance());
                tracing::warn!(journal = %journal.id(), %error, ?pause, "can't go into the topic yet");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

async fn within<T>(work: impl Future<Output = Result<T, PortError>>) -> Result<T, TopicError> {
    match tokio::time::timeout(STORE_WITHIN, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(TopicError::Deadline {
            doing: "asking what the lake holds",
            address: "the link store".to_owned(),
            limit: STORE_WITHIN,
        }),
    }
}
