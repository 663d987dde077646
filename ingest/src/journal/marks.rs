//! When a journal makes a mark: pure, the clock is passed in.
//!
//! A mark says "every event before my time stands before me", and what was synced when it was made. One follows
//! every sync round that brought clicks, so that readers in other processes see them at once and `complete_through`
//! moves; at rest one every ten seconds does. `complete_through` is the least over all journals, so a silent one marks
//! along, soon after another of its node has taken clicks.

use std::time::{Duration, Instant};

/// How often a silent journal marks.
pub(crate) const AT_REST: Duration = Duration::from_secs(10);
/// How often a silent journal marks while others take clicks: each mark is a sync more.
pub(crate) const IN_COMPANY: Duration = Duration::from_millis(500);

/// What a round finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// It has synced clicks.
    Clicks,
    /// It hasn't, but another journal of the node has taken some.
    Company,
    /// Nobody has.
    Rest,
}

impl Occasion {
    /// Of a round without clicks.
    pub(crate) fn silent(company: bool) -> Self {
        if company { Self::Company } else { Self::Rest }
    }
}

/// Decides when a mark is due.
#[derive(Debug, Default)]
pub(crate) struct MarkPolicy {
    last: Option<Instant>,
}

impl MarkPolicy {
    /// Whether a mark is due.
    pub(crate) fn is_due(&self, now: Instant, occasion: Occasion) -> bool {
        let silence = match occasion {
            Occasion::Clicks => return true,
            Occasion::Company => IN_COMPANY,
            Occasion::Rest => AT_REST,
        };
        self.last.is_none_or(|last| now.duration_since(last) >= silence)
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
    fn clicks_are_marked_at_once_company_soon_and_silence_every_ten_seconds() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut policy = MarkPolicy::default();
        assert!(policy.is_due(at(0), Occasion::Rest), "the first mark is due at once");
        policy.made(at(0));
        assert!(policy.is_due(at(0), Occasion::Clicks));
        assert!(!policy.is_due(at(499), Occasion::Company));
        assert!(policy.is_due(at(500), Occasion::Company));
        assert!(!policy.is_due(at(9_999), Occasion::Rest));
        assert!(policy.is_due(at(10_000), Occasion::Rest));
        policy.made(at(10_000));
        assert!(!policy.is_due(at(19_999), Occasion::Rest));
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
