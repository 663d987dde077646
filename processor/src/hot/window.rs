//! The window of ids that have been judged lately. Pure.
//!
//! Ids whose commit has landed are kept in generations, a new one begun when the last is full, and the oldest
//! forgotten whole when memory would exceed the limit. What has been forgotten raises the floor: for an event later
//! than the floor by `sure_after` the window knows every record of its id that there can be, so an id it lacks is new.
//! For an earlier one the lake must be asked.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use schemas::{ClickId, UtcMicros};

/// Forgetting one of these frees a good part, and looking an id up in all of them stays cheap.
const GENERATIONS: usize = 7;
/// Bytes of one slot of a set: the id and the set's own byte.
const SLOT_BYTES: usize = 17;
/// Bytes of the sieve for each slot of one generation.
const SIEVE_BYTES: usize = 8;
/// Bytes that are near each other in memory; those of one id all lie within as many.
const NEAR_BYTES: usize = 64;

/// Ids are hashes or random in their last half already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last64(u64);

impl Hasher for Last64 {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, id: u128) {
        // multiplied, since a set takes its place from the last bits and its tag from the first
        self.0 = (id as u64 ^ (id >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A set of ids.
pub(super) type Ids = HashSet<u128, BuildHasherDefault<Last64>>;

#[derive(Debug)]
struct Generation {
    ids: Ids,
    newest: UtcMicros,
    /// Its bit in the sieve, which no other generation has.
    bit: u8,
}

/// Which generations may hold an id: most ids are in none, and this tells so by one look instead of one into each set, all
/// of which are larger than a processor's cache. Each id has two bytes, whose bits are generations.
#[derive(Debug)]
struct Sieve(Vec<u8>);

impl Sieve {
    /// The two places of an id.
    fn places(&self, id: u128) -> [usize; 2] {
        let mut hasher = Last64::default();
        hasher.write_u128(id);
        let hash = hasher.finish();
        let near = (hash >> 32) as usize % (self.0.len() / NEAR_BYTES) * NEAR_BYTES;
        [near + (hash >> 8) as usize % NEAR_BYTES, near + (hash >> 16) as usize % NEAR_BYTES]
    }

    /// The bits of all generations that may hold an id.
    fn of(&self, id: u128) -> u8 {
        let [one, other] = self.places(id);
        self.0[one] & self.0[other]
    }

    fn insert(&mut self, id: u128, bit: u8) {
        self.places(id).into_iter().for_each(|place| self.0[place] |= bit);
    }

    fn forget(&mut self, bit: u8) {
        self.0.iter_mut().for_each(|bits| *bits &= !bit);
    }
}

/// The ids judged lately, and from when on they are all there.
#[derive(Debug)]
pub struct Window {
    /// The newest last.
    generations: VecDeque<Generation>,
    /// Of all generations.
    sieve: Sieve,
    /// Ids that one generation takes.
    capacity: usize,
    sure_after: Duration,
    /// Others may have judged, or this window forgotten, ids up to here.
    floor: UtcMicros,
    /// This window has forgotten ids up to here.
    forgotten: UtcMicros,
}

impl Window {
    /// An empty window of at most `max_bytes` whose floor is `floor`. `sure_after` is how far two records of one
    /// id can be apart (`skew` + `repeat`).
    pub fn new(max_bytes: usize, sure_after: Duration, floor: UtcMicros) -> Self {
        let slots = (max_bytes / (GENERATIONS * SLOT_BYTES + SIEVE_BYTES)).max(8);
        // a set's table has a power of two of slots, and is filled to seven eighths
        let slots = 1 << slots.ilog2();
        let (capacity, sieve) = (slots / 8 * 7, Sieve(vec![0; slots * SIEVE_BYTES]));
        Self { generations: VecDeque::new(), sieve, capacity, sure_after, floor, forgotten: UtcMicros(i64::MIN) }
    }

    /// Others may have judged ids up to `floor`.
    pub fn lift(&mut self, floor: UtcMicros) {
        self.floor = self.floor.max(floor);
    }

    /// Whether an id of an event at `time` that this window lacks is new for certain.
    pub fn is_sure(&self, time: UtcMicros) -> bool {
        time > self.floor.plus(self.sure_after)
    }

    /// Whether the id has been judged.
    pub fn contains(&self, id: ClickId) -> bool {
        let id = id.as_u128();
        let bits = self.sieve.of(id);
        bits != 0 && self.generations.iter().rev().any(|one| bits & one.bit != 0 && one.ids.contains(&id))
    }

    /// Whether every id inserted with a time of `time` or later is still here.
    pub fn remembers(&self, time: UtcMicros) -> bool {
        time > self.forgotten
    }

    /// Notes an id whose commit has landed.
    pub fn insert(&mut self, id: ClickId, time: UtcMicros) {
        if self.generations.back().is_none_or(|generation| generation.ids.len() >= self.capacity) {
            if self.generations.len() == GENERATIONS {
                self.forget_oldest();
            }
            // one that follows a full one is likely to get full too, and growing would copy it again and again
            let room = if self.generations.is_empty() { 0 } else { self.capacity };
            let ids = Ids::with_capacity_and_hasher(room, BuildHasherDefault::default());
            // there are fewer generations than bits, and they are forgotten in their order
            let bit = self.generations.back().map_or(1, |last| last.bit.rotate_left(1));
            self.generations.push_back(Generation { ids, newest: UtcMicros(i64::MIN), bit });
        }
        if let Some(generation) = self.generations.back_mut() {
            generation.ids.insert(id.as_u128());
            generation.newest = generation.newest.max(time);
            self.sieve.insert(id.as_u128(), generation.bit);
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(gone) = self.generations.pop_front() {
            self.sieve.forget(gone.bit);
            self.forgotten = self.forgotten.max(gone.newest);
            self.floor = self.floor.max(gone.newest);
        }
    }

    /// Ids held.
    pub fn len(&self) -> usize {
        self.generations.iter().map(|generation| generation.ids.len()).sum()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SURE_AFTER: Duration = Duration::from_secs(65);

    fn id(n: u128) -> ClickId {
        ClickId::from(n)
    }

    fn at(seconds: i64) -> UtcMicros {
        UtcMicros(seconds * 1_000_000)
    }

    #[test]
    fn the_floor_bounds_what_may_be_taken_as_new() {
        let mut window = Window::new(1 << 20, SURE_AFTER, at(100));
        assert!(!window.is_sure(at(165)));
        assert!(window.is_sure(UtcMicros(at(165).0 + 1)));
        window.lift(at(200));
        window.lift(at(150));
        assert!(!window.is_sure(at(265)) && window.is_sure(at(266)));
    }

    #[test]
    fn sixty_four_mebibytes_hold_minutes_of_heavy_traffic_and_no_more() {
        let window = Window::new(64 << 20, SURE_AFTER, at(0));
        let most = window.capacity * GENERATIONS;
        assert!(most > 2_000_000, "{most}");
        assert!(most * 8 / 7 * SLOT_BYTES + window.sieve.0.len() <= 64 << 20);
    }

    #[test]
    fn memory_stays_bounded_while_ids_pour_in() {
        let mut window = Window::new(GENERATIONS * SLOT_BYTES * 64, SURE_AFTER, at(0));
        for n in 0..10_000 {
            window.insert(id(n), at(n as i64));
            assert!(window.len() <= 64 / 8 * 7 * GENERATIONS);
        }
        assert!(window.contains(id(9_999)) && !window.contains(id(0)));
        assert!(window.remembers(at(9_999)) && !window.remembers(at(9_000)));
    }

    #[test]
    fn ids_of_one_edge_and_fresh_ids_spread() {
        // fresh ids share their first half within a millisecond; a set full of them must stay quick
        let base = 0x0199_0000_0000_7000_8000_0000_0000_0000u128;
        let hashes: HashSet<u64> = (0..10_000u128)
            .map(|n| {
                let mut hasher = Last64::default();
                hasher.write_u128(base + n);
                hasher.finish() & 0xffff
            })
            .collect();
        assert!(hashes.len() > 8_000, "{}", hashes.len());
    }

    proptest! {
        /// Whatever is inserted in whatever order: an event that the window is sure of, and whose id has been judged
        /// within the span, is found.
        #[test]
        fn what_it_is_sure_of_it_knows(
            events in proptest::collection::vec((0u128..400, 0i64..2_000), 1..600),
            lifts in proptest::collection::vec(0i64..1_000, 0..3),
            asked in proptest::collection::vec((0u128..400, 0i64..2_100), 50),
        ) {
            let mut window = Window::new(GENERATIONS * SLOT_BYTES * 8, SURE_AFTER, at(0));
            let mut all: Vec<(u128, i64)> = Vec::new();
            for &lift in &lifts {
                window.lift(at(lift));
            }
            for &(n, seconds) in &events {
                window.insert(id(n), at(seconds));
                all.push((n, seconds));
            }
            for &(n, seconds) in &asked {
                let judged = all.iter().any(|&(m, t)| m == n && (t - seconds).abs() <= SURE_AFTER.as_secs() as i64);
                if window.is_sure(at(seconds)) && judged {
                    prop_assert!(window.contains(id(n)), "{} at {}", n, seconds);
                }
            }
            for &(n, seconds) in &all {
                if window.remembers(at(seconds)) {
                    prop_assert!(window.contains(id(n)));
                }
            }
            // and it says of no id that it was judged when it is in no generation
            for n in 0..400u128 {
                let held = window.generations.iter().any(|generation| generation.ids.contains(&n));
                prop_assert_eq!(window.contains(id(n)), held);
            }
        }
    }
}
