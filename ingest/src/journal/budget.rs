//! The disk budget of a node's journals, and the reserve for billed clicks.
//!
//! ```text
//! 0 ───────────── used ─────────────► max − reserve ───────► max
//!   every event is taken             │ only billed clicks   │ nothing but marks: billed clicks are lost, counted
//! ```
//! The disk may fill up before the budget does, since others write to it too. So the reserve is real: a file takes
//! its space beforehand. When a write finds the disk full, a piece of that file is given back and the write tried
//! again; while any piece is missing only billed clicks are taken. The file grows again when there is room. As the
//! journals grow into the reserve the file shrinks, so both together stay below `max`.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use schemas::Analytics;

use super::ballast::Ballast;
use super::disk::{Disk, is_full};
use super::stats::{BudgetStats, Refusal};

/// The reserve's share of a budget is this at most, so that a small budget works with the default reserve.
const RESERVE_SHARE: u64 = 4;

/// Shared by the journals of a node.
#[derive(Debug)]
pub struct Budget {
    max_bytes: u64,
    reserve: u64,
    used: AtomicU64,
    /// Set while a piece of the reserve is missing.
    spent: AtomicBool,
    ballast: Mutex<Ballast>,
}

impl Budget {
    /// A budget whose reserve is a file in `directory`.
    ///
    /// # Errors
    /// When the file can't be made.
    pub(crate) fn open(disk: Arc<dyn Disk>, directory: &Path, max_bytes: u64, reserve: u64) -> io::Result<Self> {
        let reserve = reserve.min(max_bytes / RESERVE_SHARE);
        let ballast = Ballast::open(disk, directory, reserve)?;
        let (used, spent) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Self { max_bytes, reserve, used, spent, ballast: Mutex::new(ballast) })
    }

    /// Whether an event that isn't billed would be taken.
    pub(crate) fn admits_unbilled(&self) -> bool {
        !self.spent.load(Ordering::Relaxed) && self.used.load(Ordering::Relaxed) < self.max_bytes - self.reserve
    }

    /// Takes room for an event.
    pub(crate) fn take(&self, bytes: u64, promise: Analytics) -> Result<(), Refusal> {
        let billed = promise == Analytics::Billed;
        if !billed && self.spent.load(Ordering::Relaxed) {
            return Err(Refusal::NearlyFull);
        }
        let limit = if billed { self.max_bytes } else { self.max_bytes - self.reserve };
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > limit {
            self.give(bytes);
            return Err(if billed { Refusal::Full } else { Refusal::NearlyFull });
        }
        Ok(())
    }

    /// Takes room for what must be written: marks, headers, what was found on opening.
    pub(crate) fn take_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives room back.
    pub(crate) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Does what must be done even when the disk is full: again and again, as long as there is reserve to give back.
    pub(crate) fn with_reserve<T>(&self, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match work() {
                Err(error) if is_full(&error) && self.release() => {}
                done => return done,
            }
        }
    }

    /// The disk is full: gives a piece of the reserve back to it. Returns whether there was one.
    pub(crate) fn release(&self) -> bool {
        if !self.ballast().release() {
            return false;
        }
        if !self.spent.swap(true, Ordering::Relaxed) {
            tracing::error!("the disk of the journals is full: only billed clicks are taken, into the reserve");
        }
        true
    }

    /// Looks after the reserve, at most once a second: makes it again when there is room, lets it shrink as the
    /// journals grow into it, and raises the alarms.
    pub fn tend(&self, now: Instant) {
        let used = self.used.load(Ordering::Relaxed);
        let target = self.reserve.min(self.max_bytes.saturating_sub(used));
        let mut ballast = self.ballast();
        if let Some(percent) = ballast.alarm.raised(used, self.max_bytes) {
            tracing::warn!(used, max = self.max_bytes, "the journals take {percent} % of their disk budget");
        }
        let Some(whole) = ballast.tend(target, now) else { return };
        let was_spent = self.spent.swap(!whole, Ordering::Relaxed);
        match (was_spent, whole) {
            (true, true) => tracing::info!("the journals' reserve is whole again"),
            (false, false) => {
                tracing::warn!("the disk has no room for the journals' whole reserve: only billed clicks are taken");
            }
            _ => {}
        }
    }

    /// How it stands.
    pub fn stats(&self) -> BudgetStats {
        BudgetStats {
            used: self.used.load(Ordering::Relaxed),
            max_bytes: self.max_bytes,
            reserve: self.reserve,
            held: self.ballast().length(),
            nearly_full: !self.admits_unbilled(),
        }
    }

    fn ballast(&self) -> MutexGuard<'_, Ballast> {
        self.ballast.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::ballast::{RESERVE_FILE, TEND_EVERY};
    use crate::journal::disk::RealDisk;

    fn budget(directory: &Path, max_bytes: u64, reserve: u64) -> Budget {
        Budget::open(Arc::new(RealDisk), directory, max_bytes, reserve).unwrap()
    }

    #[test]
    fn the_reserve_is_for_billed_clicks() {
        let directory = tempfile::tempdir().unwrap();
        let budget = budget(directory.path(), 1_000, 200);
        assert_eq!(budget.take(800, Analytics::Internal), Ok(()));
        assert!(!budget.admits_unbilled());
        assert_eq!(budget.take(1, Analytics::Internal), Err(Refusal::NearlyFull));
        assert_eq!(budget.take(1, Analytics::Off), Err(Refusal::NearlyFull));
        assert_eq!(budget.take(200, Analytics::Billed), Ok(()));
        assert_eq!(budget.take(1, Analytics::Billed), Err(Refusal::Full));
        assert_eq!(budget.stats().used, 1_000, "what is refused takes no room");
        budget.give(300);
        assert_eq!(budget.take(100, Analytics::Internal), Ok(()));
    }

    #[test]
    fn a_small_budget_has_a_small_reserve() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(budget(directory.path(), 1 << 20, 1 << 30).stats().reserve, 256 << 10);
    }

    #[test]
    fn the_reserve_is_held_on_the_disk_and_shrinks_as_the_journals_grow() {
        let directory = tempfile::tempdir().unwrap();
        let budget = budget(directory.path(), 8 << 20, 1 << 20);
        let start = Instant::now();
        let on_disk = || std::fs::metadata(directory.path().join(RESERVE_FILE)).unwrap().len();
        budget.tend(start);
        assert_eq!((budget.stats().held, on_disk()), (1 << 20, 1 << 20));
        budget.take((7 << 20) + (1 << 19), Analytics::Billed).unwrap();
        budget.tend(start + TEND_EVERY);
        assert_eq!((budget.stats().held, on_disk()), (1 << 19, 1 << 19));
        budget.give(4 << 20);
        budget.tend(start + TEND_EVERY + TEND_EVERY);
        assert_eq!((budget.stats().held, on_disk()), (1 << 20, 1 << 20));
        assert!(budget.admits_unbilled());
    }

    #[test]
    fn a_piece_given_back_closes_the_door_to_unbilled_events_until_it_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let budget = budget(directory.path(), 8 << 20, 1 << 20);
        let start = Instant::now();
        budget.tend(start);
        assert!(budget.release());
        assert_eq!(budget.take(1, Analytics::Internal), Err(Refusal::NearlyFull));
        assert_eq!(budget.take(1, Analytics::Billed), Ok(()));
        budget.tend(start + TEND_EVERY);
        assert_eq!(budget.take(1, Analytics::Internal), Ok(()));
    }
}
