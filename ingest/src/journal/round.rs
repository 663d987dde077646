//! The sync round: what is written becomes durable, then visible, then a mark says so.

use std::io;
use std::sync::PoisonError;
use std::time::Instant;

use super::handle::{Journal, Progress};
use super::marks::{Backoff, MarkPolicy, Occasion};
use super::rehome::Copy;
use super::segment::Segment;
use super::writer::Writer;

/// What rounds remember of each other.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    marks: MarkPolicy,
    backoff: Backoff,
}

impl Journal {
    /// One sync round: what is written becomes durable and visible to readers, and a mark follows if one is due.
    ///
    /// # Errors
    /// When the disk fails; nothing becomes visible then, and the frames move to a new segment with the next rounds.
    pub fn sync(&self) -> io::Result<()> {
        self.round(Instant::now())
    }

    /// As [`Journal::sync`], at an instant that is passed in.
    pub(crate) fn round(&self, now: Instant) -> io::Result<()> {
        self.round_beside(now, false)
    }

    /// As [`Journal::round`]; `company`: whether another journal of the node has taken clicks.
    pub(crate) fn round_beside(&self, now: Instant, company: bool) -> io::Result<()> {
        let mut rounds = self.inner.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        if !rounds.backoff.is_due(now) {
            return Err(io::Error::other("the last sync failed, and it is too early to try again"));
        }
        self.writer().roll_if_old(self.inner.clock.now(), &self.inner.budget);
        let clicks_synced = match self.flush() {
            Ok(clicks_synced) => clicks_synced,
            Err(error) => {
                rounds.backoff.failed(now);
                let mut writer = self.writer();
                writer.sync_errors += 1;
                writer.sync_failing_since.get_or_insert(self.inner.clock.now());
                tracing::error!(%error, journal = %self.id(), "syncing the journal failed; its readers stand still");
                return Err(error);
            }
        };
        rounds.backoff.succeeded();
        let mut writer = self.writer();
        writer.sync_failing_since = None;
        let occasion = if clicks_synced { Occasion::Clicks } else { Occasion::silent(company) };
        if !writer.sealed && rounds.marks.is_due(now, occasion) {
            rounds.marks.made(now);
            if let Err(error) = writer.mark(self.inner.clock.now(), false, &self.inner.budget) {
                tracing::warn!(%error, journal = %self.id(), "the journal has no room for a mark");
            }
        }
        self.publish(&writer);
        Ok(())
    }

    /// Syncs what is written, outside the writer's lock. Returns whether clicks were among it.
    fn flush(&self) -> io::Result<bool> {
        let suspect = self.writer().suspect();
        if let Some(suspect) = suspect {
            let budget = &self.inner.budget;
            budget.with_reserve(|| {
                let copy = Copy::begin(&self.inner.place, &suspect)?;
                self.writer().take_over(&suspect, copy, budget)
            })?;
        }
        let (dirty, clicks) = {
            let writer = self.writer();
            (writer.dirty(), writer.clicks)
        };
        for dirty in dirty {
            match dirty.flush(&self.inner.place) {
                Ok(()) => self.writer().flushed(&dirty),
                Err(error) => {
                    let mut writer = self.writer();
                    writer.doubt(&dirty);
                    self.publish(&writer);
                    return Err(error);
                }
            }
        }
        let mut writer = self.writer();
        let fresh = clicks > writer.clicks_synced;
        writer.clicks_synced = clicks;
        Ok(fresh)
    }

    fn publish(&self, writer: &Writer) {
        let progress = Progress { synced: writer.synced, sealed: writer.sealed };
        self.inner.progress.send_if_modified(|seen| std::mem::replace(seen, progress) != progress);
    }

    /// Whether clicks were taken that no round has synced yet.
    pub(crate) fn has_fresh_clicks(&self) -> bool {
        let writer = self.writer();
        writer.clicks > writer.clicks_synced
    }

    /// Whether a sync round has something to do; `company` as for [`Journal::round_beside`].
    pub(crate) fn is_due(&self, now: Instant, company: bool) -> bool {
        let Ok(rounds) = self.inner.rounds.try_lock() else { return false };
        let writer = self.writer();
        let is_dirty = writer.segments.iter().any(Segment::is_dirty);
        is_dirty || (!writer.sealed && rounds.marks.is_due(now, Occasion::silent(company)))
    }
}
