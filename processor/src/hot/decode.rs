//! From a record's bytes to a row.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ingest::stream::{Body, Record};
use schemas::wire::{self, WireError};
use schemas::{Click, ClickEvent, JournalId, UtcMicros};

/// Of a record that can't be read, this many bytes are kept.
const KEPT_BYTES: usize = 4_096;
/// What a row takes in memory beyond its record's bytes, about.
const ROW_BYTES: usize = 700;

/// Makes rows of events. Shared by all partitions; must not block.
pub trait Enrich: Send + Sync + std::fmt::Debug {
    /// The row of `event`, made at `now`.
    fn click(&self, event: &ClickEvent<'_>, now: UtcMicros) -> Click;
}

impl Enrich for crate::enrich::Enricher {
    fn click(&self, event: &ClickEvent<'_>, now: UtcMicros) -> Click {
        Self::click(self, event, now)
    }
}

/// A click as read from a partition.
#[derive(Debug)]
pub(crate) struct Clicked {
    pub(crate) journal: JournalId,
    pub(crate) provider: Arc<str>,
    pub(crate) click: Click,
}

/// A record that is no event.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) offset: u64,
    pub(super) journal: JournalId,
    pub(super) reason: &'static str,
    pub(super) bytes: Bytes,
}

/// Contiguous records of one partition, from `from` up to before `to`.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) clicks: Vec<Clicked>,
    pub(super) refused: Vec<Refused>,
    /// The last mark of each journal.
    pub(super) marks: Vec<(JournalId, UtcMicros)>,
    pub(super) bytes: usize,
    pub(super) read_at: Instant,
}

impl Batch {
    /// Whether it holds more than marks.
    pub(super) fn has_rows(&self) -> bool {
        !self.clicks.is_empty() || !self.refused.is_empty()
    }
}

/// What `records` will take in memory, about.
pub(super) fn weigh(records: &[Record]) -> usize {
    records
        .iter()
        .map(|record| match &record.body {
            Body::Click(bytes) => bytes.len() + ROW_BYTES,
            Body::Mark(_) => 32,
        })
        .sum()
}

/// Decodes and enriches `records`, which are contiguous from `from` on.
pub(super) fn decode(from: u64, records: &[Record], enrich: &dyn Enrich, now: UtcMicros, read_at: Instant) -> Batch {
    let mut batch = Batch {
        from,
        to: from + records.len() as u64,
        clicks: Vec::with_capacity(records.len()),
        refused: Vec::new(),
        marks: Vec::new(),
        bytes: weigh(records),
        read_at,
    };
    let mut last_provider: Arc<str> = Arc::from("");
    for record in records {
        let journal = record.journal;
        match &record.body {
            Body::Mark(time) => note_mark(&mut batch.marks, journal, *time),
            Body::Click(bytes) => match wire::decode(bytes) {
                Ok(event) => {
                    if *last_provider != *event.provider {
                        last_provider = event.provider.into();
                    }
                    let click = enrich.click(&event, now);
                    batch.clicks.push(Clicked { journal, provider: Arc::clone(&last_provider), click });
                }
                Err(error) => batch.refused.push(refuse(record, reason(error))),
            },
        }
    }
    batch
}

/// A record as one that can't be read.
pub(super) fn refuse(record: &Record, reason: &'static str) -> Refused {
    let bytes = match &record.body {
        Body::Click(bytes) => bytes.slice(..bytes.len().min(KEPT_BYTES)),
        Body::Mark(_) => Bytes::new(),
    };
    Refused { offset: record.offset, journal: record.journal, reason, bytes }
}

fn reason(error: WireError) -> &'static str {
    match error {
        WireError::NewerVersion(_) => "newer_version",
        WireError::Corrupt(_) => "corrupt",
        WireError::Missing(_) => "missing_field",
    }
}

/// Keeps the later of a journal's marks.
pub(super) fn note_mark(marks: &mut Vec<(JournalId, UtcMicros)>, journal: JournalId, time: UtcMicros) {
    match marks.iter_mut().find(|(known, _)| *known == journal) {
        Some((_, last)) => *last = time.max(*last),
        None => marks.push((journal, time)),
    }
}
