//! What lines came to, block by block, until it is a summary.

use std::collections::BTreeMap;

use bytes::Bytes;
use ingest::edge::Ignored;
use schemas::UtcMicros;

use super::summary::{IgnoredLines, Summary};

/// Bytes of a rejected line that are kept.
pub(super) const KEPT_BYTES: usize = 4_096;

/// A line that can't be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RejectedLine {
    pub(super) number: u64,
    pub(super) reason: &'static str,
    /// Its first [`KEPT_BYTES`].
    pub(super) bytes: Bytes,
}

/// Lines counted by what they came to, except those that are records for the union.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) lines: u64,
    pub(super) headers: u64,
    pub(super) records: u64,
    /// Counted before, as their cache status says.
    pub(super) counted: u64,
    /// Of the records for the union, those that can't have left an event of our own although they reached the origin.
    pub(super) eventless: u64,
    /// Of the records for the union, those of codes that no link has.
    pub(super) unlinked: u64,
    pub(super) ignored: IgnoredLines,
    pub(super) rejected: BTreeMap<&'static str, u64>,
    pub(super) first: Option<UtcMicros>,
    pub(super) last: Option<UtcMicros>,
}

impl Tally {
    pub(super) fn ignore(&mut self, why: Ignored) {
        *match why {
            Ignored::NotRedirect => &mut self.ignored.not_redirect,
            Ignored::Method => &mut self.ignored.method,
            Ignored::EdgeRedirect => &mut self.ignored.edge_redirect,
            Ignored::Aborted => &mut self.ignored.aborted,
            Ignored::NotViewer => &mut self.ignored.not_viewer,
        } += 1;
    }

    pub(super) fn reject(&mut self, reason: &'static str) {
        *self.rejected.entry(reason).or_default() += 1;
    }

    pub(super) fn at(&mut self, time: UtcMicros) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.lines += other.lines;
        self.headers += other.headers;
        self.records += other.records;
        self.counted += other.counted;
        self.eventless += other.eventless;
        self.unlinked += other.unlinked;
        self.ignored.merge(&other.ignored);
        for (reason, lines) in &other.rejected {
            *self.rejected.entry(reason).or_default() += lines;
        }
        for time in [other.first, other.last].into_iter().flatten() {
            self.at(time);
        }
    }

    /// Puts these lines into a summary.
    pub(super) fn add_to(&self, summary: &mut Summary) {
        summary.lines += self.lines;
        summary.headers += self.headers;
        summary.records += self.records;
        summary.already_counted += self.counted;
        summary.noted.eventless += self.eventless;
        summary.noted.by_status += self.counted;
        summary.noted.unlinked += self.unlinked;
        summary.ignored.merge(&self.ignored);
        for (reason, lines) in &self.rejected {
            *summary.rejected.entry((*reason).to_owned()).or_default() += lines;
        }
        summary.first = [summary.first, self.first].into_iter().flatten().min();
        summary.last = [summary.last, self.last].into_iter().flatten().max();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the lines come to and however they are cut into blocks, the summary adds up.
        #[test]
        fn blocks_add_up(lines in proptest::collection::vec((0u8..9, 0i64..100), 0..60), cut in 1usize..10) {
            let mut summary = Summary::new("i".into(), "n".into(), "f".into(), false);
            let mut whole = Tally::default();
            for block in lines.chunks(cut) {
                let mut tally = Tally { lines: block.len() as u64, ..Tally::default() };
                for (what, time) in block {
                    if *what == 0 {
                        tally.headers += 1;
                        continue;
                    }
                    tally.records += 1;
                    tally.at(UtcMicros(*time));
                    match *what {
                        1 => tally.counted += 1,
                        2 => tally.reject("bad_timestamp"),
                        3 => tally.reject("bad_json"),
                        other => tally.ignore(Ignored::ALL[usize::from(other) % 5]),
                    }
                }
                tally.add_to(&mut summary);
                whole.merge(&tally);
            }
            prop_assert!(summary.adds_up());
            let mut at_once = Summary::new("i".into(), "n".into(), "f".into(), false);
            whole.add_to(&mut at_once);
            prop_assert_eq!(at_once, summary);
        }
    }
}
