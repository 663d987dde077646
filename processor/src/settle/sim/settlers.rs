//! Two settlers, and the compaction that comes with them.

use schemas::UtcMicros;
use schemas::time::DAY;

use super::table::{Change, Row};
use super::{Rule, World};
use crate::settle::compact::{CompactConfig, Horizon, Piece, choose};
use crate::settle::ids::{IdSet, Spans};
use crate::settle::{Arrival, Decision, Fate, union};

/// How far a settler is with its pass.
#[derive(Debug, Default)]
pub(super) struct Settling {
    through: Option<UtcMicros>,
    snapshot: Option<(usize, usize)>,
    /// Landed in `clicks`: these files of `arrivals` go, and what waits of them stays.
    done: Option<(Vec<u64>, Vec<Row>)>,
}

impl World {
    /// The union of records with a version of `clicks`.
    pub(super) fn decide(&self, arrivals: &[Arrival], version: usize, through: UtcMicros) -> Decision {
        let spans: Spans = arrivals.iter().map(|arrival| arrival.time).collect();
        let known: IdSet = self.near(version, &spans).into_iter().collect();
        union(arrivals, &known, &self.waits, through)
    }

    /// What every commit of a settler carries.
    pub(super) fn settlers_change(&self, version: usize, decision: &Decision) -> Change {
        let state = self.clicks.at(version);
        let mut change = Change::default();
        for (hour, through) in &decision.settled {
            let id = format!("settled/{hour}");
            if state.txn(&id).is_none_or(|stored| stored < through.0) {
                change.txns.push((id, through.0));
            }
        }
        if self.keeps(Rule::SettlerFence) {
            let stored = state.txn("settler");
            change.expect.push(("settler".to_owned(), stored));
            change.txns.push(("settler".to_owned(), stored.unwrap_or(0) + 1));
        } else {
            change.txns.clear();
        }
        change
    }

    /// Lands a settler's commit, unless it fails before or the race is lost.
    pub(super) fn land_settled(&mut self, version: usize, change: Change) -> bool {
        let ids: Vec<_> = change.add.iter().map(|row| row.id).collect();
        let rows: Vec<String> = change.add.iter().map(ToString::to_string).collect();
        let landed = !self.chance(8) && self.clicks.commit(version, change);
        self.say(|| format!("settled {rows:?} on {version}, landed {landed}"));
        if landed {
            self.held.extend(ids);
        }
        landed
    }

    pub(super) fn kill_settler(&mut self) {
        let which = self.random.below(2) as usize;
        self.settlers[which] = Settling::default();
    }

    pub(super) fn settle(&mut self) {
        let which = self.random.below(2) as usize;
        let mut settling = std::mem::take(&mut self.settlers[which]);
        if let Some((files, rest)) = settling.done.take() {
            self.take_away(files, rest);
            return;
        }
        let versions = (self.clicks.version(), self.arrivals.version());
        match (settling.through, settling.snapshot) {
            (None, None) if self.keeps(Rule::ThroughBeforeSnapshot) => settling.through = Some(self.complete_through),
            (_, None) => settling.snapshot = Some(versions),
            (None, Some(_)) => settling.through = Some(self.complete_through),
            (Some(through), Some(snapshot)) => settling = self.settle_on(through, snapshot),
        }
        self.settlers[which] = settling;
    }

    fn settle_on(&mut self, through: UtcMicros, (clicks, arrivals): (usize, usize)) -> Settling {
        let files: Vec<u64> = self.arrivals.at(arrivals).files.keys().copied().collect();
        let rows: Vec<Row> = self.arrivals.at(arrivals).rows().copied().collect();
        let described: Vec<Arrival> = rows.iter().map(|r| Arrival { id: r.id, time: r.time, kind: r.kind }).collect();
        let decision = self.decide(&described, clicks, through);
        if decision.count(Fate::Wait) == rows.len() {
            self.compact(clicks);
            return Settling::default();
        }
        let with = |wanted: Fate| {
            let rows = rows.iter().zip(&decision.fates).filter(move |(_, fate)| **fate == wanted);
            rows.map(|(row, _)| *row).collect::<Vec<Row>>()
        };
        let mut change = self.settlers_change(clicks, &decision);
        change.add = with(Fate::Add);
        let landed = decision.settled.is_empty() || self.land_settled(clicks, change);
        self.check_twice();
        // Landed, but killed before it could take the rows away: another pass will.
        if !landed || self.chance(15) {
            return Settling::default();
        }
        Settling { done: Some((files, with(Fate::Wait))), ..Settling::default() }
    }

    fn take_away(&mut self, remove: Vec<u64>, add: Vec<Row>) {
        let base = self.arrivals.version();
        let stored = self.arrivals.newest().txn("settler");
        let change = Change {
            add,
            remove,
            txns: vec![("settler".to_owned(), stored.unwrap_or(0) + 1)],
            expect: vec![("settler".to_owned(), stored)],
        };
        self.arrivals.commit(base, change);
    }

    /// Merges files as the settler would, on a snapshot that may be old by now.
    fn compact(&mut self, version: usize) {
        let state = self.clicks.at(version);
        let files: Vec<u64> = state.files.keys().copied().collect();
        let pieces: Vec<Piece> = state
            .files
            .values()
            .map(|rows| {
                let hours = rows.iter().map(|row| row.time.hour());
                let (first, last) = (hours.clone().min().unwrap_or(0), hours.max().unwrap_or(0));
                Piece { bytes: 64 * rows.len() as u64, rows: rows.len() as u64, first_hour: first, last_hour: last }
            })
            .collect();
        let horizon =
            Horizon { closed_before_hour: self.at(-5).hour(), final_before_day: self.at(-40).0.div_euclid(DAY) };
        let config = CompactConfig { fan_in: 3, ..CompactConfig::default() };
        let Some(chosen) = choose(&pieces, &horizon, &config) else { return };
        let remove: Vec<u64> = chosen.iter().map(|file| files[*file]).collect();
        let add: Vec<Row> = remove.iter().flat_map(|file| state.files[file].iter().copied()).collect();
        let mut change = self.settlers_change(version, &Decision::default());
        change.remove = remove;
        change.add = add;
        let before: usize = self.clicks.newest().rows().count();
        if self.clicks.commit(version, change) && self.clicks.newest().rows().count() != before {
            self.fail("merge: rows changed".to_owned());
        }
        self.check_twice();
    }
}
