//! How many visitors, told from a few kilobytes (design §4.6).
//!
//! A HyperLogLog sketch of the Apache DataSketches library, whose bytes other languages and engines read and write. Sketches are sets: what is
//! added again changes nothing, and two that were filled apart are united without loss.
//!
//! 2^14 buckets: the standard error is 1.04 / √2^14 = 0.8 % (Flajolet and others 2007), so that 3 % are 3.7 of them. Up to
//! some 1,500 visitors a sketch is a list of hashes and all but exact. It takes 8 KiB stored and 16 KiB in memory, a list 4
//! bytes a visitor.

use datasketches::hll::{HllSketch, HllType, HllUnion};

/// The logarithm of the number of buckets.
const LG_BUCKETS: u8 = 14;

/// The standard error of [`VisitorSketch::count`], as a share of it.
pub const STANDARD_ERROR: f64 = 0.008_125;

/// Bytes that are no sketch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a sketch of visitors: {0}")]
pub struct NoSketch(String);

/// A set of visitors that knows about how many it has.
#[derive(Clone, Debug)]
pub struct VisitorSketch(HllUnion);

impl VisitorSketch {
    /// Nobody.
    ///
    /// # Errors
    /// Never with this number of buckets; the library has others to refuse.
    pub fn new() -> Result<Self, NoSketch> {
        HllUnion::new(LG_BUCKETS).map(Self).map_err(|error| NoSketch(error.to_string()))
    }

    /// Adds a visitor, as in column `visitor`.
    pub fn add(&mut self, visitor: i64) {
        self.0.update_value(visitor);
    }

    /// Adds those of a sketch that was made into bytes.
    ///
    /// # Errors
    /// When `bytes` are none.
    pub fn take_in(&mut self, bytes: &[u8]) -> Result<(), NoSketch> {
        let other = HllSketch::deserialize(bytes).map_err(|error| NoSketch(error.to_string()))?;
        self.0.update(&other);
        Ok(())
    }

    /// About how many visitors there are: the same whatever the order in which they came and were united.
    pub fn count(&self) -> u64 {
        self.0.composite_estimate().round() as u64
    }

    /// The bytes that column `visitors` holds.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_sketch(HllType::Hll4).serialize()
    }

    /// Bytes in memory.
    pub fn size(&self) -> usize {
        self.0.estimated_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A visitor: keyed hashes are spread over all numbers.
    fn visitor(number: u64) -> i64 {
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64
    }

    fn of(visitors: std::ops::Range<u64>) -> VisitorSketch {
        let mut sketch = VisitorSketch::new().unwrap();
        visitors.for_each(|number| sketch.add(visitor(number)));
        sketch
    }

    fn off(sketch: &VisitorSketch, truth: u64) -> f64 {
        (sketch.count() as f64 / truth as f64 - 1.0).abs()
    }

    #[test]
    fn a_count_is_about_right_whatever_the_size() {
        for truth in [0, 1, 7, 8, 100, 1_000] {
            assert_eq!(of(0..truth).count(), truth);
        }
        for truth in [3_000, 20_000, 300_000] {
            let sketch = of(0..truth);
            assert!(off(&sketch, truth) < 3.0 * STANDARD_ERROR, "{truth}: {}", sketch.count());
            assert!(sketch.to_bytes().len() < 9_000 && sketch.size() < 40_000);
        }
    }

    #[test]
    fn bytes_are_united_without_counting_twice() {
        for (one, other, both) in [(0..5, 3..9, 9), (0..5, 0..20_000, 20_000), (0..60_000, 40_000..100_000, 100_000)] {
            let mut union = VisitorSketch::new().unwrap();
            for bytes in [of(one).to_bytes(), of(other).to_bytes()] {
                union.take_in(&bytes).unwrap();
                union.take_in(&bytes).unwrap();
            }
            assert!(off(&union, both) < 3.0 * STANDARD_ERROR, "{both}: {}", union.count());
            let before = union.count();
            let again = union.to_bytes();
            union.take_in(&again).unwrap();
            assert_eq!(union.count(), before);
        }
    }

    #[test]
    fn a_count_does_not_depend_on_the_order() {
        let parts = [0..30_000, 29_000..29_500, 29_900..31_000, 10_000..50_000, 7..8];
        let mut forth = VisitorSketch::new().unwrap();
        parts.clone().into_iter().for_each(|part| forth.take_in(&of(part).to_bytes()).unwrap());
        let mut back = VisitorSketch::new().unwrap();
        parts.into_iter().rev().flatten().for_each(|number| back.add(visitor(number)));
        assert_eq!(forth.count(), back.count());
        assert_eq!(of(0..50_000).count(), back.count());
    }

    #[test]
    fn bytes_are_those_of_the_other_libraries() {
        let of_three = [-7, 8, 1 << 40];
        let mut own = VisitorSketch::new().unwrap();
        of_three.into_iter().for_each(|visitor| own.add(visitor));
        assert_eq!(
            hex(&own.to_bytes()),
            "0201070e03080300f16b9505d216730741f4570f",
            "as the library for Python writes it"
        );
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn other_bytes_are_named() {
        for bytes in [&b""[..], b"abcdefgh", &of(0..9).to_bytes()[..12]] {
            assert!(VisitorSketch::new().unwrap().take_in(bytes).is_err());
        }
    }
}
