//! The journal as a whole, on a disk that can be filled, broken and unplugged.

mod copied;
mod disk;
mod faults;
mod life;
mod looking;
mod losses;
mod model;
mod reading;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use schemas::{Analytics, JournalId, UtcMicros};
use tempfile::TempDir;

use self::disk::SimDisk;
use super::clock::Clock;
use super::{Appended, Journal, JournalConfig, JournalError, Journals};
use crate::stream::{Body, Record};

/// Small segments, so that tests cross their borders.
const CONFIG: JournalConfig =
    JournalConfig { max_bytes: 64 << 20, reserve: 1 << 20, sync: Duration::from_millis(50), segment_bytes: 600 };
const FIRST_MARK: UtcMicros = UtcMicros(1_000);

/// A node's journals on a simulated disk, with a clock that is turned by hand.
struct Node {
    disk: SimDisk,
    clock: Arc<AtomicI64>,
    journals: Journals,
    id: JournalId,
    directory: TempDir,
}

impl Node {
    fn new() -> Self {
        Self::with(CONFIG)
    }

    fn with(config: JournalConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = SimDisk::new(directory.path());
        let clock = Arc::new(AtomicI64::new(1_000_000));
        let journals = Self::journals(&directory, config, &disk, &clock);
        Self { disk, clock, journals, id: JournalId::new(), directory }
    }

    fn journals(directory: &TempDir, config: JournalConfig, disk: &SimDisk, clock: &Arc<AtomicI64>) -> Journals {
        let clock = Arc::clone(clock);
        let clock = Clock::new(move || UtcMicros(clock.load(Ordering::Relaxed)));
        Journals::with_disk(&directory.path().join("journal"), config, Arc::new(disk.clone()), clock).unwrap()
    }

    fn open(&self) -> Journal {
        self.open_committed(0)
    }

    fn open_committed(&self, committed: u64) -> Journal {
        self.try_open(committed).unwrap()
    }

    fn try_open(&self, committed: u64) -> Result<Journal, JournalError> {
        self.journals.open_journal(self.id, FIRST_MARK, committed)
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("journal").join(self.id.to_string())
    }

    fn segments(&self) -> Vec<std::path::PathBuf> {
        super::segment::list(&self.path()).unwrap().into_iter().map(|(_, path)| path).collect()
    }
}

/// Appends an event whose bytes are its time and `text`.
fn append(journal: &Journal, promise: Analytics, text: &[u8]) -> Appended {
    journal.append(promise, |time, out| {
        out.extend_from_slice(&time.0.to_le_bytes());
        out.extend_from_slice(text);
    })
}

/// Appends a billed click, which must be written.
fn click(journal: &Journal, text: &[u8]) -> u64 {
    match append(journal, Analytics::Billed, text) {
        Appended::Written { offset } => offset,
        refused => panic!("not written: {refused:?}"),
    }
}

/// The texts of the clicks among records.
fn texts(records: &[Record]) -> Vec<String> {
    let clicks = records.iter().filter_map(|record| match &record.body {
        Body::Click(bytes) => Some(String::from_utf8_lossy(&bytes[8..]).into_owned()),
        _ => None,
    });
    clicks.collect()
}

/// Changes a file as a broken disk would.
fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}
