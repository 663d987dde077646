//! Random doings around the running hot path: repeats across partitions, faults of the store, kills, settled hours,
//! retirements. Whatever happens, every id is in the lake, and none is two rows.
//!
//! Once with one process that reads all partitions, as journals are read, where an id may be in several of them; and once
//! with two that share a topic's, where an id is in one of them, and partitions change hands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use schemas::tables::Table;
use schemas::time::HOUR;

use super::testing::Log;
use super::tests::{ENTRY, Running, World, now, quick};
use super::{HotConfig, retire};
use crate::lake::Change;
use crate::lake::testing::Fault;

const LOGS: usize = 3;

#[derive(Clone, Debug)]
enum Doing {
    /// A record of an id, new or repeated, in a partition.
    Click { log: usize, id: u128 },
    /// A record of an id whose hour may be settled by now.
    Old { log: usize, id: u128 },
    /// The next log entry of a table fails, before or after it is written.
    Fail { arrivals: bool, after: bool },
    /// The process of one of two is killed, and another takes its partitions over.
    Kill(usize),
    /// A partition goes from its owner to the other.
    Move(usize),
    /// The other takes a partition whose owner doesn't know yet; then that one leaves it.
    Seize(usize),
    /// All that was appended is waited for.
    Wait,
    /// The settler brings an old hour further.
    Settle,
    /// A journal is given up.
    Retire(usize),
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let one = prop_oneof![
        12 => (0..LOGS, 0u128..40).prop_map(|(log, id)| Doing::Click { log, id }),
        4 => (0..LOGS, 100u128..120).prop_map(|(log, id)| Doing::Old { log, id }),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(arrivals, after)| Doing::Fail { arrivals, after }),
        2 => (0..2usize).prop_map(Doing::Kill),
        2 => (0..LOGS).prop_map(Doing::Move),
        1 => (0..LOGS).prop_map(Doing::Seize),
        3 => Just(Doing::Wait),
        1 => Just(Doing::Settle),
        1 => (0..LOGS).prop_map(Doing::Retire),
    ];
    proptest::collection::vec(one, 1..80)
}

impl Doing {
    /// The same with journals, which one process reads.
    fn on_journals(self) -> Self {
        match self {
            Self::Kill(_) => Self::Kill(0),
            Self::Move(log) | Self::Seize(log) => Self::Click { log, id: 0 },
            same => same,
        }
    }

    /// The same on a topic, whose partition follows from the id.
    fn on_a_topic(self) -> Self {
        let home = |id: u128| (id % LOGS as u128) as usize;
        match self {
            Self::Click { id, .. } => Self::Click { log: home(id), id },
            Self::Old { id, .. } => Self::Old { log: home(id), id },
            same => same,
        }
    }
}

/// Two records of one id have one time here, so the span that the window must be sure beyond is nothing.
fn config() -> HotConfig {
    HotConfig { skew: Duration::ZERO, repeat: Duration::ZERO, ..quick() }
}

struct Sim {
    world: World,
    logs: Vec<Log>,
    ends: Vec<u64>,
    times: BTreeMap<u128, i64>,
    settled: i64,
    hots: [Running; 2],
    /// Which of the two reads each partition.
    owners: [usize; LOGS],
}

impl Sim {
    async fn new() -> Self {
        let world = World::new();
        // made before any fault: the faults are for what comes after
        for table in [Table::Clicks, Table::Arrivals] {
            world.table(table).await;
        }
        let logs: Vec<Log> = (0..LOGS).map(|_| Log::new()).collect();
        let hots = [start(&world, &logs).await, start(&world, &[]).await];
        let owners = [0; LOGS]; // with journals it stays so
        Self { world, logs, ends: vec![0; LOGS], times: BTreeMap::new(), settled: 100 * HOUR, hots, owners }
    }

    async fn go(&mut self, doing: Doing) {
        match doing {
            Doing::Click { log, id } => {
                let time = *self.times.entry(id).or_insert_with(now);
                self.ends[log] = self.logs[log].click(id, time);
            }
            Doing::Old { log, id } => {
                let time = 100 * HOUR + i64::try_from(id).unwrap();
                self.times.insert(id, time);
                self.ends[log] = self.logs[log].click(id, time);
            }
            Doing::Fail { arrivals, after } => {
                let pattern = if arrivals { "arrivals/_delta_log/" } else { ENTRY };
                self.world.store.arm(pattern, 1, if after { Fault::After } else { Fault::Before });
            }
            Doing::Kill(which) => {
                let next = start(&self.world, &[]).await;
                std::mem::replace(&mut self.hots[which], next).kill().await;
                for (log, _) in self.logs.iter().zip(self.owners).filter(|(_, owner)| *owner == which) {
                    self.hots[which].read(log).await;
                }
            }
            Doing::Move(log) => {
                let owner = self.owners[log];
                self.hots[owner].leave(&self.logs[log]).await;
                self.hots[1 - owner].read(&self.logs[log]).await;
                self.owners[log] = 1 - owner;
            }
            Doing::Seize(log) => {
                let owner = self.owners[log];
                self.hots[1 - owner].read(&self.logs[log]).await;
                tokio::task::yield_now().await;
                self.hots[owner].leave(&self.logs[log]).await;
                self.owners[log] = 1 - owner;
            }
            Doing::Wait => self.wait().await,
            Doing::Settle => {
                self.settled += 7;
                let txns = vec![("settled/100".to_owned(), self.settled)];
                let mut clicks = self.world.table(Table::Clicks).await;
                // a fault may be armed for this very entry: then the settler has not settled
                drop(clicks.commit(Change { txns, ..Change::default() }).await);
            }
            Doing::Retire(log) => {
                let (lake, registry) = (self.world.lake(), self.world.registry.as_ref());
                drop(retire(&lake, registry, self.logs[log].journal, 0).await);
            }
        }
    }

    async fn wait(&self) {
        for (log, end) in self.logs.iter().zip(&self.ends) {
            if *end > 0 {
                self.world.until(log, *end).await;
            }
        }
    }

    async fn check(self) {
        self.wait().await;
        for hot in self.hots {
            hot.drain().await.unwrap();
        }
        let rows = self.world.ids(Table::Clicks).await;
        let late: BTreeSet<u128> = self.world.ids(Table::Arrivals).await.into_iter().collect();
        let once: BTreeSet<u128> = rows.iter().copied().collect();
        assert_eq!(once.len(), rows.len(), "an id is two rows: {rows:?}");
        let held: BTreeSet<u128> = once.union(&late).copied().collect();
        assert_eq!(held, self.times.keys().copied().collect());
    }
}

async fn start(world: &World, logs: &[Log]) -> Running {
    let hot = world.start_with(config());
    for log in logs {
        hot.read(log).await;
    }
    hot
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn every_id_is_held_and_none_is_two_rows(doings in doings()) {
        run(doings.into_iter().map(Doing::on_journals));
    }

    #[test]
    fn nor_when_two_share_a_topic(doings in doings()) {
        run(doings.into_iter().map(Doing::on_a_topic));
    }
}

fn run(doings: impl Iterator<Item = Doing>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut sim = Sim::new().await;
        for doing in doings {
            sim.go(doing).await;
        }
        sim.check().await;
    });
}
