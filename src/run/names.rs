//! The journals that a data folder has had, by name.
//!
//! The registry knows the open journals of all nodes, and the folder which of them are there. One that isn't may be another
//! node's, on this machine or another; only one that was made here is gone. The list moves with the folder, whatever the
//! machine is called; one that was lost names nothing, and then a journal that is gone is a silent one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemas::JournalId;

/// The journals that were made in `directory`.
pub(crate) fn made_here(directory: &Path) -> BTreeSet<JournalId> {
    Names::of(directory).read()
}

/// The list beside the folder of the journals.
#[derive(Debug)]
pub(super) struct Names {
    path: PathBuf,
}

impl Names {
    /// The list of the journals in `directory`.
    pub(super) fn of(directory: &Path) -> Self {
        Self { path: directory.with_extension("list") }
    }

    /// What it holds.
    pub(super) fn read(&self) -> BTreeSet<JournalId> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Adds one, before it is made.
    pub(super) fn add(&self, id: JournalId) {
        let mut ids = self.read();
        ids.insert(id);
        self.write(&ids);
    }

    /// Writes it anew, whole. On a full disk it stays as it was: clicks are taken all the same.
    pub(super) fn write(&self, ids: &BTreeSet<JournalId>) {
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let new = self.path.with_extension("list.tmp");
        let written = std::fs::write(&new, lines).and_then(|()| std::fs::rename(&new, &self.path));
        if let Err(error) = written {
            tracing::warn!(%error, path = %self.path.display(), "the names of the journals can't be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_here_is_known_and_a_list_that_is_gone_knows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("journals");
        let (names, ids) = (Names::of(&directory), [JournalId::new(), JournalId::new()]);
        assert!(names.read().is_empty());
        names.add(ids[0]);
        names.add(ids[1]);
        assert_eq!(Names::of(&directory).read(), ids.into());
        names.write(&[ids[1]].into());
        assert_eq!(names.read(), [ids[1]].into());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
