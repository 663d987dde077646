//! The whole hot path on a store in memory that fails on purpose.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray as _;
use arrow::datatypes::{Float64Type, Int64Type, TimestampMicrosecondType};
use object_store::memory::InMemory;
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::{HOUR, SECOND};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

mod handover;
mod life;
mod once;
mod sampled;
mod side;
mod topic;

use super::testing::{Log, MemoryCoverage, MemoryRegistry, POISON, Plain, TopicLog};
use super::*;
use crate::lake::testing::{Fault, FaultStore, Gate};
use crate::lake::{Change, LakeOptions, TableHandle};

/// A lake that outlives the hot paths on it.
pub(super) struct World {
    pub(super) store: FaultStore,
    pub(super) registry: Arc<MemoryRegistry>,
    pub(super) coverage: Arc<MemoryCoverage>,
}

pub(super) struct Running {
    seatings: mpsc::Sender<Seating>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), HotError>>,
    status: watch::Receiver<HotStatus>,
    /// Tests sample by it without a backlog.
    pub(super) cap: Arc<Cap>,
}

impl World {
    pub(super) fn new() -> Self {
        let store = FaultStore::new(Arc::new(InMemory::new()));
        Self { store, registry: Arc::default(), coverage: Arc::default() }
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
        let coverage: Arc<dyn Coverage> = Arc::clone(&self.coverage) as Arc<dyn Coverage>;
        let path = HotPath::new(self.lake(), registry, Arc::new(Plain), config).with_coverage(coverage);
        let (status, cap) = (path.status(), Arc::clone(&path.cap));
        let (seatings, incoming) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let task = tokio::spawn(path.run(incoming, cancel.clone()));
        Running { seatings, cancel, task, status, cap }
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

    /// What the rows of each id weigh.
    pub(super) async fn weights(&self, table: Table) -> BTreeMap<u128, f64> {
        let table = self.table(table).await;
        let mut weights = BTreeMap::new();
        for file in table.files() {
            for batch in table.read(file, &["click_id", "weight"]).await.unwrap() {
                let (ids, of) = (batch.column(0).as_binary::<i32>(), batch.column(1).as_primitive::<Float64Type>());
                let ids = ids.iter().map(|id| u128::from_be_bytes(id.unwrap().try_into().unwrap()));
                weights.extend(ids.zip(of.values().iter().copied()));
            }
        }
        weights
    }

    /// The lowest rate recorded of each second, whatever the link.
    pub(super) async fn rates(&self) -> BTreeMap<i64, f64> {
        let mut rates = BTreeMap::new();
        for ((_, second), rate) in self.recorded().await {
            let lowest = rates.entry(second).or_insert(rate);
            *lowest = rate.min(*lowest);
        }
        rates
    }

    /// The lowest rate recorded of each link and second.
    pub(super) async fn recorded(&self) -> BTreeMap<(String, i64), f64> {
        let table = self.table(Table::Sampling).await;
        let mut rates = BTreeMap::new();
        for file in table.files() {
            for batch in table.read(file, &["link_id", "second", "rate"]).await.unwrap() {
                let links = batch.column(0).as_string::<i32>();
                let seconds = batch.column(1).as_primitive::<TimestampMicrosecondType>().values();
                let of = batch.column(2).as_primitive::<Float64Type>().values();
                for ((link, second), rate) in links.iter().zip(seconds).zip(of) {
                    let lowest = rates.entry((link.unwrap().to_owned(), second / SECOND)).or_insert(*rate);
                    *lowest = rate.min(*lowest);
                }
            }
        }
        rates
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
        self.seatings.send(log.partition().into()).await.unwrap();
    }

    /// Has a partition left, and waits until it is.
    pub(super) async fn leave(&self, log: &Log) {
        let (left, is_left) = oneshot::channel();
        let name = log.journal.to_string();
        self.seatings.send(Seating::Leave { name, left }).await.unwrap();
        is_left.await.unwrap();
    }

    /// Has a partition of a topic left, and waits until it is.
    pub(super) async fn leave_topic(&self, log: &TopicLog) {
        let (left, is_left) = oneshot::channel();
        let name = log.part.generation.partition(log.part.number);
        self.seatings.send(Seating::Leave { name, left }).await.unwrap();
        is_left.await.unwrap();
    }

    pub(super) async fn read_topic(&self, log: &TopicLog) {
        self.seatings.send(log.partition().into()).await.unwrap();
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
