//! How long a connection that gets nowhere is kept. Pure: it is told what has happened, and when it is.
//!
//! Looking at it once in a while is cheaper than a timer for every request, and covers what slow peers can do: a head
//! sent byte by byte, nothing sent at all, and answers never taken (then no further request is read either).

use std::time::{Duration, Instant};

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For a whole head, from its first byte, or of a new connection from the beginning.
    pub header: Duration,
    /// For the next request.
    pub idle: Duration,
}

/// What has happened on a connection so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Reads that brought bytes.
    pub(super) reads: u64,
    /// Heads read whole.
    pub(super) heads: u64,
    /// `reads` when the last head was whole.
    pub(super) reads_at_head: u64,
}

/// The patience with one connection.
#[derive(Debug)]
pub(super) struct Patience {
    waits: Waits,
    heads: u64,
    /// When the connection was opened, or a new head was first seen.
    idle_since: Instant,
    partial_since: Option<Instant>,
}

impl Patience {
    /// With a connection opened at `now`.
    pub(super) fn new(waits: Waits, now: Instant) -> Self {
        Self { waits, heads: 0, idle_since: now, partial_since: Some(now) }
    }

    /// Whether it has run out.
    pub(super) fn is_over(&mut self, progress: Progress, now: Instant) -> bool {
        if progress.heads != self.heads {
            self.heads = progress.heads;
            self.idle_since = now;
            self.partial_since = None;
        }
        if progress.heads == 0 || progress.reads > progress.reads_at_head {
            now.duration_since(*self.partial_since.get_or_insert(now)) >= self.waits.header
        } else {
            now.duration_since(self.idle_since) >= self.waits.idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits { header: Duration::from_secs(10), idle: Duration::from_secs(75) };

    /// When, of the seconds told, patience first ran out; looked at every second.
    fn over_at(progress: impl Fn(u64) -> Progress) -> Option<u64> {
        let start = Instant::now();
        let mut patience = Patience::new(WAITS, start);
        (0..300).find(|&second| patience.is_over(progress(second), start + Duration::from_secs(second)))
    }

    #[test]
    fn a_head_must_come_whole_in_time() {
        assert_eq!(over_at(|_| Progress::default()), Some(10), "nothing at all");
        let drip = |second| Progress { reads: second, ..Progress::default() };
        assert_eq!(over_at(drip), Some(10), "byte by byte");
        let second_head = |second: u64| Progress { heads: 1, reads: 1 + second.saturating_sub(20), reads_at_head: 1 };
        assert_eq!(over_at(second_head), Some(31), "byte by byte, the second one");
    }

    #[test]
    fn an_idle_connection_is_kept_for_the_next_request() {
        let once = |_| Progress { heads: 1, reads: 1, reads_at_head: 1 };
        assert_eq!(over_at(once), Some(75));
        let every_minute = |second: u64| {
            let heads = 1 + second / 60;
            Progress { heads, reads: heads, reads_at_head: heads }
        };
        assert_eq!(over_at(every_minute), None);
    }

    #[test]
    fn a_busy_connection_is_never_cut() {
        let busy =
            |second: u64| Progress { heads: 1 + second * 1_000, reads: 2 + second * 1_000, reads_at_head: second };
        assert_eq!(over_at(busy), None);
    }
}
