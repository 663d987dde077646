//! Cuts a journal into batches for partitions. Pure.
//!
//! ```text
//! journal   0 1 2 3 4 5 6 7 ▽8      a click's partition follows from its id alone
//! part 0    ├─0───3─4──────────┤    0..9 with clicks 0, 3, 4 and the mark of 8
//! part 1    ├───1─2───┤├5─6─7──┤    cut early where a batch is full: 0..5, then 5..9
//! ```
//! Each batch of a partition begins where the one before it ended, so that together they cover the journal. A mark goes into
//! every partition, behind the batches that it covers.

use schemas::batch::{BatchWriter, CLICK_HEAD_BYTES, Cover, partition_of};
use schemas::{ClickId, JournalId, UtcMicros, wire};

use crate::stream::{Body, Record};

/// A batch is at most so big, unless a single click is bigger.
pub(super) const MAX_BATCH: usize = 64 << 10;

/// A batch for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) partition: u32,
    pub(super) cover: Cover,
    pub(super) bytes: Vec<u8>,
}

/// What is being put together of one journal.
#[derive(Debug)]
pub(super) struct Cutter {
    journal: JournalId,
    parts: Vec<BatchWriter>,
    /// The partition that is wanted, when it isn't all of them.
    only: Option<u32>,
    next: u64,
}

impl Cutter {
    /// Of a journal whose partitions are covered up to `starts`.
    pub(super) fn new(journal: JournalId, starts: &[u64]) -> Self {
        let parts = starts.iter().map(|from| BatchWriter::new(*from)).collect();
        Self { journal, parts, only: None, next: starts.iter().copied().min().unwrap_or_default() }
    }

    /// For one partition of so many, from `from` on.
    pub(super) fn only(journal: JournalId, partitions: usize, wanted: u32, from: u64) -> Self {
        Self { only: Some(wanted), ..Self::new(journal, &vec![from; partitions]) }
    }

    /// The first position that it hasn't been given.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Goes on from what the lake holds by now, where that is further. Only when all that was taken has been handed out.
    pub(super) fn advance(&mut self, covered: &[u64]) {
        for (part, covered) in self.parts.iter_mut().zip(covered) {
            if part.clicks() == 0 && part.from() < *covered {
                *part = BatchWriter::new(*covered);
            }
        }
        let wanted = |partition: usize| self.only.is_none_or(|only| only as usize == partition);
        let from =
            self.parts.iter().enumerate().filter(|(partition, _)| wanted(*partition)).map(|(_, part)| part.from());
        self.next = self.next.max(from.min().unwrap_or_default());
    }

    /// Takes the next record of the journal; what is whole by that goes into `out`.
    pub(super) fn take(&mut self, record: &Record, out: &mut Vec<Piece>) {
        let at = record.offset;
        self.next = at + 1;
        match &record.body {
            Body::Mark(time) => self.cut_all(at + 1, Some(*time), false, out),
            Body::Click(bytes) => {
                let partition = partition_for(bytes, self.parts.len() as u32);
                self.push(partition, at, bytes, out);
            }
            // a journal has no others
            Body::Batch(..) | Body::Unreadable(..) => {}
        }
    }

    /// Hands out what there is of clicks: nothing more comes for now.
    pub(super) fn flush(&mut self, out: &mut Vec<Piece>) {
        for partition in 0..self.parts.len() as u32 {
            if self.parts[partition as usize].clicks() > 0 {
                out.extend(self.cut(partition, self.next, None, false));
            }
        }
    }

    /// Hands out all of it, covering everything below `to`; with the word that the journal ends there, when it does.
    pub(super) fn finish(&mut self, to: u64, ended: bool, out: &mut Vec<Piece>) {
        self.next = to;
        self.cut_all(to, None, ended, out);
    }

    /// What the partitions lack below `begin` is gone: says so to each. `until` is the time of the first frame that is left;
    /// `since` tells for each partition when its last mark was.
    pub(super) fn skip(&mut self, begin: u64, since: &[UtcMicros], until: UtcMicros, out: &mut Vec<Piece>) {
        for (partition, since) in (0..self.parts.len() as u32).zip(since) {
            let from = self.parts[partition as usize].from();
            if from < begin && self.only.is_none_or(|only| only == partition) {
                let lost = Some(*since);
                let cover = Cover { journal: self.journal, from, to: begin, mark: Some(until), ended: false, lost };
                out.push(Piece { partition, cover, bytes: BatchWriter::new(from).finish(cover) });
                self.parts[partition as usize] = BatchWriter::new(begin);
            }
        }
        self.next = self.next.max(begin);
    }

    fn push(&mut self, partition: u32, at: u64, click: &[u8], out: &mut Vec<Piece>) {
        let part = &mut self.parts[partition as usize];
        if at < part.from() || self.only.is_some_and(|only| only != partition) {
            return;
        }
        let is_full = part.clicks() > 0 && part.size() + CLICK_HEAD_BYTES + click.len() > MAX_BATCH;
        if is_full || !part.push(at, click) {
            out.extend(self.cut(partition, at, None, false));
            // it begins here, so that it has room for this one
            let _taken = self.parts[partition as usize].push(at, click);
        }
    }

    fn cut_all(&mut self, to: u64, mark: Option<UtcMicros>, ended: bool, out: &mut Vec<Piece>) {
        for partition in 0..self.parts.len() as u32 {
            out.extend(self.cut(partition, to, mark, ended));
        }
    }

    fn cut(&mut self, partition: u32, to: u64, mark: Option<UtcMicros>, ended: bool) -> Option<Piece> {
        let part = &mut self.parts[partition as usize];
        let from = part.from();
        // an end is said again and again; all else is said once
        if from > to || (from == to && !ended) || self.only.is_some_and(|only| only != partition) {
            return None;
        }
        let cover = Cover { journal: self.journal, from, to, mark, ended, lost: None };
        let bytes = std::mem::replace(part, BatchWriter::new(to)).finish(cover);
        Some(Piece { partition, cover, bytes })
    }
}

/// The partition of a click; of bytes that are no click: any, as long as it is always the same.
fn partition_for(click: &[u8], partitions: u32) -> u32 {
    let id = wire::decode_head(click).map_or_else(|_| ClickId::from_edge("", click, ""), |head| head.click_id);
    partition_of(id, partitions)
}

#[cfg(test)]
mod tests;
