//! The registry: `complete_through`, closing, retiring.

use super::redirect::{Journal, JournalState};
use super::stream::stream;
use super::table::Change;
use super::{RETIRE, Rule, World};

impl World {
    pub(super) fn publish(&mut self) {
        let open = (0..self.journals.len()).filter(|index| self.journals[*index].state == JournalState::Open);
        let through = open.map(|index| self.landed_mark(index)).min().unwrap_or(self.at(0));
        self.complete_through = self.complete_through.max(through);
        let through = self.complete_through;
        self.say(|| format!("complete through {through}"));
        self.check_through();
    }

    /// Nothing synced before `complete_through` is missing in the lake, retired journals aside.
    pub(super) fn check_through(&mut self) {
        let through = self.complete_through;
        let journals = self.journals.iter().filter(|journal| journal.state != JournalState::Retired);
        let missing =
            journals.flat_map(Journal::synced_events).find(|(id, time)| *time < through && !self.held.contains(id));
        if let Some((id, time)) = missing {
            self.fail(format!("through: {through} has passed {id} at {time}"));
        }
    }

    pub(super) fn close(&mut self) {
        for index in 0..self.journals.len() {
            let landed = self.has_landed(index) || !self.keeps(Rule::CloseWhenLanded);
            let journal = &mut self.journals[index];
            if journal.state == JournalState::Open && !journal.alive {
                journal.synced = journal.frames.len();
                if landed && journal.forwarded >= journal.synced {
                    journal.state = JournalState::Closed;
                    self.say(|| format!("j{} closed", index + 1));
                }
            }
        }
    }

    /// A journal that says nothing for too long is given up, in a commit that repeats every position unchanged, so
    /// that a commit under way is judged again.
    pub(super) fn retire(&mut self) {
        for index in 0..self.journals.len() {
            let journal = &self.journals[index];
            if journal.state != JournalState::Open || self.landed_mark(index) > self.at(-RETIRE) {
                continue;
            }
            let base = self.clicks.version();
            let state = self.clicks.newest();
            let mut txns: Vec<(String, i64)> = Vec::new();
            for partition in 0..self.partitions.len() {
                txns.push((stream(partition), state.txn(&stream(partition)).unwrap_or(0)));
            }
            txns.push((format!("retired/{}", journal.id), 1));
            let landed =
                !self.keeps(Rule::RetireInLake) || self.clicks.commit(base, Change { txns, ..Change::default() });
            if landed {
                self.journals[index].state = JournalState::Retired;
                self.say(|| format!("j{} retired", index + 1));
            }
        }
    }
}
