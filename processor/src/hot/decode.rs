//! From a record's bytes to a row.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use bytes::Bytes;
use ingest::stream::{Body, Record};
use schemas::batch::Cover;
use schemas::click::ClickRow;
use schemas::wire::{self, WireError};
use schemas::{Analytics, Class, ClickBuilder, ClickEvent, ClickId, ClickRows, JournalId, LinkId, Source, UtcMicros};

use super::shed::{ByHead, Shed, Shedder};

/// Of a record that can't be read, this many bytes are kept.
const KEPT_BYTES: usize = 4_096;
/// The usual length of a click's record.
const USUAL_BYTES: usize = 400;
/// What a row takes in memory beyond its record's bytes, about.
const ROW_BYTES: usize = 700;
/// What the columns of a batch take, however few rows they have, about.
const COLUMNS_BYTES: usize = 16 << 10;
/// What a click that was sampled away takes, about.
const SHED_BYTES: usize = 2 * size_of::<Shed>();

/// Makes rows of events. Shared by all partitions; must not block.
pub trait Enrich: Send + Sync + std::fmt::Debug {
    /// Gives the row of `event`, made at `now`, to `then`; of weight 1.
    fn row(&self, event: &ClickEvent<'_>, now: UtcMicros, then: &mut dyn FnMut(&ClickRow<'_>));

    /// The class of an event without purpose headers, by the hash of its agent, and by its address, which is asked for if it
    /// matters; `None` when that isn't known.
    fn class_of(&self, agent_hash: u64, is_head: bool, address: &dyn Fn() -> Option<IpAddr>) -> Option<Class>;
}

impl Enrich for crate::enrich::Enricher {
    fn row(&self, event: &ClickEvent<'_>, now: UtcMicros, then: &mut dyn FnMut(&ClickRow<'_>)) {
        self.event_row(event, now, then);
    }

    fn class_of(&self, agent_hash: u64, is_head: bool, address: &dyn Fn() -> Option<IpAddr>) -> Option<Class> {
        Self::class_of(self, agent_hash, is_head, address)
    }
}

/// A click as read from a partition: what it is judged by. The rest of it stands in its batch's rows.
#[derive(Debug)]
pub(crate) struct Clicked {
    pub(crate) journal: JournalId,
    pub(crate) provider: Arc<str>,
    /// Whether it may be sampled.
    pub(crate) is_internal: bool,
    /// The rate at which its partition keeps clicks of its link and second.
    pub(crate) rate: f64,
    pub(crate) click_id: ClickId,
    pub(crate) event_time: UtcMicros,
    pub(crate) link_id: Option<LinkId>,
    pub(crate) source: Source,
    pub(crate) class: Class,
    pub(crate) visitor: Option<i64>,
}

impl Clicked {
    /// The one that this row is of.
    fn of_row(row: &ClickRow<'_>, journal: JournalId, provider: Arc<str>, is_internal: bool, rate: f64) -> Self {
        Self {
            journal,
            provider,
            is_internal,
            rate,
            click_id: row.click_id,
            event_time: row.event_time,
            link_id: row.link_id,
            source: row.source,
            class: row.verdict.class,
            visitor: row.visitor,
        }
    }
}

/// A record, or a part of one, that is no event.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// Of the record in its partition.
    pub(super) offset: u64,
    /// Of the event in its journal.
    pub(super) number: u64,
    pub(super) journal: JournalId,
    pub(super) reason: &'static str,
    pub(super) bytes: Bytes,
}

/// Records of one partition, all that there are from `from` up to before `to`.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) clicks: Vec<Clicked>,
    /// The rows of these clicks, in their order, each of weight 1.
    pub(super) rows: Vec<RecordBatch>,
    /// Clicks that were sampled away.
    pub(super) shed: Vec<Shed>,
    /// The least time of all clicks.
    pub(super) oldest: Option<UtcMicros>,
    pub(super) refused: Vec<Refused>,
    /// The last mark of each journal.
    pub(super) marks: Vec<(JournalId, UtcMicros)>,
    /// What the batches of a topic cover, each with its offset.
    pub(super) covers: Vec<(u64, Cover)>,
    pub(super) bytes: usize,
    pub(super) read_at: Instant,
}

impl Batch {
    /// Of the records before `to`, and of nothing yet.
    pub(super) fn new(from: u64, to: u64, records: &[Record], read_at: Instant) -> Self {
        Self {
            from,
            to,
            clicks: Vec::new(),
            rows: Vec::new(),
            shed: Vec::new(),
            oldest: None,
            refused: Vec::new(),
            marks: Vec::new(),
            covers: Vec::new(),
            bytes: weigh(records),
            read_at,
        }
    }

    /// Whether it holds more than marks.
    pub(super) fn has_rows(&self) -> bool {
        !self.clicks.is_empty() || !self.shed.is_empty() || !self.refused.is_empty() || self.lost().next().is_some()
    }

    /// Takes in what was made of other records of the same stretch, behind what there is.
    pub(super) fn append(&mut self, more: Self) {
        let before = self.clicks.len() as u32;
        self.shed.extend(more.shed.into_iter().map(|shed| Shed { before: before + shed.before, ..shed }));
        self.clicks.extend(more.clicks);
        self.rows.extend(more.rows);
        self.oldest = [self.oldest, more.oldest].into_iter().flatten().min();
        self.refused.extend(more.refused);
        self.covers.extend(more.covers);
        for (journal, time) in more.marks {
            note_mark(&mut self.marks, journal, time);
        }
    }

    /// The texts of a click's link: workspace, domain, code.
    ///
    /// # Errors
    /// When there is no such row: a fault of this program.
    pub(super) fn link(&self, click: u32) -> Result<[&str; 3], ArrowError> {
        let mut row = click as usize;
        for part in &self.rows {
            match row.checked_sub(part.num_rows()) {
                Some(beyond) => row = beyond,
                None => return ClickRows::of(part)?.link(row),
            }
        }
        Err(ArrowError::InvalidArgumentError(format!("there is no row of click {click} of a batch")))
    }

    /// How many events it holds.
    pub(super) fn events(&self) -> usize {
        self.clicks.len() + self.refused.len()
    }

    /// What is lost, each with its offset.
    pub(super) fn lost(&self) -> impl Iterator<Item = &(u64, Cover)> {
        self.covers.iter().filter(|(_, cover)| cover.lost.is_some())
    }

    /// Whether a journal ends in it.
    pub(super) fn has_end(&self) -> bool {
        self.covers.iter().any(|(_, cover)| cover.ended)
    }
}

/// What `records` will take in memory, about.
pub(super) fn weigh(records: &[Record]) -> usize {
    let each: usize = records
        .iter()
        .map(|record| match &record.body {
            Body::Click(bytes) => bytes.len() + ROW_BYTES,
            Body::Mark(_) => 32,
            // a row takes about three times its event's bytes
            Body::Batch(_, bytes) => 128 + 4 * bytes.len(),
            Body::Unreadable(_, bytes) => 128 + bytes.len().min(KEPT_BYTES),
        })
        .sum();
    each + columns(records)
}

/// What the columns of their rows take, if they make any.
fn columns(records: &[Record]) -> usize {
    let has_rows = records.iter().any(|record| matches!(record.body, Body::Click(_) | Body::Batch(..)));
    if has_rows { COLUMNS_BYTES } else { 0 }
}

/// How many clicks there are in `records`, about.
fn room(records: &[Record]) -> usize {
    let clicks = |record: &Record| match &record.body {
        Body::Click(_) => 1,
        Body::Batch(_, bytes) => bytes.len() / USUAL_BYTES,
        Body::Mark(_) | Body::Unreadable(..) => 0,
    };
    records.iter().map(clicks).sum()
}

/// What a click of a record counts in what [`weigh`] says of it.
fn weight_of(body: &Body, click: &[u8]) -> usize {
    if matches!(body, Body::Batch(..)) { 4 * click.len() } else { click.len() + ROW_BYTES }
}

/// The first position behind `records`, which were read from `from` on.
pub(super) fn behind(from: u64, records: &[Record]) -> u64 {
    records.last().map_or(from, |record| record.offset + 1)
}

/// Decodes and enriches `records`, which are all that there are from `from` up to the last of them; clicks that `shedder`
/// samples away are neither.
///
/// # Errors
/// When the rows don't fit their own columns: a fault of this program, or texts of gigabytes.
pub(super) fn decode(
    from: u64,
    records: &[Record],
    enrich: &dyn Enrich,
    shedder: &mut Shedder,
    (now, read_at): (UtcMicros, Instant),
) -> Result<Batch, ArrowError> {
    let mut batch = Batch::new(from, behind(from, records), records, read_at);
    let is_judging = shedder.begin(records);
    // of those that are judged few may be left
    let room = if is_judging { 0 } else { room(records) };
    batch.clicks.reserve(room);
    let rows = ClickBuilder::with_capacity(room);
    let mut decoder = Decoder { enrich, now, last_provider: Arc::from(""), shedder, is_judging, rows };
    let mut last: Option<(JournalId, &[u8])> = None;
    for record in records {
        let before = last;
        match &record.body {
            Body::Mark(time) => note_mark(&mut batch.marks, record.journal, *time),
            Body::Click(bytes) => {
                decoder.take(&mut batch, record, record.offset, bytes);
                last = Some((record.journal, bytes));
            }
            Body::Unreadable(reason, bytes) => batch.refused.push(refuse(record, record.offset, reason, bytes)),
            Body::Batch(cover, bytes) => {
                batch.covers.push((record.offset, *cover));
                for (number, click) in clicks_of(bytes) {
                    decoder.take(&mut batch, record, number, &bytes.slice_ref(click));
                    last = Some((record.journal, click));
                }
            }
        }
        // of a journal the last of many
        if let Some((journal, click)) = before.filter(|(journal, _)| last.is_none_or(|(last, _)| last != *journal)) {
            decoder.shedder.ended(journal, click);
        }
    }
    if let Some((journal, click)) = last {
        decoder.shedder.ended(journal, click);
    }
    if batch.clicks.is_empty() {
        batch.bytes = batch.bytes.saturating_sub(columns(records));
    } else {
        batch.rows.push(decoder.rows.into_batch()?);
    }
    let times = batch.clicks.iter().map(|one| one.event_time);
    batch.oldest = times.chain(batch.shed.iter().map(|shed| shed.event_time)).min();
    Ok(batch)
}

/// The clicks of a batch's bytes, which its partition has found to be whole.
pub(super) fn clicks_of(bytes: &Bytes) -> impl Iterator<Item = (u64, &[u8])> {
    schemas::batch::decode(bytes).ok().into_iter().flat_map(|batch| batch.clicks())
}

/// The same records with each event in one of its own, for a decoding that panics: nothing but what makes it panic is to be
/// refused.
pub(super) fn apart(records: &[Record]) -> Vec<Record> {
    let mut apart = Vec::new();
    for record in records {
        let Body::Batch(cover, bytes) = &record.body else {
            apart.push(record.clone());
            continue;
        };
        let of = |body| Record { body, ..record.clone() };
        apart.extend(clicks_of(bytes).map(|(_, click)| of(Body::Click(bytes.slice_ref(click)))));
        apart.push(of(Body::Batch(*cover, Bytes::new())));
    }
    apart
}

struct Decoder<'a> {
    enrich: &'a dyn Enrich,
    now: UtcMicros,
    last_provider: Arc<str>,
    shedder: &'a mut Shedder,
    /// Whether clicks are judged by their heads.
    is_judging: bool,
    rows: ClickBuilder,
}

impl Decoder<'_> {
    /// Takes one event of `record` into `batch`.
    fn take(&mut self, batch: &mut Batch, record: &Record, number: u64, bytes: &Bytes) {
        let mut rate = 1.0;
        if self.is_judging {
            let by = (self.enrich, self.now);
            match self.shedder.judge(record.journal, bytes, batch.clicks.len(), by) {
                Ok(ByHead::Kept(at)) => rate = at,
                Ok(ByHead::Shed(shed)) => {
                    batch.bytes = batch.bytes.saturating_sub(weight_of(&record.body, bytes)) + SHED_BYTES;
                    batch.shed.push(shed);
                    return;
                }
                Err(error) => return batch.refused.push(refuse(record, number, reason(error), bytes)),
            }
        }
        match wire::decode(bytes) {
            Ok(event) => {
                if *self.last_provider != *event.provider {
                    self.last_provider = event.provider.into();
                }
                let (provider, clicks) = (&self.last_provider, &mut batch.clicks);
                let is_internal = event.analytics == Analytics::Internal;
                self.enrich.row(&event, self.now, &mut |row| {
                    self.rows.push_row(row);
                    let provider = Arc::clone(provider);
                    clicks.push(Clicked::of_row(row, record.journal, provider, is_internal, rate));
                });
            }
            Err(error) => batch.refused.push(refuse(record, number, reason(error), bytes)),
        }
    }
}

/// What can't be read of a record.
pub(super) fn refuse(record: &Record, number: u64, reason: &'static str, bytes: &Bytes) -> Refused {
    let bytes = bytes.slice(..bytes.len().min(KEPT_BYTES));
    Refused { offset: record.offset, number, journal: record.journal, reason, bytes }
}

/// A record as one that can't be read.
pub(super) fn refuse_whole(record: &Record, reason: &'static str) -> Refused {
    let none = Bytes::new();
    let bytes = match &record.body {
        Body::Click(bytes) | Body::Batch(_, bytes) | Body::Unreadable(_, bytes) => bytes,
        Body::Mark(_) => &none,
    };
    refuse(record, record.offset, reason, bytes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::{Plain, click, event, event_of};
    use crate::sample::Cap;
    use schemas::Click;
    use schemas::sampling::is_kept;

    /// The byte budget bounds memory only if rows are no heavier than it takes them for, be they many or alone.
    #[test]
    fn rows_take_no_more_memory_than_they_are_weighed_at() {
        let click = Click {
            link_id: Some(LinkId::new()),
            user_agent: Some("x".repeat(150).into()),
            destination: Some("y".repeat(80).into()),
            referrer: Some("example.com".into()),
            client_net: Some("203.0.113.0/24".into()),
            ..click(1, 1)
        };
        for rows in [1, 20, 2_500] {
            let mut builder = ClickBuilder::with_capacity(rows);
            (0..rows).for_each(|_| builder.push(&click));
            let held = builder.into_batch().unwrap().get_array_memory_size() + rows * size_of::<Clicked>();
            let weighed = COLUMNS_BYTES + rows * (250 + ROW_BYTES);
            assert!(held <= weighed, "{rows} rows: {held} bytes, weighed at {weighed}");
        }
    }

    /// Under a backlog that is sampled most batches hold no row, and others wait for their room.
    #[test]
    fn what_is_sampled_away_gives_its_room_back_and_that_of_the_columns_when_no_row_is_left() {
        let (cap, link) = (Arc::new(Cap::default()), LinkId::new());
        cap.set(Some(1));
        // their rate will be one in so many
        let ids = (0..).filter(|id| !is_kept(ClickId::from(*id), 1.0 / 40.0)).take(40);
        let internal = ids.map(|id| event_of(id, 1, link, Analytics::Internal));
        let one = event(1, 1);
        for (kept, weight) in [(None, 0), (Some(one.clone()), COLUMNS_BYTES + one.len() + ROW_BYTES)] {
            let bodies = internal.clone().chain(kept).map(Body::Click);
            let record = |(offset, body)| Record { offset, journal: JournalId::default(), body };
            let records: Vec<Record> = (0..).zip(bodies).map(record).collect();
            let at = (UtcMicros(2), Instant::now());
            let batch = decode(0, &records, &Plain, &mut Shedder::new(Arc::clone(&cap)), at).unwrap();
            assert_eq!((batch.shed.len(), batch.clicks.len()), (40, records.len() - 40));
            assert_eq!(batch.rows.is_empty(), batch.clicks.is_empty());
            assert_eq!(batch.bytes, weight + 40 * SHED_BYTES);
        }
    }
}
