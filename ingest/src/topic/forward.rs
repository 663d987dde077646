//! One journal's way into the topic.
//!
//! Where it begins follows from what the lake is known to hold; nothing else is kept. What is read goes, cut into batches,
//! into the lanes of the partitions, as far as there is room in them; a lane keeps a batch until it is acknowledged. At the
//! journal's end each partition is told so, again and again until the lake has heard it: nothing comes behind it that would
//! show its loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schemas::UtcMicros;
use schemas::batch::Cover;
use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::{Backoff, chance};
use super::cut::{Cutter, Piece};
use super::error::TopicError;
use super::lanes::Lanes;
use super::rows::Rows;
use super::whole::STORE_WITHIN;
use crate::journal::{Journal, JournalPartition};
use crate::ports::{Coverage, Covered, Generation, PortError};
use crate::stream::{Body, Partition as _, Record, StreamError};

/// What is read at once: a good many batches, and little beside the room of the lanes.
const READ_BYTES: usize = 512 << 10;
/// How often the end is said until the lake has it.
const END_EVERY: Duration = Duration::from_secs(15);
/// How often it is said that a journal can't be sent on.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// One journal, and where it goes.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) journal: Journal,
    pub(super) lanes: Lanes,
    pub(super) coverage: Arc<dyn Coverage>,
    pub(super) generation: Arc<Generation>,
}

/// One journal's task.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) way: Way,
    /// What the lake holds, as last heard.
    pub(super) rows: watch::Receiver<Arc<Rows>>,
    /// Set once all of the journal, with its end, has been handed to the lanes.
    pub(super) is_sent: Arc<AtomicBool>,
}

impl Forward {
    /// Sends the journal from what the lake holds of it on, until its end is in the lake.
    pub(super) async fn run(mut self) {
        let starts = self.way.enter().await;
        let mut cutter = Cutter::new(self.way.journal.id(), &positions(&starts));
        self.way.send(&mut cutter, u64::MAX).await;
        let end = cutter.next();
        self.say_the_end(&mut cutter, end).await;
    }

    /// Tells each partition that the journal ends at `end`, until the lake has heard it.
    async fn say_the_end(&mut self, cutter: &mut Cutter, end: u64) {
        let id = self.way.journal.id();
        loop {
            let mut out = Vec::new();
            cutter.finish(end, true, &mut out);
            self.way.lanes.send_all(out).await;
            self.is_sent.store(true, Ordering::Release);
            let again_at = Instant::now() + END_EVERY;
            let heard = self.rows.wait_for(|rows| rows.has_ended(id));
            match tokio::time::timeout_at(again_at, heard).await {
                Ok(_) => return,
                Err(_) => tracing::debug!(journal = %id, end, "its end isn't in the lake yet: saying it again"),
            }
        }
    }
}

impl Way {
    /// Sends once more what a partition lacks of the journal: from what `row` says up to before `to`.
    pub(super) async fn again(self, row: Covered, to: u64) {
        let (id, partition, from) = (self.journal.id(), row.partition, row.covered);
        tracing::warn!(journal = %id, partition, from, to, "sending again what the topic lacks");
        let mut cutter = Cutter::only(id, self.generation.partitions as usize, partition, from);
        self.send(&mut cutter, to).await;
        let mut out: Vec<Piece> = Vec::new();
        cutter.finish(cutter.next(), false, &mut out);
        self.lanes.send_all(out).await;
    }

    /// Sends the journal up to before `to`, or to its end.
    async fn send(&self, cutter: &mut Cutter, to: u64) {
        let id = self.journal.id();
        let mut partition = JournalPartition::new(&self.journal);
        let (mut backoff, mut said) = (Backoff::default(), None::<Instant>);
        while cutter.next() < to {
            match self.step(&mut partition, cutter, to).await {
                Ok(true) => backoff.over(),
                Ok(false) => return,
                Err(failure) => {
                    if said.is_none_or(|said| said.elapsed() >= SAID_EVERY) {
                        said = Some(Instant::now());
                        tracing::error!(journal = %id, %failure, "can't be sent on");
                    }
                    tokio::time::sleep(backoff.pause(chance())).await;
                }
            }
        }
    }

    /// Reads and sends some of it. `false` at its end.
    async fn step(&self, partition: &mut JournalPartition, cutter: &mut Cutter, to: u64) -> Result<bool, StreamError> {
        let mut out = Vec::new();
        match partition.read(cutter.next(), READ_BYTES).await {
            Ok(records) if records.is_empty() => return Ok(!partition.is_sealed()),
            Ok(mut records) => {
                records.retain(|record| record.offset < to);
                cut(cutter, &records, &mut out);
            }
            Err(StreamError::Gap { begin, .. }) => {
                // trimmed behind what the lake holds by now, as a rule; what it lacks all the same is gone
                let rows = self.enter().await;
                cutter.advance(&positions(&rows));
                let until = first_time(partition, begin).await?;
                let since: Vec<UtcMicros> = rows.iter().map(|row| row.through).collect();
                cutter.skip(begin, &since, until, &mut out);
                for Cover { journal, from, to, .. } in out.iter().map(|piece| piece.cover) {
                    tracing::error!(%journal, from, to, "frames that the lake lacks are gone");
                }
            }
            Err(failure) => return Err(failure),
        }
        self.lanes.send_all(out).await;
        Ok(true)
    }

    /// Has the journal go through the generation, as soon as the link store can be asked. Tells what the lake holds of it.
    async fn enter(&self) -> Vec<Covered> {
        let mut backoff = Backoff::default();
        loop {
            match within(self.coverage.enter(self.journal.id(), &self.generation)).await {
                Ok(rows) => return rows,
                Err(error) => {
                    let pause = backoff.pause(chance());
                    tracing::warn!(journal = %self.journal.id(), %error, ?pause, "can't go into the topic yet");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

fn positions(rows: &[Covered]) -> Vec<u64> {
    rows.iter().map(|row| row.covered).collect()
}

/// What the link store answers, in time.
pub(super) async fn within<T>(work: impl Future<Output = Result<T, PortError>>) -> Result<T, TopicError> {
    match tokio::time::timeout(STORE_WITHIN, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(TopicError::Deadline {
            doing: "asking what the lake holds",
            address: "the link store".to_owned(),
            limit: STORE_WITHIN,
        }),
    }
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
