//! Disk space held for a takedown: a file beside the link store whose blocks are given back when SQLite finds the disk
//! full, so that a link can be disabled then (promise P8), and taken again when there is room.
//!
//! Several processes share it, so what is held is what the file says, and nothing of it is kept in memory.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes held.
const BYTES: u64 = 4 << 20;
/// Bytes given back at a time: what a takedown needs twice over. Others take from a full disk too, so that a piece may
/// serve one takedown only.
const PIECE: u64 = 64 << 10;
/// Bytes that are left to others when it is made whole, or it and the database would take turns on the last ones.
const SPARE: u64 = 1 << 20;
/// How often it is looked after.
const TEND_EVERY: Duration = Duration::from_secs(5);

/// The file.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    next: Mutex<Option<Instant>>,
}

impl Ballast {
    /// The file of the store at `store`. Nothing is made before [`Ballast::tend`].
    pub(super) fn beside(store: &Path) -> Self {
        let mut name = store.file_name().unwrap_or_default().to_owned();
        name.push(".ballast");
        Self { path: store.with_file_name(name), next: Mutex::new(None) }
    }

    /// Bytes that it holds.
    fn held(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// Whether it holds all that it should.
    pub(super) fn is_whole(&self) -> bool {
        self.held() >= BYTES
    }

    /// Gives a piece back to the disk. Returns whether there was one.
    pub(super) fn release(&self) -> bool {
        let held = self.held();
        if held == 0 {
            return false;
        }
        let shorten = OpenOptions::new().write(true).open(&self.path);
        match shorten.and_then(|file| file.set_len(held.saturating_sub(PIECE))) {
            Ok(()) => {
                if held >= BYTES {
                    tracing::error!("the disk of the link store is full: takedowns get the space held for them");
                }
                true
            }
            Err(error) => {
                tracing::error!(%error, "the space held for takedowns can't be given back");
                false
            }
        }
    }

    /// Whether it is time to look after it.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let due = next.is_none_or(|next| now >= next);
        if due {
            *next = Some(now + TEND_EVERY);
        }
        due
    }

    /// Makes it whole if there is room. Blocks.
    pub(super) fn tend(&self) {
        let held = self.held();
        if held >= BYTES {
            return;
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let has_room = fs4::available_space(folder).is_ok_and(|room| room >= BYTES - held + SPARE);
        if has_room && let Err(error) = self.fill(held) {
            tracing::warn!(%error, path = %self.path.display(), "no space can be held for takedowns now");
        }
    }

    /// Written, not only made longer: a file system may take blocks for nothing less.
    fn fill(&self, held: u64) -> io::Result<()> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&self.path)?;
        let part = [0x5a; 64 << 10];
        let mut at = held;
        // at its place, so that of two processes at it both write the same
        while at < BYTES {
            let bytes = part.len().min((BYTES - at) as usize);
            file.write_all_at(&part[..bytes], at)?;
            at += bytes as u64;
        }
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_back_piece_by_piece_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let ballast = Ballast::beside(&folder.path().join("links.sqlite"));
        assert!(!ballast.is_whole() && !ballast.release());
        ballast.tend();
        assert!(ballast.is_whole());
        assert_eq!(std::fs::metadata(folder.path().join("links.sqlite.ballast")).unwrap().len(), BYTES);
        let pieces = (0..100).take_while(|_| ballast.release()).count();
        assert_eq!((pieces, ballast.held()), (64, 0));
        ballast.tend();
        assert!(ballast.is_whole());
    }

    #[test]
    fn it_is_looked_after_every_few_seconds() {
        let ballast = Ballast::beside(Path::new("links.sqlite"));
        let start = Instant::now();
        assert!(ballast.is_due(start) && !ballast.is_due(start));
        assert!(!ballast.is_due(start + Duration::from_millis(4_999)) && ballast.is_due(start + TEND_EVERY));
    }
}
