//! One owner per journal: a lock that ends with the process that holds it, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
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

/// Whether somebody writes into the journal in `directory` now; not when it isn't there. Nothing needs to be writable for
/// whoever asks.
///
/// # Errors
/// When that can't be told: the lock can't be opened, or a storage doesn't say who holds it.
pub fn is_in_use(directory: &Path) -> Result<bool, JournalError> {
    let path = directory.join(LOCK_FILE);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(JournalError::io("opening", &path))?,
    };
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(source)) => Err(JournalError::Io { doing: "locking", path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_in_use_as_long_as_its_owner_lives() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_in_use(folder.path()).unwrap(), "nobody ever was here");
        let owner = own(folder.path()).unwrap();
        assert!(is_in_use(folder.path()).unwrap());
        assert!(matches!(own(folder.path()), Err(JournalError::InUse { .. })));
        drop(owner);
        assert!(!is_in_use(folder.path()).unwrap());
        own(folder.path()).unwrap();
    }

    #[test]
    fn who_may_only_read_is_told_too_and_what_cant_be_told_is_no_no() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(LOCK_FILE);
        // nobody, not even root, opens a folder for writing
        std::fs::create_dir(&lock).unwrap();
        let owner = File::open(&lock).unwrap();
        owner.try_lock().unwrap();
        assert!(is_in_use(folder.path()).unwrap());
        drop(owner);
        assert!(!is_in_use(folder.path()).unwrap());
        std::fs::remove_dir(&lock).unwrap();
        std::os::unix::fs::symlink(&lock, &lock).unwrap();
        assert!(is_in_use(folder.path()).is_err());
    }
}
