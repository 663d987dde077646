//! What the groups that have landed of late tell: pace, strain, and whether it goes away by itself. Pure.
//!
//! Commits are rare, large and uneven under backlog, so what is missing in the lake is seen only at the moments when one has
//! landed: in between it grows and falls with every commit, and tells nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Points that are remembered.
const POINTS: usize = 6;
/// Of so many stretches between points the slowest is left out of the pace: a process that stood still, a store that hung.
const SURE: usize = 3;

/// Of so long a wait to come this share counts like lag that is there: it may be foreseen wrongly.
const FORESEEN: f64 = 0.4;
/// How much waits is heard of late, above all of a topic: it may be so many times as much.
const UNSURE: u32 = 2;
/// Longer than any wait, and no number too large.
const MOST: Duration = Duration::from_secs(1 << 32);

/// What is seen when a group has landed, or when nothing is left that could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at: Instant,
    /// The age of the oldest click of the group.
    pub(super) lag: Duration,
    /// Records that the lake lacks still.
    pub(super) backlog: u64,
    /// Records that have been brought into it, ever.
    pub(super) done: u64,
}

/// The last points, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Trend {
    points: VecDeque<Point>,
}

impl Trend {
    /// Takes in the next point.
    pub(super) fn add(&mut self, point: Point) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Records that come into the lake in a second; 0 before that is known.
    pub(super) fn pace(&self) -> f64 {
        let mut stretches: Vec<(f64, f64)> = self
            .points
            .iter()
            .zip(self.points.iter().skip(1))
            .map(|(from, to)| (to.done.saturating_sub(from.done) as f64, (to.at - from.at).as_secs_f64()))
            .collect();
        if stretches.len() >= SURE {
            stretches.sort_by(|(done, time), (other, other_time)| (done * other_time).total_cmp(&(other * time)));
            stretches.remove(0);
        }
        let (done, time) = stretches.iter().fold((0.0, 0.0), |(done, time), one| (done + one.0, time + one.1));
        if time > 0.0 { done / time } else { 0.0 }
    }

    /// Records that come into the stream in a second; `None` before that is known.
    pub(super) fn offered(&self) -> Option<f64> {
        let (first, last) = (self.points.front()?, self.points.back()?);
        let time = (last.at - first.at).as_secs_f64();
        let more = (last.done + last.backlog) as f64 - (first.done + first.backlog) as f64;
        (time > 0.0).then(|| more / time)
    }

    /// How high lag is or will be, if it is above `low`: the lag of the last group, or a part of what a click that comes now
    /// will wait for, if that is more. No more than such a click may wait: old clicks alone are no strain, as those of a
    /// redirect that was away, as they land with the next group.
    pub(super) fn strain(&self, low: Duration) -> Duration {
        let Some(last) = self.points.back() else { return Duration::ZERO };
        let waits = match (last.backlog, self.pace()) {
            (0, _) => Duration::ZERO,
            // as long as no pace is known its age is all there is
            (_, 0.0) => return last.lag,
            (backlog, pace) => Duration::try_from_secs_f64(backlog as f64 / pace).unwrap_or(MOST).min(MOST),
        };
        let will_be = if last.lag > low { waits.mul_f64(FORESEEN) } else { Duration::ZERO };
        last.lag.max(will_be).min(UNSURE * waits)
    }
}

/// How long until a strain is gone that was so high at these moments: by the line that fits them best, or from when it was
/// highest on, whichever is sooner, as the first groups after a stop make it rise still. `None`: for ever, as it seems, or
/// too few to tell.
pub(super) fn gone_after(strains: &VecDeque<(Instant, Duration)>) -> Option<Duration> {
    let last = strains.back()?;
    let highest = strains.iter().rev().max_by_key(|(_, strain)| strain)?;
    let since = (last.0 - highest.0).as_secs_f64();
    let from_highest = (highest.1.as_secs_f64() - last.1.as_secs_f64()) / since;
    let falls = fall(strains).max(if since > 0.0 { from_highest } else { 0.0 });
    Duration::try_from_secs_f64(last.1.as_secs_f64() / falls).ok().filter(|_| falls > 0.0)
}

/// By how much a strain falls in a second, by the line that fits it best.
fn fall(strains: &VecDeque<(Instant, Duration)>) -> f64 {
    let Some((first, _)) = strains.front() else { return 0.0 };
    let of = |(at, strain): &(Instant, Duration)| ((*at - *first).as_secs_f64(), strain.as_secs_f64());
    let n = strains.len() as f64;
    let (times, highs) = strains.iter().map(of).fold((0.0, 0.0), |(x, y), one| (x + one.0, y + one.1));
    let (mid, mean) = (times / n, highs / n);
    let (together, spread) = strains.iter().map(of).fold((0.0, 0.0), |(together, spread), (time, high)| {
        (together + (time - mid) * (high - mean), spread + (time - mid) * (time - mid))
    });
    if spread > 0.0 { -together / spread } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Duration = Duration::from_secs(5);

    /// Points of (second, lag, backlog, done).
    fn trend(points: &[(u64, u64, u64, u64)]) -> Trend {
        let (start, mut trend) = (Instant::now(), Trend::default());
        for &(at, lag, backlog, done) in points {
            let (at, lag) = (start + Duration::from_secs(at), Duration::from_secs(lag));
            trend.add(Point { at, lag, backlog, done });
        }
        trend
    }

    fn strains(strains: &[(u64, u64)]) -> VecDeque<(Instant, Duration)> {
        let start = Instant::now();
        let of = |(at, strain): &(u64, u64)| (start + Duration::from_secs(*at), Duration::from_secs(*strain));
        strains.iter().map(of).collect()
    }

    #[test]
    fn a_time_that_a_process_stood_still_is_no_part_of_its_pace() {
        assert_eq!(trend(&[]).pace(), 0.0);
        assert_eq!(trend(&[(0, 0, 0, 500)]).pace(), 0.0);
        assert_eq!(trend(&[(0, 0, 0, 500), (2, 0, 0, 700)]).pace(), 100.0);
        let stood_still = [(0, 0, 0, 0), (1, 0, 0, 100), (2, 0, 0, 200), (600, 0, 0, 300)];
        assert_eq!(trend(&stood_still).pace(), 100.0);
    }

    #[test]
    fn what_is_offered_is_what_is_done_and_what_is_left_more() {
        assert_eq!(trend(&[(0, 0, 0, 500)]).offered(), None);
        assert_eq!(trend(&[(0, 0, 10, 500), (2, 0, 110, 700), (4, 0, 30, 800)]).offered(), Some(80.0));
    }

    #[test]
    fn old_clicks_are_no_strain_and_young_ones_are_none_however_many() {
        let some = [(0, 1, 0, 0), (1, 1, 0, 100), (2, 500, 4, 200)];
        assert_eq!(trend(&some).strain(LOW), Duration::from_millis(80));
        let many = [(0, 1, 0, 0), (1, 1, 0, 100), (2, 1, 1_000_000, 200)];
        assert_eq!(trend(&many).strain(LOW), Duration::from_secs(1));
        let both = [(0, 20, 900, 0), (1, 21, 1_900, 100), (2, 22, 2_900, 200)];
        assert_eq!(trend(&both).strain(LOW), Duration::from_secs(22));
        assert_eq!(trend(&both[2..]).strain(LOW), Duration::from_secs(22), "no pace is known: its age is all there is");
    }

    #[test]
    fn a_strain_is_gone_when_its_line_is_at_nothing() {
        assert_eq!(gone_after(&strains(&[])), None);
        assert_eq!(gone_after(&strains(&[(0, 9)])), None);
        assert_eq!(gone_after(&strains(&[(0, 9), (1, 9)])), None);
        assert_eq!(gone_after(&strains(&[(0, 8), (1, 9), (2, 12)])), None);
        assert_eq!(gone_after(&strains(&[(0, 30), (10, 20)])), Some(Duration::from_secs(20)));
        assert_eq!(gone_after(&strains(&[(0, 30), (5, 10), (10, 20)])), Some(Duration::from_secs(20)), "by the line");
        assert_eq!(
            gone_after(&strains(&[(0, 20), (5, 30), (10, 20)])),
            Some(Duration::from_secs(10)),
            "from the highest"
        );
    }
}
