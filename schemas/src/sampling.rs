//! Which clicks of a link that is sampled are kept: a rule that everybody who judges a click comes to alike (design §4.6).
//!
//! A click is kept at a rate when the hash of its id is below rate · 2^64. So whoever judges it at the same rate comes to the
//! same, whatever was kept at a rate is kept at every higher one, and what was sampled away at a rate is sampled away at
//! every lower one. A row that was kept stands for 1 / rate clicks: its weight.

use xxhash_rust::xxh3::xxh3_64;

use crate::ids::ClickId;

/// 2^64.
const ALL: f64 = 18_446_744_073_709_551_616.0;

/// The hash that decides: XXH3 (64 bits, no seed) of the id's sixteen bytes in their order. An id itself would not do, since
/// the first half of a fresh one is the time. Never changes: it says which clicks are in the lake.
pub fn sample_hash(id: ClickId) -> u64 {
    xxh3_64(&id.0)
}

/// Whether a click is kept at `rate`, the share that is kept: from 1 on all are, at 0 and below none.
pub fn is_kept(id: ClickId, rate: f64) -> bool {
    // a float beyond the range of an integer becomes its last, one that is no number 0
    rate >= 1.0 || sample_hash(id) < (rate * ALL) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is in lakes was decided by these: the test may gain cases, never change one.
    #[test]
    fn golden_hashes() {
        for (id, hash) in [
            (0u128, 0xd0a6_6a65_c752_8968_u64),
            (1, 0x4152_418f_75dd_93bb),
            (0x0199_0000_0000_7000_8000_0000_0000_0000, 0x82cd_e54c_d928_4d02),
            (u128::MAX, 0x722a_202f_07a4_b313),
        ] {
            assert_eq!(sample_hash(ClickId::from(id)), hash, "{id:x}");
        }
    }

    #[test]
    fn the_share_kept_is_the_rate_for_ids_of_both_kinds() {
        let fresh = |n: u128| ClickId::from(0x0199_0000_0000_7000_8000_0000_0000_0000 + (n << 76) + n * 0x9e37);
        let named = |n: u128| ClickId::from_edge("nginx", &n.to_le_bytes(), "k");
        for rate in [0.5, 0.1, 0.01] {
            for of in [&fresh as &dyn Fn(u128) -> ClickId, &named] {
                let kept = (0..100_000).filter(|n| is_kept(of(*n), rate)).count() as f64;
                let (mean, sd) = (100_000.0 * rate, (100_000.0 * rate * (1.0 - rate)).sqrt());
                assert!((kept - mean).abs() < 5.0 * sd, "{rate}: {kept}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_scale() {
        let any = ClickId::from(7);
        assert!(is_kept(any, 1.0) && is_kept(any, 2.0) && is_kept(any, f64::INFINITY));
        assert!(!is_kept(any, 0.0) && !is_kept(any, -1.0) && !is_kept(any, f64::NAN));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_kept_at_every_higher_rate(id: u128, low in 0.0f64..1.0, high in 0.0f64..1.0) {
            let (low, high) = (low.min(high), low.max(high));
            prop_assert!(!is_kept(ClickId::from(id), low) || is_kept(ClickId::from(id), high));
        }
    }
}
