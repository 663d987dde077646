//! The judgement of a group: late, known already, or a row. Pure: what the lake says is passed in.

use std::collections::{HashMap, HashSet};

use schemas::{ClickId, JournalId, UtcMicros};

use super::decode::Clicked;
use super::window::Window;

/// What a version of `clicks` says of lateness.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    /// Hours since 1970 that have been settled, and up to when.
    pub(crate) settled: HashMap<i64, UtcMicros>,
    /// Journals that have been given up.
    pub(crate) retired: HashSet<JournalId>,
}

impl Lateness {
    /// Whether an event must go the way of arrivals: its hour has been settled past it, or its journal was given up.
    pub(crate) fn is_late(&self, journal: JournalId, time: UtcMicros) -> bool {
        self.retired.contains(&journal) || self.settled.get(&time.hour()).is_some_and(|through| time <= *through)
    }
}

/// What becomes of a click.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It becomes a row of `clicks`.
    Row,
    /// It becomes a row of `arrivals`.
    Late,
    /// Its id has been judged before, or stands earlier in the group.
    Duplicate,
}

/// The ids that neither the group nor the window can judge, with their times: the lake must be asked.
pub(crate) fn questions<'a>(
    clicks: impl Iterator<Item = &'a Clicked>,
    lateness: &Lateness,
    window: &Window,
) -> Vec<(ClickId, UtcMicros)> {
    clicks
        .filter(|one| !window.is_sure(one.click.event_time))
        .filter(|one| !lateness.is_late(one.journal, one.click.event_time) && !window.contains(one.click.click_id))
        .map(|one| (one.click.click_id, one.click.event_time))
        .collect()
}

/// Judges clicks one after another; `known` are the ids that the lake holds of those asked for.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    lateness: &'a Lateness,
    window: &'a Window,
    known: &'a HashSet<ClickId>,
    group: HashSet<ClickId>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(lateness: &'a Lateness, window: &'a Window, known: &'a HashSet<ClickId>) -> Self {
        Self { lateness, window, known, group: HashSet::new() }
    }

    pub(crate) fn judge(&mut self, one: &Clicked) -> Fate {
        let id = one.click.click_id;
        if self.lateness.is_late(one.journal, one.click.event_time) {
            return Fate::Late;
        }
        if self.window.contains(id) || self.known.contains(&id) || !self.group.insert(id) {
            return Fate::Duplicate;
        }
        Fate::Row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::click;
    use schemas::time::HOUR;
    use std::time::Duration;

    fn clicked(id: u128, journal: JournalId, time: i64) -> Clicked {
        Clicked { journal, provider: "".into(), click: click(id, time) }
    }

    #[test]
    fn lateness_is_by_hour_and_journal() {
        let (good, given_up) = (JournalId::new(), JournalId::new());
        let lateness =
            Lateness { settled: HashMap::from([(1, UtcMicros(HOUR + 50))]), retired: HashSet::from([given_up]) };
        for (journal, time, late) in [
            (good, HOUR + 49, true),
            (good, HOUR + 50, true),
            (good, HOUR + 51, false),
            (good, HOUR - 1, false),
            (good, 2 * HOUR, false),
            (given_up, 2 * HOUR, true),
        ] {
            assert_eq!(lateness.is_late(journal, UtcMicros(time)), late, "{time}");
        }
    }

    #[test]
    fn an_id_is_a_row_once() {
        let journal = JournalId::new();
        let sure_after = Duration::from_micros(10);
        let mut window = Window::new(1 << 16, sure_after, UtcMicros(100));
        window.insert(ClickId::from(1), UtcMicros(500));
        let lateness = Lateness { settled: HashMap::from([(0, UtcMicros(50))]), ..Lateness::default() };
        let group: Vec<Clicked> = [(1, 505), (2, 505), (2, 506), (3, 105), (4, 106), (4, 107), (5, 40)]
            .map(|(id, time)| clicked(id, journal, time))
            .into();
        // 1 is in the window, 2 is sure, 5 is late: only 3 and 4 are asked for
        let asked: Vec<u128> = questions(group.iter(), &lateness, &window).iter().map(|(id, _)| id.as_u128()).collect();
        assert_eq!(asked, [3, 4, 4]);
        let known = HashSet::from([ClickId::from(3)]);
        let mut judge = Judge::new(&lateness, &window, &known);
        let fates: Vec<Fate> = group.iter().map(|one| judge.judge(one)).collect();
        use Fate::{Duplicate, Late, Row};
        assert_eq!(fates, [Duplicate, Row, Duplicate, Duplicate, Row, Duplicate, Late]);
    }
}
