//! Random doings around the running hot path: repeats across partitions, faults of the store, kills, settled hours,
//! retirements, sampling that comes and goes. Whatever happens, every id is in the lake, or was sampled away by a rate that is
//! recorded, and none is two rows.
//!
//! Once with one process that reads all partitions, as journals are read, where an id may be in several of them; and once
//! with two that share a topic's, where an id is in one of them, and partitions change hands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use schemas::sampling::is_kept;
use schemas::tables::Table;
use schemas::time::{HOUR, SECOND};
use schemas::{ClickId, LinkId};

use super::testing::Log;
use super::tests::{ENTRY, Running, World, now, quick};
use super::{HotConfig, retire};
use crate::lake::Change;
use crate::lake::testing::Fault;

const LOGS: usize = 3;
/// Links whose clicks may be sampled.
const LINKS: usize = 2;
/// Bursts of clicks on one of them, each of a second of its own.
const BURSTS: u128 = 8;
/// Ids from here on are of bursts.
const BURSTS_FROM: u128 = 1_000;
/// The most ids of a burst.
const BURST: u128 = 12;

/// The ids of the first clicks of a burst.
fn burst_ids(burst: u128, clicks: u128) -> std::ops::Range<u128> {
    let first = BURSTS_FROM + burst * 100;
    first..first + clicks
}

/// Whether a burst is of an hour that may be settled.
fn is_old(burst: u128) -> bool {
    burst.is_multiple_of(4)
}

#[derive(Clone, Debug)]
enum Doing {
    /// A record of an id, new or repeated, in a partition.
    Click { log: usize, id: u128 },
    /// A record of an id whose hour may be settled by now.
    Old { log: usize, id: u128 },
    /// Clicks on an `internal` link, all of one second, new or repeated, in a partition.
    Burst { log: usize, burst: u128, clicks: u128 },
    /// Of such a link each partition keeps so many a second from now on.
    Cap(Option<u32>),
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
        6 => (0..LOGS, 0..BURSTS, 1..=BURST).prop_map(|(log, burst, clicks)| Doing::Burst { log, burst, clicks }),
        3 => proptest::option::weighted(0.7, 1u32..4).prop_map(Doing::Cap),
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
        match self {
            Self::Click { id, .. } => Self::Click { log: home(id), id },
            Self::Old { id, .. } => Self::Old { log: home(id), id },
            same => same,
        }
    }
}

/// The partition of a topic that an id is in.
fn home(id: u128) -> usize {
    (id % LOGS as u128) as usize
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
    links: [LinkId; LINKS],
    /// Of each burst that there was, its time, and the most clicks.
    bursts: BTreeMap<u128, (i64, u128)>,
    /// Clicks that were found to be sampled away.
    away: BTreeSet<u128>,
    /// Whether a partition follows from the id.
    is_topic: bool,
    cap: Option<u32>,
    has_retired: bool,
    settled: i64,
    /// Two.
    hots: Vec<Running>,
    /// Which of the two reads each partition.
    owners: [usize; LOGS],
}

impl Sim {
    async fn new(is_topic: bool) -> Self {
        let world = World::new();
        // made before any fault: the faults are for what comes after
        for table in [Table::Clicks, Table::Arrivals] {
            world.table(table).await;
        }
        let logs: Vec<Log> = (0..LOGS).map(|_| Log::new()).collect();
        let hots = vec![start(&world, &logs).await, start(&world, &[]).await];
        let owners = [0; LOGS]; // with journals it stays so
        Self {
            world,
            logs,
            ends: vec![0; LOGS],
            times: BTreeMap::new(),
            links: [LinkId::new(), LinkId::new()],
            bursts: BTreeMap::new(),
            away: BTreeSet::new(),
            is_topic,
            cap: None,
            has_retired: false,
            settled: 100 * HOUR,
            hots,
            owners,
        }
    }

    /// Clicks on an `internal` link. Some bursts are of an hour that may be settled by now; the seconds of the others haven't
    /// begun, so that they are thinned from their first click on.
    fn burst(&mut self, log: usize, burst: u128, clicks: u128) {
        let second = (now() / SECOND + 2 + self.bursts.len() as i64) * SECOND;
        let time = if is_old(burst) { 100 * HOUR + burst as i64 } else { second };
        let (time, most) = self.bursts.entry(burst).or_insert((time, 0));
        *most = clicks.max(*most);
        let link = self.links[burst as usize % LINKS];
        for id in burst_ids(burst, clicks) {
            let log = if self.is_topic { home(id) } else { log };
            self.ends[log] = self.logs[log].internal(id, *time, link);
        }
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
            Doing::Burst { log, burst, clicks } => self.burst(log, burst, clicks),
            Doing::Cap(cap) => {
                self.cap = cap;
                self.hots.iter().for_each(|hot| hot.cap.set(cap));
            }
            Doing::Fail { arrivals, after } => {
                let pattern = if arrivals { "arrivals/_delta_log/" } else { ENTRY };
                self.world.store.arm(pattern, 1, if after { Fault::After } else { Fault::Before });
            }
            Doing::Kill(which) => {
                let next = start(&self.world, &[]).await;
                next.cap.set(self.cap);
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
            Doing::Wait => {
                self.wait().await;
                self.note_away().await;
            }
            Doing::Settle => {
                self.settled += 7;
                let txns = vec![("settled/100".to_owned(), self.settled)];
                let mut clicks = self.world.table(Table::Clicks).await;
                // a fault may be armed for this very entry: then the settler has not settled
                drop(clicks.commit(Change { txns, ..Change::default() }).await);
            }
            Doing::Retire(log) => {
                self.has_retired = true;
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

    /// Takes note of clicks that were sampled away. What is late is judged by the settler: a record that isn't may still
    /// become a row.
    async fn note_away(&mut self) {
        if self.has_retired {
            return;
        }
        let held: BTreeSet<u128> = self.held().await.collect();
        let bursts = self.bursts.iter().filter(|(burst, _)| !is_old(**burst));
        let all = bursts.flat_map(|(burst, (_, most))| burst_ids(*burst, *most));
        self.away.extend(all.filter(|id| !held.contains(id)));
    }

    /// All ids that are in the lake, rows or late.
    async fn held(&self) -> impl Iterator<Item = u128> {
        let rows = self.world.ids(Table::Clicks).await.into_iter();
        rows.chain(self.world.ids(Table::Arrivals).await)
    }

    /// Checks what the lake holds. Returns how many clicks were sampled away.
    async fn check(mut self) -> usize {
        self.wait().await;
        for hot in self.hots.drain(..) {
            hot.drain().await.unwrap();
        }
        let rows = self.world.ids(Table::Clicks).await;
        let once: BTreeSet<u128> = rows.iter().copied().collect();
        assert_eq!(once.len(), rows.len(), "an id is two rows: {rows:?}");
        assert!(once.is_disjoint(&self.away), "sampled away, and back: {:?}", once.intersection(&self.away));
        let held: BTreeSet<u128> = self.held().await.collect();
        let weights = self.world.weights(Table::Clicks).await;
        let mut expected: BTreeSet<u128> = self.times.keys().copied().collect();
        let exact = expected.iter().filter_map(|id| weights.get(id));
        assert!(exact.into_iter().all(|weight| *weight == 1.0), "what is billed weighs one: {weights:?}");
        let away = self.check_bursts(&held, &weights).await;
        expected.extend(held.iter().filter(|id| **id >= BURSTS_FROM));
        assert_eq!(held, expected);
        away
    }

    /// Each click of a burst is kept at its weight, or fails a rate that is recorded for its link and second.
    async fn check_bursts(&self, held: &BTreeSet<u128>, weights: &BTreeMap<u128, f64>) -> usize {
        let rates = self.world.recorded().await;
        let mut away = 0;
        for (burst, (time, most)) in &self.bursts {
            let link = self.links[*burst as usize % LINKS];
            let lowest = rates.get(&(link.to_string(), time / SECOND)).copied();
            for id in burst_ids(*burst, *most) {
                let is_kept = |rate| is_kept(ClickId::from(id), rate);
                if held.contains(&id) {
                    assert!(weights.get(&id).is_none_or(|weight| is_kept(1.0 / weight)), "{id} of {weights:?}");
                } else {
                    assert!(lowest.is_some_and(|rate| !is_kept(rate)), "{id} is gone, and {lowest:?} is recorded");
                    away += 1;
                }
            }
        }
        away
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
        run(false, doings.into_iter().map(Doing::on_journals));
    }

    #[test]
    fn nor_when_two_share_a_topic(doings in doings()) {
        run(true, doings.into_iter().map(Doing::on_a_topic));
    }
}

#[test]
fn what_was_sampled_away_stays_away_whoever_judges_it_again() {
    let burst = |log, burst| Doing::Burst { log, burst, clicks: BURST };
    let doings = [
        Doing::Cap(Some(1)),
        burst(0, 1),
        burst(1, 2),
        Doing::Wait,
        Doing::Kill(0),
        Doing::Cap(None),
        burst(1, 1),
        burst(0, 2),
        burst(0, 3),
    ];
    for is_topic in [false, true] {
        let away = run(is_topic, doings.clone().into_iter());
        assert!((1..2 * BURST as usize).contains(&away), "{away}");
    }
}

/// Does all that. Returns how many clicks were sampled away.
fn run(is_topic: bool, doings: impl Iterator<Item = Doing>) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut sim = Sim::new(is_topic).await;
        for doing in doings {
            sim.go(doing).await;
        }
        sim.check().await
    })
}
