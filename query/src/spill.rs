//! The folder that a process spills into: its own, locked while it lives, removed when it goes. A killed process leaves
//! its folder behind without a lock, and the next one to start removes it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const PREFIX: &str = "spill-";
const LOCK: &str = "lock";
/// A folder so young may belong to a process that has not locked it yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder to spill into.
#[derive(Debug)]
pub(crate) struct Spill {
    folder: PathBuf,
    /// Held as long as the folder is in use.
    _lock: File,
}

impl Spill {
    /// Makes a folder within `parent`, and removes those that nobody holds any more.
    pub(crate) fn open(parent: &Path) -> io::Result<Self> {
        let folder = parent.join(format!("{PREFIX}{:016x}", rand::random::<u64>()));
        fs::create_dir_all(&folder)?;
        let lock = File::create_new(folder.join(LOCK))?;
        lock.lock()?;
        for entry in fs::read_dir(parent)? {
            let other = entry?.path();
            if other != folder && is_left_behind(&other, SystemTime::now()) {
                // another process may be removing it just now
                let _ = fs::remove_dir_all(&other);
            }
        }
        Ok(Self { folder, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "spilled data is left behind");
        }
    }
}

fn is_left_behind(folder: &Path, now: SystemTime) -> bool {
    let ours = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let age = fs::metadata(folder).and_then(|metadata| metadata.modified()).map(|made| now.duration_since(made));
    let old = matches!(age, Ok(Ok(age)) if age > YOUNG);
    ours && old && File::open(folder.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_process_and_those_left_behind_are_found() {
        let parent = tempfile::tempdir().unwrap();
        let one = Spill::open(parent.path()).unwrap();
        let later = SystemTime::now() + 2 * YOUNG;
        assert!(!is_left_behind(one.folder(), later), "it is held");
        let folder = one.folder().to_owned();
        drop(one);
        assert!(!folder.exists());
        fs::create_dir(&folder).unwrap();
        File::create(folder.join(LOCK)).unwrap();
        assert!(is_left_behind(&folder, later), "nobody holds it");
        assert!(!is_left_behind(&folder, SystemTime::now()), "it may be new");
        fs::create_dir(parent.path().join("else")).unwrap();
        assert!(!is_left_behind(&parent.path().join("else"), later), "it is not ours");
    }
}
