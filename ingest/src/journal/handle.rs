//! A journal in use: the handle that a redirect worker appends to.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use schemas::{Analytics, JournalId, UtcMicros};
use tokio::sync::watch;

use super::budget::Budget;
use super::clock::Clock;
use super::lacking::Lacking;
use super::reader::Stretch;
use super::round::Rounds;
use super::segment::Place;
use super::stats::{BudgetStats, Damage, JournalStats};
use super::writer::{Appended, Writer};

/// A redirect worker's own durable log. Clones are the same journal.
///
/// The owner's lock is held until the last clone and the last [`super::JournalPartition`] of it are gone. Dropping
/// syncs nothing: [`Journal::sync`] or [`Journal::seal`] first.
#[derive(Clone, Debug)]
pub struct Journal {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) place: Place,
    pub(super) budget: Arc<Budget>,
    pub(super) clock: Clock,
    writer: Mutex<Writer>,
    /// One sync round at a time.
    pub(super) rounds: Mutex<Rounds>,
    pub(super) progress: watch::Sender<Progress>,
    _owned: File,
}

/// What readers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Readers see positions below this.
    pub(crate) synced: u64,
    /// Nothing will come after `end`.
    pub(crate) sealed: bool,
}

/// The journal as a reader at some position needs it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) damage: Option<Damage>,
    /// The segment that holds the position.
    pub(crate) stretch: Option<Stretch>,
}

impl Journal {
    pub(crate) fn new(writer: Writer, budget: Arc<Budget>, clock: Clock, owned: File) -> Self {
        let progress = watch::Sender::new(Progress { synced: writer.synced, sealed: writer.sealed });
        let inner = Inner {
            place: writer.place.clone(),
            budget,
            clock,
            writer: Mutex::new(writer),
            rounds: Mutex::default(),
            progress,
            _owned: owned,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Its identity.
    pub fn id(&self) -> JournalId {
        self.inner.place.id
    }

    /// Writes an event. `encode` is given the event's time and appends the event's bytes (`schemas::wire`).
    ///
    /// When this returns `Written` the bytes are with the kernel: killing this process doesn't lose them. A power
    /// cut may, until the next [`Journal::sync`]. `promise` decides what happens when the disk is nearly full.
    /// Never waits for a sync.
    pub fn append(&self, promise: Analytics, encode: impl FnOnce(UtcMicros, &mut Vec<u8>)) -> Appended {
        let mut writer = self.writer();
        // Read under the lock: the time of a later frame must not be earlier.
        let now = self.inner.clock.now();
        writer.append(promise, now, &self.inner.budget, encode)
    }

    /// Writes a last mark, syncs, and takes no more events. Readers that reach the end see that it is one. The count
    /// of losses is made durable first, whether there is room for the mark or not.
    ///
    /// # Errors
    /// When the last mark can't be written (try again) or not be synced ([`Journal::sync`] tries again).
    pub fn seal(&self) -> io::Result<()> {
        self.close_losses();
        {
            let mut writer = self.writer();
            if !writer.sealed {
                writer.mark(self.inner.clock.now(), true, &self.inner.budget)?;
                writer.sealed = true;
            }
        }
        self.sync()
    }

    /// Whether losses have been counted that aren't on the disk, and it is time to sync them.
    pub(crate) fn losses_due(&self, now: Instant) -> bool {
        self.writer().loss_file.as_ref().is_some_and(|file| file.is_due(now))
    }

    /// Brings the count of losses to the disk.
    pub(crate) fn sync_losses(&self, now: Instant) {
        let Some(sync) = self.writer().loss_file.as_mut().and_then(|file| file.begin_sync(now)) else { return };
        // outside the lock: appends go on meanwhile
        if let Err(error) = sync.sync() {
            tracing::error!(%error, journal = %self.id(), "the count of losses can't be synced");
            if let Some(file) = &mut self.writer().loss_file {
                file.sync_failed();
            }
        }
    }

    /// Nobody will append any more: the count of losses is final, and exact.
    fn close_losses(&self) {
        {
            let mut writer = self.writer();
            let lost = writer.lost;
            match &mut writer.loss_file {
                Some(file) if lost.count > 0 => file.write(&lost, true),
                _ => return,
            }
        }
        self.sync_losses(Instant::now());
    }

    /// Whether it takes no more events.
    pub fn is_sealed(&self) -> bool {
        self.writer().sealed
    }

    /// Deletes whole segments whose frames the lake holds: those below `committed`. Never the one that is written to.
    /// What can't be deleted is tried again with the next call.
    pub fn trim(&self, committed: u64) {
        let files = self.writer().trim(committed);
        if files.is_empty() {
            return;
        }
        let mut files = files.into_iter().peekable();
        // Oldest first and no further than the first failure: only at the front may a segment be missing.
        while let Some((path, bytes)) = files.peek() {
            match self.inner.place.disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "a trimmed segment can't be deleted yet");
                    break;
                }
                _ => self.inner.budget.give(*bytes),
            }
            files.next();
        }
        self.writer().doomed.extend(files);
        if let Err(error) = self.inner.place.disk.sync_directory(&self.inner.place.directory) {
            tracing::warn!(%error, journal = %self.id(), "syncing a trimmed journal's directory failed");
        }
    }

    /// How it stands.
    pub fn stats(&self) -> JournalStats {
        let writer = self.writer();
        JournalStats {
            id: self.id(),
            begin: writer.begin(),
            end: writer.end,
            synced: writer.synced,
            bytes: writer.bytes(),
            segments: writer.segments.len(),
            last_mark: writer.last_mark,
            last_event_time: writer.last_time,
            torn: writer.torn,
            dropped: writer.dropped,
            lost: writer.lost,
            sync_errors: writer.sync_errors,
            sync_failing_since: writer.sync_failing_since,
            sealed: writer.sealed,
            damage: writer.damage,
        }
    }

    /// The clicks of it that the lake lacks, whose first frame that it lacks is at `committed`.
    pub fn lacking(&self, committed: u64) -> Lacking {
        self.writer().written.beyond(committed)
    }

    /// How the disk budget stands that it shares with the node's other journals.
    pub fn budget(&self) -> BudgetStats {
        self.inner.budget.stats()
    }

    /// Where it lives.
    pub(crate) fn place(&self) -> &Place {
        &self.inner.place
    }

    /// What readers wait for.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.inner.progress.subscribe()
    }

    /// What a reader at `from` needs to know.
    pub(crate) fn view(&self, from: u64) -> View {
        let writer = self.writer();
        let after = writer.segments.partition_point(|segment| segment.first <= from);
        let stretch = after.checked_sub(1).map(|index| {
            let segment = &writer.segments[index];
            let next = writer.segments.get(after).map_or(u64::MAX, |next| next.first);
            Stretch {
                first: segment.first,
                generation: segment.generation,
                path: writer.place.path_of(segment.first),
                limit: next.min(writer.synced),
            }
        });
        View { begin: writer.begin(), end: writer.end, damage: writer.damage, stretch }
    }

    /// The writer, locked.
    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        // Only `encode` can panic under the lock, and nothing of it is written then.
        self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.budget.give(writer.bytes());
    }
}
