//! When a group of buffered records is committed. Pure.

use std::time::{Duration, Instant};

/// The rule: rows wait no longer than `commit_after`, marks alone no longer than `idle_after` since the last commit, or
/// `mark_after` if that one had rows, and nothing waits once the byte budget is full.
///
/// Marks soon after rows let `complete_through` pass the clicks that a report shows already; when nothing happens there is
/// no need for so many commits.
#[derive(Clone, Copy, Debug)]
pub struct GroupPolicy {
    /// The oldest row's longest wait.
    pub commit_after: Duration,
    /// How often marks alone make a commit.
    pub idle_after: Duration,
    /// How soon after a commit of rows they do.
    pub mark_after: Duration,
    /// What is buffered at most before it is committed at once.
    pub max_bytes: usize,
}

/// What is buffered, and what has gone before.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// When the oldest row (a click, or a record that can't be read) was taken in; `None` without rows.
    pub oldest_row: Option<Instant>,
    /// Whether there is anything at all, marks included.
    pub any: bool,
    /// Bytes buffered.
    pub bytes: usize,
    /// Set when nothing more will come, or a journal waits to be closed.
    pub urgent: bool,
    /// When the last commit landed.
    pub last_commit: Instant,
    /// Whether it had rows.
    pub last_had_rows: bool,
    /// After a failure: not again before this.
    pub not_before: Option<Instant>,
}

/// When to commit next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// At that instant, unless more comes.
    At(Instant),
    /// Not before something comes.
    Never,
}

impl GroupPolicy {
    /// When what is waiting must be committed, as seen at `now`.
    pub fn due(&self, waiting: &Waiting, now: Instant) -> Due {
        if !waiting.any {
            return Due::Never;
        }
        let at = if waiting.urgent || waiting.bytes >= self.max_bytes {
            now
        } else {
            match waiting.oldest_row {
                Some(row) => row + self.commit_after,
                None if waiting.last_had_rows => waiting.last_commit + self.mark_after.min(self.idle_after),
                None => waiting.last_commit + self.idle_after,
            }
        };
        let at = waiting.not_before.map_or(at, |earliest| at.max(earliest));
        if at <= now { Due::Now } else { Due::At(at) }
    }
}

/// The pause after `failures` failures in a row.
pub fn back_off(failures: u32) -> Duration {
    Duration::from_millis(100).saturating_mul(1 << failures.clamp(1, 7).saturating_sub(1)).min(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: GroupPolicy = GroupPolicy {
        commit_after: Duration::from_millis(400),
        idle_after: Duration::from_secs(10),
        mark_after: Duration::from_secs(1),
        max_bytes: 1_000,
    };

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn every_case() {
        let start = Instant::now();
        let none = Waiting {
            oldest_row: None,
            any: false,
            bytes: 0,
            urgent: true,
            last_commit: start,
            last_had_rows: false,
            not_before: None,
        };
        assert_eq!(POLICY.due(&none, start), Due::Never, "nothing arrived: no commit, however urgent");
        let marks = Waiting { any: true, urgent: false, ..none };
        assert_eq!(POLICY.due(&marks, after(start, 9_999)), Due::At(after(start, 10_000)));
        assert_eq!(POLICY.due(&marks, after(start, 10_000)), Due::Now);
        let after_rows = Waiting { last_had_rows: true, ..marks };
        assert_eq!(POLICY.due(&after_rows, after(start, 999)), Due::At(after(start, 1_000)));
        assert_eq!(POLICY.due(&after_rows, after(start, 1_000)), Due::Now);
        assert_eq!(POLICY.due(&Waiting { urgent: true, ..marks }, start), Due::Now);
        let rows = Waiting { oldest_row: Some(after(start, 100)), bytes: 999, ..marks };
        assert_eq!(POLICY.due(&rows, after(start, 499)), Due::At(after(start, 500)));
        assert_eq!(POLICY.due(&rows, after(start, 500)), Due::Now);
        assert_eq!(POLICY.due(&Waiting { bytes: 1_000, ..rows }, after(start, 100)), Due::Now);
        let failed = Waiting { bytes: 1_000, urgent: true, not_before: Some(after(start, 800)), ..rows };
        assert_eq!(POLICY.due(&failed, after(start, 600)), Due::At(after(start, 800)), "a failure is waited out");
        assert_eq!(POLICY.due(&failed, after(start, 800)), Due::Now);
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let pauses: Vec<u128> = (0..9).map(|n| back_off(n).as_millis()).collect();
        assert_eq!(pauses, [100, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(back_off(u32::MAX), Duration::from_secs(5));
    }
}
