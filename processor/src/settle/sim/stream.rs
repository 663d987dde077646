//! The stream: embedded, each journal is a partition; with a topic, forwarders bring frames into partitions that
//! follow from the ids, at least once, and marks into all of them.

use schemas::UtcMicros;

use super::World;
use super::redirect::{Frame, JournalState};

/// Records in order, each with its journal.
#[derive(Debug, Default)]
pub(super) struct Partition {
    pub(super) records: Vec<(usize, Frame)>,
}

/// The name of a partition's position.
pub(super) fn stream(partition: usize) -> String {
    format!("stream/{partition}")
}

impl World {
    pub(super) fn stored(&self, partition: usize) -> Option<i64> {
        self.clicks.newest().txn(&stream(partition))
    }

    /// Journals forward what is synced.
    pub(super) fn forward(&mut self) {
        let chosen = self.random.below(self.journals.len() as u64) as usize;
        let journals = if self.calm { 0..self.journals.len() } else { chosen..chosen + 1 };
        for journal in journals {
            let most = if self.calm { 1_000 } else { self.random.pick(&[1, 2, 4]) };
            for _ in 0..most {
                if !self.forward_one(journal) {
                    break;
                }
            }
        }
    }

    fn forward_one(&mut self, index: usize) -> bool {
        let journal = &self.journals[index];
        if journal.state == JournalState::Closed || journal.forwarded >= journal.synced {
            return false;
        }
        let frame = journal.frames[journal.forwarded];
        let partitions = self.partitions.len();
        match frame {
            _ if self.embedded => self.partitions[index].records.push((index, frame)),
            Frame::Event(id, _) => {
                self.partitions[id.as_u128() as usize % partitions].records.push((index, frame));
                if self.chance(15) {
                    return false; // the answer was lost: it is sent again
                }
            }
            Frame::Mark(_) => {
                for partition in 0..partitions {
                    if self.chance(10) {
                        return false; // killed between two partitions
                    }
                    self.partitions[partition].records.push((index, frame));
                }
            }
        }
        self.journals[index].forwarded += 1;
        true
    }

    /// A forwarder restarts and sends again what it isn't sure of.
    pub(super) fn send_again(&mut self) {
        let index = self.random.below(self.journals.len() as u64) as usize;
        let journal = &self.journals[index];
        if !self.embedded && journal.state == JournalState::Open && journal.forwarded > 0 {
            let back = self.random.below(self.journals[index].forwarded as u64) as usize;
            self.journals[index].forwarded = back;
        }
    }

    /// The last mark of a journal whose commit has landed, in every partition.
    pub(super) fn landed_mark(&self, index: usize) -> UtcMicros {
        let registered = self.journals[index].registered;
        let of = |partition: usize| {
            let stored = self.stored(partition).unwrap_or(0) as usize;
            let records = &self.partitions[partition].records[..stored];
            let marks = records.iter().filter_map(|(journal, frame)| match frame {
                Frame::Mark(time) if *journal == index => Some(*time),
                _ => None,
            });
            marks.max().unwrap_or(registered).max(registered)
        };
        if self.embedded { of(index) } else { (0..self.partitions.len()).map(of).min().unwrap_or(registered) }
    }

    /// Whether the lake holds all that a journal has forwarded.
    pub(super) fn has_landed(&self, index: usize) -> bool {
        self.partitions.iter().enumerate().all(|(partition, stream)| {
            let stored = self.stored(partition).unwrap_or(0) as usize;
            stream.records[stored..].iter().all(|(journal, _)| *journal != index)
        })
    }

    /// Whether nothing is on its way.
    pub(super) fn is_drained(&self) -> bool {
        let forwarded = |j: &super::Journal| j.state != JournalState::Open && j.forwarded >= j.synced;
        let consumed =
            |partition: usize| self.stored(partition).unwrap_or(0) as usize >= self.partitions[partition].records.len();
        self.journals.iter().all(|j| j.state == JournalState::Closed || forwarded(j))
            && (0..self.partitions.len()).all(consumed)
    }
}
