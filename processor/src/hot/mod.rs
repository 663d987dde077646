//! The hot path: events of journals in good standing, into `clicks` within a second (design §4.4).
//!
//! ```text
//! partition ─► reader: decode, enrich ─┐  bounded      ┌─► arrivals (late) ─┐
//! partition ─► reader: decode, enrich ─┼──────────► committer ─► rejects ───┼─► clicks: rows + positions, one commit
//! partition ─► reader: decode, enrich ─┘  byte budget  └─ judges at every attempt │
//!                                                                     landed ──► registry: complete_through
//! ```
//!
//! Invariants
//! * A partition's position is a transaction of the very commit that holds its rows; nothing else keeps it.
//! * Every attempt compares all positions of its group, and judges lateness, on the version that it builds on. A
//!   position that is another one drops the partition's buffer: somebody else owns it or has owned it.
//! * An id enters the [`Window`] when its commit has landed. Where the window can't tell, the lake is asked. So no id
//!   becomes two rows, whatever is replayed, repeated or read by two.
//! * Side tables are written before the commit that moves the position past what they hold.
//! * What is sampled away is judged and remembered like what is kept, and its rate is in the lake before its position.
//! * What a mark promises is published only when the commit behind it has landed.
//!
//! Failure: a lake or registry that is down is tried again with growing pauses, and reading stops when the byte budget
//! is full; the journals keep what isn't read. A kill at any moment leaves the position where it was.

mod attempt;
mod committer;
mod coverage;
pub(crate) mod decode;
mod group;
pub(crate) mod judge;
mod known;
mod nag;
mod picked;
mod publish;
mod reader;
mod retire;
pub(crate) mod shed;
mod side;
#[cfg(test)]
mod sim;
mod slot;
mod steer;
mod tell;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod topics;
pub(crate) mod window;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::ports::{Coverage, Registry};
use ingest::stream::Partition;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::committer::Committer;
pub use self::decode::Enrich;
pub use self::group::{Due, GroupPolicy, Waiting, back_off};
use self::publish::Publisher;
pub use self::retire::{RetireError, is_retired, offset, position, retire};
pub use self::window::Window;
use crate::lake::Lake;
use crate::metrics::Metrics;
use crate::sample::Cap;

/// How the hot path commits and what it remembers.
#[derive(Clone, Debug)]
pub struct HotConfig {
    /// The oldest row's longest wait for its commit.
    pub commit_after: Duration,
    /// How often marks alone make a commit.
    pub idle_after: Duration,
    /// How soon after a commit of rows they do.
    pub mark_after: Duration,
    /// Bytes buffered that make a commit at once; twice as much stops the reading.
    pub max_bytes: usize,
    /// Memory of the window of ids, at most; as much again may be taken for ids read from the lake.
    pub window_bytes: usize,
    /// How far two clocks can be apart.
    pub skew: Duration,
    /// How long an edge may ask again under one id.
    pub repeat: Duration,
    /// How far the times of two records of one id can be apart.
    pub max_skew: Duration,
    /// How long a shutdown may take to commit what is buffered.
    pub drain_within: Duration,
    /// The greatest lag that is promised: `internal` links are sampled to keep it.
    pub lag_limit: Duration,
}

impl Default for HotConfig {
    fn default() -> Self {
        Self {
            commit_after: Duration::from_millis(400),
            idle_after: Duration::from_secs(10),
            mark_after: Duration::from_secs(1),
            max_bytes: 48 << 20,
            window_bytes: 64 << 20,
            skew: Duration::from_secs(5),
            repeat: Duration::from_secs(60),
            max_skew: Duration::from_secs(600),
            drain_within: Duration::from_secs(10),
            lag_limit: Duration::from_secs(300),
        }
    }
}

/// What the hot path is told to read, and what to read no more.
#[derive(Debug)]
pub enum Seating {
    /// A partition, to be read from where the lake lacks it.
    Take(Box<dyn Partition>),
    /// The partition of this name is to be left: what is buffered of it is dropped, and whoever reads it next begins where
    /// the lake lacks it.
    Leave {
        /// The partition's name.
        name: String,
        /// Told once nothing of it is read or committed here any more, and what has landed of it is published.
        left: oneshot::Sender<()>,
    },
}

impl From<Box<dyn Partition>> for Seating {
    fn from(partition: Box<dyn Partition>) -> Self {
        Self::Take(partition)
    }
}

/// The hot path ended other than by its own will.
#[derive(Debug, thiserror::Error)]
pub enum HotError {
    /// A task of it panicked: a fault of this program.
    #[error("the {task} of the hot path panicked")]
    Panicked {
        /// Which task.
        task: &'static str,
    },
    /// The drain took too long. Nothing is lost: what was not committed is read again by whoever goes on with it.
    #[error("the hot path did not commit what it had buffered within {0:?}")]
    Drain(Duration),
}

/// How far one partition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus {
    /// The partition's name.
    pub name: Arc<str>,
    /// The first position that the lake lacks.
    pub next: u64,
    /// The first position after its last record, as last heard.
    pub end: u64,
    /// Clicks that the lake lacks; of a topic, records that hold some. Marks are none.
    pub lag: u64,
    /// Why it can't be read on, if it can't.
    pub failing: Option<String>,
}

/// How far the hot path is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotStatus {
    /// Each partition.
    pub partitions: Vec<PartitionStatus>,
    /// Age of the oldest event that was read and is not in the lake, in seconds.
    pub lag_seconds: f64,
    /// Why the last commit failed, until one lands.
    pub failing: Option<String>,
    /// Since when none has landed that was tried.
    pub failing_since: Option<Instant>,
    /// The share of clicks of `internal` links that is kept, while they are sampled.
    pub sampling: Option<f64>,
}

/// The hot path of one process.
#[derive(Debug)]
pub struct HotPath {
    lake: Lake,
    registry: Arc<dyn Registry>,
    coverage: Option<Arc<dyn Coverage>>,
    enrich: Arc<dyn Enrich>,
    config: HotConfig,
    metrics: Metrics,
    /// What readers sample by.
    cap: Arc<Cap>,
    status: watch::Sender<HotStatus>,
}

impl HotPath {
    /// A hot path into `lake`. Nothing happens before [`HotPath::run`].
    pub fn new(lake: Lake, registry: Arc<dyn Registry>, enrich: Arc<dyn Enrich>, config: HotConfig) -> Self {
        let (metrics, cap, status) = (Metrics::default(), Arc::default(), watch::Sender::default());
        Self { lake, registry, coverage: None, enrich, config, metrics, cap, status }
    }

    /// Counts into `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Reads partitions of a topic too: what they cover of journals is published through `coverage`.
    #[must_use]
    pub fn with_coverage(mut self, coverage: Arc<dyn Coverage>) -> Self {
        self.coverage = Some(coverage);
        self
    }

    /// How far it is, kept current.
    pub fn status(&self) -> watch::Receiver<HotStatus> {
        self.status.subscribe()
    }

    /// Brings the partitions that come through `seatings` into the lake, those that it isn't told to leave, until `cancel`;
    /// then reads what has just come, though no long backlog, commits it, and closes the journals that are sealed and whole in
    /// the lake. When it is done, nothing is read or committed any more, and what has landed is published, `seatings` is closed.
    ///
    /// # Errors
    /// As [`HotError`] says. A lake or registry that is down is none: it is tried again.
    pub async fn run(self, mut seatings: mpsc::Receiver<Seating>, cancel: CancellationToken) -> Result<(), HotError> {
        let (progress, published) = watch::channel(publish::Progress::default());
        let (registry, coverage) = (Arc::clone(&self.registry), self.coverage.clone());
        let publisher = Publisher::new(registry, coverage, self.metrics.clone());
        let committer = Committer::new(self, progress, publisher.published());
        let publisher = tokio::spawn(publisher.run(published));
        let drained = committer.run(&mut seatings, cancel).await;
        // the committer is gone, and with it the sender: the publisher publishes a last time and ends
        publisher.await.map_err(|_| HotError::Panicked { task: "publisher" })?;
        drained
    }
}
