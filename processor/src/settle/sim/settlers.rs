//! Two settlers, and the compaction that comes with them.

use schemas::UtcMicros;
use schemas::tables::UNWEIGHED;
use schemas::time::DAY;

use super::table::{Change, Row};
use super::{LINK, Rule, World};
use crate::enrich::Facts;
use crate::sample::{Known, second_of};
use crate::settle::compact::{CompactConfig, Horizon, Piece, choose};
use crate::settle::ids::{IdMap, IdSet, Spans};
use crate::settle::union::{compare, sample};
use crate::settle::{Arrival, Decision, Fate, Kind, union};

/// How far a settler is with its pass.
#[derive(Debug, Default)]
pub(super) struct Settling {
    through: Option<UtcMicros>,
    snapshot: Option<(usize, usize)>,
    /// Landed in `clicks`: these files of `arrivals` go, and what stays of them comes back.
    done: Option<(Vec<u64>, Vec<Row>)>,
    /// Rewritings under way: files of `clicks` that go, and their rows with some of them merged.
    rewriting: Vec<(Vec<u64>, Vec<Row>)>,
}

/// The rows that meet some fate.
pub(super) fn with(rows: &[Row], decision: &Decision, wanted: impl Fn(Fate) -> bool) -> Vec<Row> {
    rows.iter().zip(&decision.fates).filter(|(_, fate)| wanted(**fate)).map(|(row, _)| *row).collect()
}

/// The rows that are added, with what they weigh.
pub(super) fn added(rows: &[Row], decision: &Decision) -> Vec<Row> {
    let adds = rows.iter().enumerate().filter(|(at, _)| decision.fates[*at] == Fate::Add);
    adds.map(|(at, row)| Row { weight: 1.0 / decision.rates.get(&at).copied().unwrap_or(1.0), ..*row }).collect()
}

impl World {
    /// Rates come into the lake before what they decide.
    pub(super) fn record(&mut self, rows: &[Row], decision: &Decision) {
        for (at, rate) in &decision.rates {
            let by_lines = rows[*at].kind.is_line();
            if self.keeps(Rule::RecordLowest) {
                self.rates.push(Known { link: LINK, second: second_of(rows[*at].time), by_lines, rate: *rate });
            }
        }
    }

    pub(super) fn note_away(&mut self, rows: &[Row], decision: &Decision) {
        self.away.extend(with(rows, decision, |fate| fate == Fate::Sampled).iter().map(|row| row.id));
    }

    /// The union of records with a version of `clicks`, and which of them know better than the row that is there.
    pub(super) fn decide(&self, rows: &[Row], version: usize, through: UtcMicros) -> Decision {
        let arrivals: Vec<Arrival> = rows.iter().map(|r| Arrival { id: r.id, time: r.time, kind: r.kind }).collect();
        let spans: Spans = arrivals.iter().map(|arrival| arrival.time).collect();
        let near: IdMap<Facts> = self.rows_near(version, &spans).map(|row| (row.id, row.facts)).collect();
        let known: IdSet = near.keys().copied().collect();
        let mut decision = union(&arrivals, &known, &self.waits, through);
        let link = |at: usize| (rows[at].weight == UNWEIGHED).then_some(LINK);
        let adds = (0..rows.len()).filter(|at| decision.fates[*at] == Fate::Add);
        let asked = adds.filter_map(|at| Some((link(at)?, second_of(rows[at].time)))).collect();
        sample(&arrivals, &mut decision, link, &self.lowest(asked));
        if self.keeps(Rule::CorrectRows) {
            compare(&arrivals, &mut decision, &near, |at| rows[at].facts);
        }
        decision
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
        if let Some((remove, add)) = settling.rewriting.pop() {
            if self.rewrite(remove, add) {
                self.settlers[which] = settling;
            }
            return;
        }
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
        let decision = self.decide(&rows, clicks, through);
        // corrections are made now and then
        let correct = self.calm || self.chance(40);
        let stays = |fate: Fate| fate == Fate::Wait || (fate == Fate::Correct && !correct);
        if decision.fates.iter().all(|fate| stays(*fate)) {
            self.compact(clicks);
            return Settling::default();
        }
        let mut change = self.settlers_change(clicks, &decision);
        change.add = added(&rows, &decision);
        self.record(&rows, &decision);
        let landed = decision.settled.is_empty() || self.land_settled(clicks, change);
        if landed {
            self.note_away(&rows, &decision);
        }
        self.check_twice();
        // Landed, but killed before it could take the rows away: another pass will.
        if !landed || self.chance(15) {
            return Settling::default();
        }
        let rewriting = match correct {
            true => self.rewritings(&with(&rows, &decision, |fate| fate == Fate::Correct)),
            false => Vec::new(),
        };
        Settling { done: Some((files, with(&rows, &decision, stays))), rewriting, ..Settling::default() }
    }

    /// The files that hold rows of these records, each with its rows merged, as they are now.
    fn rewritings(&self, records: &[Row]) -> Vec<(Vec<u64>, Vec<Row>)> {
        let mut rewritings = Vec::new();
        for (file, before) in &self.clicks.newest().files {
            let mut after: Vec<Row> = before.to_vec();
            for row in &mut after {
                let id = row.id;
                for record in records.iter().filter(|record| record.id == id) {
                    *row = self.merged(row, record);
                }
            }
            if after != **before {
                rewritings.push((vec![*file], after));
            }
        }
        rewritings
    }

    /// A row once a record of its request is known too.
    fn merged(&self, row: &Row, record: &Row) -> Row {
        if !self.keeps(Rule::MergeByField) {
            // the last word is taken for the best
            return Row { weight: row.weight, ..*record };
        }
        let facts = row.facts.join(record.facts);
        let time = if facts.source() == row.facts.source() { row.time } else { record.time };
        Row { id: row.id, time, kind: Kind::of(facts.source()), facts, weight: row.weight }
    }

    /// Lands a rewriting on the newest version, if its file is still there. Returns whether the pass goes on.
    fn rewrite(&mut self, remove: Vec<u64>, add: Vec<Row>) -> bool {
        let version = self.clicks.version();
        let mut change = self.settlers_change(version, &Decision::default());
        (change.remove, change.add) = (remove, add);
        let before = self.clicks.newest().rows().count();
        let landed = !self.chance(8) && self.clicks.commit(version, change);
        self.say(|| format!("rewritten on {version}, landed {landed}"));
        if landed && self.clicks.newest().rows().count() != before {
            self.fail("correct: the number of rows changed".to_owned());
        }
        self.check_twice();
        landed && !self.chance(10)
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
