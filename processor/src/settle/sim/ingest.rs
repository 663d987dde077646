//! Edge log files: cut from the lines that the edge wrote, late, twice, overlapping; taken in chunk by chunk, each
//! straight into `clicks` when all of it can be settled, else into `arrivals`.

use schemas::tables::UNWEIGHED;
use schemas::{ClickId, Source, UtcMicros};

use super::settlers::{added, with};
use super::table::{Change, Row};
use super::{Rule, World};
use crate::enrich::Facts;
use crate::hot::testing::click;
use crate::settle::{Fate, Kind};

/// A file: its content's hash stands for the content.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    hash: u64,
    lines: Vec<Row>,
}

/// An import at work: killed by forgetting it.
#[derive(Debug)]
pub(super) struct Reading {
    file: LogFile,
    /// Read before the snapshot.
    through: Option<UtcMicros>,
    snapshot: Option<(usize, usize)>,
}

impl World {
    /// A file is cut: of new lines, and of some that came before.
    pub(super) fn cut_file(&mut self) {
        let most = if self.calm { 99 } else { self.random.pick(&[1, 2, 3]) };
        let mut lines = Vec::new();
        while lines.len() < most && !self.lines.is_empty() {
            let which = self.random.below(self.lines.len() as u64) as usize;
            lines.push(self.lines.swap_remove(which));
        }
        for index in 0..self.delivered.len() {
            if self.chance(30) {
                lines.push(self.delivered[index]);
            }
        }
        if lines.is_empty() {
            return;
        }
        self.next_file += 1;
        let file = LogFile { hash: self.next_file, lines };
        if self.chance(20) {
            self.files.push(file.clone());
        }
        self.files.push(file);
    }

    /// One step of one of two imports: look, decide and land, or be killed.
    pub(super) fn ingest(&mut self) {
        let which = self.random.below(2) as usize;
        if self.chance(4) {
            self.reading[which] = None;
            return;
        }
        let Some(mut reading) = self.reading[which].take() else {
            if !self.files.is_empty() {
                let file = self.random.below(self.files.len() as u64) as usize;
                let file = self.files[file].clone();
                self.reading[which] = Some(Reading { file, through: None, snapshot: None });
            }
            return;
        };
        let versions = (self.clicks.version(), self.arrivals.version());
        match (reading.through, reading.snapshot) {
            (None, None) if self.keeps(Rule::ThroughBeforeSnapshot) => reading.through = Some(self.complete_through),
            (_, None) => reading.snapshot = Some(versions),
            (None, Some(_)) => reading.through = Some(self.complete_through),
            (Some(through), Some(snapshot)) => {
                if self.land_chunk(&reading.file, through, snapshot) {
                    return;
                }
                (reading.through, reading.snapshot) = (None, None);
            }
        }
        self.reading[which] = Some(reading);
    }

    /// Lands the next chunk. Returns whether the file is done.
    fn land_chunk(&mut self, file: &LogFile, through: UtcMicros, (clicks, arrivals): (usize, usize)) -> bool {
        let txn = format!("file/{}", file.hash);
        let stored = (self.clicks.at(clicks).txn(&txn), self.arrivals.at(arrivals).txn(&txn));
        let done = stored.0.max(stored.1).unwrap_or(0) as usize;
        if done >= file.lines.len() {
            self.files.retain(|other| other.hash != file.hash);
            return true;
        }
        let to = if self.calm { file.lines.len() } else { (done + 2).min(file.lines.len()) };
        let chunk = &file.lines[done..to];
        let decision = self.decide(chunk, clicks, through);
        let whole = decision.all_settled();
        let corrections: Vec<Row> = with(chunk, &decision, |fate| fate == Fate::Correct);
        if whole && !corrections.is_empty() {
            if self.chance(8) {
                return false;
            }
            self.say(|| format!("to be corrected: {corrections:?}"));
            self.arrive(corrections);
        }
        let txns = vec![(txn.clone(), to as i64)];
        if whole {
            let mut change = self.settlers_change(clicks, &decision);
            change.add = added(chunk, &decision);
            change.expect.push((txn, stored.0));
            change.txns.extend(txns);
            self.record(chunk, &decision);
            if self.land_settled(clicks, change) {
                self.note_away(chunk, &decision);
            }
        } else {
            let mut add = chunk.to_vec();
            if !self.keeps(Rule::ChunkWhole) {
                // what need not wait is left to a commit that a kill prevents
                add.retain(|row| !self.waits.ready(through, row.kind, row.time));
            }
            if !self.chance(8) {
                let change = Change { add, txns, expect: vec![(txn, stored.1)], ..Change::default() };
                self.arrivals.commit(arrivals, change);
            }
        }
        let landed = self.clicks.newest().txn(&format!("file/{}", file.hash)) == Some(to as i64)
            || self.arrivals.newest().txn(&format!("file/{}", file.hash)) == Some(to as i64);
        if landed {
            self.delivered.extend_from_slice(chunk);
        }
        self.check_twice();
        false
    }

    /// An event that survived comes once more, made elsewhere.
    pub(super) fn import(&mut self) {
        let events: Vec<_> = self.journals.iter().flat_map(super::redirect::Journal::synced_events).collect();
        if !events.is_empty() {
            let (id, time) = self.random.pick(&events);
            self.arrive(vec![self.event(id, time)]);
        }
    }

    /// The event of a request, as a row.
    pub(super) fn event(&self, id: ClickId, time: UtcMicros) -> Row {
        let request = self.requests.iter().find(|request| request.id == id);
        let facts = request.map_or_else(|| Facts::of(&click(0, 0)), |request| request.event);
        let weight = if request.is_some_and(|request| request.is_internal) { UNWEIGHED } else { 1.0 };
        Row { id, time, kind: Kind::Event(Source::Origin), facts, weight }
    }

    fn arrive(&mut self, add: Vec<Row>) {
        let base = self.arrivals.version();
        self.arrivals.commit(base, Change { add, ..Change::default() });
    }

    /// Every line and every event once more.
    pub(super) fn everything_again(&mut self) {
        let events = self.journals.iter().flat_map(super::redirect::Journal::synced_events);
        let events = events.map(|(id, time)| self.event(id, time)).collect();
        self.arrive(events);
        self.next_file += 1;
        let lines = self.delivered.clone();
        if !lines.is_empty() {
            self.files.push(LogFile { hash: self.next_file, lines });
        }
    }
}
