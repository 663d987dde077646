//! Redirect workers and their journals; the requests that people make through the edge.

use schemas::tables::UNWEIGHED;
use schemas::{Click, ClickId, JournalId, Method, Source, UtcMicros};

use super::table::Row;
use super::{Partition, REPEAT, TICK, World};
use crate::enrich::Facts;
use crate::hot::testing::click;
use crate::settle::Kind;

#[derive(Clone, Copy, Debug)]
pub(super) enum Frame {
    Event(ClickId, UtcMicros),
    Mark(UtcMicros),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalState {
    Open,
    Closed,
    Retired,
}

#[derive(Debug)]
pub(super) struct Journal {
    pub(super) id: JournalId,
    pub(super) registered: UtcMicros,
    off: i64,
    last: UtcMicros,
    pub(super) frames: Vec<Frame>,
    pub(super) synced: usize,
    /// The next frame to forward.
    pub(super) forwarded: usize,
    pub(super) state: JournalState,
    pub(super) alive: bool,
}

impl Journal {
    /// What has been synced, and so can't be lost.
    pub(super) fn synced_events(&self) -> impl Iterator<Item = (ClickId, UtcMicros)> {
        self.frames[..self.synced].iter().filter_map(|frame| match frame {
            Frame::Event(id, time) => Some((*id, *time)),
            Frame::Mark(_) => None,
        })
    }
}

/// When the edge asks the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Never,
    AtOnce,
    Later,
}

/// A journal's number.
pub(super) fn short(id: JournalId) -> String {
    format!("j{}", id.0.as_u128())
}

/// One request, under one id however often the edge asks.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: ClickId,
    /// What its event says.
    pub(super) event: Facts,
    /// What its line says.
    pub(super) line: Facts,
    /// Whether it may be sampled.
    pub(super) is_internal: bool,
}

/// What a record says: of a person's browser, as far as it isn't hidden.
fn said(kind: Kind, method: Method, user_agent: &str, referrer: Option<&str>) -> Facts {
    Facts::of(&Click {
        source: kind.source(),
        method: Some(method),
        user_agent: Some(user_agent.into()),
        referrer: referrer.map(Into::into),
        ..click(0, 0)
    })
}

impl World {
    pub(super) fn register(&mut self, slot: usize) {
        let off = if self.calm { 0 } else { self.random.pick(&[-1, 0, 0]) };
        // one transaction with publishing: no event is before what has been published
        let registered = self.at(off).max(self.complete_through);
        let id = JournalId(uuid::Uuid::from_u128(self.journals.len() as u128 + 1));
        self.journals.push(Journal {
            id,
            registered,
            off,
            last: registered,
            frames: Vec::new(),
            synced: 0,
            forwarded: 0,
            state: JournalState::Open,
            alive: true,
        });
        self.workers[slot] = Some(self.journals.len() - 1);
        if self.embedded {
            self.partitions.push(Partition::default());
        }
    }

    fn append(&mut self, journal: usize, id: ClickId) {
        let at = self.at(self.journals[journal].off);
        let journal = &mut self.journals[journal];
        journal.last = journal.last.max(at);
        journal.frames.push(Frame::Event(id, journal.last));
        let (node, time) = (journal.id, journal.last);
        self.say(|| format!("{} appends {id} at {time}", short(node)));
    }

    pub(super) fn request(&mut self) {
        let slot = self.random.below(2) as usize;
        let worker = self.workers[slot].filter(|worker| self.journals[*worker].alive);
        let (logged, kind, asks) = self.random.pick(&[
            (true, Kind::Origin, Asks::AtOnce), // a miss
            (true, Kind::Origin, Asks::AtOnce),
            (true, Kind::Origin, Asks::AtOnce),
            (true, Kind::Edge, Asks::Never),     // a hit
            (true, Kind::Edge, Asks::AtOnce),    // a stale answer, refreshed behind it
            (true, Kind::Edge, Asks::Later),     // or a while after it
            (false, Kind::Origin, Asks::AtOnce), // a line that is never written
        ]);
        if asks == Asks::AtOnce && worker.is_none() {
            return;
        }
        let number = self.requests.len();
        let id = (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let id = ClickId::from(id ^ self.salt);
        let method = self.random.pick(&[Method::Get, Method::Get, Method::Head]);
        // the edge may hide who asks, and may make a GET of a HEAD
        let (agent, referrer) = self.random.pick(&[("Amazon CloudFront", None), ("a person's", Some("news.example"))]);
        let asked = self.random.pick(&[Method::Get, method]);
        let event = said(Kind::Event(Source::Origin), asked, agent, referrer);
        let facts = said(kind, method, "a person's", Some("news.example"));
        let is_internal = self.sampling && self.random.below(2) == 0;
        self.requests.push(Request { id, event, line: facts, is_internal });
        if logged && self.random.below(100) < 85 {
            let weight = if is_internal { UNWEIGHED } else { 1.0 };
            let line = Row { id, time: self.at(self.edge_off), kind, facts, weight };
            self.say(|| format!("line {line}"));
            self.lines.push(line);
        }
        if let (Asks::AtOnce, Some(worker)) = (asks, worker) {
            self.append(worker, id);
        }
        if asks == Asks::Later || (asks == Asks::AtOnce && self.random.below(100) < 35) {
            self.repeats.push((self.now, number));
        }
    }

    /// The edge asks again under the same id, through whatever worker.
    pub(super) fn repeat(&mut self) {
        let now = self.now;
        self.repeats.retain(|(asked, _)| asked + REPEAT >= now);
        let alive: Vec<usize> = self.workers.iter().flatten().copied().filter(|w| self.journals[*w].alive).collect();
        if self.repeats.is_empty() || alive.is_empty() {
            return;
        }
        let which = self.random.below(self.repeats.len() as u64) as usize;
        let (_, number) = self.repeats.swap_remove(which);
        let worker = self.random.pick(&alive);
        self.append(worker, self.requests[number].id);
    }

    /// A worker starts with a new journal, or is killed; a power cut takes what was not synced.
    pub(super) fn worker(&mut self) {
        let slot = self.random.below(2) as usize;
        match self.workers[slot].filter(|worker| self.journals[*worker].alive) {
            None => self.register(slot),
            Some(worker) if self.chance(30) => {
                let power_cut = self.chance(40);
                let journal = &mut self.journals[worker];
                journal.alive = false;
                if power_cut {
                    journal.frames.truncate(journal.synced);
                }
                let (node, synced) = (journal.id, journal.synced);
                self.say(|| format!("{} killed, power cut {power_cut}, synced {synced}", short(node)));
            }
            Some(_) => {}
        }
    }

    pub(super) fn sync(&mut self) {
        for index in 0..self.journals.len() {
            if self.journals[index].state == JournalState::Closed || self.chance(40) {
                continue;
            }
            let (at, mark) = (self.at(self.journals[index].off), self.random.below(2) == 0);
            let journal = &mut self.journals[index];
            if journal.alive && mark && journal.synced == journal.frames.len() {
                journal.last = journal.last.max(at);
                journal.frames.push(Frame::Mark(journal.last));
            }
            journal.synced = journal.frames.len();
        }
        self.check_through();
    }

    /// All workers stop in good order.
    pub(super) fn power_off(&mut self) {
        for journal in &mut self.journals {
            if journal.alive {
                journal.frames.push(Frame::Mark(journal.last.max(UtcMicros(self.now * TICK))));
            }
            journal.alive = false;
        }
    }
}
