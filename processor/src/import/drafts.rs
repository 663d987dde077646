//! Chunks of a file that isn't known to be sound yet: their rows become data files, and land once it is.
//!
//! ```text
//! read to its end ═════════════════════════════════════╗ sound
//! chunk ─► all of its lines are new rows? ─► data files ╨─► one commit for all
//!                    └ no, or there are many: the file is unpacked once more, with all checks ─► what is drafted lands,
//!                                                                                               then chunk by chunk
//! ```
//! What is packed may show its damage at its very end, and unpacking a file twice is much of what it costs to take it in.
//! Of chunks that are drafted only what a decision and a commit look at is kept, so memory stays within that of a few.
//! What was drafted is decided on again when it lands: if a line isn't new any more, the import begins anew, with no
//! drafts. Data files that don't land are part of no table, and cleaned up as any others.

use arrow::array::RecordBatch;
use ingest::edge::ReadLimits;
use schemas::UtcMicros;
use tokio::task::JoinHandle;

use super::error::Failure;
use super::identity::{self, Reader};
use super::land::Lander;
use super::pipeline::Chunk;
use crate::settle::desk::Draft;
use crate::settle::sampled::links_of;
use crate::settle::{Fate, SettleError};

/// A file of more raw bytes is looked through before anything of it is drafted.
pub(super) const MOST_BYTES: u64 = 48 << 20;
/// Chunks drafted at once.
const MOST_CHUNKS: i64 = 8;
/// Rejected lines of a chunk that is drafted.
const MOST_REJECTS: usize = 1_000;
/// The columns that are looked at when rows land that are written already.
const KEPT: [&str; 5] = ["workspace", "link_id", "source", "class", "import_id"];

/// Whether a file is sound: to be known before anything of it lands.
#[derive(Debug)]
pub(super) enum Check {
    /// Nobody has looked.
    Due(Reader, ReadLimits),
    /// It is being unpacked for that.
    Running(JoinHandle<Result<(), ingest::edge::ReadError>>),
    /// It is.
    Passed,
}

impl Check {
    /// Begins to look, if that hasn't been done.
    pub(super) fn start(self) -> Self {
        match self {
            Self::Due(whole, limits) => {
                Self::Running(tokio::task::spawn_blocking(move || identity::check(whole, limits)))
            }
            other => other,
        }
    }

    /// Looks, and fails if it isn't.
    pub(super) async fn passed(&mut self) -> Result<(), Failure> {
        if let Self::Running(running) = std::mem::replace(self, Self::Passed).start() {
            running.await.map_err(|e| Failure::BrokeOff(e.to_string()))??;
        }
        Ok(())
    }
}

/// Chunks that are written and haven't landed.
#[derive(Debug, Default)]
pub(super) struct Drafts(Option<Chunk>);

impl Lander<'_> {
    /// Takes the next chunk: drafts it, or lands it and all that was drafted before.
    pub(super) async fn take(&mut self, mut chunk: Chunk) -> Result<(), Failure> {
        if chunk.ending.is_some() {
            // the reader has seen the whole file, with the same checks
            self.check = Check::Passed;
        }
        if let Some(Drafts(before)) = self.drafts.take() {
            let has_room = chunk.number < MOST_CHUNKS && chunk.rejects.len() < MOST_REJECTS;
            let is_whole = before.is_none() && chunk.ending.is_some();
            let drafted = !is_whole && has_room && self.draft(&mut chunk).await?;
            match (before, drafted) {
                (None, true) => return self.keep(chunk).await,
                (Some(before), true) => return self.keep(before.with(chunk)).await,
                (Some(before), false) => {
                    self.check.passed().await?;
                    self.land(before).await?;
                }
                (None, false) => {}
            }
        }
        self.check.passed().await?;
        self.land(chunk).await
    }

    /// Keeps what is drafted until the file is known to be sound.
    async fn keep(&mut self, drafted: Chunk) -> Result<(), Failure> {
        if matches!(self.check, Check::Passed) {
            return self.land(drafted).await;
        }
        self.drafts = Some(Drafts(Some(drafted)));
        Ok(())
    }

    /// Writes a chunk's rows and keeps only what is needed of them; unless one of its lines is no new row.
    async fn draft(&mut self, chunk: &mut Chunk) -> Result<bool, Failure> {
        // what a line weighs that may be sampled is known when it lands
        if links_of(&chunk.rows).iter().any(Option::is_some) {
            return Ok(false);
        }
        let complete_through = self.settler.desk.look(UtcMicros::now()).await?;
        self.settler.arrivals.refresh().await.map_err(SettleError::from)?;
        let mut decision = self.settler.desk.decide(&chunk.rows, &chunk.arrivals, complete_through).await?;
        self.settler.hold_chunk(&self.origin.brought, &chunk.rows, &chunk.arrivals, &mut decision).await?;
        if decision.fates.iter().any(|fate| *fate != Fate::Add) {
            return Ok(false);
        }
        chunk.draft = Some(self.settler.desk.draft(&chunk.rows, &decision).await?);
        for rows in &mut chunk.rows {
            *rows = thin(rows)?;
        }
        Ok(true)
    }
}

/// Rows with the columns that are kept of them.
fn thin(rows: &RecordBatch) -> Result<RecordBatch, Failure> {
    let columns: Result<Vec<usize>, _> = KEPT.iter().map(|name| rows.schema_ref().index_of(name)).collect();
    columns.and_then(|columns| rows.project(&columns)).map_err(|e| Failure::BrokeOff(e.to_string()))
}

impl Chunk {
    /// This drafted one and the next as one.
    fn with(mut self, next: Self) -> Self {
        let Self { first: _, number, rows, arrivals, unasked, tally, rejects, ignored, raw_bytes, ending, draft } =
            next;
        self.number = number;
        self.rows.extend(rows);
        self.arrivals.extend(arrivals);
        self.unasked.extend(unasked);
        self.tally.merge(&tally);
        self.rejects.extend(rejects);
        self.ignored.extend(ignored);
        self.raw_bytes = raw_bytes;
        self.ending = ending;
        self.draft = self.draft.into_iter().chain(draft).reduce(Draft::with);
        self
    }
}
