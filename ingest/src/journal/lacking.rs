//! Which frames of a journal are clicks, so that what the lake lacks of it can be counted in clicks: a mark that waits is
//! none. Pure.
//!
//! ```text
//! positions  0 1 2 3 4 5 6 7 8        c click, m mark: two stretches
//!            c c m c c c m m m        beyond 4: two clicks, the oldest as old as the stretch
//! ```

use std::collections::VecDeque;

use schemas::UtcMicros;

/// Stretches kept apart. A mark ends one about twenty times a second, so these are an hour's; before that they are joined.
const STRETCHES: usize = 65_536;

/// Clicks of a journal that the lake lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// How many.
    pub clicks: u64,
    /// Time of the oldest, give or take the span between two marks; `None` without clicks, or if nobody knows.
    pub oldest: Option<UtcMicros>,
}

impl Lacking {
    /// With others that come behind them.
    pub(super) fn and(self, behind: Self) -> Self {
        Self { clicks: self.clicks + behind.clicks, oldest: self.oldest.or(behind.oldest) }
    }
}

/// Clicks that stand one behind the other; of several stretches that were joined, with other frames in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from: u64,
    to: u64,
    clicks: u64,
    /// Time of the first.
    first: UtcMicros,
}

/// Where a journal's clicks are.
#[derive(Clone, Debug, Default)]
pub(super) struct Clicks {
    /// What the frames below this are nobody has looked at.
    since: u64,
    stretches: VecDeque<Stretch>,
}

impl Clicks {
    /// Of a journal whose frames below `since` nobody looks at: each may be a click.
    pub(super) fn since(since: u64) -> Self {
        Self { since, ..Self::default() }
    }

    /// Takes a click in, which stands behind all others.
    pub(super) fn add(&mut self, position: u64, time: UtcMicros) {
        self.push(Stretch { from: position, to: position + 1, clicks: 1, first: time });
    }

    /// Takes in those of the frames behind.
    pub(super) fn extend(&mut self, behind: Self) {
        behind.stretches.into_iter().for_each(|stretch| self.push(stretch));
    }

    fn push(&mut self, next: Stretch) {
        if let Some(last) = self.stretches.back_mut().filter(|last| last.to == next.from) {
            (last.to, last.clicks) = (next.to, last.clicks + next.clicks);
            return;
        }
        self.stretches.push_back(next);
        if self.stretches.len() > STRETCHES
            && let (Some(first), Some(second)) = (self.stretches.pop_front(), self.stretches.front_mut())
        {
            (second.from, second.first) = (first.from, first.first);
            second.clicks += first.clicks;
        }
    }

    /// Forgets those below `position`, of which nobody will ask any more.
    pub(super) fn forget(&mut self, position: u64) {
        while self.stretches.front().is_some_and(|stretch| stretch.to <= position) {
            self.stretches.pop_front();
        }
    }

    /// Those at `position` or behind it.
    pub(super) fn beyond(&self, position: u64) -> Lacking {
        let begin = self.stretches.partition_point(|stretch| stretch.to <= position);
        let of = |stretch: &Stretch| stretch.clicks.min(stretch.to - stretch.from.max(position));
        let known = Lacking {
            clicks: self.stretches.range(begin..).map(of).sum(),
            oldest: self.stretches.get(begin).map(|stretch| stretch.first),
        };
        match self.since.saturating_sub(position) {
            0 => known,
            unknown => Lacking { clicks: known.clicks + unknown, oldest: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lacking(clicks: u64, oldest: Option<i64>) -> Lacking {
        Lacking { clicks, oldest: oldest.map(UtcMicros) }
    }

    #[test]
    fn marks_are_nothing_that_the_lake_lacks() {
        let mut clicks = Clicks::default();
        for position in [0, 1, 3, 4, 5] {
            clicks.add(position, UtcMicros(100 + position as i64));
        }
        for (position, expected) in [
            (0, lacking(5, Some(100))),
            (2, lacking(3, Some(103))),
            (4, lacking(2, Some(103))),
            (6, lacking(0, None)),
            (9, lacking(0, None)),
        ] {
            assert_eq!(clicks.beyond(position), expected, "{position}");
        }
        clicks.forget(3);
        assert_eq!((clicks.beyond(2), clicks.stretches.len()), (lacking(3, Some(103)), 1));
    }

    #[test]
    fn what_nobody_has_looked_at_may_be_clicks() {
        let mut clicks = Clicks::since(10);
        clicks.add(10, UtcMicros(7));
        assert_eq!(clicks.beyond(8), lacking(3, None));
        assert_eq!(clicks.beyond(10), lacking(1, Some(7)));
        let mut behind = Clicks::default();
        behind.add(11, UtcMicros(8));
        clicks.extend(behind);
        assert_eq!(clicks.beyond(10), lacking(2, Some(7)));
    }

    #[test]
    fn however_many_stretches_there_are_the_sum_stays() {
        let mut clicks = Clicks::default();
        let n = STRETCHES as u64 + 100;
        (0..n).for_each(|number| clicks.add(2 * number, UtcMicros(number as i64)));
        assert_eq!((clicks.stretches.len(), clicks.beyond(0)), (STRETCHES, lacking(n, Some(0))));
        assert_eq!(clicks.beyond(2 * n - 2), lacking(1, Some(n as i64 - 1)));
    }

    proptest! {
        #[test]
        fn clicks_are_counted_as_one_by_one(frames in proptest::collection::vec(any::<bool>(), 0..200), at in 0u64..220) {
            let mut clicks = Clicks::default();
            for (position, _) in frames.iter().enumerate().filter(|(_, is_click)| **is_click) {
                clicks.add(position as u64, UtcMicros(position as i64));
            }
            let expected = frames.iter().skip(at as usize).filter(|is_click| **is_click).count() as u64;
            prop_assert_eq!(clicks.beyond(at).clicks, expected);
            clicks.forget(at);
            prop_assert_eq!(clicks.beyond(at).clicks, expected);
        }
    }
}
