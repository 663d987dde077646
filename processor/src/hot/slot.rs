//! What the committer knows of one partition. Pure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::stream::TopicPart;
use schemas::{ClickId, JournalId, UtcMicros};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::coverage::Landings;
use super::decode::{Batch, note_mark};
use super::reader::Seat;

/// Of a partition that is near its end nothing is left that has come, or been read, longer ago.
const NEAR: Duration = Duration::from_secs(60);
/// So long it may take until something is heard of a partition that is read: that it is idle, or that it can't be read.
const HEARD_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether it is near its end.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The application transaction that holds a partition's position: the first that the lake lacks.
pub(super) fn app_id(partition: &str) -> String {
    format!("stream/{partition}")
}

/// A commit that is under way, or whose outcome is unknown.
#[derive(Debug)]
pub(super) struct Tried {
    /// The position that it sets.
    pub(super) end: i64,
    /// The ids that it judges, kept or not.
    pub(super) seen: Vec<(ClickId, UtcMicros)>,
}

/// What became of a partition, as the lake tells.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The lake stands where it was expected.
    Unchanged,
    /// What was tried has landed, by whomever; these ids are judged.
    Landed {
        /// The ids, kept or not.
        seen: Vec<(ClickId, UtcMicros)>,
    },
    /// Somebody else has gone on: what was buffered is void.
    Dropped,
}

/// One partition, from the committer's side.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) app_id: String,
    /// The journal, when the partition is one.
    pub(super) journal: Option<JournalId>,
    /// Which partition of a topic it is, when it is one.
    pub(super) part: Option<TopicPart>,
    /// What has landed of each journal, when it is one of a topic.
    pub(super) landings: Landings,
    /// What the lake is expected to hold.
    pub(super) expected: Option<i64>,
    pub(super) tried: Option<Tried>,
    pub(super) buffer: VecDeque<(Arc<Batch>, OwnedSemaphorePermit)>,
    /// The last mark of each journal that has landed.
    pub(super) marks: Vec<(JournalId, UtcMicros)>,
    /// First position after the partition's last record, as last heard.
    pub(super) end: u64,
    pub(super) sealed_at: Option<u64>,
    pub(super) is_drained: bool,
    pub(super) failing: Option<String>,
    /// When it was near its end last, as far as was looked.
    pub(super) near_at: Option<Instant>,
    /// When it was looked at first.
    since: Option<Instant>,
    /// Whether anything of it was read here.
    is_heard: bool,
    seat: Seat,
    seats: watch::Sender<Seat>,
}

impl Slot {
    /// A partition that the lake holds up to `stored`; and where its reader learns where to read.
    pub(super) fn new(name: &str, part: Option<TopicPart>, stored: Option<i64>) -> (Self, watch::Receiver<Seat>) {
        let seat = Seat { number: 0, from: position(stored) };
        let (seats, reader) = watch::channel(seat);
        let slot = Self {
            name: name.into(),
            app_id: app_id(name),
            journal: name.parse().ok(),
            part,
            landings: Landings::new(),
            expected: stored,
            tried: None,
            buffer: VecDeque::new(),
            marks: Vec::new(),
            end: seat.from,
            sealed_at: None,
            is_drained: false,
            failing: None,
            near_at: None,
            since: None,
            is_heard: false,
            seat,
            seats,
        };
        (slot, reader)
    }

    /// Whether news read under `seat` still count.
    pub(super) fn is_seated(&self, seat: u64) -> bool {
        self.seat.number == seat
    }

    /// The first position that the lake lacks.
    pub(super) fn position(&self) -> u64 {
        position(self.expected)
    }

    /// The position after what is buffered.
    pub(super) fn buffered_to(&self) -> u64 {
        self.buffer.back().map_or(self.position(), |(batch, _)| batch.to)
    }

    /// What the lake lacks of it and isn't only marks: clicks, and of a topic the records up to the last that holds some. What
    /// isn't read yet may be clicks.
    pub(super) fn lag(&self) -> u64 {
        let unread = self.end.saturating_sub(self.buffered_to());
        let held: u64 = match self.part {
            None => self.buffer.iter().map(|(batch, _)| batch.events() as u64).sum(),
            Some(_) if unread > 0 => self.buffered_to() - self.position(),
            Some(_) => {
                let last = self.buffer.iter().rfind(|(batch, _)| batch.has_rows());
                last.map_or(0, |(batch, _)| batch.to - self.position())
            }
        };
        held + unread
    }

    /// Looks whether it is near its end: everything that is there is read, and in the lake but for what came just now. Whoever
    /// wrote into it before that is heard. `clock` is what clicks' times are compared with.
    pub(super) fn look(&mut self, now: Instant, clock: UtcMicros) {
        let since = *self.since.get_or_insert(now);
        if self.failing.is_some() || self.near_at.is_some_and(|at| now.duration_since(at) < LOOK_EVERY) {
            return;
        }
        let is_heard = self.is_heard || now.duration_since(since) >= HEARD_WITHIN;
        let mut times = self.buffer.iter().filter_map(|(batch, _)| batch.oldest).peekable();
        // under load there is always more to read: how old what comes now is tells how far that is behind
        let is_read = self.end <= self.buffered_to() || times.peek().is_some();
        let is_young = times.all(|time| clock.since(time) <= NEAR);
        let is_landing = self.buffer.front().is_none_or(|(batch, _)| now.duration_since(batch.read_at) <= NEAR);
        if is_heard && is_read && is_young && is_landing {
            self.near_at = Some(now);
        }
    }

    /// Takes note of where the partition ends, as a reader says that is well.
    pub(super) fn goes_to(&mut self, end: u64) {
        (self.end, self.failing) = (self.end.max(end), None);
    }

    /// Takes in records that follow those it has; anything else is a fault of the reader and asks for a new reading.
    pub(super) fn take(&mut self, batch: Batch, permit: OwnedSemaphorePermit, end: u64) -> bool {
        if batch.from != self.buffered_to() {
            return false;
        }
        self.end = self.end.max(end);
        (self.failing, self.is_heard) = (None, true);
        self.buffer.push_back((Arc::new(batch), permit));
        true
    }

    /// Compares with what the lake holds, and draws the consequence.
    pub(super) fn compare(&mut self, stored: Option<i64>) -> Outcome {
        if stored == self.expected {
            return Outcome::Unchanged;
        }
        let landed = self.tried.take_if(|tried| Some(tried.end) == stored);
        self.tried = None;
        self.expected = stored;
        let Some(tried) = landed else {
            self.read_again();
            return Outcome::Dropped;
        };
        while self.buffer.front().is_some_and(|(batch, _)| batch.to <= position(stored)) {
            if let Some((batch, _)) = self.buffer.pop_front() {
                for &(journal, time) in &batch.marks {
                    note_mark(&mut self.marks, journal, time);
                }
                for (_, cover) in &batch.covers {
                    self.landings.entry(cover.journal).or_default().add(cover);
                }
            }
        }
        Outcome::Landed { seen: tried.seen }
    }

    /// Throws away what is buffered and has it read again from what the lake lacks.
    pub(super) fn read_again(&mut self) {
        self.buffer.clear();
        self.sealed_at = None;
        self.tried = None;
        self.seat = Seat { number: self.seat.number + 1, from: self.position() };
        self.seats.send_replace(self.seat);
    }

    /// Whether the journal can be closed: it is sealed, and the lake holds all of it.
    pub(super) fn is_finished(&self) -> bool {
        self.sealed_at.is_some_and(|end| end == self.position())
    }
}

/// A stored position; a partition that the lake knows nothing of begins at 0.
pub(super) fn position(stored: Option<i64>) -> u64 {
    stored.map_or(0, |position| position.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::clicked_batch;
    use ingest::ports::Generation;
    use proptest::prelude::*;
    use tokio::sync::Semaphore;

    fn permit() -> OwnedSemaphorePermit {
        Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
    }

    fn tried(end: i64) -> Option<Tried> {
        Some(Tried { end, seen: vec![(ClickId::from(1), UtcMicros(1))] })
    }

    #[test]
    fn what_was_tried_has_landed_whoever_did_it() {
        let (mut slot, seats) = Slot::new("p", None, Some(10));
        assert!(slot.take(clicked_batch(10, 12), permit(), 20));
        assert!(slot.take(clicked_batch(12, 15), permit(), 20));
        assert!(!slot.take(clicked_batch(16, 17), permit(), 20), "a hole is no batch of this partition");
        slot.tried = tried(12);
        assert!(matches!(slot.compare(Some(10)), Outcome::Unchanged));
        assert!(slot.tried.is_some(), "an outcome may still be unknown");
        let outcome = slot.compare(Some(12));
        assert!(matches!(&outcome, Outcome::Landed { seen } if seen.len() == 1), "{outcome:?}");
        assert_eq!((slot.position(), slot.buffered_to(), slot.buffer.len()), (12, 15, 1));
        assert!(!seats.has_changed().unwrap());
    }

    #[test]
    fn marks_that_wait_are_no_lag_and_what_is_not_read_yet_is() {
        let marks = |from, to| Batch { clicks: Vec::new(), rows: Vec::new(), ..clicked_batch(from, to) };
        let generation = Arc::new(Generation { id: "g".into(), topic: "t".into(), partitions: 1 });
        for part in [None, Some(TopicPart { generation, number: 0 })] {
            let (mut slot, _seats) = Slot::new("p", part.clone(), Some(10));
            assert_eq!(slot.lag(), 0);
            slot.take(marks(10, 12), permit(), 12);
            assert_eq!(slot.lag(), 0);
            slot.take(clicked_batch(12, 14), permit(), 14);
            slot.take(marks(14, 15), permit(), 15);
            assert_eq!(
                slot.lag(),
                if part.is_some() { 4 } else { 2 },
                "a topic's are counted with what is before them"
            );
            slot.take(marks(15, 16), permit(), 20);
            assert_eq!(slot.lag(), if part.is_some() { 10 } else { 6 });
        }
    }

    #[test]
    fn a_partition_is_near_its_end_when_all_of_it_is_read_and_nothing_old_waits() {
        let (start, clock) = (Instant::now(), UtcMicros(1_573_480_413_000_000));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let slot = || Slot::new("p", None, Some(10)).0;
        let near = |slot: &mut Slot, now: Instant| {
            slot.look(now, clock);
            slot.near_at == Some(now)
        };
        let read = |from, to, age: Option<u64>| Batch {
            oldest: age.map(|age| clock.minus(Duration::from_secs(age))),
            read_at: start,
            ..clicked_batch(from, to)
        };
        let mut idle = slot();
        assert!(!near(&mut idle, at(0)) && !near(&mut idle, at(29)), "it may not have been reached yet");
        assert!(near(&mut idle, at(30)));
        idle.failing = Some("no answer".into());
        assert!(!near(&mut idle, at(40)));
        let mut busy = slot();
        busy.take(read(10, 12, Some(3)), permit(), 99);
        assert!(near(&mut busy, at(1)), "what comes now is young");
        assert!(!near(&mut busy, at(61)), "and doesn't land");
        let mut behind = slot();
        behind.take(read(10, 12, Some(3_600)), permit(), 99);
        assert!(!near(&mut behind, at(1)));
        let mut unread = slot();
        unread.take(read(10, 12, None), permit(), 13);
        assert!(!near(&mut unread, at(1)), "marks tell nothing of what is behind them");
        unread.take(read(12, 13, None), permit(), 13);
        assert!(near(&mut unread, at(2)));
    }

    #[test]
    fn any_other_position_drops_the_buffer() {
        for stored in [None, Some(9), Some(11), Some(40)] {
            let (mut slot, mut seats) = Slot::new("p", None, Some(10));
            slot.take(clicked_batch(10, 12), permit(), 12);
            slot.tried = tried(12);
            slot.sealed_at = Some(12);
            assert!(matches!(slot.compare(stored), Outcome::Dropped));
            let from = stored.unwrap_or(0) as u64;
            assert_eq!((slot.buffer.len(), slot.sealed_at, slot.position()), (0, None, from));
            assert_eq!(*seats.borrow_and_update(), Seat { number: 1, from });
            assert!(slot.is_seated(1) && !slot.is_seated(0));
        }
    }

    #[test]
    fn a_journal_is_finished_when_the_lake_holds_its_last_frame() {
        let journal = JournalId::new();
        let (mut slot, _seats) = Slot::new(&journal.to_string(), None, None);
        assert_eq!((slot.journal, slot.is_finished()), (Some(journal), false));
        slot.sealed_at = Some(2);
        slot.take(clicked_batch(0, 2), permit(), 2);
        assert!(!slot.is_finished());
        slot.tried = tried(2);
        slot.compare(Some(2));
        assert!(slot.is_finished());
    }

    /// What may happen to a partition between the committer and the lake.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// The reader hands over this many records.
        Read(u64),
        /// A commit of all that is buffered is tried; it lands, or not, and the answer is seen, or not.
        Try { lands: bool, seen: bool },
        /// Another owner takes it this much further.
        Other(u64),
        /// The lake is looked at.
        Look,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let one = prop_oneof![
            (1u64..5).prop_map(Event::Read),
            (any::<bool>(), any::<bool>()).prop_map(|(lands, seen)| Event::Try { lands, seen }),
            (1u64..5).prop_map(Event::Other),
            Just(Event::Look),
        ];
        proptest::collection::vec(one, 1..60)
    }

    proptest! {
        /// The position is always one that the lake has held, records are taken in without a hole or a repeat behind it,
        /// and a look at the lake leaves nothing to wonder about.
        #[test]
        fn positions_follow_the_lake(events in events()) {
            let (mut slot, mut seats) = Slot::new("p", None, None);
            let mut lake: Option<i64> = None;
            let mut next = 0u64;
            for event in events {
                if seats.has_changed().unwrap() {
                    next = seats.borrow_and_update().from;
                }
                match event {
                    Event::Read(records) => {
                        prop_assert!(slot.take(clicked_batch(next, next + records), permit(), 1_000));
                        next += records;
                    }
                    Event::Try { lands, seen } => {
                        slot.compare(lake);
                        if slot.buffer.is_empty() {
                            continue;
                        }
                        let end = slot.buffered_to() as i64;
                        slot.tried = tried(end);
                        if lands {
                            lake = Some(end);
                        }
                        if seen {
                            slot.compare(lake);
                        }
                    }
                    Event::Other(records) => lake = Some(lake.unwrap_or(0) + records as i64),
                    Event::Look => {
                        slot.compare(lake);
                        prop_assert_eq!(slot.expected, lake);
                    }
                }
                let mut at = slot.position();
                for (batch, _) in &slot.buffer {
                    prop_assert_eq!(batch.from, at);
                    at = batch.to;
                }
            }
        }
    }
}
