//! A table as the lake keeps it: versions, files, transactions, and commits that are judged on the newest version.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use schemas::{ClickId, UtcMicros};

use crate::enrich::Facts;
use crate::settle::Kind;

/// A row of either table, as far as counting and correcting go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) id: ClickId,
    pub(super) time: UtcMicros,
    pub(super) kind: Kind,
    /// What it says of its request.
    pub(super) facts: Facts,
    /// 0 in `arrivals`, when it may be sampled.
    pub(super) weight: f64,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} at {}", self.id, self.kind, self.time)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) files: BTreeMap<u64, Rc<Vec<Row>>>,
    pub(super) txns: BTreeMap<String, i64>,
}

impl State {
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.files.values().flat_map(|file| file.iter())
    }

    pub(super) fn txn(&self, id: &str) -> Option<i64> {
        self.txns.get(id).copied()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) add: Vec<Row>,
    pub(super) remove: Vec<u64>,
    pub(super) txns: Vec<(String, i64)>,
    pub(super) expect: Vec<(String, Option<i64>)>,
}

#[derive(Debug)]
pub(super) struct Table {
    states: Vec<State>,
    log: Vec<BTreeSet<String>>,
    next_file: u64,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { states: vec![State::default()], log: Vec::new(), next_file: 0 }
    }

    pub(super) fn version(&self) -> usize {
        self.log.len()
    }

    pub(super) fn at(&self, version: usize) -> &State {
        &self.states[version]
    }

    pub(super) fn newest(&self) -> &State {
        self.at(self.version())
    }

    /// Whether `change`, decided on version `base`, lands as the next one.
    pub(super) fn commit(&mut self, base: usize, change: Change) -> bool {
        let newest = self.newest();
        let moved = change.expect.iter().any(|(id, expected)| newest.txn(id) != *expected);
        let conflict = change.txns.iter().any(|(id, _)| self.log[base..].iter().any(|txns| txns.contains(id)));
        let gone = change.remove.iter().any(|file| !newest.files.contains_key(file));
        if moved || conflict || gone {
            return false;
        }
        let mut state = newest.clone();
        for file in &change.remove {
            state.files.remove(file);
        }
        let mut by_hour: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in change.add {
            by_hour.entry(row.time.hour()).or_default().push(row);
        }
        for rows in by_hour.into_values() {
            self.next_file += 1;
            state.files.insert(self.next_file, Rc::new(rows));
        }
        self.log.push(change.txns.iter().map(|(id, _)| id.clone()).collect());
        state.txns.extend(change.txns);
        self.states.push(state);
        true
    }
}
