//! One journal's way into the topic.
//!
//! Where it begins follows from what the lake is known to hold; nothing else is kept. What is read goes, cut into batches,
//! into the lanes of the partitions, as far as there is room in them; a lane keeps a batch until it is acknowledged. At the
//! journal's end each partition is told so, again and again until the lake has heard it: nothing comes behind it that would
//! show its loss.

use std::sync::Arc;
use std::time::Duration;

use schemas::UtcMicros;
use schemas::batch::Cover;
use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::{Backoff, chance};
use super::cut::{Cutter, Piece};
use super::lanes::Lanes;
use super::rows::Rows;
use crate::journal::{Journal, JournalPartition};
use crate::ports::Covered;
use crate::stream::{Body, Partition as _, Record, StreamError};

/// What is read at once: a good many batches, and little beside the room of the lanes.
const READ_BYTES: usize = 512 << 10;
/// How often the end is said until the lake has it.
const END_EVERY: Duration = Duration::from_secs(15);

/// One journal.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) journal: Journal,
    pub(super) lanes: Lanes,
    /// What the lake holds, as last heard.
    pub(super) rows: watch::Receiver<Arc<Rows>>,
}

impl Forward {
    /// Sends the journal from where `starts` say, until its end is in the lake.
    pub(super) async fn run(mut self, starts: Vec<Covered>) {
        let id = self.journal.id();
        let positions: Vec<u64> = starts.iter().map(|row| row.covered).collect();
        let mut cutter = Cutter::new(id, &positions);
        let mut partition = JournalPartition::new(&self.journal);
        let mut backoff = Backoff::default();
        loop {
            match self.step(&mut partition, &mut cutter, &starts).await {
                Ok(true) => backoff.over(),
                Ok(false) => break,
                Err(failure) => {
                    let pause = backoff.pause(chance());
                    tracing::warn!(journal = %id, %failure, ?pause, "can't be read on");
                    tokio::time::sleep(pause).await;
                }
            }
        }
        let end = cutter.next();
        self.say_the_end(&mut cutter, end).await;
    }

    /// Reads and sends some of it. `false` at its end.
    async fn step(
        &mut self,
        partition: &mut JournalPartition,
        cutter: &mut Cutter,
        starts: &[Covered],
    ) -> Result<bool, StreamError> {
        let mut out = Vec::new();
        match partition.read(cutter.next(), READ_BYTES).await {
            Ok(records) if records.is_empty() => return Ok(!partition.is_sealed()),
            Ok(records) => cut(cutter, &records, &mut out),
            Err(StreamError::Gap { begin, wanted, .. }) => {
                let until = first_time(partition, begin).await?;
                let since: Vec<UtcMicros> = starts.iter().map(|row| row.through).collect();
                tracing::error!(journal = %self.journal.id(), from = wanted, to = begin, "frames that the lake lacks are gone");
                cutter.skip(begin, &since, until, &mut out);
            }
            Err(failure) => return Err(failure),
        }
        self.lanes.send_all(out).await;
        Ok(true)
    }

    /// Tells each partition that the journal ends at `end`, until the lake has heard it.
    async fn say_the_end(&mut self, cutter: &mut Cutter, end: u64) {
        loop {
            let mut out = Vec::new();
            cutter.finish(end, true, &mut out);
            self.lanes.send_all(out).await;
            let again_at = Instant::now() + END_EVERY;
            let id = self.journal.id();
            let heard = self.rows.wait_for(|rows| rows.has_ended(id));
            match tokio::time::timeout_at(again_at, heard).await {
                Ok(_) => return,
                Err(_) => tracing::debug!(journal = %id, end, "its end isn't in the lake yet: saying it again"),
            }
        }
    }
}

/// Sends once more what a partition lacks of a journal.
pub(super) async fn again(journal: &Journal, lanes: &Lanes, row: Covered, partitions: usize, to: u64) {
    let (id, number) = (journal.id(), row.partition);
    tracing::warn!(journal = %id, partition = number, from = row.covered, to, "sending again what the topic lacks");
    let mut cutter = Cutter::only(id, partitions, number, row.covered);
    let mut partition = JournalPartition::new(journal);
    while cutter.next() < to {
        let mut out = Vec::new();
        match partition.read(cutter.next(), READ_BYTES).await {
            Ok(records) if records.is_empty() => break,
            Ok(mut records) => {
                records.retain(|record| record.offset < to);
                cut(&mut cutter, &records, &mut out);
            }
            Err(StreamError::Gap { begin, .. }) => match first_time(&mut partition, begin).await {
                Ok(until) => cutter.skip(begin, &vec![row.through; partitions], until, &mut out),
                Err(failure) => return tracing::error!(journal = %id, %failure, "can't be read again"),
            },
            Err(failure) => return tracing::error!(journal = %id, %failure, "can't be read again"),
        }
        lanes.send_all(out).await;
    }
    let mut out: Vec<Piece> = Vec::new();
    cutter.finish(cutter.next().max(to), false, &mut out);
    lanes.send_all(out).await;
}

/// Cuts records; clicks that no mark stands behind go too, since nothing more may come for now.
fn cut(cutter: &mut Cutter, records: &[Record], out: &mut Vec<Piece>) {
    for record in records {
        cutter.take(record, out);
    }
    cutter.flush(out);
}

/// The time of the first frame that is left.
async fn first_time(partition: &mut JournalPartition, begin: u64) -> Result<UtcMicros, StreamError> {
    let records = partition.read(begin, 1).await?;
    let time = records.first().and_then(|record| match &record.body {
        Body::Mark(time) => Some(*time),
        Body::Click(bytes) => schemas::wire::decode_head(bytes).ok().map(|head| head.event_time),
        Body::Batch(Cover { mark, .. }, _) => *mark,
        Body::Unreadable(..) => None,
    });
    Ok(time.unwrap_or_else(UtcMicros::now))
}
