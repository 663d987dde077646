//! One owner per journal: a lock that ends with the process that holds it, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::error::JournalError;

const LOCK_FILE: &str = "lock";

/// Takes the lock of a journal's directory; it is held as long as the file is open.
///
/// # Errors
/// `InUse` when another holds it.
pub(crate) fn own(directory: &Path) -> Result<File, JournalError> {
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(JournalError::io("opening", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(JournalError::InUse { path: directory.to_owned() }),
        Err(TryLockError::Error(source)) => Err(JournalError::Io { doing: "locking", path, source }),
    }
}

/// Whether somebody writes into the journal in `directory` now; not, as far as can be seen, when it isn't there or can't be
/// looked at.
pub fn is_in_use(directory: &Path) -> bool {
    let file = OpenOptions::new().write(true).open(directory.join(LOCK_FILE));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_in_use_as_long_as_its_owner_lives() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_in_use(folder.path()), "nobody ever was here");
        let owner = own(folder.path()).unwrap();
        assert!(is_in_use(folder.path()));
        assert!(matches!(own(folder.path()), Err(JournalError::InUse { .. })));
        drop(owner);
        assert!(!is_in_use(folder.path()));
        own(folder.path()).unwrap();
    }
}
