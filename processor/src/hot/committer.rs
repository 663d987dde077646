//! The committer: the one task that owns all positions, buffers and the window.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ingest::stream::Partition;
use schemas::UtcMicros;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::group::{Due, GroupPolicy, Waiting, back_off};
use super::known::KnownIds;
use super::nag::{Nag, Tell};
use super::publish::Progress;
use super::reader::{Message, News, PERMIT_BYTES, Reader};
use super::shed::Shedder;
use super::side::SideTables;
use super::slot::{Outcome, Slot};
use super::steer::Steering;
use super::window::Window;
use super::{Enrich, HotConfig, HotError, HotPath, HotStatus, Seating};
use crate::lake::{Lake, TableHandle};
use crate::metrics::Metrics;
use crate::sample::RateBook;

/// Messages on their way to the committer; the byte budget is the real bound.
const MESSAGES: usize = 64;

/// The committer's state.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) lake: Lake,
    pub(super) config: HotConfig,
    pub(super) metrics: Metrics,
    pub(super) policy: GroupPolicy,
    pub(super) clicks: Option<TableHandle>,
    pub(super) side: SideTables,
    pub(super) window: Window,
    pub(super) known: KnownIds,
    /// Rates recorded, by this process and others.
    pub(super) rates: RateBook,
    /// The newest second that has one, as far as it was looked for.
    pub(super) newest_rate: Option<UtcMicros>,
    /// Whether a partition was found to be somebody else's since rates were looked at last.
    pub(super) has_lost_one: bool,
    pub(super) steering: Steering,
    pub(super) slots: BTreeMap<usize, Slot>,
    pub(super) last_commit: Instant,
    /// Whether it had rows.
    pub(super) last_had_rows: bool,
    pub(super) failures: u32,
    pub(super) not_before: Option<Instant>,
    /// Why, and since when.
    pub(super) failing: Option<(String, Instant)>,
    nag: Nag,
    enrich: Arc<dyn Enrich>,
    budget: Arc<Semaphore>,
    budget_permits: u32,
    /// Each ends with the number of its slot.
    readers: JoinSet<usize>,
    /// Partitions that are being left.
    pub(super) leaving: HashMap<usize, Leaving>,
    /// The number of the last progress that is published.
    published: watch::Receiver<u64>,
    next_slot: usize,
    /// Partitions that wait for the lake to tell where they begin.
    arriving: Vec<Box<dyn Partition>>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) status: watch::Sender<HotStatus>,
}

/// A partition that is being left: until its reader has ended, and what has landed of it is published, so that who reads it
/// next finds no hole.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Who is to be told.
    left: oneshot::Sender<()>,
    /// The number of the progress that is to be published before.
    after: u64,
    is_read: bool,
}

impl Committer {
    pub(super) fn new(path: HotPath, progress: watch::Sender<Progress>, published: watch::Receiver<u64>) -> Self {
        let HotPath { lake, registry: _, coverage: _, enrich, config, metrics, cap, status } = path;
        let budget_permits = u32::try_from((2 * config.max_bytes / PERMIT_BYTES).max(1)).unwrap_or(u32::MAX >> 3);
        let floor = UtcMicros::now().plus(config.skew);
        Self {
            policy: GroupPolicy {
                commit_after: config.commit_after,
                idle_after: config.idle_after,
                mark_after: config.mark_after,
                max_bytes: config.max_bytes,
            },
            clicks: None,
            side: SideTables::new(lake.clone()),
            rates: RateBook::new(lake.clone(), config.skew, config.repeat),
            newest_rate: None,
            has_lost_one: false,
            steering: Steering::new(&config, metrics.clone(), cap),
            window: Window::new(config.window_bytes, config.skew + config.repeat, floor),
            known: KnownIds::new(config.window_bytes, config.max_skew),
            slots: BTreeMap::new(),
            last_commit: Instant::now(),
            last_had_rows: false,
            failures: 0,
            not_before: None,
            failing: None,
            nag: Nag::default(),
            enrich,
            budget: Arc::new(Semaphore::new(budget_permits as usize)),
            budget_permits,
            readers: JoinSet::new(),
            leaving: HashMap::new(),
            published,
            next_slot: 0,
            arriving: Vec::new(),
            lake,
            config,
            metrics,
            progress,
            status,
        }
    }

    /// Commits what readers bring until `cancel`, and then what they have brought, if that can be done in time. What can't
    /// be is given up where it is, as a kill would.
    pub(super) async fn run(
        self,
        seatings: &mut mpsc::Receiver<Seating>,
        cancel: CancellationToken,
    ) -> Result<(), HotError> {
        let (within, ends) = (self.config.drain_within, cancel.clone());
        let too_long = async {
            ends.cancelled().await;
            tokio::time::sleep(within).await;
        };
        tokio::select! {
            biased;
            ended = Box::pin(self.work(seatings, cancel)) => ended,
            () = too_long => Err(HotError::Drain(within)),
        }
    }

    async fn work(mut self, seatings: &mut mpsc::Receiver<Seating>, cancel: CancellationToken) -> Result<(), HotError> {
        let (out, mut news) = mpsc::channel(MESSAGES);
        let (mut is_open, mut is_draining) = (true, false);
        loop {
            self.seat_arrivals(&out, &cancel).await;
            if is_draining && self.is_drained() {
                return Ok(());
            }
            let wake = self.wake_at(is_draining);
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !is_draining => {
                    is_draining = true;
                    self.arriving.clear();
                }
                seating = seatings.recv(), if is_open => match seating {
                    Some(Seating::Take(partition)) if !is_draining => self.arriving.push(partition),
                    Some(Seating::Take(_)) => {}
                    Some(Seating::Leave { name, left }) => self.leave(&name, left),
                    None => is_open = false,
                },
                message = news.recv() => if let Some(message) = message { self.hear(message) },
                Some(ended) = self.readers.join_next(), if !self.readers.is_empty() => {
                    let slot = ended.map_err(|_| HotError::Panicked { task: "reader" })?;
                    if let Some(leaving) = self.leaving.get_mut(&slot) {
                        leaving.is_read = false;
                    }
                    self.tell_left();
                }
                Ok(()) = self.published.changed(), if !self.leaving.is_empty() => self.tell_left(),
                // of a partition at rest it is told that it is read
                () = tokio::time::sleep_until(wake.into()) => self.finish(),
            }
            self.hear_all(&mut news);
            if self.policy.due(&self.waiting(is_draining), Instant::now()) == Due::Now {
                self.commit_group().await;
                // what has been read meanwhile tells how old a backlog is
                if self.hear_all(&mut news) {
                    self.tell();
                }
            }
            self.steer();
        }
    }

    /// When to look again though nothing comes.
    fn wake_at(&self, is_draining: bool) -> Instant {
        let now = Instant::now();
        let mut wake = match self.policy.due(&self.waiting(is_draining), now) {
            Due::Now => now,
            Due::At(at) => at,
            Due::Never => now + self.config.idle_after,
        };
        if let (false, Some(at)) = (self.arriving.is_empty(), self.not_before) {
            wake = wake.min(at);
        }
        if let (0, Some(at)) = (self.backlog(), self.steering.wake_at()) {
            wake = wake.min(at);
        }
        wake
    }

    /// What is waiting for a commit.
    fn waiting(&self, is_draining: bool) -> Waiting {
        let held = || self.slots.values().flat_map(|slot| &slot.buffer).map(|(batch, _)| batch);
        let nothing_comes = is_draining && self.slots.values().all(|slot| slot.is_drained || slot.sealed_at.is_some());
        Waiting {
            oldest_row: held().filter(|batch| batch.has_rows()).map(|batch| batch.read_at).min(),
            any: held().next().is_some(),
            bytes: held().map(|batch| batch.bytes).sum(),
            urgent: nothing_comes
                || held().any(|batch| batch.has_end())
                || self.slots.values().any(|slot| slot.sealed_at == Some(slot.buffered_to())),
            last_commit: self.last_commit,
            last_had_rows: self.last_had_rows,
            not_before: self.not_before,
        }
    }

    fn is_drained(&self) -> bool {
        self.slots.values().all(|slot| slot.buffer.is_empty() && (slot.is_drained || slot.sealed_at.is_some()))
    }

    /// Takes partitions in: the lake tells where to read each from.
    async fn seat_arrivals(&mut self, out: &mpsc::Sender<Message>, cancel: &CancellationToken) {
        if self.arriving.is_empty() || self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let looked = match self.look().await {
            Ok(()) => self.rates.newest().await,
            Err(failure) => Err(failure),
        };
        match looked {
            Ok(newest) => self.newest_rate = newest,
            Err(failure) => return self.failed(&failure.to_string()),
        }
        for partition in std::mem::take(&mut self.arriving) {
            let name = partition.name().to_owned();
            if self.slots.values().any(|slot| *slot.name == *name) {
                warn!(partition = name, "is being read already");
                continue;
            }
            let stored = self.clicks.as_ref().and_then(|clicks| clicks.txn(&super::slot::app_id(&name)));
            let (slot, seats) = Slot::new(&name, partition.part().cloned(), stored);
            info!(partition = name, from = slot.position(), "reading");
            self.lift_floor();
            let reader = Reader {
                slot: self.next_slot,
                partition,
                enrich: Arc::clone(&self.enrich),
                shedder: Arc::new(Mutex::new(Shedder::new(self.steering.cap()))),
                out: out.clone(),
                seats,
                budget: Arc::clone(&self.budget),
                budget_permits: self.budget_permits,
                cancel: cancel.clone(),
            };
            self.slots.insert(self.next_slot, slot);
            self.next_slot += 1;
            self.readers.spawn(reader.run());
        }
        self.tell();
    }

    /// Lets a partition go, and tells of it when it is left. A commit of it whose outcome is unknown may still
    /// land: the floor is lifted over its ids.
    fn leave(&mut self, name: &str, left: oneshot::Sender<()>) {
        self.arriving.retain(|partition| partition.name() != name);
        let Some((&number, _)) = self.slots.iter().find(|(_, slot)| *slot.name == *name) else {
            let _told = left.send(());
            return;
        };
        // its reader hears of it by the end of its seats
        if let Some(slot) = self.slots.remove(&number) {
            info!(partition = name, at = slot.position(), "left");
            self.metrics.forget_partition(&slot.name);
        }
        let after = self.progress.borrow().number;
        self.leaving.insert(number, Leaving { left, after, is_read: true });
        self.lift_floor();
        self.tell();
    }

    /// Tells of partitions that are left by now.
    fn tell_left(&mut self) {
        let published = *self.published.borrow_and_update();
        for (_, leaving) in self.leaving.extract_if(|_, leaving| !leaving.is_read && leaving.after <= published) {
            // whoever waited may be gone
            let _told = leaving.left.send(());
        }
        self.finish();
    }

    /// Others may have judged ids of a partition that comes, or comes back: up to now, and up to the newest event in the
    /// lake, or the newest second of which some were sampled away, which is later when a clock was ahead. A journal's times
    /// never go back, so its next events are later still.
    pub(super) fn lift_floor(&mut self) {
        let newest = self.clicks.iter().flat_map(|clicks| clicks.files()).filter_map(|file| file.max_time).max();
        let newest = newest.max(self.newest_rate.map(|second| second.plus(Duration::from_secs(1))));
        let now = UtcMicros::now();
        self.window.lift(newest.map_or(now, |newest| newest.max(now)).plus(self.config.skew));
    }

    /// Hears what readers have sent by now; whether that was anything.
    fn hear_all(&mut self, news: &mut mpsc::Receiver<Message>) -> bool {
        let mut is_any = false;
        while let Ok(message) = news.try_recv() {
            self.hear(message);
            is_any = true;
        }
        is_any
    }

    fn hear(&mut self, message: Message) {
        let Some(slot) = self.slots.get_mut(&message.slot) else { return };
        if let News::Drained = message.news {
            slot.is_drained = true;
            return;
        }
        if !slot.is_seated(message.seat) {
            return;
        }
        match message.news {
            News::Batch(batch, permit, end) => {
                if !slot.take(batch, permit, end) {
                    warn!(partition = &*slot.name, "positions don't follow each other; reading again");
                    slot.read_again();
                }
            }
            News::End(end) => slot.goes_to(end),
            News::Sealed(end) => slot.sealed_at = Some(end),
            News::Failing(reason) => slot.failing = Some(reason),
            News::Drained => {}
        }
        self.finish();
    }

    async fn commit_group(&mut self) {
        let has_rows = self.waiting(false).oldest_row.is_some();
        match self.attempt().await {
            Ok(()) => {
                self.failures = 0;
                self.nag.over();
                self.not_before = None;
                self.failing = None;
                self.last_commit = Instant::now();
                self.last_had_rows = has_rows;
            }
            Err(failure) => self.failed(&failure),
        }
        self.finish();
        self.tell();
    }

    fn failed(&mut self, failure: &str) {
        self.failures = self.failures.saturating_add(1);
        let pause = back_off(self.failures);
        match self.nag.tell(Instant::now()) {
            Some(Tell::New) => warn!(failure, ?pause, "not committed; trying again"),
            Some(Tell::Still) => error!(failure, failures = self.failures, "still not committed; trying again"),
            None => {}
        }
        let now = Instant::now();
        let since = self.failing.as_ref().map_or(now, |(_, since)| *since);
        self.failing = Some((failure.to_owned(), since));
        self.not_before = Some(now + pause);
        self.tell();
    }

    /// Compares every position with what the lake holds; whatever landed or was lost is drawn from that alone.
    pub(super) fn compare(&mut self) {
        let Some(clicks) = &self.clicks else { return };
        let mut is_any_dropped = false;
        for slot in self.slots.values_mut() {
            let stored = clicks.txn(&slot.app_id);
            let before = slot.position();
            match slot.compare(stored) {
                Outcome::Unchanged => {}
                Outcome::Landed { seen } => {
                    self.steering.brought(slot.position().saturating_sub(before));
                    for (id, time) in seen {
                        self.window.insert(id, time);
                    }
                }
                Outcome::Dropped => {
                    warn!(partition = &*slot.name, ?stored, "somebody else has gone on with it; reading from there");
                    is_any_dropped = true;
                }
            }
        }
        if is_any_dropped {
            self.has_lost_one = true;
            self.lift_floor();
        }
    }

    /// Has the controller look at what has landed, and what is left.
    fn steer(&mut self) {
        if self.steering.look(Instant::now(), self.backlog()) {
            self.tell();
        }
    }

    /// What the lake lacks and isn't only marks.
    fn backlog(&self) -> u64 {
        self.slots.values().map(Slot::lag).sum()
    }

    /// The time of the oldest click that is buffered.
    pub(super) fn oldest(&self) -> Option<UtcMicros> {
        self.slots.values().flat_map(|slot| &slot.buffer).filter_map(|(batch, _)| batch.oldest).min()
    }
}
