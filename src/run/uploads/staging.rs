//! What is uploaded, until it has been taken in: in the lake's storage, beside the tables, so that whichever process
//! takes it in can read it. No table's reader sees it.
//!
//! An object is kept in parts, each put whole: so memory is bounded, nothing but whole parts is ever there, and what a
//! killed process leaves behind is found by listing.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _};
use processor::lake::Lake;
use tokio::io::AsyncWriteExt as _;

/// The folder, beside those of the tables.
const FOLDER: &str = "_staging";
/// The storage answers within this.
const WITHIN: Duration = Duration::from_secs(60);

/// The staging folder of a lake.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    store: Arc<dyn ObjectStore>,
    folder: Path,
}

impl Staging {
    /// That of `lake`.
    pub(crate) fn of(lake: &Lake) -> Self {
        Self { store: lake.store(), folder: lake.path().join(FOLDER) }
    }

    fn part(&self, object: &str, part: u32) -> Path {
        self.folder.clone().join(format!("{object}-{part:05}"))
    }

    /// Keeps a part, durably.
    ///
    /// # Errors
    /// What the storage says.
    pub(crate) async fn keep(&self, object: &str, part: u32, bytes: Bytes) -> Result<(), Error> {
        within(self.store.put(&self.part(object, part), bytes.into())).await.map(drop)
    }

    /// Removes the first `parts` parts of an object.
    ///
    /// # Errors
    /// What the storage says; what is gone already is fine.
    pub(crate) async fn remove(&self, object: &str, parts: u32) -> Result<(), Error> {
        for part in 0..parts {
            self.delete(&self.part(object, part)).await?;
        }
        Ok(())
    }

    /// Reads an object into a file without a name in `spool_dir`.
    ///
    /// # Errors
    /// When a part is missing, the whole has not `size` bytes, or it can't be kept.
    pub(crate) async fn fetch(&self, object: &str, parts: u32, size: u64, spool_dir: &FsPath) -> anyhow::Result<File> {
        let file = tempfile::tempfile_in(spool_dir).context("spooling an upload")?;
        let mut file = tokio::fs::File::from_std(file);
        let mut read = 0;
        for part in 0..parts {
            let path = self.part(object, part);
            let bytes = within(async { self.store.get(&path).await?.bytes().await }).await?;
            file.write_all(&bytes).await.context("spooling an upload")?;
            read += bytes.len() as u64;
        }
        ensure!(read == size, "{read} of {size} bytes are staged");
        file.flush().await.context("spooling an upload")?;
        Ok(file.into_std().await)
    }

    /// Removes the parts that belong to none of `known` and have been there since before `cut_ms`. Returns how many.
    ///
    /// # Errors
    /// What the storage says.
    pub(crate) async fn sweep(&self, known: &HashSet<String>, cut_ms: i64) -> Result<u64, Error> {
        let listed = within(self.store.list(Some(&self.folder)).try_collect::<Vec<_>>()).await;
        let mut swept = 0;
        for meta in none_if_missing(listed)?.unwrap_or_default() {
            let name = meta.location.filename().unwrap_or_default();
            let is_known = name.rsplit_once('-').is_some_and(|(object, _)| known.contains(object));
            if !is_known && meta.last_modified.timestamp_millis() < cut_ms {
                self.delete(&meta.location).await?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    async fn delete(&self, path: &Path) -> Result<(), Error> {
        none_if_missing(within(self.store.delete(path)).await).map(drop)
    }
}

fn none_if_missing<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

async fn within<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(WITHIN, work).await {
        Ok(done) => done,
        Err(_) => Err(Error::Generic { store: "lake", source: format!("no answer within {WITHIN:?}").into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use processor::lake::LakeOptions;
    use std::io::{Read as _, Seek as _};

    fn staging() -> (tempfile::TempDir, Staging) {
        let dir = tempfile::tempdir().unwrap();
        let lake = Lake::open(dir.path().join("lake").to_str().unwrap(), LakeOptions::default()).unwrap();
        (dir, Staging::of(&lake))
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(dir.path().join("lake").join(FOLDER));
        let mut names: Vec<String> =
            entries.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn parts_are_one_object_until_they_are_removed() {
        let (dir, staging) = staging();
        staging.keep("abc", 0, Bytes::from_static(b"one ")).await.unwrap();
        staging.keep("abc", 1, Bytes::from_static(b"two")).await.unwrap();
        let mut file = staging.fetch("abc", 2, 7, dir.path()).await.unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        assert!(staging.fetch("abc", 2, 8, dir.path()).await.is_err());
        assert!(staging.fetch("abc", 3, 7, dir.path()).await.is_err());
        staging.remove("abc", 3).await.unwrap();
        assert_eq!(names(&dir), Vec::<String>::new());
        staging.remove("abc", 3).await.unwrap();
    }

    #[tokio::test]
    async fn a_sweep_takes_what_is_old_and_nobodys() {
        let (dir, staging) = staging();
        assert_eq!(staging.sweep(&HashSet::new(), i64::MAX).await.unwrap(), 0, "also when there is no folder");
        for object in ["kept", "lost"] {
            staging.keep(object, 0, Bytes::from_static(b"x")).await.unwrap();
            staging.keep(object, 1, Bytes::from_static(b"x")).await.unwrap();
        }
        let known = HashSet::from(["kept".to_owned()]);
        assert_eq!(staging.sweep(&known, 0).await.unwrap(), 0, "it may be under way");
        assert_eq!(staging.sweep(&known, i64::MAX).await.unwrap(), 2);
        assert_eq!(names(&dir), ["kept-00000", "kept-00001"]);
    }
}
