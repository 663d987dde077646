//! Whether the ids of a party's hour meet. Pure.
//!
//! ```text
//! line without an event ("missing"): its event was lost │ its event is there, under another id
//! event without a line  ("lonely"):  its line is missing │ its line is there, under another id
//!                                                          └── both at once: recovered, it would count twice
//! ```
//! At most the lesser of the two numbers would count twice. Line and event of one request are of one link, so they are
//! compared by workspace: nobody's events speak of another's lines, and nobody's many lines make another's few.

/// Fewer missing lines than this say nothing.
const LEAST: u64 = 100;
/// As many in a thousand lines may be missing without a word.
const FEW_IN_A_THOUSAND: u64 = 10;
/// What opens an hour may come to half as many doubles (see [`Part::suspected`]), so it is released below that.
const RELEASE: u64 = LEAST / 2;
/// The same of the lines that have met their event.
const RELEASE_IN_A_THOUSAND: u64 = FEW_IN_A_THOUSAND / 2;

/// One workspace's part of an hour, as far as lines and events of it are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Lines of requests that reached the origin, each once.
    pub(super) lines: u64,
    /// Of these, recovered: rows without an event.
    pub(super) recovered: u64,
    /// Of these, without a row, and no event can be on its way any more.
    pub(super) due: u64,
    /// Of these, without a row, but their event may still come.
    pub(super) early: u64,
    /// Events that an edge's id names.
    pub(super) named: u64,
    /// Events that were given an id at the origin.
    pub(super) nameless: u64,
}

/// What is to be done with the hour's lines without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Their events were lost: they are recovered.
    Lost,
    /// They may be mismatched; it is known when the last of them is due.
    Undecided,
    /// Ids don't meet: they wait for an operator.
    Mismatched,
}

fn is_few(number: u64, of: u64, in_a_thousand: u64) -> bool {
    number.saturating_mul(1_000) <= of.saturating_mul(in_a_thousand)
}

impl Part {
    fn missing(&self) -> u64 {
        self.recovered + self.due + self.early
    }

    /// Lines that have met their event.
    fn found(&self) -> u64 {
        self.lines.saturating_sub(self.missing())
    }

    fn lonely(&self) -> u64 {
        self.named.saturating_sub(self.found()) + self.nameless
    }

    /// How many of `missing` lines without an event are worth suspecting: all, if they are more than a few of the
    /// lines, and if lonely events could be those of at least half of them. Half, because recovering them counts at worst
    /// as many too often as there are lonely events, and not recovering them as many too seldom as are left: above half
    /// the first is the greater error.
    fn suspected(&self, missing: u64) -> u64 {
        let few = is_few(missing, self.lines.max(missing), FEW_IN_A_THOUSAND);
        if few || self.lonely().saturating_mul(2) < missing { 0 } else { missing }
    }

    /// How many may count twice, unless they are few beside lines whose ids have met. More missing lines never make it
    /// less.
    fn doubles(&self) -> u64 {
        let doubles = self.missing().min(self.lonely());
        if is_few(doubles, self.found(), RELEASE_IN_A_THOUSAND) { 0 } else { doubles }
    }
}

/// Judges an hour by the parts that workspaces have in it.
///
/// One that `is_open` is judged by its lonely events alone. Were it asked again whether they explain enough of what is
/// missing, some more missing lines would release it, and all of them would count beside their clicks. Lonely events
/// become few when the rest of the lines comes.
pub(super) fn judge(parts: &[Part], is_open: bool) -> Verdict {
    let sum = |of: &dyn Fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
    if is_open {
        let doubles = sum(&Part::doubles);
        return if doubles >= RELEASE { Verdict::Mismatched } else { Verdict::Lost };
    }
    if sum(&|part| part.suspected(part.recovered + part.due)) >= LEAST {
        Verdict::Mismatched
    } else if sum(&|part| part.suspected(part.missing())) >= LEAST {
        Verdict::Undecided
    } else {
        Verdict::Lost
    }
}

/// Whether so many missing lines may make an hour mismatched at all: the rest is worth finding out.
pub(super) fn may_be_mismatched(missing: u64) -> bool {
    missing >= LEAST
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(lines: u64, due: u64, named: u64, nameless: u64) -> Part {
        Part { lines, due, named, nameless, ..Part::default() }
    }

    fn fresh(part: Part) -> Verdict {
        judge(&[part], false)
    }

    #[test]
    fn exactly_a_hundred_and_exactly_one_in_a_hundred() {
        use Verdict::{Lost, Mismatched};
        for (lines, missing, verdict) in [
            (99, 99, Lost),
            (100, 100, Mismatched),
            (9_999, 100, Mismatched),
            (10_000, 100, Lost), // exactly 1 %
            (10_000, 101, Mismatched),
            (1_000_000, 10_000, Lost),
            (1_000_000, 10_001, Mismatched),
        ] {
            // all other lines have their event, and as many events as are missing have no line
            let found = lines - missing;
            assert_eq!(fresh(part(lines, missing, found + missing, 0)), verdict, "{lines} {missing}");
            assert_eq!(fresh(part(lines, missing, found, missing)), verdict, "{lines} {missing} without a name");
        }
    }

    #[test]
    fn lines_are_missing_in_earnest_when_fewer_than_half_of_their_events_are_lonely() {
        assert_eq!(fresh(part(1_000, 200, 800 + 99, 0)), Verdict::Lost, "one event too few");
        assert_eq!(fresh(part(1_000, 200, 800 + 100, 0)), Verdict::Mismatched);
        assert_eq!(fresh(part(1_000, 200, 700, 99)), Verdict::Lost, "lines may be counted by other lines than events");
        assert_eq!(fresh(part(1_000, 200, 800, 0)), Verdict::Lost, "lost events");
        assert_eq!(fresh(part(1_000, 1_000, 0, 0)), Verdict::Lost, "an origin that was never asked to count");
    }

    #[test]
    fn more_lines_than_lonely_events_are_held_nevertheless() {
        for (lines, events) in [(2_001, 2_000), (150, 120), (301, 300), (300, 299)] {
            assert_eq!(fresh(part(lines, lines, 0, events)), Verdict::Mismatched, "{lines} of {events} events");
            assert_eq!(fresh(part(lines, lines, events, 0)), Verdict::Mismatched, "{lines} of {events} named events");
        }
    }

    #[test]
    fn what_was_recovered_before_is_missing_too() {
        let part = Part { lines: 1_000, recovered: 99, due: 1, nameless: 500, named: 900, ..Part::default() };
        assert_eq!(fresh(part), Verdict::Mismatched);
        assert_eq!(fresh(Part { due: 0, ..part }), Verdict::Lost);
    }

    #[test]
    fn while_lines_may_still_find_their_event_nothing_is_decided() {
        let part = Part { lines: 200, due: 99, early: 101, nameless: 200, ..Part::default() };
        assert_eq!(fresh(part), Verdict::Undecided);
        assert_eq!(fresh(Part { due: 100, early: 100, ..part }), Verdict::Mismatched);
        // their events have come
        assert_eq!(fresh(Part { early: 0, named: 101, nameless: 0, ..part }), Verdict::Lost);
        assert_eq!(fresh(Part { nameless: 0, ..part }), Verdict::Lost);
    }

    #[test]
    fn more_lines_are_missing_than_were_told_of() {
        assert_eq!(fresh(part(0, 150, 0, 150)), Verdict::Mismatched, "an import that isn't ended");
    }

    #[test]
    fn an_open_hour_is_released_when_its_lonely_events_have_become_few() {
        let open = |part: Part| judge(&[part], true);
        assert_eq!(open(part(10_000, 9_700, 300, 300)), Verdict::Mismatched, "however much is missing beside them");
        assert_eq!(open(part(1_150, 150, 1_000 + 49, 0)), Verdict::Lost, "all but 49 found");
        assert_eq!(open(part(1_150, 150, 1_000 + 50, 0)), Verdict::Mismatched);
        assert_eq!(open(part(30_150, 150, 30_150, 0)), Verdict::Lost, "150 beside 30,000 that met are few");
        assert_eq!(open(part(29_950, 150, 29_950, 0)), Verdict::Mismatched);
        assert_eq!(open(part(300, 49, 251, 300)), Verdict::Lost, "of the lines that were missing, 49 are left");
    }

    #[test]
    fn nobodys_lines_or_events_speak_of_anothers() {
        let (theirs, events) = (part(300, 300, 0, 300), part(0, 0, 5_000, 5_000));
        let (crowd, lost) = (part(1_000_000, 0, 1_000_000, 0), part(5_000, 4_000, 1_000, 0));
        for is_open in [false, true] {
            for others in [&[crowd][..], &[lost], &[events], &[crowd, lost, events]] {
                assert_eq!(judge(&[others, &[theirs]].concat(), is_open), Verdict::Mismatched, "{others:?}");
                assert_eq!(judge(others, is_open), Verdict::Lost, "{others:?}");
            }
        }
        let few = [part(60, 60, 0, 60); 2];
        assert_eq!(judge(&few, false), Verdict::Mismatched, "a hundred of all together");
    }

    fn any_part() -> impl Strategy<Value = Part> {
        let number = || 0u64..2_000;
        (number(), (0u64..300, number(), 0u64..300), number(), number()).prop_map(
            |(found, (recovered, due, early), named, nameless)| {
                let lines = found + recovered + due + early;
                Part { lines, recovered, due, early, named, nameless }
            },
        )
    }

    proptest! {
        /// Ids that all meet are never held, however many events are lost; ids that never meet always are, from a
        /// hundred on.
        #[test]
        fn meeting_ids_are_recovered_and_others_held(lines in 1u64..100_000, lost in 0u64..100_000, early in 0u64..500) {
            let (lost, early) = (lost.min(lines), early.min(lines));
            prop_assert_eq!(fresh(part(lines, lost, lines - lost, 0)), Verdict::Lost);
            prop_assert_eq!(judge(&[part(lines, lost, lines - lost, 0)], true), Verdict::Lost);
            let none_meets = Part { lines, due: lines, nameless: lines, ..Part::default() };
            prop_assert_eq!(fresh(none_meets) == Verdict::Mismatched, lines >= 100);
            let other_ids = Part { lines, due: lines - early, early, named: lines, ..Part::default() };
            prop_assert_eq!(fresh(other_ids) == Verdict::Lost, lines < 100);
        }

        /// What is recovered by itself counts fewer than a hundred twice, or fewer than are rightly counted, or few
        /// beside the lines.
        #[test]
        fn doubles_are_few_or_the_lesser_error(part in any_part()) {
            if fresh(part) == Verdict::Lost {
                let (missing, doubles) = (part.missing(), part.missing().min(part.lonely()));
                prop_assert!(missing < 100 || is_few(missing, part.lines, 10) || doubles * 2 < missing, "{part:?}");
            }
        }

        /// An open hour stays open whatever else is missing, of anybody.
        #[test]
        fn more_missing_lines_never_release(
            parts in proptest::collection::vec(any_part(), 1..4),
            more in proptest::collection::vec((0usize..4, 0u64..50_000, 0u8..3), 1..4),
            others in proptest::collection::vec(any_part(), 0..3),
        ) {
            let before = judge(&parts, true);
            let mut after = [parts, others].concat();
            for (at, lines, kind) in more {
                let at = at % after.len();
                let part = &mut after[at];
                part.lines += lines;
                *[&mut part.recovered, &mut part.due, &mut part.early][usize::from(kind)] += lines;
            }
            prop_assert!(before == Verdict::Lost || judge(&after, true) == Verdict::Mismatched);
        }

        /// What is opened is not released by the same numbers.
        #[test]
        fn between_opening_and_release_is_some_room(parts in proptest::collection::vec(any_part(), 1..4)) {
            prop_assert!(judge(&parts, false) != Verdict::Mismatched || judge(&parts, true) == Verdict::Mismatched);
        }
    }
}
