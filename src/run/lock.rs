//! Who may use a data folder: one process a role. `up` takes every role's lock, so that a second `up`, or a role
//! beside it, is refused.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use fs4::fs_std::FileExt;

/// Locks held until dropped, or until the process ends.
#[derive(Debug)]
pub(crate) struct FolderLocks(#[expect(dead_code, reason = "held for its effect")] Vec<File>);

/// Makes the data folder, for its owner's eyes only: journals hold full addresses until the lake holds the clicks.
///
/// # Errors
/// When it can't be made.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("data_dir = {:?}: can't make the data folder", folder.display().to_string()))
}

/// Takes the locks of `roles` in `folder`.
///
/// # Errors
/// When the folder can't be written, or another process holds one of them.
pub(crate) fn take(folder: &Path, roles: &[&str]) -> anyhow::Result<FolderLocks> {
    make_folder(folder)?;
    let mut held = Vec::new();
    for role in roles {
        let path = folder.join(format!("{role}.lock"));
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
    Ok(FolderLocks(held))
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
    Ok(is_ours.then(|| FolderLocks(vec![file])))
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
    fn a_second_owner_of_any_role_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path(), &["redirect", "process"]).unwrap();
        assert!(take(dir.path(), &["process"]).unwrap_err().to_string().contains("in use"));
        let _query = take(dir.path(), &["query"]).unwrap();
        drop(first);
        take(dir.path(), &["redirect", "process"]).unwrap();
    }
}
