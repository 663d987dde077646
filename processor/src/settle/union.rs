//! The union by id: which arrivals become rows of `clicks`. Pure; the whole of exactly-once settling is here.
//!
//! ```text
//! id in the lake already, or among what this decision adds ──► Counted
//! not there, and its wait is over                          ──► Add
//! not there, and its own event may still come              ──► Wait
//! Counted, and knows better than the row that counts it    ──► Correct
//! ```
//! Records of `internal` links that would be added are sampled by the lowest rate near them.
//!
//! Because `Counted` follows from the lake alone, deciding again after a kill, a lost answer or a lost race
//! adds nothing twice. Among records of one id the event comes first, then the edge's line, then the origin's.
//! Whether one of the others knows better is seen by [`compare`], from what both say; that one counts for nothing, and
//! is merged into the row later.

use std::collections::BTreeMap;

use schemas::sampling::is_kept;
use schemas::{ClickId, LinkId, Source, UtcMicros};

use super::ids::{IdMap, IdSet};
use super::waits::{Kind, Waits};
use crate::enrich::Facts;
use crate::sample::Lowest;

/// What the union needs to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Identity of the request.
    pub id: ClickId,
    /// When it was answered.
    pub time: UtcMicros,
    /// What sort of record it is.
    pub kind: Kind,
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It becomes a row of `clicks`.
    Add,
    /// Its request is a row already.
    Counted,
    /// Its request is a row already, and this record knows better: it is to be merged into that row.
    Correct,
    /// It stays in `arrivals`.
    Wait,
    /// Its request is sampled away, now or before.
    Sampled,
}

/// What is odd about a record whose request is a row already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// The edge says that it answered, yet the origin has an event.
    Surprise,
    /// The row is of another network, agent or tenant: the id was used twice.
    ReusedId,
}

impl Remark {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Surprise, Self::ReusedId];
}

/// What is to be done with some arrivals.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Decision {
    /// One fate per record, in the order given.
    pub fates: Vec<Fate>,
    /// What is odd, by the record's place.
    pub remarks: Vec<(usize, Remark)>,
    /// By hour since the epoch: the newest record whose wait is over. Events at or before it are late from now on.
    pub settled: BTreeMap<i64, UtcMicros>,
    /// By the record's place: the rate below 1 at which it is kept or sampled away.
    pub rates: BTreeMap<usize, f64>,
}

impl Decision {
    /// How many records met this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.fates.iter().filter(|f| **f == fate).count()
    }

    /// Whether nothing is left waiting.
    pub fn all_settled(&self) -> bool {
        !self.fates.contains(&Fate::Wait)
    }
}

/// Decides on `arrivals`, given which of their ids are in the lake (within the greatest skew of their times, on a
/// snapshot taken after `complete_through` was read).
pub fn union(arrivals: &[Arrival], known: &IdSet, waits: &Waits, complete_through: UtcMicros) -> Decision {
    let mut decision = Decision { fates: vec![Fate::Wait; arrivals.len()], ..Decision::default() };
    let mut added = IdSet::with_capacity_and_hasher(arrivals.len(), Default::default());
    for rank in 0..=2u8 {
        for (arrival, fate) in arrivals.iter().zip(&mut decision.fates) {
            if arrival.kind.rank() != rank || !waits.ready(complete_through, arrival.kind, arrival.time) {
                continue;
            }
            let there = known.contains(&arrival.id) || !added.insert(arrival.id);
            *fate = if there { Fate::Counted } else { Fate::Add };
            if !arrival.kind.is_of_journals() {
                continue;
            }
            let hour = decision.settled.entry(arrival.time.hour()).or_insert(arrival.time);
            *hour = (*hour).max(arrival.time);
        }
    }
    // What is known needs no waiting: nothing that still comes can change that it is counted.
    for (arrival, fate) in arrivals.iter().zip(&mut decision.fates) {
        if *fate == Fate::Wait && (known.contains(&arrival.id) || added.contains(&arrival.id)) {
            *fate = Fate::Counted;
        }
    }
    decision
}

/// Samples what would be added of links that may be sampled, which `link` tells by a record's place. What is added at a rate
/// stands for more requests than its own.
pub(crate) fn sample(
    arrivals: &[Arrival],
    decision: &mut Decision,
    link: impl Fn(usize) -> Option<LinkId>,
    lowest: &Lowest,
) {
    let mut away = IdSet::default();
    for (at, (arrival, fate)) in arrivals.iter().zip(&mut decision.fates).enumerate() {
        let Some(link) = (*fate == Fate::Add).then(|| link(at)).flatten() else { continue };
        let of = if arrival.kind.is_line() { Lowest::of_line } else { Lowest::of_event };
        let rate = of(lowest, link, arrival.time);
        if rate < 1.0 {
            decision.rates.insert(at, rate);
            if !is_kept(arrival.id, rate) {
                *fate = Fate::Sampled;
                away.insert(arrival.id);
            }
        }
    }
    // those that it would have been counted by are gone with it
    for (arrival, fate) in arrivals.iter().zip(&mut decision.fates) {
        if *fate == Fate::Counted && away.contains(&arrival.id) {
            *fate = Fate::Sampled;
        }
    }
}

/// Compares each record whose request is counted already with the row that counts it: one of the lake (`in_lake`), or
/// one that this decision adds. `said` tells what a record says, by its place.
pub fn compare(arrivals: &[Arrival], decision: &mut Decision, in_lake: &IdMap<Facts>, said: impl Fn(usize) -> Facts) {
    let new: IdSet =
        counted(arrivals, &decision.fates).map(|(_, id)| id).filter(|id| !in_lake.contains_key(id)).collect();
    let mut added: IdMap<usize> = IdMap::default();
    if !new.is_empty() {
        let adds = arrivals.iter().zip(&decision.fates).enumerate().filter(|(_, (_, fate))| **fate == Fate::Add);
        added.extend(adds.map(|(at, (arrival, _))| (arrival.id, at)).filter(|(id, _)| new.contains(id)));
    }
    let mut correct = Vec::new();
    for (at, id) in counted(arrivals, &decision.fates) {
        let Some(row) = in_lake.get(&id).copied().or_else(|| added.get(&id).map(|at| said(*at))) else { continue };
        let record = said(at);
        if !record.is_of_one_request_with(&row) {
            decision.remarks.push((at, Remark::ReusedId));
            continue;
        }
        if arrivals[at].kind == Kind::Edge && matches!(row.source(), Source::Origin | Source::Import) {
            decision.remarks.push((at, Remark::Surprise));
        }
        if record.knows_better_than(&row) {
            correct.push(at);
        }
    }
    correct.into_iter().for_each(|at| decision.fates[at] = Fate::Correct);
}

fn counted<'a>(arrivals: &'a [Arrival], fates: &'a [Fate]) -> impl Iterator<Item = (usize, ClickId)> {
    let records = arrivals.iter().zip(fates).enumerate();
    records.filter(|(_, (_, fate))| **fate == Fate::Counted).map(|(at, (arrival, _))| (at, arrival.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schemas::time::{HOUR, SECOND};

    const NOW: UtcMicros = UtcMicros(100 * HOUR);

    fn arrival(id: u128, seconds_ago: i64, kind: Kind) -> Arrival {
        Arrival { id: ClickId::from(id), time: UtcMicros(NOW.0 - seconds_ago * SECOND), kind }
    }

    fn decide(arrivals: &[Arrival], known: &[u128]) -> Decision {
        let known: IdSet = known.iter().map(|id| ClickId::from(*id)).collect();
        union(arrivals, &known, &Waits::default(), NOW)
    }

    #[test]
    fn each_kind_meets_its_fate() {
        let decision = decide(
            &[
                arrival(1, 66, Kind::Edge),
                arrival(2, 65, Kind::Edge),
                arrival(3, 901, Kind::Origin),
                arrival(4, 66, Kind::Origin),
                arrival(5, 1, Kind::Origin),
                arrival(6, 901, Kind::Origin),
                arrival(7, 66, Kind::Event(Source::Origin)),
            ],
            &[5, 6],
        );
        use Fate::{Add, Counted, Wait};
        assert_eq!(decision.fates, [Add, Wait, Add, Wait, Counted, Counted, Add]);
        assert!(!decision.all_settled());
        assert_eq!(decision.count(Add), 3);
    }

    #[test]
    fn of_one_id_the_event_makes_the_row_then_the_edge() {
        let records = [
            arrival(1, 1_000, Kind::Origin),
            arrival(1, 1_000, Kind::Edge),
            arrival(1, 1_000, Kind::Event(Source::Origin)),
        ];
        assert_eq!(decide(&records, &[]).fates, [Fate::Counted, Fate::Counted, Fate::Add]);
        assert_eq!(decide(&records[..2], &[]).fates, [Fate::Counted, Fate::Add]);
        // a record that must wait is counted when another of its id is not
        let mixed = [arrival(2, 100, Kind::Origin), arrival(2, 100, Kind::Edge)];
        assert_eq!(decide(&mixed, &[]).fates, [Fate::Counted, Fate::Add]);
    }

    #[test]
    fn an_hour_is_settled_up_to_the_newest_record_whose_wait_is_over() {
        let decision = decide(
            &[
                arrival(1, 7_200, Kind::Edge),
                arrival(2, 7_100, Kind::Edge),
                arrival(3, 66, Kind::Edge),
                arrival(4, 2, Kind::Origin), // known, but its hour is not settled up to it
            ],
            &[4, 2],
        );
        let hours: Vec<(i64, i64)> = decision.settled.iter().map(|(hour, t)| (*hour, (NOW.0 - t.0) / SECOND)).collect();
        assert_eq!(hours, [(98, 7_100), (99, 66)]);
    }

    #[test]
    fn an_event_made_elsewhere_is_added_at_once_and_makes_no_other_late() {
        let made = Kind::Elsewhere(Source::Import);
        let decision = decide(&[arrival(1, 0, made), arrival(2, -50, made), arrival(1, 3, made)], &[]);
        assert_eq!(decision.fates, [Fate::Add, Fate::Add, Fate::Counted]);
        assert!(decision.settled.is_empty());
        let line = decide(&[arrival(1, 1_000, Kind::Origin), arrival(1, 1_000, Kind::Elsewhere(Source::Origin))], &[]);
        assert_eq!(line.fates, [Fate::Counted, Fate::Add], "and it comes before its line");
    }

    #[test]
    fn what_would_be_added_is_sampled_and_what_is_there_is_not() {
        let id = |low: f64, high: f64| {
            (1u128..).find(|id| !is_kept(ClickId::from(*id), low) && is_kept(ClickId::from(*id), high)).unwrap()
        };
        let (low, high) = (id(0.0, 0.25), id(0.5, 1.0));
        let records = [
            arrival(low, 100, Kind::Edge),
            arrival(high, 100, Kind::Edge),
            arrival(high, 101, Kind::Origin),   // the same request
            arrival(high + 1, 100, Kind::Edge), // is there
            arrival(high, 2, Kind::Origin),
            arrival(low, 100, Kind::Origin),
        ];
        let link = LinkId::new();
        let second = crate::sample::second_of(records[0].time);
        let known = crate::sample::Known { link, second, by_lines: false, rate: 0.25 };
        let mut lowest = Lowest::default();
        lowest.add(&[known].into_iter().collect(), [(link, second)], std::time::Duration::ZERO);
        let mut decision = decide(&records, &[high + 1]);
        let mut others = decision.clone();
        sample(&records, &mut decision, |_| Some(link), &lowest);
        use Fate::{Add, Counted, Sampled};
        assert_eq!(decision.fates, [Add, Sampled, Sampled, Counted, Sampled, Counted]);
        assert_eq!(decision.rates, BTreeMap::from([(0, 0.25), (1, 0.25)]));
        assert!(decision.all_settled());
        let before = others.clone();
        sample(&records, &mut others, |_| None, &lowest);
        assert_eq!(others, before, "of a link that may not be sampled");
    }

    fn said(source: Source, change: impl FnOnce(&mut schemas::Click)) -> Facts {
        let mut click = crate::hot::testing::click(1, 0);
        (click.source, click.user_agent) = (source, Some("a person's".into()));
        click.client_net = Some("203.0.113.0/24".into());
        change(&mut click);
        Facts::of(&click)
    }

    #[test]
    fn who_knows_better_corrects_and_what_is_odd_is_remarked() {
        let records = [
            (arrival(1, 100, Kind::Edge), said(Source::Edge, |_| ())),
            (
                arrival(2, 100, Kind::Origin),
                said(Source::Recovered, |click| click.method = Some(schemas::Method::Head)),
            ),
            (arrival(3, 100, Kind::Edge), said(Source::Edge, |click| click.user_agent = Some("another's".into()))),
            (arrival(4, 100, Kind::Event(Source::Origin)), said(Source::Origin, |_| ())),
            (arrival(5, 100, Kind::Event(Source::Origin)), said(Source::Origin, |click| click.user_agent = None)),
            (arrival(5, 100, Kind::Edge), said(Source::Edge, |_| ())),
            (arrival(6, 100, Kind::Edge), said(Source::Edge, |_| ())),
            (arrival(7, 10, Kind::Edge), said(Source::Edge, |_| ())),
        ];
        let arrivals: Vec<Arrival> = records.iter().map(|(arrival, _)| *arrival).collect();
        let event = said(Source::Origin, |_| ());
        let in_lake: IdMap<Facts> = [(1, event), (2, event), (3, event), (4, said(Source::Edge, |_| ()))]
            .map(|(id, facts)| (ClickId::from(id), facts))
            .into_iter()
            .collect();
        let mut decision = decide(&arrivals, &[1, 2, 3, 4]);
        compare(&arrivals, &mut decision, &in_lake, |at| records[at].1);
        use Fate::{Add, Correct, Counted, Wait};
        assert_eq!(decision.fates, [Counted, Correct, Counted, Correct, Add, Correct, Add, Wait]);
        use Remark::{ReusedId, Surprise};
        assert_eq!(decision.remarks, [(0, Surprise), (2, ReusedId), (5, Surprise)]);
        assert!(!decision.all_settled());
    }

    fn any_arrival() -> impl Strategy<Value = Arrival> {
        (0u128..12, 0i64..1_000, 0u8..4).prop_map(|(id, ago, kind)| {
            let elsewhere = Kind::Elsewhere(Source::Origin);
            arrival(id, ago, [Kind::Edge, Kind::Origin, Kind::Event(Source::Origin), elsewhere][usize::from(kind)])
        })
    }

    proptest! {
        /// Whatever is settled first, in whatever pieces: in the end each id is there once.
        #[test]
        fn pieces_and_order_do_not_matter(
            mut arrivals in proptest::collection::vec(any_arrival(), 0..40),
            cuts in proptest::collection::vec(0usize..40, 0..5),
            turn in 0usize..40,
        ) {
            let waits = Waits::default();
            let ids: std::collections::BTreeSet<ClickId> = arrivals.iter().map(|a| a.id).collect();
            let len = arrivals.len().max(1);
            arrivals.rotate_left(turn % len);
            let mut lake: Vec<ClickId> = Vec::new();
            let mut pieces: Vec<&[Arrival]> = vec![&arrivals];
            for cut in cuts {
                let last = pieces.pop().unwrap_or_default();
                let (a, b) = last.split_at(cut.min(last.len()));
                pieces.extend([a, b]);
            }
            for when in [NOW, UtcMicros(NOW.0 + 120 * SECOND), UtcMicros(NOW.0 + HOUR)] {
                for piece in &pieces {
                    let known: IdSet = lake.iter().copied().collect();
                    let decision = union(piece, &known, &waits, when);
                    for (arrival, fate) in piece.iter().zip(&decision.fates) {
                        if *fate == Fate::Add {
                            lake.push(arrival.id);
                        }
                        prop_assert!(*fate != Fate::Counted || lake.contains(&arrival.id) || decision.count(Fate::Add) > 0);
                    }
                }
            }
            let distinct: std::collections::BTreeSet<ClickId> = lake.iter().copied().collect();
            prop_assert_eq!(distinct.len(), lake.len(), "an id twice");
            prop_assert_eq!(distinct, ids);
        }
    }
}
