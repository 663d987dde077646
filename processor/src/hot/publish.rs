//! Publishes how far the lake is: to the registry of journals, which derives `complete_through`. A task of its own, so
//! that a slow link store never holds a commit back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::ports::{Coverage, Generation, JournalState, Landed, PortError, Registry};
use ingest::stream::TopicPart;
use schemas::{JournalId, UtcMicros};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::coverage::Landings;
use super::topics::Topics;
use crate::metrics::Metrics;

/// How often `complete_through` is published when nothing lands: without journals it follows the clock.
const IDLE: Duration = Duration::from_secs(1);
/// How long the registry may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// How far the lake is, as the committer knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Counts what was told.
    pub(super) number: u64,
    /// Of each journal, the last mark that has landed and the first frame that the lake lacks.
    pub(super) landed: BTreeMap<JournalId, Landed>,
    /// Sealed journals of which the lake holds all.
    pub(super) finished: BTreeSet<JournalId>,
    /// Each partition of a topic; one that is being left too, until this is published.
    pub(super) topics: BTreeMap<usize, TopicProgress>,
}

/// How far the lake is with a partition of a topic.
#[derive(Clone, Debug)]
pub(super) struct TopicProgress {
    pub(super) part: TopicPart,
    pub(super) next: u64,
    pub(super) end: u64,
    pub(super) lag: u64,
    pub(super) landings: Landings,
    /// When little was left of it that isn't in the lake, last.
    pub(super) near_at: Option<Instant>,
}

/// The publishing task's state.
#[derive(Debug)]
pub(super) struct Publisher {
    registry: Arc<dyn Registry>,
    coverage: Option<Arc<dyn Coverage>>,
    closed: BTreeSet<JournalId>,
    topics: BTreeMap<Arc<Generation>, Topics>,
    published: watch::Sender<u64>,
    metrics: Metrics,
}

/// Why progress wasn't published.
#[derive(Debug, thiserror::Error)]
enum Unpublished {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("the registry did not answer within {DEADLINE:?}")]
    Deadline,
}

impl Publisher {
    pub(super) fn new(registry: Arc<dyn Registry>, coverage: Option<Arc<dyn Coverage>>, metrics: Metrics) -> Self {
        let (closed, topics, published) = (BTreeSet::new(), BTreeMap::new(), watch::Sender::default());
        Self { registry, coverage, closed, topics, published, metrics }
    }

    /// The number of the last progress that is published.
    pub(super) fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Publishes until the committer is gone, and a last time then.
    pub(super) async fn run(mut self, mut progress: watch::Receiver<Progress>) {
        let mut is_last = false;
        loop {
            let now = progress.borrow_and_update().clone();
            match self.publish(&now).await {
                Ok(()) => drop(self.published.send_replace(now.number)),
                Err(failure) => {
                    // what was to be published may or may not have been: the rows tell
                    self.topics.clear();
                    warn!(%failure, "progress is not published; trying again");
                }
            }
            if is_last {
                return;
            }
            tokio::select! {
                changed = progress.changed() => is_last = changed.is_err(),
                () = tokio::time::sleep(IDLE) => {}
            }
        }
    }

    async fn publish(&mut self, progress: &Progress) -> Result<(), Unpublished> {
        self.publish_topics(progress).await?;
        let open = progress.landed.values().filter(|landed| !self.closed.contains(&landed.id));
        let landed: Vec<Landed> = open.copied().collect();
        if !landed.is_empty() || progress.topics.is_empty() {
            let through = within(self.registry.publish(&landed, UtcMicros::now())).await?;
            debug!(%through, "published");
        }
        for id in &progress.finished {
            if !self.closed.contains(id) {
                within(self.registry.set_state(*id, JournalState::Closed)).await?;
                self.closed.insert(*id);
            }
        }
        Ok(())
    }

    async fn publish_topics(&mut self, progress: &Progress) -> Result<(), Unpublished> {
        let Some(coverage) = &self.coverage else { return Ok(()) };
        let mut of: BTreeMap<&Arc<Generation>, Vec<&TopicProgress>> = BTreeMap::new();
        for topic in progress.topics.values() {
            of.entry(&topic.part.generation).or_default().push(topic);
        }
        self.topics.retain(|generation, _| of.contains_key(generation));
        for (generation, parts) in of {
            let topics = self.topics.entry(Arc::clone(generation)).or_default();
            topics.keep(&parts);
            if !topics.knows(&parts) {
                topics.learn(within(coverage.covered(generation)).await?);
            }
            let now = Instant::now();
            let (rows, reached) = topics.follow(&parts, now, || self.metrics.note_asked());
            let through = within(coverage.cover(generation, &rows, &reached, UtcMicros::now())).await?;
            debug!(%through, rows = rows.len(), "published");
        }
        Ok(())
    }
}

async fn within<T>(work: impl Future<Output = Result<T, PortError>>) -> Result<T, Unpublished> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Unpublished::Deadline),
    }
}
