//! Who may use a data folder: one process a role. `up` takes every role's lock, so that a second `up`, or a role
//! beside it, is refused.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use fs4::fs_std::FileExt;

/// What is said of something else in the place of the data folder.
pub(crate) const NO_FOLDER: &str = "this is a file, not a folder";

/// Locks held until dropped, or until the process ends.
#[derive(Debug)]
pub(crate) struct FolderLocks {
    #[expect(dead_code, reason = "held for its effect")]
    files: Vec<File>,
    /// The folder, if it was made for them, and the locks' names.
    made: Option<(PathBuf, Vec<String>)>,
}

impl FolderLocks {
    /// After a start that came to nothing: a folder that was made for it and holds nothing but these locks goes again.
    pub(crate) fn leave_nothing(self) {
        let Some((folder, names)) = self.made else { return };
        let is_lock = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|entry| names.iter().any(|name| entry.file_name() == name.as_str()))
        };
        if std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.all(is_lock)) {
            // what can't be removed is only in nobody's way
            let _gone = std::fs::remove_dir_all(&folder);
        }
    }
}

/// Makes the data folder, for its owner's eyes only: journals hold full addresses until the lake holds the clicks.
///
/// # Errors
/// When it can't be made.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => bail!("data_dir = {:?}: {NO_FOLDER}; --data DIR names another", folder.display().to_string()),
        Err(_) => {}
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("data_dir = {:?}: can't make the data folder", folder.display().to_string()))
}

/// Takes the locks of `roles` in `folder`.
///
/// # Errors
/// When the folder can't be written, or another process holds one of them.
pub(crate) fn take(folder: &Path, roles: &[&str]) -> anyhow::Result<FolderLocks> {
    let is_new = !folder.exists();
    make_folder(folder)?;
    let name = |role: &&str| format!("{role}.lock");
    let mut held = Vec::new();
    for role in roles {
        let path = folder.join(name(role));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).with_context(|| {
            format!("data_dir = {:?}: can't write in the data folder", folder.display().to_string())
        })?;
        match file.try_lock_exclusive() {
            Ok(true) => held.push(file),
            Ok(false) => bail!(
                "data folder {} is in use by another highwater process ({role}); stop it, or name another with --data",
                folder.display()
            ),
            Err(error) => return Err(error).with_context(|| format!("can't lock {}", path.display())),
        }
    }
    let made = is_new.then(|| (folder.to_owned(), roles.iter().map(name).collect()));
    Ok(FolderLocks { files: held, made })
}

/// How often one who waits for a turn looks whether it has come.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The turn of one who takes a log back, and in again what overlaps with it; none while another is at it. Two at once would
/// each take the other's log in again.
///
/// # Errors
/// When the folder can't be written.
pub(crate) fn try_turn(folder: &Path) -> anyhow::Result<Option<FolderLocks>> {
    make_folder(folder)?;
    let path = folder.join("revert.lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("can't open {}", path.display()))?;
    let is_ours = file.try_lock_exclusive().with_context(|| format!("can't lock {}", path.display()))?;
    Ok(is_ours.then(|| FolderLocks { files: vec![file], made: None }))
}

/// As [`try_turn`], and waits for it.
///
/// # Errors
/// When the folder can't be written.
pub(crate) async fn turn(folder: &Path) -> anyhow::Result<FolderLocks> {
    loop {
        if let Some(turn) = try_turn(folder)? {
            return Ok(turn);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_who_takes_back_waits_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let first = turn(dir.path()).await.unwrap();
        assert!(try_turn(dir.path()).unwrap().is_none());
        let folder = dir.path().to_owned();
        let second = tokio::spawn(async move { turn(&folder).await.is_ok() });
        drop(first);
        assert!(second.await.unwrap());
        assert!(try_turn(dir.path()).unwrap().is_some());
    }

    #[test]
    fn of_a_start_that_came_to_nothing_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("data");
        take(&folder, &["query"]).unwrap().leave_nothing();
        assert!(!folder.exists());
        let locks = take(&folder, &["query"]).unwrap();
        std::fs::write(folder.join("admin.token"), "x").unwrap();
        locks.leave_nothing();
        assert!(folder.join("admin.token").exists(), "it holds something");
        take(dir.path(), &["query"]).unwrap().leave_nothing();
        assert!(dir.path().exists(), "it was there before");
    }

    #[test]
    fn a_file_is_no_data_folder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = make_folder(file.path()).unwrap_err().to_string();
        assert!(told.contains("this is a file, not a folder") && told.contains("--data DIR"), "{told}");
    }

    #[test]
    fn a_second_owner_of_any_role_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path(), &["redirect", "process"]).unwrap();
        assert!(take(dir.path(), &["process"]).unwrap_err().to_string().contains("in use"));
        let _query = take(dir.path(), &["query"]).unwrap();
        drop(first);
        take(dir.path(), &["redirect", "process"]).unwrap();
    }
}
