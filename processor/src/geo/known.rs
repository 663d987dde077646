//! The places that have been met: decoded once, and kept by the offsets of their records.
//!
//! One table for all threads, since those that look addresses up are many and each has only a part of the processor's
//! cache; what is known of a place stands in one line of that cache, its texts too, since tens of thousands of places are
//! asked for in no order at all. A record has [`WAYS`] places in the table to be in, so that two that fall together don't
//! drive each other out. Nothing waits but for who is just putting a place there.

use std::sync::{PoisonError, RwLock};

use super::Place;

/// Records that are kept decoded; a power of two. So many cities have nearly all people; all of them take four megabytes.
const PLACES: usize = 65_536;
/// Places that a record may be in.
const WAYS: usize = 2;

/// A record and its place, if it is of one.
type Met = Option<(u32, Option<Place>)>;

/// A place in the table: a line of the cache.
#[repr(align(64))]
#[derive(Default)]
struct Slot(RwLock<Met>);

/// What has been decoded.
pub(super) struct Known(Box<[Slot]>);

impl Default for Known {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Slot::default()).collect())
    }
}

impl Known {
    /// The place of the record at `offset`.
    pub(super) fn place(&self, offset: u32, decode: impl FnOnce() -> Option<Place>) -> Option<Place> {
        // offsets are multiples of nothing in particular, yet neighbours are near each other
        let hash = offset.wrapping_mul(0x9e37_79b1);
        let set = (hash >> (u32::BITS - (PLACES / WAYS).ilog2())) as usize * WAYS;
        let mut vacant = None;
        for slot in &self.0[set..set + WAYS] {
            match &*slot.0.read().unwrap_or_else(PoisonError::into_inner) {
                Some((known, place)) if *known == offset => return place.clone(),
                Some(_) => {}
                None => vacant = vacant.or(Some(slot)),
            }
        }
        let place = decode();
        // whoever is driven out is as good as any other
        let slot = vacant.unwrap_or(&self.0[set + hash as usize % WAYS]);
        *slot.0.write().unwrap_or_else(PoisonError::into_inner) = Some((offset, place.clone()));
        place
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_place_is_one_line_of_the_cache() {
        assert_eq!(size_of::<Slot>(), 64);
    }

    /// As many records as a large database has: each has its own place, whoever drives it out, and few are decoded twice.
    #[test]
    fn what_was_met_is_decoded_once_as_a_rule() {
        let (known, decoded) = (Known::default(), Cell::new(0));
        let records = 20_000u32;
        for round in 0..3 {
            for n in 0..records {
                let decode = || {
                    decoded.set(decoded.get() + 1);
                    (n % 7 > 0).then(|| Place::new("NL", None, Some(&format!("City {n}"))))
                };
                let place = known.place(n * 37, decode);
                let expected = (n % 7 > 0).then(|| format!("City {n}"));
                assert_eq!(place.as_ref().and_then(Place::city), expected.as_deref());
            }
            assert!(decoded.get() <= records + round * records / 10, "{} of {records}", decoded.get());
        }
    }
}
