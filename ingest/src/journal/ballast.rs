//! The file that holds the reserve's disk space, and the alarm of a budget that fills up.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::disk::{Disk, DiskFile, is_full};
use super::stats::ALARMS;

/// The reserve is given back in this many pieces, or fewer when they would be too small.
const PIECES: u64 = 16;
const SMALLEST_PIECE: u64 = 64 << 10;
/// How often the file is looked after.
pub(crate) const TEND_EVERY: Duration = Duration::from_secs(1);
/// The file's name.
pub(crate) const RESERVE_FILE: &str = "reserve";

/// The file that holds the reserve's space.
#[derive(Debug)]
pub(crate) struct Ballast {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// `None` when the file system can't take space beforehand.
    file: Option<Box<dyn DiskFile>>,
    length: u64,
    piece: u64,
    next: Option<Instant>,
    /// Rings as the budget fills up.
    pub(crate) alarm: Alarm,
}

impl Ballast {
    /// The file as it is, or a new one, in `directory`; it is to hold `reserve` bytes.
    pub(crate) fn open(disk: Arc<dyn Disk>, directory: &Path, reserve: u64) -> io::Result<Self> {
        let path = directory.join(RESERVE_FILE);
        let file = match disk.open(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.open(&path, true)?,
            opened => opened?,
        };
        Ok(Self {
            disk,
            directory: directory.to_owned(),
            length: file.length()?,
            file: Some(file),
            piece: (reserve / PIECES).max(SMALLEST_PIECE).min(reserve.max(1)),
            next: None,
            alarm: Alarm::default(),
        })
    }

    /// Bytes that it holds.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Gives a piece back to the disk. Returns whether there was one.
    pub(crate) fn release(&mut self) -> bool {
        let length = self.length.saturating_sub(self.piece);
        let Some(file) = self.file.as_ref().filter(|_| self.length > 0) else { return false };
        if let Err(error) = file.set_length(length) {
            tracing::error!(%error, "the journals' reserve can't be given back");
            return false;
        }
        self.length = length;
        true
    }

    /// Grows or shrinks to whole pieces of `target`, at most once a second. Returns whether all of it is held, or
    /// can't ever be; `None` when it is too early.
    pub(crate) fn tend(&mut self, target: u64, now: Instant) -> Option<bool> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + TEND_EVERY);
        Some(self.move_to(target / self.piece * self.piece))
    }

    /// Grows or shrinks towards `target`. Returns whether it has got there, or can't ever.
    fn move_to(&mut self, target: u64) -> bool {
        let Some(file) = &self.file else { return true };
        if self.length > target {
            if file.set_length(target).is_ok() {
                self.length = target;
            }
            return true;
        }
        if self.length == target {
            return true;
        }
        // A piece stays free: without it billed clicks and the reserve would take turns on the last bytes.
        let room = self.disk.available(&self.directory).unwrap_or(0).saturating_sub(self.piece);
        let length = target.min(self.length + room);
        if length > self.length {
            match file.allocate(length) {
                Ok(()) => self.length = length,
                Err(error) if is_full(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "this file system can't keep a reserve for the journals");
                    self.file = None;
                    return true;
                }
            }
        }
        self.length == target
    }
}

/// Tells once when a share of the budget is passed; again only after it fell well below. Pure.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    level: usize,
}

impl Alarm {
    const PERCENT: [u64; 2] = ALARMS;
    /// How many points it must fall below a threshold before that can be passed again.
    const SLACK: u64 = 5;

    /// The threshold, in percent, that has just been passed.
    pub(crate) fn raised(&mut self, used: u64, max_bytes: u64) -> Option<u64> {
        let percent = (u128::from(used) * 100 / u128::from(max_bytes.max(1))) as u64;
        while self.level > 0 && percent + Self::SLACK < Self::PERCENT[self.level - 1] {
            self.level -= 1;
        }
        let before = self.level;
        while self.level < Self::PERCENT.len() && percent >= Self::PERCENT[self.level] {
            self.level += 1;
        }
        (self.level > before).then(|| Self::PERCENT[self.level - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_once_per_crossing() {
        let mut alarm = Alarm::default();
        let rings: Vec<_> = [49, 50, 60, 79, 80, 99, 78, 80, 74, 80, 44, 85].map(|used| alarm.raised(used, 100)).into();
        let expected = [None, Some(50), None, None, Some(80), None, None, None, None, Some(80), None, Some(80)];
        assert_eq!(rings, expected);
    }
}
