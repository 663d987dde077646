//! The pauses between tries: growing, and of no two tasks the same. Pure, but for the chance.

use std::time::Duration;

const LEAST: Duration = Duration::from_millis(200);
const MOST: Duration = Duration::from_secs(5);

/// Counts failures in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// It went well.
    pub(super) fn over(&mut self) {
        self.failures = 0;
    }

    /// It failed once more: how long to pause. `chance` is anything random.
    pub(super) fn pause(&mut self, chance: u64) -> Duration {
        let whole = LEAST.saturating_mul(2 << self.failures.min(5)).min(MOST);
        self.failures = self.failures.saturating_add(1);
        // from half of it to all of it
        whole / 2 + (whole / 2).mul_f64((chance % 1_024) as f64 / 1_024.0)
    }
}

/// Something random.
pub(super) fn chance() -> u64 {
    uuid::Uuid::new_v4().as_u128() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_stay_in_bounds_and_begin_anew() {
        let mut backoff = Backoff::default();
        let pauses: Vec<Duration> = (0..20).map(|_| backoff.pause(0)).collect();
        assert_eq!(pauses[0], LEAST);
        assert!(pauses.is_sorted() && pauses[19] == MOST / 2);
        assert!(backoff.pause(u64::MAX) <= MOST && backoff.pause(1_023) > MOST / 2);
        backoff.over();
        assert_eq!(backoff.pause(0), LEAST);
    }
}
