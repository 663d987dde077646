//! Whether the ids of a provider's hour meet. Pure.
//!
//! A lost event is a line without an event. Ids that don't meet (a header missing at the origin, another id there) show
//! as that too, but then as many events are without a line. Recovered all the same, every miss would count twice.

/// Fewer missing lines than this say nothing.
const LEAST_MISSING: u64 = 100;
/// As many in a hundred lines may be missing without a word.
const FEW_PERCENT: u64 = 1;

/// A provider's hour, as far as lines and events of it are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hour {
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

impl Hour {
    /// Judges the hour.
    pub(super) fn judge(&self) -> Verdict {
        let without = self.recovered + self.due + self.early;
        let lines = self.lines.max(without);
        let found = lines - without;
        let lonely = self.named.saturating_sub(found) + self.nameless;
        let suspicious = |missing: u64| {
            let many = missing >= LEAST_MISSING && missing.saturating_mul(100) > lines.saturating_mul(FEW_PERCENT);
            many && lonely >= missing
        };
        if suspicious(self.recovered + self.due) {
            Verdict::Mismatched
        } else if suspicious(without) {
            Verdict::Undecided
        } else {
            Verdict::Lost
        }
    }
}

/// Whether so many missing lines may make an hour mismatched at all: the rest is worth finding out.
pub(super) fn may_be_mismatched(missing: u64) -> bool {
    missing >= LEAST_MISSING
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hour(lines: u64, due: u64, named: u64, nameless: u64) -> Hour {
        Hour { lines, due, named, nameless, ..Hour::default() }
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
            assert_eq!(hour(lines, missing, found + missing, 0).judge(), verdict, "{lines} {missing}");
            assert_eq!(hour(lines, missing, found, missing).judge(), verdict, "{lines} {missing} without a name");
        }
    }

    #[test]
    fn lines_are_missing_in_earnest_when_fewer_events_are_lonely() {
        assert_eq!(hour(1_000, 200, 800 + 199, 0).judge(), Verdict::Lost, "one event too few");
        assert_eq!(hour(1_000, 200, 800 + 200, 0).judge(), Verdict::Mismatched);
        assert_eq!(
            hour(1_000, 200, 700, 199).judge(),
            Verdict::Lost,
            "lines may be counted by other lines than events"
        );
        assert_eq!(hour(1_000, 200, 800, 0).judge(), Verdict::Lost, "lost events");
        assert_eq!(hour(1_000, 1_000, 0, 0).judge(), Verdict::Lost, "an origin that was never asked to count");
    }

    #[test]
    fn what_was_recovered_before_is_missing_too() {
        let hour = Hour { lines: 1_000, recovered: 99, due: 1, nameless: 500, named: 900, ..Hour::default() };
        assert_eq!(hour.judge(), Verdict::Mismatched);
        assert_eq!(Hour { due: 0, ..hour }.judge(), Verdict::Lost);
    }

    #[test]
    fn while_lines_may_still_find_their_event_nothing_is_decided() {
        let hour = Hour { lines: 200, due: 99, early: 101, nameless: 200, ..Hour::default() };
        assert_eq!(hour.judge(), Verdict::Undecided);
        assert_eq!(Hour { due: 100, early: 100, ..hour }.judge(), Verdict::Mismatched);
        // their events have come
        assert_eq!(Hour { early: 0, named: 101, ..hour }.judge(), Verdict::Lost);
        assert_eq!(Hour { nameless: 0, ..hour }.judge(), Verdict::Lost);
    }

    #[test]
    fn more_lines_are_missing_than_were_told_of() {
        assert_eq!(hour(0, 150, 0, 150).judge(), Verdict::Mismatched, "an import that isn't ended");
    }

    proptest! {
        /// Ids that all meet are never held, however many events are lost; ids that never meet always are, from a
        /// hundred on.
        #[test]
        fn meeting_ids_are_recovered_and_others_held(lines in 1u64..100_000, lost in 0u64..100_000, early in 0u64..500) {
            let lost = lost.min(lines);
            prop_assert_eq!(hour(lines, lost, lines - lost, 0).judge(), Verdict::Lost);
            let none_meets = Hour { lines, due: lines, nameless: lines, ..Hour::default() };
            prop_assert_eq!(none_meets.judge() == Verdict::Mismatched, lines >= 100);
            let other_ids = Hour { lines, due: lines - early.min(lines), early: early.min(lines), named: lines, ..Hour::default() };
            prop_assert_eq!(other_ids.judge() == Verdict::Lost, lines < 100);
        }
    }
}
