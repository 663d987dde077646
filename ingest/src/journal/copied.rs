//! What becomes of a copied journal's clicks: they go on in a journal of this node's own, under their own ids and times, and the
//! copy goes.
//!
//! Whoever goes on with the journal itself has some of them too. Which, nobody can tell: so all come again, and each is counted
//! once, since ids tell. A kill on the way does no harm for the same reason.

use schemas::{Analytics, JournalId};

use super::error::JournalError;
use super::frame::Content;
use super::handle::Journal;
use super::home;
use super::journals::Journals;
use super::lock::own;
use super::scan::{At, scan};
use super::segment::{Place, list, read_header};
use super::writer::Appended;

/// What was brought over of a copied journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Clicks that go on in another journal.
    pub clicks: u64,
    /// Whether that is all that could be read: the copy is gone then. Else it waits for room.
    pub whole: bool,
}

impl Journals {
    /// Whether what is here of a journal is a copy: the journal itself is, or was, somewhere else.
    ///
    /// # Errors
    /// When its folder can't be read.
    pub fn is_copy(&self, id: JournalId) -> Result<bool, JournalError> {
        let directory = self.directory().join(id.to_string());
        home::is_copy(&directory, id).map_err(JournalError::io("reading", &directory))
    }

    /// Brings the clicks of the copied journal `id` into the journal `into`, and removes the copy once they are on the disk.
    ///
    /// # Errors
    /// `InUse` when another process does so; `Misplaced` or `Newer` as when it is opened; `Io` when the disk fails.
    pub fn adopt_copy(&self, id: JournalId, into: &Journal) -> Result<Adopted, JournalError> {
        let directory = self.directory().join(id.to_string());
        let owned = own(&directory)?;
        let place = Place::new(self.disk(), directory.clone(), id);
        let segments = list(&directory).map_err(JournalError::io("listing", &directory))?;
        let mut adopted = Adopted { clicks: 0, whole: true };
        for (index, (first, path)) in segments.iter().enumerate() {
            let limit = segments.get(index + 1).map_or(u64::MAX, |(next, _)| *next);
            let file = place.disk.open(path, false).map_err(JournalError::io("opening", path))?;
            read_header(&*file, path, id, *first)?;
            let walked = scan(&*file, place.seed, At::first(*first), limit, |frame| {
                let Content::Click(event) = frame.content else { return };
                if !adopted.whole {
                    return;
                }
                // as one that may wait: what has no room now is no loss, it is still here
                match into.append(Analytics::Internal, |_, out| out.extend_from_slice(event)) {
                    Appended::Written { .. } => adopted.clicks += 1,
                    Appended::Dropped(_) | Appended::Lost(_) => adopted.whole = false,
                }
            });
            walked.map_err(JournalError::io("reading", path))?;
        }
        into.sync().map_err(JournalError::io("syncing what came of", &directory))?;
        drop(owned);
        if adopted.whole {
            self.remove(id)?;
        }
        Ok(adopted)
    }
}
