//! Random lives of a journal against a plain list: whatever happens, in whatever order, a reader sees the list, and
//! a position that a reader was shown never means anything else.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use proptest::prelude::*;
use proptest::sample::Index;
use tokio::runtime::Runtime;

use super::*;
use crate::journal::JournalPartition;
use crate::journal::disk::RealDisk;
use crate::journal::follow::Follower;
use crate::journal::segment::Place;
use crate::stream::Partition;

#[derive(Clone, Debug)]
enum Step {
    Append { size: usize, billed: bool },
    Sync { seconds: u64 },
    Read { max_bytes: usize },
    Follow,
    Trim { share: Index },
    Kill,
    PowerCut { kept: Index, zeros: Index },
    CutTail { bytes: Index },
    FlipBit { bit: Index },
    Clock { by: i64 },
    FailSyncs(u32),
    FailDirectorySyncs(u32),
    FailWrites { writes: u32, cuts: u32 },
    Leave(Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0usize..300, any::<bool>()).prop_map(|(size, billed)| Step::Append { size, billed }),
        6 => (0u64..15).prop_map(|seconds| Step::Sync { seconds }),
        4 => (1usize..2_000).prop_map(|max_bytes| Step::Read { max_bytes }),
        2 => Just(Step::Follow),
        1 => any::<Index>().prop_map(|share| Step::Trim { share }),
        1 => Just(Step::Kill),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(kept, zeros)| Step::PowerCut { kept, zeros }),
        1 => any::<Index>().prop_map(|bytes| Step::CutTail { bytes }),
        1 => any::<Index>().prop_map(|bit| Step::FlipBit { bit }),
        1 => (-5_000_000i64..10_000_000).prop_map(|by| Step::Clock { by }),
        1 => (1u32..3).prop_map(Step::FailSyncs),
        1 => (1u32..3).prop_map(Step::FailDirectorySyncs),
        1 => (1u32..4, 0u32..3).prop_map(|(writes, cuts)| Step::FailWrites { writes, cuts }),
        1 => prop_oneof![Just(None), (0u64..3_000).prop_map(Some)].prop_map(Step::Leave),
    ]
}

/// What a position holds: a click's bytes, or a mark.
type Entry = Option<Vec<u8>>;

struct Life {
    node: Node,
    journal: Option<Journal>,
    partition: Option<JournalPartition>,
    follower: Follower,
    entries: Vec<Entry>,
    /// Positions below this were shown to a reader, and may be in the lake.
    shown: u64,
    next_read: u64,
    last_time: i64,
    number: u32,
    now: Instant,
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap())
}

impl Life {
    fn new() -> Self {
        let node = Node::with(JournalConfig { reserve: 2_000, max_bytes: 1 << 20, ..CONFIG });
        let journal = node.open();
        let mut life = Self {
            partition: Some(JournalPartition::new(&journal)),
            follower: Self::follower(&node),
            node,
            journal: None,
            entries: Vec::new(),
            shown: 0,
            next_read: 0,
            last_time: FIRST_MARK.0,
            number: 0,
            now: Instant::now(),
        };
        life.journal = Some(journal);
        life
    }

    fn follower(node: &Node) -> Follower {
        Follower::new(Place::new(Arc::new(RealDisk), node.path(), node.id))
    }

    fn journal(&self) -> &Journal {
        self.journal.as_ref().unwrap()
    }

    /// What has been written without being asked for is marks.
    fn learn_marks(&mut self) {
        let end = self.journal().stats().end;
        assert!(end >= self.entries.len() as u64);
        self.entries.resize(end as usize, None);
    }

    fn append(&mut self, size: usize, billed: bool) {
        self.number += 1;
        let mut bytes = Vec::new();
        let promise = if billed { Analytics::Billed } else { Analytics::Internal };
        let (number, last_time) = (self.number, self.last_time);
        let mut taken = 0;
        let appended = self.journal().append(promise, |time, out| {
            assert!(time.0 >= last_time, "times never go back");
            taken = time.0;
            bytes.extend_from_slice(&time.0.to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.resize(12 + size, number as u8);
            out.extend_from_slice(&bytes);
        });
        match appended {
            Appended::Written { offset } => {
                assert_eq!(offset, self.journal().stats().end - 1);
                self.entries.resize(offset as usize, None);
                self.entries.push(Some(bytes));
                self.last_time = taken;
            }
            Appended::Dropped(_) => assert!(!billed),
            Appended::Lost(_) => assert!(billed),
        }
    }

    fn sync(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let before = self.journal().stats();
        let synced = self.journal().round(self.now);
        let after = self.journal().stats();
        if synced.is_ok() {
            assert!(after.synced >= before.end, "all that was written is synced");
        }
        self.node.journals.budget().tend(self.now);
        self.learn_marks();
    }

    fn compare(entries: &[Entry], records: &[Record], from: u64) {
        for (record, offset) in records.iter().zip(from..) {
            assert_eq!(record.offset, offset);
            match (&record.body, &entries[offset as usize]) {
                (Body::Click(bytes), Some(expected)) => assert_eq!(bytes, expected),
                (Body::Mark(_), None) => {}
                other => panic!("position {offset} holds {other:?}"),
            }
        }
    }

    fn read(&mut self, max_bytes: usize) {
        let stats = self.journal().stats();
        self.next_read = self.next_read.max(stats.begin);
        if self.next_read >= stats.synced {
            return;
        }
        let partition = self.partition.as_mut().unwrap();
        let records = runtime().block_on(partition.read(self.next_read, max_bytes)).unwrap();
        assert!(!records.is_empty());
        Self::compare(&self.entries, &records, self.next_read);
        self.next_read += records.len() as u64;
        assert!(self.next_read <= stats.synced, "nothing unsynced is shown");
        self.shown = self.shown.max(self.next_read);
    }

    fn follow(&mut self) {
        let stats = self.journal().stats();
        let seen = self.follower.refresh().unwrap();
        assert!(seen.synced <= stats.synced, "{seen:?} {stats:?}");
        assert_eq!((seen.begin, seen.end), (stats.begin, stats.end));
        let mut at = seen.begin;
        while at < seen.synced {
            let records = self.follower.read(at, 700).unwrap();
            assert!(!records.is_empty());
            Self::compare(&self.entries, &records, at);
            at += records.len() as u64;
        }
        self.shown = self.shown.max(seen.synced);
    }

    fn close(&mut self) {
        self.partition = None;
        self.journal = None;
        self.node.disk.faults(|faults| *faults = disk::Faults::default());
    }

    /// Opens the journal again. Returns whether it is whole.
    fn reopen(&mut self, keeps_at_least: u64) -> bool {
        let journal = self.node.open_committed(self.shown);
        let stats = journal.stats();
        self.partition = Some(JournalPartition::new(&journal));
        self.journal = Some(journal);
        if stats.end < self.entries.len() as u64 {
            // A machine that lost power, or whose files are changed by hand, has no reader that lived through it.
            self.follower = Self::follower(&self.node);
        }
        assert_eq!(stats.synced, stats.end);
        assert!(stats.end <= self.entries.len() as u64, "nothing comes out of nowhere");
        if stats.damage.is_some() {
            assert!(stats.sealed);
            self.entries.truncate(stats.end as usize);
            return false;
        }
        assert!(stats.end >= self.shown, "a position that was shown is never given again");
        assert!(stats.end >= keeps_at_least, "{} of {} are left", stats.end, self.entries.len());
        self.entries.truncate(stats.end as usize);
        let times = self.entries.iter().flatten().map(|click| i64::from_le_bytes(click[..8].try_into().unwrap()));
        self.last_time = times.max().unwrap_or(FIRST_MARK.0);
        true
    }

    fn last_segment(&self, change: impl FnOnce(&mut Vec<u8>)) {
        self.node.disk.tamper(&self.node.segments().pop().unwrap(), change);
    }

    /// Returns whether the journal is still whole.
    fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Append { size, billed } => self.append(*size, *billed),
            Step::Sync { seconds } => self.sync(*seconds),
            Step::Read { max_bytes } => self.read(*max_bytes),
            Step::Follow => self.follow(),
            Step::Trim { share } => self.journal().trim(share.index(self.shown as usize + 1) as u64),
            Step::Kill => {
                self.close();
                assert!(self.reopen(self.entries.len() as u64), "a kill damages nothing");
            }
            Step::PowerCut { kept, zeros } => {
                let synced = self.journal().stats().synced;
                self.close();
                self.node.disk.power_cut(|unsynced| {
                    let kept = kept.index(unsynced as usize + 1) as u64;
                    (kept, zeros.index(kept as usize + 1) as u64)
                });
                assert!(self.reopen(synced), "a power cut damages nothing");
            }
            Step::CutTail { bytes } => {
                self.close();
                self.last_segment(|segment| segment.truncate(bytes.index(segment.len() + 1)));
                return self.reopen(0);
            }
            Step::FlipBit { bit } => {
                self.close();
                self.last_segment(|segment| {
                    let bit = bit.index(segment.len() * 8);
                    segment[bit / 8] ^= 1 << (bit % 8);
                });
                return self.reopen(0);
            }
            Step::Clock { by } => {
                self.node.clock.fetch_add(*by, Relaxed);
            }
            Step::FailSyncs(count) => self.node.disk.faults(|faults| faults.syncs = *count),
            Step::FailDirectorySyncs(count) => self.node.disk.faults(|faults| faults.directory_syncs = *count),
            Step::FailWrites { writes, cuts } => {
                self.node.disk.faults(|faults| (faults.writes, faults.cuts) = (*writes, *cuts));
            }
            Step::Leave(Some(bytes)) => self.node.disk.leave(*bytes),
            Step::Leave(None) => self.node.disk.faults(|faults| faults.capacity = None),
        }
        true
    }

    /// What is left at the end is read whole, by a reader here and by one elsewhere.
    fn finish(mut self, is_whole: bool) {
        if is_whole {
            self.close();
            assert!(self.reopen(self.entries.len() as u64));
            self.journal().seal().unwrap();
            self.learn_marks();
            self.follower = Self::follower(&self.node);
            self.follow();
            assert_eq!(self.shown, self.entries.len() as u64);
        }
        self.next_read = 0;
        self.shown = 0;
        while self.next_read < self.journal().stats().end {
            self.read(500);
        }
        assert_eq!(self.journal().stats().end, self.entries.len() as u64);
        let used = self.node.journals.budget().stats().used;
        assert_eq!(used, self.journal().stats().bytes, "the budget knows what the segments take");
    }
}

proptest! {
    #[test]
    fn a_reader_sees_the_list(steps in proptest::collection::vec(step(), 1..120)) {
        let mut life = Life::new();
        let mut is_whole = true;
        for step in &steps {
            is_whole = life.step(step);
            if !is_whole {
                break;
            }
        }
        life.finish(is_whole);
    }
}
