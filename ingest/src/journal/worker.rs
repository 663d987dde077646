//! The journal that a redirect worker writes to. It may change while the worker runs: when others have given it up, as
//! after a suspension of this process, what is still written to it is late, so another takes its place.

use std::sync::{Arc, PoisonError, RwLock};

use schemas::{Analytics, UtcMicros};

use super::handle::Journal;
use super::writer::Appended;

/// A worker's place to write to. Clones are the same place.
#[derive(Clone, Debug)]
pub struct WorkerJournal(Arc<RwLock<Journal>>);

impl WorkerJournal {
    /// A worker that writes to `journal` at first.
    pub fn new(journal: Journal) -> Self {
        Self(Arc::new(RwLock::new(journal)))
    }

    /// Writes an event to the journal of now; as [`Journal::append`].
    pub fn append(&self, promise: Analytics, encode: impl FnOnce(UtcMicros, &mut Vec<u8>)) -> Appended {
        self.0.read().unwrap_or_else(PoisonError::into_inner).append(promise, encode)
    }

    /// The journal of now.
    pub fn journal(&self) -> Journal {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the worker another journal. Whoever is writing finishes first: the one returned gets nothing more.
    pub fn succeed(&self, next: Journal) -> Journal {
        std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), next)
    }
}
