//! The lowest rates recorded near some records. Pure.

use std::collections::HashMap;
use std::time::Duration;

use schemas::time::SECOND;
use schemas::{LinkId, UtcMicros};

/// The second since the epoch that an instant is in.
pub(crate) fn second_of(time: UtcMicros) -> i64 {
    time.0.div_euclid(SECOND)
}

/// A rate that is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Known {
    /// The link.
    pub(crate) link: LinkId,
    /// Seconds since the epoch.
    pub(crate) second: i64,
    /// Whether lines of edge logs were sampled at it, and nothing else.
    pub(crate) by_lines: bool,
    /// The rate.
    pub(crate) rate: f64,
}

/// Recorded rates of some file of `sampling`, in the order of link and second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recorded(Vec<Known>);

impl FromIterator<Known> for Recorded {
    fn from_iter<I: IntoIterator<Item = Known>>(rates: I) -> Self {
        // what is no rate can't have been used
        let mut all: Vec<_> = rates.into_iter().filter(|known| known.rate > 0.0 && known.rate < 1.0).collect();
        let key = |known: &Known| (known.link, known.second, known.by_lines);
        all.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then(a.rate.total_cmp(&b.rate)));
        all.dedup_by_key(|known| key(known));
        Self(all)
    }
}

impl Recorded {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The rates of a link in some seconds.
    fn of(&self, link: LinkId, from: i64, to: i64) -> impl Iterator<Item = &Known> {
        let begin = self.0.partition_point(|known| (known.link, known.second) < (link, from));
        self.0[begin..].iter().take_while(move |known| known.link == link && known.second <= to)
    }
}

/// What is recorded near a link's second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Near {
    event: f64,
    line: f64,
    within: bool,
}

/// Of links' seconds that were asked for, the lowest rate recorded near them, in any partition.
///
/// A rate that lines were sampled at counts for other lines of the very second alone: a request has one line, whose time is
/// the same however often it comes. Else every line near enough to one that was sampled away would be sampled too, and be
/// near enough to the next, and a link that its edge answers all day would stay thinned long after its peak; and what a log
/// comes to would depend on how it is cut into files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lowest(HashMap<(LinkId, i64), Near>);

impl Lowest {
    /// Takes in what `recorded` has near each of `asked`; `reach` is how far two records of one id are apart at most.
    pub(crate) fn add(&mut self, recorded: &Recorded, asked: impl IntoIterator<Item = (LinkId, i64)>, reach: Duration) {
        let seconds = reach.as_micros().div_ceil(SECOND.unsigned_abs().into()) as i64;
        for (link, second) in asked {
            for known in recorded.of(link, second - seconds, second + seconds) {
                let near = self.0.entry((link, second)).or_insert(Near { event: 1.0, line: 1.0, within: false });
                near.event = near.event.min(known.rate);
                if !known.by_lines || known.second == second {
                    near.line = near.line.min(known.rate);
                }
                near.within |= known.second == second;
            }
        }
    }

    /// The rate that an event of unknown past is judged by; 1 without any.
    pub(crate) fn of_event(&self, link: LinkId, time: UtcMicros) -> f64 {
        self.0.get(&(link, second_of(time))).map_or(1.0, |near| near.event)
    }

    /// The rate that a line of an edge log is judged by; 1 without any.
    pub(crate) fn of_line(&self, link: LinkId, time: UtcMicros) -> f64 {
        self.0.get(&(link, second_of(time))).map_or(1.0, |near| near.line)
    }

    /// Whether a rate is recorded for the very second.
    pub(crate) fn has(&self, link: LinkId, second: i64) -> bool {
        self.0.get(&(link, second)).is_some_and(|near| near.within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REACH: Duration = Duration::from_secs(65);

    fn link(n: u128) -> LinkId {
        LinkId(uuid::Uuid::from_u128(n))
    }

    fn known(n: u128, second: i64, rate: f64) -> Known {
        Known { link: link(n), second, by_lines: false, rate }
    }

    fn lowest(recorded: &[Known], n: u128, second: i64, reach: Duration) -> Lowest {
        let mut lowest = Lowest::default();
        lowest.add(&recorded.iter().copied().collect(), [(link(n), second)], reach);
        lowest
    }

    fn of_event(recorded: &[Known], n: u128, second: i64, reach: Duration) -> f64 {
        lowest(recorded, n, second, reach).of_event(link(n), UtcMicros(second * SECOND))
    }

    #[test]
    fn the_lowest_within_reach_counts_and_only_the_links_own() {
        let recorded = [known(1, 100, 0.5), known(1, 100, 0.25), known(1, 165, 0.1), known(2, 100, 0.01)];
        for (second, rate) in [(34, 1.0), (35, 0.25), (99, 0.25), (100, 0.1), (230, 0.1), (231, 1.0)] {
            assert_eq!(of_event(&recorded, 1, second, REACH), rate, "{second}");
            let lowest = lowest(&recorded, 1, second, REACH);
            assert_eq!(lowest.of_line(link(1), UtcMicros(second * SECOND)), rate, "{second}");
            assert_eq!(lowest.has(link(1), second), second == 100);
        }
        assert_eq!(of_event(&recorded, 3, 100, REACH), 1.0);
        let part = Duration::from_micros;
        assert_eq!(of_event(&recorded, 1, 98, part(1_000_001)), 0.25, "a part of a second reaches as far");
        assert_eq!(of_event(&recorded, 1, 98, part(1_000_000)), 1.0);
    }

    #[test]
    fn lines_are_thinned_by_lines_of_their_own_second_alone_and_events_by_all() {
        let recorded = [Known { by_lines: true, ..known(1, 100, 0.1) }, known(1, 60, 0.5)];
        for (second, event, line) in [(100, 0.1, 0.1), (101, 0.1, 0.5), (99, 0.1, 0.5), (126, 0.1, 1.0)] {
            let (lowest, time) = (lowest(&recorded, 1, second, REACH), UtcMicros(second * SECOND));
            assert_eq!((lowest.of_event(link(1), time), lowest.of_line(link(1), time)), (event, line), "{second}");
        }
    }

    #[test]
    fn what_is_no_rate_is_left_out() {
        let recorded = [0.0, -1.0, f64::NAN, 1.0, 0.5].map(|rate| known(1, 5, rate));
        assert_eq!(of_event(&recorded, 1, 5, Duration::ZERO), 0.5);
    }

    proptest! {
        /// However a log is cut into files that come one after the other, each of which records what its lines were sampled
        /// at: a line's rate is the same.
        #[test]
        fn files_come_to_the_same_as_one(
            rates in proptest::collection::vec((0i64..400, 0.01f64..0.9), 0..4),
            mut lines in proptest::collection::vec(0i64..900, 1..60),
            cuts in 1usize..60,
            in_order: bool,
        ) {
            if in_order {
                lines.sort_unstable();
            }
            let hot: Vec<Known> = rates.into_iter().map(|(second, rate)| known(1, second, rate)).collect();
            let of_line = |recorded: &[Known], second: i64| {
                lowest(recorded, 1, second, REACH).of_line(link(1), UtcMicros(second * SECOND))
            };
            let mut recorded = hot.clone();
            for file in lines.chunks(cuts) {
                let rates: Vec<(i64, f64)> = file.iter().map(|second| (*second, of_line(&recorded, *second))).collect();
                for (second, rate) in rates {
                    prop_assert_eq!(rate, of_line(&hot, second));
                    recorded.push(Known { by_lines: true, ..known(1, second, rate) });
                }
            }
        }

        /// Two records of an id that are no farther apart than any two: whoever judges the second finds what the first had.
        #[test]
        fn what_the_first_record_of_an_id_had_is_found(first: i32, apart in -65_000_000i64..=65_000_000) {
            let first = i64::from(first) * 997;
            let recorded = [known(1, second_of(UtcMicros(first)), 0.5)];
            prop_assert_eq!(of_event(&recorded, 1, second_of(UtcMicros(first + apart)), REACH), 0.5);
        }
    }
}
