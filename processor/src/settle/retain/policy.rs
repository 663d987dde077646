//! Which rows are older than their workspace keeps any. Pure.
//!
//! Whole days, in UTC: the rows of a day go together once the last instant of the day is older than the limit, and never
//! before the day is final.

use std::collections::BTreeMap;

use schemas::{Keep, UtcMicros};

/// For each workspace the first day (since the epoch) whose rows stay; none: all rows stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuts {
    default: Option<i32>,
    of: BTreeMap<String, Option<i32>>,
}

impl Cuts {
    /// As of `now`, when numbers up to `final_through` are final. `default` days are kept where a workspace says nothing
    /// else; none: for ever.
    pub(crate) fn new(
        now: UtcMicros,
        final_through: UtcMicros,
        default: Option<u32>,
        keeps: &[(String, Keep)],
    ) -> Self {
        let cut = |days: Option<u32>| {
            let days = i32::try_from(days?).unwrap_or(i32::MAX);
            Some(now.day().saturating_sub(days).min(final_through.day()))
        };
        let of = keeps.iter().map(|(workspace, keep)| (workspace.clone(), cut(keep.days(default))));
        Self { default: cut(default), of: of.collect() }
    }

    /// The first day whose rows of this workspace stay; none: all stay.
    pub(crate) fn of(&self, workspace: &str) -> Option<i32> {
        self.of.get(workspace).copied().unwrap_or(self.default)
    }

    /// Whether rows of that workspace and day go.
    pub(crate) fn go(&self, workspace: &str, day: i32) -> bool {
        self.of(workspace).is_some_and(|cut| day < cut)
    }

    /// Whether of that day the rows of the same workspaces go as by others.
    pub(crate) fn agree_on(&self, day: i32, others: &Self) -> bool {
        let named = self.of.keys().chain(others.of.keys());
        let goes = |cut: Option<i32>| cut.is_some_and(|cut| day < cut);
        goes(self.default) == goes(others.default)
            && named.into_iter().all(|workspace| self.go(workspace, day) == others.go(workspace, day))
    }

    /// Nothing goes of this day and later ones, whosoever it is; none: nothing goes at all.
    pub(crate) fn latest(&self) -> Option<i32> {
        self.of.values().flatten().copied().chain(self.default).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::time::{DAY, HOUR};

    const NOON: UtcMicros = UtcMicros(1_000 * DAY + 12 * HOUR);

    fn keeps(all: &[(&str, Keep)]) -> Vec<(String, Keep)> {
        all.iter().map(|(name, keep)| ((*name).to_owned(), *keep)).collect()
    }

    #[test]
    fn a_day_goes_when_all_of_it_is_older_than_the_limit() {
        let all = keeps(&[("month", Keep::Days(30)), ("ever", Keep::Forever), ("silent", Keep::Default)]);
        let cuts = Cuts::new(NOON, NOON, Some(400), &all);
        // at noon the day 970 is thirty days old, but for its afternoon
        assert!(cuts.go("month", 969) && !cuts.go("month", 970));
        assert!(!cuts.go("ever", 0));
        for workspace in ["silent", "unheard of"] {
            assert!(cuts.go(workspace, 599) && !cuts.go(workspace, 600), "{workspace}");
        }
        assert_eq!(cuts.latest(), Some(970));
    }

    #[test]
    fn from_day_to_day_they_differ_on_the_days_that_have_become_too_old() {
        let all = keeps(&[("month", Keep::Days(30)), ("year", Keep::Days(365)), ("ever", Keep::Forever)]);
        let of = |now: i64, default| Cuts::new(UtcMicros(now * DAY), UtcMicros(now * DAY), default, &all);
        let (today, tomorrow) = (of(1_000, None), of(1_001, None));
        let differ: Vec<i32> = (0..1_100).filter(|day| !today.agree_on(*day, &tomorrow)).collect();
        assert_eq!(differ, [635, 970]);
        assert!(!today.agree_on(3, &of(1_000, Some(900))), "those without a word of their own");
        assert!(!today.agree_on(900, &Cuts::default()) && today.agree_on(980, &Cuts::default()));
    }

    #[test]
    fn nothing_goes_without_a_limit_or_before_it_is_final() {
        assert_eq!(Cuts::new(NOON, NOON, None, &keeps(&[("a", Keep::Default)])).latest(), None);
        let all = keeps(&[("a", Keep::Days(1))]);
        let cuts = Cuts::new(NOON, UtcMicros(990 * DAY + HOUR), None, &all);
        assert!(cuts.go("a", 989) && !cuts.go("a", 990) && !cuts.go("b", 0));
        assert_eq!(Cuts::new(NOON, NOON, None, &all).of("a"), Some(999), "yesterday is kept whole");
    }
}
