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
