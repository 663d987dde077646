//! Which positions of journals a partition of the topic has brought into the lake. Pure.
//!
//! ```text
//! base (as published)          landed                       landed
//! ├──────────────────┤├─────────────────────┤   hole   ├─────────────────┤
//!                                           ▲ covered  ▲ missing.to
//! ```
//! Batches come more than once and, after a loss, not in order. Their clicks are taken in whenever they come, since ids say
//! what is new; here only what they cover is kept. A journal is covered up to the first hole behind what was published; a
//! hole is asked for, and what has landed behind it needn't come again.
//!
//! A partition has other owners before, after and, while one of them is paused, beside this process. What they publish is as
//! true as what has landed here, so both are put together, and that before a hole is believed: it may be closed by what
//! another has landed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ingest::ports::{Covered, Missing};
use schemas::batch::Cover;
use schemas::{JournalId, UtcMicros};

/// Stretches apart from one another that are kept of one journal; more are forgotten, and come again.
const STRETCHES: usize = 64;
/// How long what was asked for may take to be in the topic.
const SENT_WITHIN: Duration = Duration::from_secs(10);

/// A stretch of a journal that has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    to: u64,
    /// The last mark in it.
    mark: Option<UtcMicros>,
    /// The journal ends at `to`.
    ended: bool,
}

/// What has landed of one journal, by the begin of each stretch; no two touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretches(BTreeMap<u64, Stretch>);

impl Stretches {
    /// Adds what a batch covers.
    pub(super) fn add(&mut self, cover: &Cover) {
        let mut from = cover.from;
        let mut grown = Stretch { to: cover.to, mark: cover.mark, ended: cover.ended };
        while let Some((&begin, &other)) = self.0.range(..=grown.to).next_back().filter(|(_, other)| other.to >= from) {
            self.0.remove(&begin);
            from = from.min(begin);
            grown.mark = grown.mark.max(other.mark);
            grown.ended = (grown.ended && grown.to >= other.to) || (other.ended && other.to >= grown.to);
            grown.to = grown.to.max(other.to);
        }
        self.0.insert(from, grown);
        if self.0.len() > STRETCHES {
            self.0.pop_last();
        }
    }

    /// How far the journal is covered without a hole when it is so up to `base`; with the last mark and the end, if these
    /// stretches hold them. And where the hole behind it ends, if there is one.
    fn reach(&self, base: u64) -> (Stretch, Option<u64>) {
        let mut reached = Stretch { to: base, mark: None, ended: false };
        for (&from, stretch) in &self.0 {
            if from > reached.to {
                return (reached, Some(from));
            }
            // what lies below the base all the same says something of times
            reached.mark = reached.mark.max(stretch.mark);
            reached.ended |= stretch.ended && stretch.to >= reached.to;
            reached.to = reached.to.max(stretch.to);
        }
        (reached, None)
    }
}

/// What was asked for of a hole.
#[derive(Clone, Copy, Debug)]
struct Asked {
    missing: Missing,
    from: u64,
    since: Instant,
    /// The partition's end once what was asked for should have been in it.
    due_at: Option<u64>,
}

/// What is published of one journal in one partition: what was, and what has landed since.
#[derive(Clone, Debug)]
pub(super) struct Published {
    row: Covered,
    asked: Option<Asked>,
}

impl Published {
    /// As published so far.
    pub(super) fn new(row: Covered) -> Self {
        Self { row, asked: None }
    }

    /// Puts what is published, by whomever, together with what is known: nothing goes back.
    pub(super) fn learn(&mut self, row: Covered) {
        let asked = |row: &Covered| row.missing.map_or(0, |missing| missing.asked);
        if asked(&row) > asked(&self.row) {
            self.row.missing = row.missing;
        }
        self.row.covered = self.row.covered.max(row.covered);
        self.row.through = self.row.through.max(row.through);
        self.row.ended |= row.ended;
    }

    /// Whether something is missing between what is known to be covered and what has landed.
    pub(super) fn has_hole(&self, landed: &Stretches) -> bool {
        landed.reach(self.row.covered).1.is_some()
    }

    /// Takes what has landed; returns the row to publish when it is another one. `next` and `end` are the partition's.
    ///
    /// A hole is asked for when it is seen, and again when what was asked for should have been read by now and wasn't.
    pub(super) fn follow(&mut self, landed: &Stretches, next: u64, end: u64, now: Instant) -> Option<Covered> {
        let (reached, hole) = landed.reach(self.row.covered);
        let mut row = self.row;
        row.covered = reached.to;
        row.through = row.through.max(reached.mark.unwrap_or(row.through));
        row.ended |= reached.ended;
        row.missing = hole.map(|to| self.ask(reached.to, to, next, end, now));
        if hole.is_none() {
            self.asked = None;
        }
        let is_news = row != self.row;
        self.row = row;
        is_news.then_some(row)
    }

    fn ask(&mut self, from: u64, to: u64, next: u64, end: u64, now: Instant) -> Missing {
        let number = self.row.missing.map_or(0, |missing| missing.asked);
        // what has become smaller is on its way
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.from <= from && to <= asked.missing.to) {
            if asked.from < from {
                (asked.from, asked.since, asked.due_at) = (from, now, None);
            }
            if asked.due_at.is_none() && now.duration_since(asked.since) >= SENT_WITHIN {
                asked.due_at = Some(end);
            }
            if asked.due_at.is_none_or(|due| next < due) {
                return asked.missing;
            }
        }
        let missing = Missing { to, asked: number.wrapping_add(1).max(1) };
        self.asked = Some(Asked { missing, from, since: now, due_at: None });
        missing
    }

    /// The journal's row.
    pub(super) fn row(&self) -> &Covered {
        &self.row
    }
}

/// What has landed of all journals in one partition.
pub(super) type Landings = BTreeMap<JournalId, Stretches>;

#[cfg(test)]
mod tests;
