//! The journals of this process: a list that others look at, and that grows when a worker is given another journal.

use ingest::journal::Journal;
use schemas::JournalId;
use tokio::sync::watch;

/// The journals of this process. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnJournals(watch::Sender<Vec<Journal>>);

impl OwnJournals {
    /// All of them.
    pub(crate) fn all(&self) -> Vec<Journal> {
        self.0.borrow().clone()
    }

    /// One of them.
    pub(crate) fn get(&self, id: JournalId) -> Option<Journal> {
        self.0.borrow().iter().find(|journal| journal.id() == id).cloned()
    }

    /// Takes one along.
    pub(crate) fn add(&self, journal: Journal) {
        self.0.send_modify(|all| all.push(journal));
    }

    /// The list, for whoever waits for it to grow.
    pub(crate) fn watch(&self) -> watch::Receiver<Vec<Journal>> {
        self.0.subscribe()
    }
}
