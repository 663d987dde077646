//! When events of a provider's requests were made elsewhere, by workspace.
//!
//! ```text
//! events told of      x  x xx  x                    x x
//! runs               [─────────]                   [──]      joined where no more than a day is between
//! party of an hour  ±1 h       ±1 h               ±1 h ±1 h
//! logs by status    ├───────────── as long as logs may take ──┤
//! ```
//! Whoever keeps redirects of their own tells by importing events. An event tells for its own time and no other: of lines
//! of such an hour it is known that their origin counts for itself. The hours are remembered as runs, each an application
//! transaction `elsewhere/<provider>/<workspace>/<number>` of the very commit that brings the rows, so that any process
//! knows as much as the lake does. One who tells all the time needs a single transaction however long it goes on; nobody
//! needs more than [`MOST_RUNS`].
//!
//! An edge's log whose ids don't meet those of the origin is taken by cache status: lines of requests that reached the
//! origin count as counted if the origin tells of its clicks, else they are clicks. It may come before the events of its
//! hours, so whoever has told is taken to go on for as long as logs may take.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use arrow::array::{AsArray as _, RecordBatch};
use schemas::time::SECOND;
use schemas::{Source, UtcMicros};

use super::union::Arrival;
use crate::lake::TableHandle;

const MINUTE: i64 = 60 * SECOND;
const MINUTES_OF_HOUR: i64 = 60;
/// Events no more minutes apart are of one run.
const ONE_RUN: i64 = 24 * MINUTES_OF_HOUR;
/// Runs of a workspace that are kept apart; of more the nearest two become one.
const MOST_RUNS: usize = 256;
/// So many hours before and after an event there may be a line of it: clocks differ.
const HOURS_AROUND: i64 = 1;
/// Bits of a minute since the epoch: enough for the year 6000.
const BITS: u32 = 31;

/// A time in which a workspace has told of events: minutes since the epoch, both included. The last is that of its hour, so
/// that the run of one who goes on telling changes once an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    first: i64,
    last: i64,
}

impl Run {
    pub(super) fn of(first: UtcMicros, last: UtcMicros) -> Self {
        Self { first: first.0.div_euclid(MINUTE), last: (last.hour() + 1) * MINUTES_OF_HOUR - 1 }
    }

    /// With the time around it in which runs may end otherwise without it.
    pub(super) fn with_around(self) -> Self {
        Self { first: self.first - ONE_RUN, last: self.last + ONE_RUN }
    }

    /// Its first and last instant.
    pub(super) fn times(self) -> (UtcMicros, UtcMicros) {
        (UtcMicros(self.first * MINUTE), UtcMicros((self.last + 1) * MINUTE - 1))
    }

    fn meets(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn hours(self) -> std::ops::RangeInclusive<i64> {
        let hour = |minute: i64| minute.div_euclid(MINUTES_OF_HOUR);
        hour(self.first) - HOURS_AROUND..=hour(self.last) + HOURS_AROUND
    }

    fn to_value(self) -> i64 {
        self.first << BITS | self.last
    }

    /// None: the transaction stands for no run any more.
    fn from_value(value: i64) -> Option<Self> {
        let run = Self { first: value >> BITS, last: value & ((1 << BITS) - 1) };
        (value > 0 && run.first <= run.last).then_some(run)
    }
}

/// Runs in order, more than a day between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(Vec<Run>);

impl FromIterator<Run> for Runs {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        let mut all: Vec<Run> = runs.into_iter().collect();
        all.sort_unstable();
        let mut joined: Vec<Run> = Vec::new();
        for run in all {
            match joined.last_mut() {
                Some(last) if run.first - last.last <= ONE_RUN => last.last = last.last.max(run.last),
                _ => joined.push(run),
            }
        }
        while joined.len() > MOST_RUNS {
            let nearest = (1..joined.len()).min_by_key(|at| joined[*at].first - joined[at - 1].last).unwrap_or(1);
            joined[nearest - 1].last = joined[nearest].last;
            joined.remove(nearest);
        }
        Self(joined)
    }
}

impl Runs {
    pub(super) fn with(&self, others: &Self) -> Self {
        self.0.iter().chain(&others.0).copied().collect()
    }

    pub(super) fn without(&self, gone: Run) -> Self {
        let left = |run: &Run| {
            let before = Run { last: run.last.min(gone.first - 1), ..*run };
            let after = Run { first: run.first.max(gone.last + 1), ..*run };
            [before, after].into_iter().filter(|part| part.first <= part.last)
        };
        self.0.iter().flat_map(left).collect()
    }

    pub(super) fn meets(&self, span: Run) -> bool {
        self.0.iter().any(|run| run.meets(span))
    }
}

/// What a table remembers of one workspace: runs by the number of their transaction.
#[derive(Debug)]
pub(super) struct Marks {
    prefix: String,
    slots: BTreeMap<u64, Option<Run>>,
}

fn prefix(provider: &str) -> String {
    format!("elsewhere/{provider}/")
}

impl Marks {
    /// Of a provider, by workspace.
    pub(super) fn all(table: &TableHandle, provider: &str) -> BTreeMap<String, Self> {
        let prefix = prefix(provider);
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for (id, value) in table.txns_with_prefix(&prefix) {
            let Some((workspace, number)) = id[prefix.len()..].rsplit_once('/') else { continue };
            let Ok(number) = number.parse() else { continue };
            let marks = all.entry(workspace.to_owned()).or_insert_with(|| Self::none(&prefix, workspace));
            marks.slots.insert(number, Run::from_value(value));
        }
        all
    }

    fn none(prefix: &str, workspace: &str) -> Self {
        Self { prefix: format!("{prefix}{workspace}/"), slots: BTreeMap::new() }
    }

    pub(super) fn runs(&self) -> Runs {
        self.slots.values().flatten().copied().collect()
    }

    /// The transactions by which the table remembers `wanted` instead. Those of runs that meet `also` are set again though
    /// they say the same: whoever relies on one is then in conflict with whoever takes it away.
    pub(super) fn changed(&self, wanted: &Runs, also: &Runs) -> Vec<(String, i64)> {
        let stays = |run: &Run| wanted.0.contains(run);
        let mut new = wanted.0.iter().filter(|run| !self.slots.values().flatten().any(|old| old == *run));
        let mut changes = Vec::new();
        for (number, run) in &self.slots {
            match run.filter(stays) {
                Some(run) if also.meets(run) => changes.push((*number, run.to_value())),
                Some(_) => {}
                None => match new.next() {
                    Some(run) => changes.push((*number, run.to_value())),
                    None if run.is_some() => changes.push((*number, 0)),
                    None => {}
                },
            }
        }
        let next = self.slots.last_key_value().map_or(0, |(number, _)| number + 1);
        changes.extend((next..).zip(new).map(|(number, run)| (number, run.to_value())));
        changes.into_iter().map(|(number, value)| (format!("{}{number}", self.prefix), value)).collect()
    }
}

/// Whether a workspace has told of events of requests that may have lines of a provider in this hour.
pub(crate) fn has_told(
    (clicks, arrivals): (&TableHandle, &TableHandle),
    provider: &str,
    workspace: &str,
    hour: i64,
) -> bool {
    Elsewhere::read(provider, clicks, arrivals).has_told(workspace, hour)
}

/// How far in time from events logs by status may have been taken by what those tell.
pub(crate) fn reach(goes_on: Duration) -> Duration {
    Duration::from_secs((ONE_RUN + MINUTES_OF_HOUR).unsigned_abs() * 60) + goes_on
}

/// When events were made elsewhere, by workspace; of one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elsewhere(HashMap<String, Runs>);

impl Elsewhere {
    /// What the lake remembers.
    pub(crate) fn read(provider: &str, clicks: &TableHandle, arrivals: &TableHandle) -> Self {
        let mut all = Self::default();
        for (workspace, marks) in [clicks, arrivals].into_iter().flat_map(|table| Marks::all(table, provider)) {
            let runs = all.0.entry(workspace).or_default();
            *runs = runs.with(&marks.runs());
        }
        all
    }

    /// The first hour in which there may be lines of any workspace's requests.
    pub(crate) fn first_hour(&self) -> Option<i64> {
        self.0.values().flat_map(|runs| &runs.0).map(|run| *run.hours().start()).min()
    }

    /// As [`has_told`].
    pub(crate) fn has_told(&self, workspace: &str, hour: i64) -> bool {
        self.0.get(workspace).is_some_and(|runs| runs.0.iter().any(|run| run.hours().contains(&hour)))
    }

    /// Who has told of events of this hour.
    pub(crate) fn tellers(&self, hour: i64) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(move |workspace| self.has_told(workspace, hour))
    }

    /// Whether a workspace tells of its requests of that time: an event may be `skew` later than its line, and whoever has
    /// told `goes_on` for so long.
    pub(crate) fn tells_of(&self, workspace: &str, time: UtcMicros, skew: Duration, goes_on: Duration) -> bool {
        let tells = |run: &Run| {
            let (first, last) = run.times();
            first.minus(skew) <= time && time <= last.plus(goes_on)
        };
        self.0.get(workspace).is_some_and(|runs| runs.0.iter().any(tells))
    }
}

impl FromIterator<(String, UtcMicros)> for Elsewhere {
    fn from_iter<I: IntoIterator<Item = (String, UtcMicros)>>(events: I) -> Self {
        let mut runs: HashMap<String, Vec<Run>> = HashMap::new();
        for (workspace, time) in events {
            runs.entry(workspace).or_default().push(Run::of(time, time));
        }
        Self(runs.into_iter().map(|(workspace, runs)| (workspace, runs.into_iter().collect())).collect())
    }
}

/// Instants of events by workspace, as runs: of each hour the first.
#[derive(Debug, Default)]
pub(super) struct Told<'a>(HashMap<&'a str, BTreeMap<i64, UtcMicros>>);

impl<'a> Told<'a> {
    pub(super) fn add(&mut self, workspace: &'a str, time: UtcMicros) {
        let first = self.0.entry(workspace).or_default().entry(time.hour()).or_insert(time);
        *first = time.min(*first);
    }

    pub(super) fn of(&self, workspace: &str) -> Runs {
        self.0.get(workspace).into_iter().flat_map(BTreeMap::values).map(|first| Run::of(*first, *first)).collect()
    }
}

/// The transactions by which `table` remembers these rows. None unless they are events that stand for the origin's own.
pub(crate) fn raised(
    table: &TableHandle,
    provider: &str,
    rows: &[RecordBatch],
    arrivals: &[Arrival],
) -> Vec<(String, i64)> {
    if arrivals.iter().all(|arrival| arrival.kind.source() != Source::Origin) {
        return Vec::new();
    }
    let mut told = Told::default();
    let mut arrivals = arrivals.iter();
    for batch in rows {
        let workspaces = batch.column_by_name("workspace").and_then(|column| column.as_string_opt::<i32>());
        let Some(workspaces) = workspaces else { continue };
        for (workspace, arrival) in workspaces.iter().zip(arrivals.by_ref().take(batch.num_rows())) {
            if arrival.kind.source() == Source::Origin {
                told.add(workspace.unwrap_or_default(), arrival.time);
            }
        }
    }
    let (prefix, known) = (prefix(provider), Marks::all(table, provider));
    let mut marks = Vec::new();
    for workspace in told.0.keys() {
        let (none, now) = (Marks::none(&prefix, workspace), told.of(workspace));
        let before = known.get(*workspace).unwrap_or(&none);
        marks.extend(before.changed(&before.runs().with(&now), &now));
    }
    marks.sort_unstable();
    marks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemas::time::HOUR;

    use super::*;

    const SKEW: Duration = Duration::from_secs(600);
    const DAYS: Duration = Duration::from_secs(48 * 3_600);

    fn at(hour: i64) -> UtcMicros {
        UtcMicros(hour * HOUR)
    }

    fn of(events: &[(&str, i64)]) -> Elsewhere {
        events.iter().map(|(who, hour)| ((*who).to_owned(), at(*hour))).collect()
    }

    #[test]
    fn an_event_tells_for_its_own_time_give_or_take_an_hour() {
        let told = of(&[("w", 500), ("w", 700), ("v", 509)]);
        let hours = |who: &str| (0..1_000).filter(|hour| told.has_told(who, *hour)).collect::<Vec<_>>();
        assert_eq!(hours("w"), [499, 500, 501, 699, 700, 701]);
        assert_eq!((hours("u"), told.first_hour()), (vec![], Some(499)));
        assert_eq!(told.tellers(508).collect::<Vec<_>>(), ["v"]);
    }

    #[test]
    fn what_lies_between_events_less_than_a_day_apart_is_told_of() {
        let told = of(&[("w", 100), ("w", 124)]);
        assert!((99..=125).all(|hour| told.has_told("w", hour)));
        let told = of(&[("w", 100), ("w", 126)]);
        assert!(!told.has_told("w", 110));
    }

    #[test]
    fn logs_by_status_may_come_before_the_events_of_their_hours() {
        let told = of(&[("w", 100)]);
        let tells = |time: UtcMicros| told.tells_of("w", time, SKEW, DAYS);
        assert!(!tells(at(100).minus(SKEW).minus(Duration::from_secs(1))));
        assert!(tells(at(100).minus(SKEW)) && tells(at(149).minus(Duration::from_secs(1))));
        assert!(!tells(at(149)) && !told.tells_of("v", at(100), SKEW, DAYS));
    }

    #[test]
    fn one_who_tells_all_the_time_has_one_run_and_nobody_has_very_many() {
        let hours = |step: usize| (0..9_000).step_by(step).map(|hour| Run::of(at(hour), at(hour))).collect::<Runs>();
        assert_eq!((hours(1).0.len(), hours(24).0.len()), (1, 1));
        let many = (0..1_000).map(|n| Run::of(at(n * 30), at(n * 30))).collect::<Runs>();
        assert_eq!(many.0.len(), MOST_RUNS);
        assert_eq!((many.0[0].first, many.0[MOST_RUNS - 1].last), (0, (999 * 30 + 1) * 60 - 1));
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let run = Run::of(ingest::edge::clock::EARLIEST, ingest::edge::clock::LATEST);
        assert_eq!(Run::from_value(run.to_value()), Some(run));
        assert_eq!(Run::from_value(0), None);
    }

    fn told() -> impl Strategy<Value = Vec<(i64, i64)>> {
        proptest::collection::vec((0i64..400, 0i64..60), 0..12)
    }

    fn runs(told: &[(i64, i64)]) -> Runs {
        told.iter().map(|(from, hours)| Run::of(at(*from), at(from + hours))).collect()
    }

    proptest! {
        /// Whatever transactions there were: after the change they say what is wanted, and those of runs that stay stay.
        #[test]
        fn transactions_come_to_what_is_wanted(steps in proptest::collection::vec((told(), told()), 1..5)) {
            let mut marks = Marks::none("elsewhere/nginx/", "w");
            let mut most = 0;
            for (come, gone) in steps {
                let span = gone.first().map(|(from, hours)| Run::of(at(*from), at(from + hours)));
                let wanted = marks.runs().with(&runs(&come));
                for wanted in [Some(wanted.clone()), span.map(|span| wanted.without(span))].into_iter().flatten() {
                    let changes = marks.changed(&wanted, &Runs::default());
                    prop_assert!(changes.len() <= wanted.0.len().max(marks.slots.len()));
                    for (id, value) in changes {
                        let number = id.strip_prefix("elsewhere/nginx/w/").unwrap().parse().unwrap();
                        prop_assert_ne!(marks.slots.insert(number, Run::from_value(value)).flatten(), Run::from_value(value));
                    }
                    prop_assert_eq!(&marks.runs(), &wanted);
                    most = most.max(wanted.0.len());
                }
            }
            prop_assert!(marks.slots.len() <= most, "a number is used again");
        }

        /// Order and pieces don't matter, and nothing is told of that is farther than a day from an event.
        #[test]
        fn runs_are_a_union(told in told(), cut in 0usize..12) {
            let (a, b) = told.split_at(cut.min(told.len()));
            prop_assert_eq!(runs(a).with(&runs(b)), runs(&told));
            prop_assert_eq!(runs(b).with(&runs(a)), runs(&told));
            for run in &runs(&told).0 {
                for minute in (run.first..=run.last).step_by(60) {
                    let near = |(from, hours): &(i64, i64)| {
                        from * 60 - ONE_RUN <= minute && minute < (from + hours + 1) * 60 + ONE_RUN
                    };
                    prop_assert!(told.iter().any(near));
                }
            }
        }

        /// What is taken away is away, but for what lies between others.
        #[test]
        fn what_is_withdrawn_is_gone(told in told(), from in 0i64..400, hours in 0i64..90) {
            let gone = Run::of(at(from), at(from + hours));
            let (before, left) = (runs(&told), runs(&told).without(gone));
            let outside = |minute: &i64| !(gone.first..=gone.last).contains(minute);
            let has = |runs: &Runs, minute: i64| runs.0.iter().any(|run| (run.first..=run.last).contains(&minute));
            for minute in (0..500 * 60).step_by(30) {
                prop_assert!(!has(&left, minute) || has(&before, minute));
                if outside(&minute) {
                    prop_assert_eq!(has(&left, minute), has(&before, minute));
                }
            }
            if hours * 60 > ONE_RUN {
                prop_assert!(!left.meets(gone));
            }
        }
    }
}
