//! The whole hot path on a store in memory that fails on purpose.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use object_store::memory::InMemory;
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::{HOUR, SECOND};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::testing::{Log, MemoryRegistry, POISON, Plain};
use super::*;
use crate::lake::testing::{Fault, FaultStore, Gate};
use crate::lake::{Change, LakeOptions, TableHandle};

/// A lake that outlives the hot paths on it.
pub(super) struct World {
    pub(super) store: FaultStore,
    pub(super) registry: Arc<MemoryRegistry>,
}

pub(super) struct Running {
    partitions: mpsc::Sender<Box<dyn Partition>>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), HotError>>,
    status: watch::Receiver<HotStatus>,
}

impl World {
    pub(super) fn new() -> Self {
        let store = FaultStore::new(Arc::new(InMemory::new()));
        Self { store, registry: Arc::default() }
    }

    pub(super) fn lake(&self) -> Lake {
        let root = Url::parse("memory:///lake").unwrap();
        Lake::with_store(Arc::new(self.store.clone()), root, LakeOptions::default()).unwrap()
    }

    pub(super) async fn table(&self, table: Table) -> TableHandle {
        self.lake().table(table).await.unwrap()
    }

    /// A hot path with the times of tests: it commits at once.
    pub(super) fn start(&self) -> Running {
        self.start_with(quick())
    }

    pub(super) fn start_with(&self, config: HotConfig) -> Running {
        let registry: Arc<dyn Registry> = Arc::clone(&self.registry) as Arc<dyn Registry>;
        let path = HotPath::new(self.lake(), registry, Arc::new(Plain), config);
        let status = path.status();
        let (partitions, incoming) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let task = tokio::spawn(path.run(incoming, cancel.clone()));
        Running { partitions, cancel, task, status }
    }

    /// Waits until the lake holds `log` up to `position`.
    pub(super) async fn until(&self, log: &Log, position: u64) {
        let mut clicks = self.table(Table::Clicks).await;
        let app_id = slot::app_id(&log.journal.to_string());
        while clicks.txn(&app_id).is_none_or(|stored| (stored as u64) < position) {
            tokio::time::sleep(Duration::from_millis(2)).await;
            // a store that is down for a while is part of some tests
            let _ = clicks.refresh().await;
        }
    }

    pub(super) async fn ids(&self, table: Table) -> Vec<u128> {
        let table = self.table(table).await;
        let mut ids = Vec::new();
        for file in table.files() {
            for batch in table.read(file, &["click_id"]).await.unwrap() {
                let column = batch.column(0).as_binary::<i32>().clone();
                ids.extend(column.iter().map(|id| u128::from_be_bytes(id.unwrap().try_into().unwrap())));
            }
        }
        ids.sort_unstable();
        ids
    }
}

impl Running {
    pub(super) async fn read(&self, log: &Log) {
        self.partitions.send(log.partition()).await.unwrap();
    }

    pub(super) async fn drain(self) -> Result<(), HotError> {
        self.cancel.cancel();
        self.task.await.unwrap()
    }

    /// As `kill -9` would: nothing is finished.
    pub(super) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

pub(super) fn quick() -> HotConfig {
    HotConfig { commit_after: Duration::from_millis(5), idle_after: Duration::from_millis(20), ..HotConfig::default() }
}

pub(super) fn now() -> i64 {
    UtcMicros::now().0
}

/// An instant that no window is unsure of.
fn sure() -> i64 {
    now() + 200 * SECOND
}

pub(super) const ENTRY: &str = "clicks/_delta_log/";

#[tokio::test(flavor = "multi_thread")]
async fn clicks_land_once_with_their_position_and_their_mark() {
    let world = World::new();
    let (one, two) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&one).await;
    hot.read(&two).await;
    let mark = now();
    for n in 0..10 {
        one.click(n, mark);
        two.click(100 + n, mark);
    }
    let end = one.mark(mark);
    let landed = world.registry.until(|state| state.landed.contains_key(&one.journal)).await;
    assert_eq!(landed.landed[&one.journal].through, UtcMicros(mark));
    assert_eq!(landed.landed[&one.journal].committed, end);
    assert!(!landed.landed.contains_key(&two.journal), "without a mark nothing is promised");
    world.until(&two, 10).await;
    let status = hot.status.clone().wait_for(|status| status.lag_seconds == 0.0).await.unwrap().clone();
    assert_eq!(status.partitions.len(), 2);
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..10).chain(100..110).collect::<Vec<u128>>());
    assert!(world.ids(Table::Arrivals).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_one_row_within_a_partition_across_partitions_and_in_the_window() {
    let world = World::new();
    let (one, two) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&one).await;
    hot.read(&two).await;
    for time in [now(), sure()] {
        let id = time as u128;
        one.click(id, time);
        one.click(id, time + 1);
        let a = one.click(id + 1, time);
        two.click(id, time);
        let b = two.click(id + 2, time);
        world.until(&one, a).await;
        world.until(&two, b).await;
        let c = two.click(id + 1, time + 30 * SECOND); // landed before: the window knows
        world.until(&two, c).await;
        let ids = world.ids(Table::Clicks).await;
        assert_eq!(ids.iter().filter(|&&i| i >= id && i < id + 3).count(), 3, "{ids:?}");
    }
    hot.drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_knows_from_the_lake_what_its_window_has_lost() {
    let world = World::new();
    let (old, new) = (Log::new(), Log::new());
    let time = now();
    let hot = world.start();
    hot.read(&old).await;
    let end = old.clicks(0..20, time);
    world.until(&old, end).await;
    hot.kill().await;

    // the edge asks again under the same ids, through another worker's journal
    let hot = world.start();
    hot.read(&old).await;
    hot.read(&new).await;
    let end = new.clicks(0..25, time + 3 * SECOND);
    world.until(&new, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..25).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_days_ahead_and_went_back_makes_no_event_surely_new() {
    let world = World::new();
    let (old, new) = (Log::new(), Log::new());
    // a journal's times never go back: after the clock was set right, events are still days ahead
    let ahead = now() + 3 * 24 * 3_600 * SECOND;
    let hot = world.start();
    hot.read(&old).await;
    let end = old.clicks(0..20, ahead);
    world.until(&old, end).await;
    hot.kill().await;

    let hot = world.start();
    hot.read(&new).await;
    let end = new.clicks(0..20, ahead + 10 * SECOND);
    world.until(&new, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..20).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_or_whose_answer_is_lost_lands_once() {
    for fault in [Fault::Before, Fault::After] {
        let world = World::new();
        let log = Log::new();
        let hot = world.start();
        hot.read(&log).await;
        let first = log.click(1, sure());
        world.until(&log, first).await;
        for n in 0..6u128 {
            world.store.arm(ENTRY, 1, fault.clone());
            let end = log.click(10 + n, sure());
            world.until(&log, end).await;
            assert!(world.store.is_spent());
        }
        hot.drain().await.unwrap();
        assert_eq!(world.ids(Table::Clicks).await, [1, 10, 11, 12, 13, 14, 15], "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_that_is_down_is_waited_for() {
    let world = World::new();
    let log = Log::new();
    world.store.set_down(true);
    let hot = world.start();
    hot.read(&log).await;
    let end = log.clicks(0..9, now());
    let mut status = hot.status.clone();
    status.wait_for(|status| status.failing.is_some()).await.unwrap();
    world.store.set_down(false);
    world.until(&log, end).await;
    status.wait_for(|status| status.failing.is_none()).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await.len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_owner_that_wakes_and_commits_adds_nothing() {
    let world = World::new();
    let log = Log::new();
    let old = world.start();
    old.read(&log).await;
    let first = log.click(1, sure());
    world.until(&log, first).await;
    // the old owner stands still on its way into the log, with 2 and 3 in its hands
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    log.click(2, sure());
    log.click(3, sure());
    gate.reached().await;
    // another takes the partition over and goes further
    let new = world.start();
    new.read(&log).await;
    let end = log.click(4, sure());
    world.until(&log, end).await;
    gate.open();
    // the old one must find itself overtaken, read on from there, and both live with each other
    let end = log.clicks(5..30, sure());
    world.until(&log, end).await;
    old.drain().await.unwrap();
    new.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (1..30).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_overtaken_asks_the_lake_what_others_have_judged() {
    let world = World::new();
    let log = Log::new();
    let none = HotConfig { skew: Duration::ZERO, repeat: Duration::ZERO, ..quick() };
    let old = world.start_with(none.clone());
    old.read(&log).await;
    let first = log.click(1, now());
    world.until(&log, first).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    log.click(2, now());
    gate.reached().await;
    let new = world.start_with(none);
    new.read(&log).await;
    let time = now(); // later than the old one's floor
    let end = log.clicks(3..9, time);
    world.until(&log, end).await;
    new.kill().await;
    gate.open();
    // the ids that the other has judged come again, and only the lake can tell
    let end = log.clicks(2..12, time);
    world.until(&log, end).await;
    old.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (1..12).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_any_put_lose_and_double_nothing() {
    let world = World::new();
    let log = Log::new();
    let mut expected = Vec::new();
    for round in 0..12u128 {
        let gate = Gate::new();
        // some stand still before a data file, some before the log entry, some in a side table
        let pattern = ["date=", ENTRY, "arrivals/", "rejects/"][round as usize % 4];
        world.store.arm(pattern, 1, Fault::Hold(gate.clone()));
        let hot = world.start();
        hot.read(&log).await;
        let time = if pattern == "arrivals/" { settle_an_hour(&world).await } else { sure() };
        for n in 0..4 {
            log.click(round * 10 + n, time);
            expected.push((round * 10 + n, time));
        }
        if pattern == "rejects/" {
            log.garbage(b"junk");
        }
        gate.reached().await;
        hot.kill().await;
        gate.open();
    }
    let hot = world.start();
    hot.read(&log).await;
    let end = log.click(999, sure());
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    let late_time = settled_time();
    let on_time = expected.iter().filter(|(_, time)| *time != late_time).map(|(id, _)| *id).chain([999]);
    assert_eq!(world.ids(Table::Clicks).await, on_time.collect::<Vec<u128>>());
    let mut late = world.ids(Table::Arrivals).await;
    late.dedup(); // written again on a replay: the settler's union by id makes that harmless
    let wanted: Vec<u128> = expected.iter().filter(|(_, time)| *time == late_time).map(|(id, _)| *id).collect();
    assert_eq!(late, wanted);
    assert_eq!(rejected(&world).await.len(), 3, "each unreadable record once");
}

fn settled_time() -> i64 {
    100 * HOUR + 5
}

/// Settles hour 100 up to [`settled_time`], which is returned.
async fn settle_an_hour(world: &World) -> i64 {
    let mut clicks = world.table(Table::Clicks).await;
    let txns = vec![("settled/100".to_owned(), settled_time())];
    if clicks.txn("settled/100").is_none() {
        clicks.commit(Change { txns, ..Change::default() }).await.unwrap();
    }
    settled_time()
}

async fn rejected(world: &World) -> Vec<(i64, String)> {
    let table = world.table(Table::Rejects).await;
    let mut found = Vec::new();
    for file in table.files() {
        for batch in table.read(file, &["number", "reason"]).await.unwrap() {
            let (numbers, reasons) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
            found.extend(numbers.values().iter().zip(reasons).map(|(n, r)| (*n, r.unwrap().to_owned())));
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_read_is_kept_and_stops_nothing() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    log.click(1, sure());
    log.garbage(b"\x01 junk");
    log.garbage(b"\xff newer");
    log.click(POISON, sure());
    let end = log.click(2, sure());
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1, 2]);
    let reasons = [(1, "corrupt"), (2, "newer_version"), (3, "panic")].map(|(n, r)| (n, r.to_owned()));
    assert_eq!(rejected(&world).await, reasons);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_settled_hour_goes_to_arrivals() {
    let world = World::new();
    let log = Log::new();
    let time = settle_an_hour(&world).await;
    let hot = world.start();
    hot.read(&log).await;
    log.click(1, time);
    log.click(2, time - 1);
    let end = log.click(3, time + 1);
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Arrivals).await, [1, 2]);
    assert_eq!(world.ids(Table::Clicks).await, [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lateness_is_judged_where_the_commit_lands() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    let first = log.click(1, sure());
    world.until(&log, first).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    let end = log.click(2, settled_time());
    gate.reached().await; // judged as on time, and on its way
    settle_an_hour(&world).await;
    gate.open();
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1]);
    assert_eq!(world.ids(Table::Arrivals).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retirement_makes_what_is_under_way_late() {
    let world = World::new();
    let (given_up, good) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&given_up).await;
    hot.read(&good).await;
    let first = given_up.click(1, sure());
    world.until(&given_up, first).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    let end = given_up.click(2, sure());
    gate.reached().await;
    retire(&world.lake(), world.registry.as_ref(), given_up.journal).await.unwrap();
    assert!(world.registry.state.borrow().retired.contains(&given_up.journal));
    gate.open();
    world.until(&given_up, end).await;
    let end = good.click(3, sure());
    world.until(&good, end).await;
    // again is fine
    retire(&world.lake(), world.registry.as_ref(), given_up.journal).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1, 3]);
    assert_eq!(world.ids(Table::Arrivals).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_journal_is_closed_when_the_lake_holds_all_of_it() {
    let world = World::new();
    let (full, empty) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&full).await;
    hot.read(&empty).await;
    world.store.arm(ENTRY, 1, Fault::Before);
    full.click(1, sure());
    let end = full.mark(7);
    full.seal();
    empty.seal();
    let state = world.registry.until(|state| state.closed.len() == 2).await;
    assert_eq!(state.landed[&full.journal].committed, end);
    let mut status = hot.status.clone();
    status.wait_for(|status| status.partitions.is_empty()).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_commits_what_is_there_and_says_when_it_can_not() {
    let world = World::new();
    let log = Log::new();
    let slow = HotConfig { commit_after: Duration::from_secs(3_600), ..HotConfig::default() };
    let hot = world.start_with(slow.clone());
    hot.read(&log).await;
    hot.status.clone().wait_for(|status| !status.partitions.is_empty()).await.unwrap();
    log.clicks(0..50, sure());
    log.mark(5);
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await.len(), 50);
    assert_eq!(world.registry.state.borrow().landed[&log.journal].through, UtcMicros(5));

    let hot = world.start_with(HotConfig { drain_within: Duration::from_millis(50), ..slow });
    hot.read(&log).await;
    hot.status.clone().wait_for(|status| !status.partitions.is_empty()).await.unwrap();
    log.click(99, sure());
    world.store.set_down(true);
    assert!(matches!(hot.drain().await, Err(HotError::Drain(_))));
    world.store.set_down(false);
    assert_eq!(world.ids(Table::Clicks).await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_down_holds_no_commit_back() {
    let world = World::new();
    let log = Log::new();
    *world.registry.failing.lock().unwrap() = true;
    let hot = world.start();
    hot.read(&log).await;
    log.click(1, sure());
    let end = log.mark(3);
    world.until(&log, end).await;
    assert_eq!(world.registry.state.borrow().published, 0);
    *world.registry.failing.lock().unwrap() = false;
    world.registry.until(|state| state.landed.contains_key(&log.journal)).await;
    hot.drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_can_not_be_read_is_named_and_holds_up_no_other() {
    let world = World::new();
    let (broken, good) = (Log::new(), Log::new());
    broken.set_failing(true);
    let hot = world.start();
    hot.read(&broken).await;
    hot.read(&good).await;
    let end = good.click(1, sure());
    world.until(&good, end).await;
    let mut status = hot.status.clone();
    let named = |status: &HotStatus| status.partitions.iter().any(|one| one.failing.is_some());
    good.click(2, sure());
    status.wait_for(named).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_budget_makes_many_commits_and_loses_nothing() {
    let world = World::new();
    let logs = [Log::new(), Log::new(), Log::new()];
    let config = HotConfig { max_bytes: 4_096, commit_after: Duration::from_secs(5), ..HotConfig::default() };
    let hot = world.start_with(config);
    for (n, log) in logs.iter().enumerate() {
        for k in 0..60 {
            log.click(n as u128 * 1_000 + k, sure());
        }
        hot.read(log).await;
    }
    hot.status.clone().wait_for(|status| status.partitions.len() == 3).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await.len(), 180);
    assert!(world.table(Table::Clicks).await.version() > 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_alone_make_few_commits() {
    let world = World::new();
    let log = Log::new();
    let config = HotConfig {
        commit_after: Duration::from_millis(1),
        idle_after: Duration::from_secs(3_600),
        ..HotConfig::default()
    };
    let hot = world.start_with(config);
    hot.read(&log).await;
    for n in 0..30 {
        log.mark(n);
    }
    let end = log.click(1, sure());
    world.until(&log, end).await;
    for n in 0..30 {
        log.mark(100 + n);
    }
    assert_eq!(world.table(Table::Clicks).await.version(), 1);
    hot.drain().await.unwrap();
    assert_eq!(world.registry.state.borrow().landed[&log.journal].through, UtcMicros(129));
}
