//! The journals of a node: one directory each, below one directory, sharing one disk budget.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemas::{JournalId, UtcMicros};
use tokio::sync::watch;

use super::budget::Budget;
use super::clock::Clock;
use super::disk::{Disk, RealDisk};
use super::error::JournalError;
use super::handle::Journal;
use super::home;
use super::lock::own;
use super::loss_file::LossFile;
use super::recover::recover;
use super::segment::{HEADER, Place};
use super::stats::Damage;
use super::sync_task::SyncTask;
use super::writer::{Limits, Writer};

/// A segment is this big at least, and a budget has room for that many.
const SMALLEST_SEGMENT: u64 = 64 << 10;
const SEGMENTS_IN_BUDGET: u64 = 16;
/// Addresses stay in a quiet journal's active segment no longer than this.
const SEGMENT_AGE: Duration = Duration::from_secs(3_600);

/// How journals are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Bytes that all journals of the node may take.
    pub max_bytes: u64,
    /// The part of it that is kept for billed clicks; a quarter at most.
    pub reserve: u64,
    /// How often written frames are synced: what a power cut may cost.
    pub sync: Duration,
    /// When a new segment begins; trimming deletes whole segments.
    pub segment_bytes: u64,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self { max_bytes: 10 << 30, reserve: 1 << 30, sync: Duration::from_millis(50), segment_bytes: 32 << 20 }
    }
}

/// The journals below one directory.
#[derive(Debug)]
pub struct Journals {
    directory: PathBuf,
    config: JournalConfig,
    disk: Arc<dyn Disk>,
    clock: Clock,
    budget: Arc<Budget>,
}

impl Journals {
    /// Opens the directory, made if it isn't there, and takes the reserve's disk space.
    ///
    /// # Errors
    /// When the directory can't be made or written to.
    pub fn open(directory: &Path, config: JournalConfig) -> Result<Self, JournalError> {
        Self::with_disk(directory, config, Arc::new(RealDisk), Clock::system())
    }

    /// As [`Journals::open`], on a disk and by a clock of one's own.
    pub(crate) fn with_disk(
        directory: &Path,
        config: JournalConfig,
        disk: Arc<dyn Disk>,
        clock: Clock,
    ) -> Result<Self, JournalError> {
        std::fs::create_dir_all(directory).map_err(JournalError::io("creating", directory))?;
        let budget = Budget::open(Arc::clone(&disk), directory, config.max_bytes, config.reserve);
        let budget = Arc::new(budget.map_err(JournalError::io("making the reserve in", directory))?);
        budget.tend(Instant::now());
        Ok(Self { directory: directory.to_owned(), config, disk, clock, budget })
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The journals that are there, oldest first. What isn't named like one is left alone.
    ///
    /// # Errors
    /// When the directory can't be listed.
    pub fn ids(&self) -> Result<Vec<JournalId>, JournalError> {
        let listing = |source| JournalError::io("listing", &self.directory)(source);
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(listing)? {
            let entry = entry.map_err(listing)?;
            let is_directory = entry.file_type().map_err(listing)?.is_dir();
            if let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()).filter(|_| is_directory) {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Opens a journal, or makes it: an id that has no directory, or an empty one, is a new journal. Register it
    /// first: `first_mark` is what the registry answered, and no event's time is before it. `committed` is the
    /// first position that the lake lacks, 0 for a new one.
    ///
    /// A torn tail is cut off and counted ([`super::JournalStats::torn`]); what is left is synced. A journal that
    /// ends before `committed`, or has lost frames that were synced, is damaged: it is opened sealed, since new
    /// events would get positions that the lake takes for known.
    ///
    /// # Errors
    /// `InUse` when it has an owner; `Misplaced` or `Newer` when its segments aren't its own or from a later
    /// release; `Io` when the disk fails.
    pub fn open_journal(&self, id: JournalId, first_mark: UtcMicros, committed: u64) -> Result<Journal, JournalError> {
        let directory = self.directory.join(id.to_string());
        std::fs::create_dir_all(&directory).map_err(JournalError::io("creating", &directory))?;
        let owned = own(&directory)?;
        self.disk.sync_directory(&self.directory).map_err(JournalError::io("syncing", &self.directory))?;
        let place = Place::new(Arc::clone(&self.disk), directory.clone(), id);
        if let Err(error) = self.budget.with_reserve(|| home::settle(&directory, id)) {
            tracing::warn!(%error, journal = %id, "no room to note where it lives: a copy would not be known for one");
        }
        let mut recovered = recover(&place)?;
        let end = recovered.segments.back().map_or(0, |last| last.end.position);
        if end < committed && recovered.damage.is_none() {
            tracing::error!(journal = %id, end, committed, "the journal ends before what the lake holds of it");
            recovered.damage = Some(Damage { position: end, synced: committed });
        }
        let kept = self.budget.with_reserve(|| LossFile::open(&place));
        let kept = kept.inspect_err(|error| {
            tracing::error!(%error, journal = %id, "no room to keep count of losses: a kill would forget them");
        });
        let limits = Limits { bytes: self.segment_bytes(), age: SEGMENT_AGE };
        let writer = Writer::new(place, limits, recovered, first_mark, kept.ok(), &self.budget)
            .map_err(JournalError::io("beginning a segment in", &directory))?;
        Ok(Journal::new(writer, Arc::clone(&self.budget), self.clock.clone(), owned))
    }

    /// Deletes a journal that is closed: sealed, and in the lake to its last frame. One that isn't there is fine.
    ///
    /// # Errors
    /// `InUse` while it is open; `Io` when the disk fails.
    pub fn remove(&self, id: JournalId) -> Result<(), JournalError> {
        let directory = self.directory.join(id.to_string());
        if !directory.exists() {
            return Ok(());
        }
        let _owned = own(&directory)?;
        std::fs::remove_dir_all(&directory).map_err(JournalError::io("removing", &directory))?;
        self.disk.sync_directory(&self.directory).map_err(JournalError::io("syncing", &self.directory))
    }

    /// The task that syncs `journals` on the configured interval and looks after the reserve. Those that join later are
    /// taken along.
    pub fn sync_task(&self, journals: watch::Receiver<Vec<Journal>>) -> SyncTask {
        SyncTask::new(journals, Arc::clone(&self.budget), self.config.sync)
    }

    /// The disk that they are on.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// The disk budget that they share.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Segments small enough that trimming frees room in a small budget.
    fn segment_bytes(&self) -> u64 {
        let fits = self.config.max_bytes / SEGMENTS_IN_BUDGET;
        self.config.segment_bytes.min(fits).max(SMALLEST_SEGMENT.min(self.config.segment_bytes)).max(HEADER + 1)
    }
}
