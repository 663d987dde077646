//! The judgement of a group: late, known already, sampled away, or a row. Pure: what the lake says is passed in.
//!
//! A reader samples by the rate of its partition alone. Here it is known whether an id is surely new; where it isn't, it may
//! have been sampled away before, under another rate, so the lowest that is recorded near it counts: what was sampled away
//! once fails that too. Whatever was sampled away is remembered like what is kept, and so makes a repeat a duplicate.

use std::collections::{BTreeSet, HashMap, HashSet};

use schemas::sampling::is_kept;
use schemas::{ClickId, JournalId, LinkId, UtcMicros};

use super::decode::Clicked;
use super::shed::Shed;
use super::window::{Ids, Window};
use crate::sample::{Lowest, second_of};

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It becomes a row of `clicks`, kept at this rate.
    Row(f64),
    /// It becomes a row of `arrivals`, unless it was sampled away.
    Late,
    /// Its id has been judged before, or stands earlier in the group.
    Duplicate,
    /// It is sampled away at this rate.
    Sampled(f64),
}

/// The ids that neither the group nor the window can judge, with their times: the lake must be asked.
pub(crate) fn questions<'a>(
    clicks: impl Iterator<Item = &'a Clicked>,
    lateness: &Lateness,
    window: &Window,
) -> Vec<(ClickId, UtcMicros)> {
    clicks
        .filter(|one| !window.is_sure(one.event_time))
        .filter(|one| !lateness.is_late(one.journal, one.event_time) && !window.contains(one.click_id))
        .map(|one| (one.click_id, one.event_time))
        .collect()
}

/// The links and seconds of which the lowest rates must be known to judge these clicks.
pub(crate) fn rates_asked<'a>(
    clicks: impl Iterator<Item = &'a Clicked>,
    lateness: &Lateness,
    window: &Window,
) -> BTreeSet<(LinkId, i64)> {
    clicks
        .filter(|one| one.is_internal && !window.is_sure(one.event_time))
        .filter(|one| !lateness.is_late(one.journal, one.event_time))
        .filter_map(|one| Some((one.link_id?, second_of(one.event_time))))
        .collect()
}

/// Judges clicks one after another; `known` are the ids that the lake holds of those asked for, `lowest` the rates.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    lateness: &'a Lateness,
    window: &'a Window,
    known: &'a HashSet<ClickId>,
    lowest: &'a Lowest,
    group: Ids,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        lateness: &'a Lateness,
        window: &'a Window,
        known: &'a HashSet<ClickId>,
        lowest: &'a Lowest,
    ) -> Self {
        Self { lateness, window, known, lowest, group: Ids::default() }
    }

    pub(crate) fn judge(&mut self, one: &Clicked) -> Fate {
        let id = one.click_id;
        if self.lateness.is_late(one.journal, one.event_time) {
            return Fate::Late;
        }
        if self.window.contains(id) || self.known.contains(&id) || !self.group.insert(id.as_u128()) {
            return Fate::Duplicate;
        }
        let rate = self.rate(one);
        if is_kept(id, rate) { Fate::Row(rate) } else { Fate::Sampled(rate) }
    }

    /// Judges a click that was sampled away by its head. Nothing is asked of it: what its partition's rate fails, a lower one
    /// fails too, and if its id is a row already, it is none more.
    pub(crate) fn judge_shed(&mut self, shed: &Shed) -> Fate {
        if self.lateness.is_late(shed.journal, shed.event_time) {
            return Fate::Late;
        }
        let id = shed.click_id;
        if self.window.contains(id) || self.known.contains(&id) || !self.group.insert(id.as_u128()) {
            return Fate::Duplicate;
        }
        Fate::Sampled(shed.rate)
    }

    fn rate(&self, one: &Clicked) -> f64 {
        let time = one.event_time;
        match one.link_id {
            Some(link) if one.is_internal && !self.window.is_sure(time) => {
                one.rate.min(self.lowest.of_event(link, time))
            }
            _ => one.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::clicked as clicked_at;
    use crate::sample::Known;
    use schemas::time::HOUR;
    use std::time::Duration;

    fn clicked(id: u128, journal: JournalId, time: i64) -> Clicked {
        Clicked { journal, ..clicked_at(id, time) }
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
        let lowest = Lowest::default();
        let mut judge = Judge::new(&lateness, &window, &known, &lowest);
        let fates: Vec<Fate> = group.iter().map(|one| judge.judge(one)).collect();
        use Fate::{Duplicate, Late, Row};
        assert_eq!(fates, [Duplicate, Row(1.0), Duplicate, Duplicate, Row(1.0), Duplicate, Late]);
    }

    /// The first of the ids from `from` on whose hash is between two rates.
    fn id_between(from: u128, low: f64, high: f64) -> u128 {
        (from..).find(|id| !is_kept(ClickId::from(*id), low) && is_kept(ClickId::from(*id), high)).unwrap()
    }

    #[test]
    fn an_id_of_unknown_past_is_kept_at_the_lowest_rate_recorded_near_it() {
        const SECOND: i64 = schemas::time::SECOND;
        let (journal, link) = (JournalId::new(), LinkId::new());
        let of = |id: u128, second: i64, rate: f64| {
            let mut one = clicked(id, journal, second * SECOND);
            (one.is_internal, one.rate, one.link_id) = (true, rate, Some(link));
            one
        };
        // surely new are those after second 110
        let window = Window::new(1 << 16, Duration::from_secs(10), UtcMicros(100 * SECOND));
        let mut lowest = Lowest::default();
        let known = |second, rate| Known { link, second, by_lines: false, rate };
        let recorded = [known(100, 0.25), known(111, 0.1)].into_iter().collect();
        let (low, middle, high) = (id_between(1, 0.0, 0.25), id_between(1, 0.25, 0.5), id_between(1, 0.5, 1.0));
        let group = [
            of(low, 105, 1.0),
            of(middle, 105, 0.5),
            of(high, 105, 1.0),
            of(middle, 120, 0.5), // a repeat of what was sampled away, surely new or not
            of(id_between(500, 0.5, 1.0), 120, 1.0),
            of(id_between(1_000, 0.5, 0.9), 90, 0.5),
        ];
        let lateness = Lateness::default();
        let asked = rates_asked(group.iter(), &lateness, &window);
        assert_eq!(asked, BTreeSet::from([(link, 105), (link, 90)]));
        lowest.add(&recorded, asked.iter().copied(), Duration::from_secs(5));
        let none = HashSet::new();
        let mut judge = Judge::new(&lateness, &window, &none, &lowest);
        let fates: Vec<Fate> = group.iter().map(|one| judge.judge(one)).collect();
        use Fate::{Duplicate, Row, Sampled};
        assert_eq!(fates, [Row(0.25), Sampled(0.25), Sampled(0.25), Duplicate, Row(1.0), Sampled(0.5)]);
    }

    #[test]
    fn what_was_sampled_away_by_its_head_is_known_afterwards() {
        let (good, given_up) = (JournalId::new(), JournalId::new());
        let names = crate::hot::testing::names();
        let shed = |id: u128, journal: JournalId| Shed {
            before: 0,
            journal,
            click_id: ClickId::from(id),
            event_time: UtcMicros(500),
            link_id: LinkId::new(),
            names: std::sync::Arc::clone(&names),
            class: schemas::Class::Human,
            visitor: None,
            rate: 0.5,
        };
        let window = Window::new(1 << 16, Duration::ZERO, UtcMicros(0));
        let lateness = Lateness { retired: HashSet::from([given_up]), ..Lateness::default() };
        let (none, lowest) = (HashSet::new(), Lowest::default());
        let mut judge = Judge::new(&lateness, &window, &none, &lowest);
        assert_eq!(judge.judge_shed(&shed(1, good)), Fate::Sampled(0.5));
        assert_eq!(judge.judge_shed(&shed(1, good)), Fate::Duplicate);
        assert_eq!(judge.judge(&clicked(1, good, 500)), Fate::Duplicate);
        assert_eq!(judge.judge_shed(&shed(2, given_up)), Fate::Late);
        assert_eq!(judge.judge(&clicked(2, good, 500)), Fate::Row(1.0), "what is late is judged by another");
    }
}
