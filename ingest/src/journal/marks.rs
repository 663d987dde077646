//! When a journal makes a mark: pure, the clock is passed in.
//!
//! A mark says "every event before my time stands before me", and what was synced when it was made. One follows
//! every sync round that brought clicks, so that readers in other processes see them at once and `complete_through`
//! moves; at rest one every ten seconds does.

use std::time::{Duration, Instant};

/// How often a silent journal marks.
pub(crate) const AT_REST: Duration = Duration::from_secs(10);

/// Decides when a mark is due.
#[derive(Debug, Default)]
pub(crate) struct MarkPolicy {
    last: Option<Instant>,
}

impl MarkPolicy {
    /// Whether a mark is due; `clicks_synced`: whether the round has synced clicks.
    pub(crate) fn is_due(&self, now: Instant, clicks_synced: bool) -> bool {
        clicks_synced || self.last.is_none_or(|last| now.duration_since(last) >= AT_REST)
    }

    /// A mark was made.
    pub(crate) fn made(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

/// How long to leave a disk alone that failed to sync: nothing at first, then doubling up to ten seconds.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether it is time to try.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// A try failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        let wait = match self.failures {
            0 => Duration::ZERO,
            failures => Duration::from_millis(50 << failures.min(8)).min(Duration::from_secs(10)),
        };
        self.failures += 1;
        self.until = Some(now + wait);
    }

    /// A try succeeded.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clicks_are_marked_at_once_and_silence_every_ten_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut policy = MarkPolicy::default();
        assert!(policy.is_due(at(0), false), "the first mark is due at once");
        policy.made(at(0));
        assert!(policy.is_due(at(0), true));
        assert!(!policy.is_due(at(9), false));
        assert!(policy.is_due(at(10), false));
        policy.made(at(10));
        assert!(!policy.is_due(at(19), false));
    }

    #[test]
    fn a_failing_disk_is_left_alone_longer_and_longer() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut backoff = Backoff::default();
        assert!(backoff.is_due(at(0)));
        backoff.failed(at(0));
        assert!(backoff.is_due(at(0)), "the first failure is answered at once");
        backoff.failed(at(0));
        assert!(!backoff.is_due(at(99)));
        assert!(backoff.is_due(at(100)));
        for _ in 0..100 {
            backoff.failed(at(100));
        }
        assert!(!backoff.is_due(at(10_099)));
        assert!(backoff.is_due(at(10_100)));
        backoff.succeeded();
        assert!(backoff.is_due(at(0)));
    }
}
