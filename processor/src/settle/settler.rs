//! The settler's task: arrivals into `clicks`, then compaction and clean-up, again and again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ingest::ports::Registry;
use schemas::UtcMicros;
use schemas::tables::Table;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::behaviour::{BehaviourConfig, Looked};
use super::compact::CompactConfig;
use super::correct::policy::{Patience, Pending};
use super::desk::Desk;
use super::error::SettleError;
use super::guard::{Edge, Guard};
use super::retain::{LastRun, Limits};
use super::upkeep::{Seen, Upkeep};
use super::waits::Waits;
use crate::enrich::Enricher;
use crate::hot::HotStatus;
use crate::lake::{Lake, TableHandle};
use crate::metrics::Metrics;

/// How a settler works.
#[derive(Clone, Debug)]
pub struct SettleConfig {
    /// How long records wait.
    pub waits: Waits,
    /// The edge in front of our own redirect: lines of hours whose ids don't meet those of events are held.
    pub edge: Edge,
    /// How far two records of one id may be apart (`[edge] max_skew`).
    pub max_skew: Duration,
    /// How long after its end a day may still change without anybody's doing (`[edge] settle`).
    pub settle: Duration,
    /// How long corrections of rows may wait for others of the same files.
    pub patience: Patience,
    /// Which requests several others show to be no person's.
    pub behaviour: BehaviourConfig,
    /// Bounds of compaction.
    pub compact: CompactConfig,
    /// How long after its end an hour counts as closed.
    pub close_after: Duration,
    /// The most ids kept in memory, in bytes.
    pub id_bytes: usize,
    /// How long to rest after a pass that found nothing to do.
    pub idle: Duration,
    /// How often checkpoints and dead files are looked after.
    pub maintain_every: Duration,
    /// How long rejected lines are kept.
    pub keep_rejects: Duration,
}

impl Default for SettleConfig {
    fn default() -> Self {
        Self {
            waits: Waits::default(),
            edge: Edge::default(),
            max_skew: Duration::from_secs(600),
            settle: Duration::from_secs(48 * 3_600),
            patience: Patience::default(),
            behaviour: BehaviourConfig::default(),
            compact: CompactConfig::default(),
            close_after: Duration::from_secs(300),
            id_bytes: 32 << 20,
            idle: Duration::from_secs(2),
            maintain_every: Duration::from_secs(20),
            keep_rejects: Duration::from_secs(7 * 24 * 3_600),
        }
    }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Rows that came into `clicks`.
    pub added: u64,
    /// Arrivals whose request was a row already.
    pub already_counted: u64,
    /// Of these, arrivals that knew better than the row and were merged into it.
    pub corrected: u64,
    /// Rows that their behaviour, or others', showed to be no person's.
    pub moved: u64,
    /// Arrivals looked at that wait on.
    pub waiting: u64,
    /// Arrivals that were sampled away.
    pub sampled: u64,
    /// Merges made.
    pub merges: u64,
    /// Checkpoints made, and log entries and dead files deleted.
    pub cleaned: u64,
}

impl Settled {
    /// Whether anything was done, so that the next pass may find more.
    pub fn is_busy(&self) -> bool {
        self.added + self.already_counted + self.sampled + self.merges > 0
    }
}

/// The settler. One runs in `process`; a backfill on the command line settles under the same fence.
#[derive(Debug)]
pub struct Settler {
    pub(super) config: SettleConfig,
    pub(crate) desk: Desk,
    pub(crate) arrivals: TableHandle,
    /// By path of a file of `arrivals`: until `complete_through` is later, looking at it again gains nothing.
    pub(super) looked: HashMap<String, UtcMicros>,
    pub(super) guard: Guard,
    /// By path of a file of `arrivals`: the corrections in it, as far as it was looked at.
    pub(super) pending: HashMap<String, Pending>,
    /// Whether corrections are made without waiting.
    pub(super) eager: bool,
    pub(super) enricher: Arc<Enricher>,
    pub(super) behaviour: Looked,
    pub(super) upkeep: Upkeep,
    /// How long rows are kept; none: for ever.
    pub(super) limits: Option<Limits>,
    /// What is known of the last time that rows were taken out which were too old.
    pub(super) last_run: LastRun,
    /// How far the hot path beside it is.
    pub(super) hot: Option<watch::Receiver<HotStatus>>,
    pub(super) metrics: Metrics,
    pub(super) stop: CancellationToken,
}

impl Settler {
    /// A settler on `lake`; rows that are corrected are made by `enricher`.
    ///
    /// # Errors
    /// When its tables can't be opened.
    pub async fn new(
        lake: &Lake,
        registry: Arc<dyn Registry>,
        enricher: Arc<Enricher>,
        config: SettleConfig,
    ) -> Result<Self, SettleError> {
        let clicks = lake.table(Table::Clicks).await?;
        let arrivals = lake.table(Table::Arrivals).await?;
        let upkeep = Upkeep::new(lake, &config).await?;
        let ids = (config.max_skew, config.id_bytes);
        let desk = Desk::new(clicks, registry, Arc::clone(&enricher), config.waits, ids).with_settle(config.settle);
        let guard = Guard::new(lake.clone(), config.edge.clone());
        let (looked, pending) = (HashMap::new(), HashMap::new());
        let (metrics, stop) = (Metrics::default(), CancellationToken::new());
        Ok(Self {
            config,
            desk,
            arrivals,
            looked,
            guard,
            pending,
            eager: false,
            enricher,
            behaviour: Looked::default(),
            upkeep,
            limits: None,
            last_run: LastRun::default(),
            hot: None,
            metrics,
            stop,
        })
    }

    /// Counts into `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Leaves the processor to the hot path whose status this is while that works off a backlog: files are merged when it
    /// is through.
    #[must_use]
    pub fn beside(mut self, hot: watch::Receiver<HotStatus>) -> Self {
        self.hot = Some(hot);
        self
    }

    /// One round: settles what can be settled, merges what is worth it, cleans up when it is time.
    ///
    /// # Errors
    /// As [`SettleError`] says. What has landed stays; the rest is done by a later pass, by this settler or another.
    pub async fn pass(&mut self) -> Result<Settled, SettleError> {
        self.pass_at(UtcMicros::now()).await
    }

    pub(crate) async fn pass_at(&mut self, now: UtcMicros) -> Result<Settled, SettleError> {
        let mut settled = Settled::default();
        let complete_through = self.settle_arrivals(now, &mut settled).await?;
        self.metrics.note_duplicates("settle", settled.already_counted);
        self.close_hours(now).await?;
        self.metrics.note_mismatched(self.guard.open_hours(&self.desk.clicks));
        self.metrics.note_corrected(settled.corrected);
        settled.moved += self.look_at_behaviour(now, complete_through).await?;
        let seen = Seen { complete_through, now, lag: self.hot.as_ref().map_or(0.0, |hot| hot.borrow().lag_seconds) };
        settled.merges += self.upkeep.compact(&mut self.desk.clicks, seen, &self.stop).await?;
        self.retain_when_due(now).await;
        settled.cleaned += self.upkeep.clean(&mut self.desk.clicks, &mut self.arrivals, now).await?;
        Ok(settled)
    }

    /// Cleans the lake, and nothing else: checkpoints, old log entries, files that were removed long enough ago. Returns how
    /// many things were done.
    ///
    /// # Errors
    /// As [`Settler::pass`].
    pub async fn clean(&mut self) -> Result<u64, SettleError> {
        self.upkeep.clean(&mut self.desk.clicks, &mut self.arrivals, UtcMicros::now()).await
    }

    /// Settles what can be settled, and nothing else.
    ///
    /// # Errors
    /// As [`Settler::pass`].
    pub async fn settle(&mut self) -> Result<Settled, SettleError> {
        let mut settled = Settled::default();
        self.settle_arrivals(UtcMicros::now(), &mut settled).await?;
        Ok(settled)
    }

    /// Passes until cancelled, on a thread of its own: deciding and merging take longer than other tasks should wait. A
    /// pass that fails is tried again after a rest; cancelled, the step under way is finished first.
    pub async fn run(mut self, cancel: CancellationToken) {
        self.stop = cancel;
        let runtime = Handle::current();
        let passes = tokio::task::spawn_blocking(move || runtime.block_on(self.passes()));
        if let Err(error) = passes.await {
            tracing::error!(%error, "the settler has broken off");
        }
    }

    /// Stops what may take long, and changes nothing by that, at `stop`.
    #[must_use]
    pub fn until(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    async fn passes(mut self) {
        let mut failures = 0u32;
        while !self.stop.is_cancelled() {
            let rest = match self.pass().await {
                Ok(settled) => {
                    failures = 0;
                    if settled.is_busy() { self.config.idle / 8 } else { self.config.idle }
                }
                Err(SettleError::Stopped) => return,
                Err(error) => {
                    failures = (failures + 1).min(6);
                    tracing::warn!(%error, failures, "settling failed, trying again");
                    self.config.idle * (1 << failures)
                }
            };
            let stop = self.stop.clone();
            // woken by the cancellation, or rested: the loop looks which
            let _ = tokio::time::timeout(rest, stop.cancelled()).await;
        }
    }
}
