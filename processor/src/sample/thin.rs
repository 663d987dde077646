//! Which rate the clicks of a link get in one second and partition: fixed before the first of them is judged. Pure.
//!
//! Of a batch all clicks are counted before any is judged, so under backlog, when a batch holds whole seconds, the number of
//! a link's clicks in its second is known as a rule; of a second that goes on in the next batch it is no less than what
//! has come, and about what the second before had. A rate is the cap's share of that number.
//!
//! Invariants: a rate that was given stays, whatever the cap does, as long as its second is remembered; a second that had begun
//! when sampling began stays whole. Memory is bounded: of links too many to remember those are forgotten that were not
//! thinned, and a link that there is no room for is light. What a second forgotten gets anew does no harm: the lowest rate
//! that is recorded counts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use schemas::{JournalId, LinkId, UtcMicros};

use super::second_of;

/// No cap: all is kept.
const NONE: u32 = u32::MAX;
/// Seconds of links that are remembered at most.
const MOST: usize = 1 << 16;
/// Seconds for which rates are remembered beyond the newest one, for clicks of other journals that come late.
const REMEMBERED: i64 = 120;

/// What the controller and the partitions of one process tell each other.
#[derive(Debug)]
pub struct Cap {
    cap: AtomicU32,
    heaviest: AtomicU32,
}

impl Default for Cap {
    fn default() -> Self {
        Self { cap: AtomicU32::new(NONE), heaviest: AtomicU32::new(0) }
    }
}

impl Cap {
    /// The cap in force; `None`: all is kept.
    pub fn get(&self) -> Option<u32> {
        Some(self.cap.load(Ordering::Relaxed)).filter(|cap| *cap != NONE)
    }

    /// Sets the cap.
    pub fn set(&self, cap: Option<u32>) {
        self.cap.store(cap.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// The most clicks of one link and second that any partition had, since this was asked last.
    pub fn take_heaviest(&self) -> u32 {
        self.heaviest.swap(0, Ordering::Relaxed)
    }

    fn note(&self, clicks: u32) {
        self.heaviest.fetch_max(clicks, Ordering::Relaxed);
    }
}

/// Ids of links are random in their last half.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        // a map takes its place from the last bits and its tag from the first
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk::<8>() {
            self.write_u64(u64::from_be_bytes(*last));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(32) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word as u64);
    }

    fn write_usize(&mut self, _length: usize) {}
}

/// A link's second in a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    clicks: u32,
    rate: Option<f64>,
}

type Seconds = HashMap<(LinkId, i64), Second, BuildHasherDefault<KeyHasher>>;

/// The rates of one partition.
#[derive(Debug, Default)]
pub struct Thinner {
    cap: Option<u32>,
    seconds: Seconds,
    /// The newest second that was counted.
    newest: i64,
    /// The newest second in which a rate was below 1.
    thinned: Option<i64>,
    /// Of each journal, the second of its last click before sampling began.
    begun: HashMap<JournalId, i64>,
}

impl Thinner {
    /// Begins a batch. Returns whether its clicks are to be counted and judged; else all of them are kept, and `ended` is
    /// to be told.
    pub fn begin(&mut self, cap: Option<u32>) -> bool {
        self.cap = cap;
        if self.seconds.len() > MOST {
            self.forget();
        }
        cap.is_some() || self.thinned.is_some()
    }

    /// Counts a click of the batch. All are counted before any is judged.
    pub fn count(&mut self, link: LinkId, time: UtcMicros) {
        let second = second_of(time);
        if self.cap.is_none() {
            return;
        }
        self.newest = self.newest.max(second);
        if let Some(known) = self.seconds.get_mut(&(link, second)) {
            known.clicks = known.clicks.saturating_add(1);
        } else if self.seconds.len() < 2 * MOST {
            self.seconds.insert((link, second), Second { clicks: 1, rate: None });
        }
    }

    /// The rate of a click of a journal. What is heaviest is told to `cap`.
    pub fn rate(&mut self, journal: JournalId, link: LinkId, time: UtcMicros, told: &Cap) -> f64 {
        let second = second_of(time);
        let before = self.seconds.get(&(link, second - 1)).map_or(0, |before| before.clicks);
        let Some(known) = self.seconds.get_mut(&(link, second)) else { return 1.0 };
        if let Some(rate) = known.rate {
            return rate;
        }
        let Some(cap) = self.cap else { return 1.0 };
        let clicks = known.clicks.max(before).max(1);
        told.note(clicks);
        let is_begun = self.begun.get(&journal).is_some_and(|begun| second <= *begun);
        let rate = if is_begun { 1.0 } else { (f64::from(cap) / f64::from(clicks)).min(1.0) };
        known.rate = Some(rate);
        if rate < 1.0 {
            self.thinned = self.thinned.max(Some(second));
        }
        rate
    }

    /// The last click of a journal in a batch is told when the batch is over.
    pub fn ended(&mut self, journal: JournalId, time: UtcMicros) {
        let second = second_of(time);
        if self.cap.is_some() {
            return;
        }
        if self.thinned.is_some_and(|thinned| second > thinned + REMEMBERED) {
            (self.seconds, self.thinned) = (Seconds::default(), None);
        }
        let begun = self.begun.entry(journal).or_insert(second);
        *begun = second.max(*begun);
    }

    /// Makes room: of seconds gone by, those stay that were thinned, and of these not the oldest.
    fn forget(&mut self) {
        let newest = self.newest;
        let is_thinned = |second: &Second| second.rate.is_some_and(|rate| rate < 1.0);
        self.seconds.retain(|(_, at), second| *at >= newest - 1 || is_thinned(second) && *at >= newest - REMEMBERED);
        if self.seconds.len() > MOST {
            self.seconds.retain(|(_, at), _| *at >= newest - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schemas::time::SECOND;

    fn link(n: u128) -> LinkId {
        LinkId(uuid::Uuid::from_u128(n))
    }

    fn at(second: i64) -> UtcMicros {
        UtcMicros(second * SECOND + 7)
    }

    const JOURNAL: JournalId = JournalId(uuid::Uuid::from_u128(1));

    /// Counts and judges a batch; the rates in the order of its clicks.
    fn batch(thinner: &mut Thinner, cap: Option<u32>, clicks: &[(u128, i64)]) -> Vec<f64> {
        let told = Cap::default();
        if !thinner.begin(cap) {
            return vec![1.0; clicks.len()];
        }
        clicks.iter().for_each(|(n, second)| thinner.count(link(*n), at(*second)));
        clicks.iter().map(|(n, second)| thinner.rate(JOURNAL, link(*n), at(*second), &told)).collect()
    }

    #[test]
    fn without_a_cap_nothing_is_counted() {
        let mut thinner = Thinner::default();
        assert!(!thinner.begin(None));
        thinner.ended(JOURNAL, at(5));
        assert!(thinner.seconds.is_empty());
    }

    #[test]
    fn what_is_heavy_is_thinned_to_the_cap_and_what_is_light_is_not() {
        let mut clicks: Vec<(u128, i64)> = vec![(1, 10); 40];
        clicks.extend([(2, 10), (3, 10), (2, 10), (1, 11)]);
        let rates = batch(&mut Thinner::default(), Some(4), &clicks);
        assert!(rates[..40].iter().all(|rate| *rate == 0.1));
        assert_eq!(rates[40..43], [1.0; 3]);
        assert_eq!(rates[43], 0.1, "of a second that begins, the one before tells");
    }

    #[test]
    fn a_rate_stays_whatever_the_cap_does() {
        let mut thinner = Thinner::default();
        assert_eq!(batch(&mut thinner, Some(5), &[(1, 10); 10]), [0.5; 10]);
        assert_eq!(batch(&mut thinner, Some(1), &[(1, 10); 90]), [0.5; 90]);
        assert_eq!(batch(&mut thinner, None, &[(1, 10), (1, 11)]), [0.5, 1.0], "sampling is over");
        assert_eq!(batch(&mut thinner, Some(50), &[(1, 10), (1, 12)]), [0.5, 1.0]);
    }

    #[test]
    fn once_all_that_was_thinned_is_long_gone_nothing_is_judged() {
        let mut thinner = Thinner::default();
        batch(&mut thinner, Some(5), &[(1, 10); 10]);
        assert!(thinner.begin(None));
        thinner.ended(JOURNAL, at(10 + REMEMBERED));
        assert!(thinner.begin(None));
        thinner.ended(JOURNAL, at(11 + REMEMBERED));
        assert!(!thinner.begin(None));
    }

    #[test]
    fn a_second_that_had_begun_stays_whole() {
        let mut thinner = Thinner::default();
        assert!(!thinner.begin(None));
        thinner.ended(JOURNAL, at(10));
        let rates = batch(&mut thinner, Some(1), &[(1, 9), (1, 10), (1, 10), (1, 10), (1, 10), (1, 11)]);
        assert_eq!(rates, [1.0, 1.0, 1.0, 1.0, 1.0, 0.25]);
        let other = JournalId(uuid::Uuid::from_u128(2));
        thinner.count(link(2), at(10));
        thinner.count(link(2), at(10));
        assert_eq!(thinner.rate(other, link(2), at(10), &Cap::default()), 0.5, "another journal's had not");
    }

    #[test]
    fn the_heaviest_is_told_once() {
        let (mut thinner, told) = (Thinner::default(), Cap::default());
        assert_eq!(told.get(), None);
        told.set(Some(9));
        assert!(thinner.begin(told.get()));
        (0..30).for_each(|_| thinner.count(link(1), at(3)));
        thinner.rate(JOURNAL, link(1), at(3), &told);
        assert_eq!((told.take_heaviest(), told.take_heaviest()), (30, 0));
    }

    #[test]
    fn memory_is_bounded_and_what_was_thinned_is_remembered_longest() {
        let mut thinner = Thinner::default();
        assert_eq!(batch(&mut thinner, Some(5), &[(0, 10); 10])[0], 0.5);
        for second in 11..20 {
            let many: Vec<(u128, i64)> = (1..20_000).map(|n| (n, second)).collect();
            assert!(batch(&mut thinner, Some(5), &many).iter().all(|rate| *rate == 1.0));
        }
        assert!(thinner.seconds.len() <= 2 * MOST);
        assert_eq!(batch(&mut thinner, Some(1), &[(0, 10)]), [0.5]);
        let too_many: Vec<(u128, i64)> = (0..200_000).map(|n| (n, 20)).collect();
        batch(&mut thinner, Some(5), &too_many);
        assert!(thinner.seconds.len() <= 2 * MOST);
    }

    proptest! {
        /// Whatever batches come under whatever caps: a second's rate is one, and no link that comes less often than the
        /// least cap is thinned.
        #[test]
        fn one_rate_a_second_and_light_links_whole(
            batches in proptest::collection::vec(
                (proptest::option::of(3u32..40), proptest::collection::vec((0u128..6, 0i64..8), 1..60)),
                1..12,
            ),
        ) {
            let mut thinner = Thinner::default();
            let mut given: HashMap<(u128, i64), f64> = HashMap::new();
            let mut came: HashMap<(u128, i64), u32> = HashMap::new();
            for (cap, clicks) in &batches {
                let rates = batch(&mut thinner, *cap, clicks);
                for (click, rate) in clicks.iter().zip(rates) {
                    *came.entry(*click).or_default() += 1;
                    // before sampling begins nothing is given
                    if rate < 1.0 || given.contains_key(click) {
                        prop_assert_eq!(*given.entry(*click).or_insert(rate), rate);
                    }
                }
            }
            let most = |n: u128, second| came.get(&(n, second)).copied().unwrap_or(0);
            for ((n, second), rate) in given {
                let seen = most(n, second).max(most(n, second - 1));
                prop_assert!(rate >= 3.0 / f64::from(seen.max(3)), "{n} {second} {rate}");
                prop_assert!(seen > 3 || rate == 1.0);
            }
        }
    }
}
