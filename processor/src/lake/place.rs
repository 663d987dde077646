//! Where one table is, and how its files are reached: every request under the deadline.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use deltalake::logstore::{LogStoreRef, commit_uri_from_version};
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload};
use schemas::tables::Table;

use super::{Lake, LakeError};

/// The folder of the log within a table.
pub(super) const LOG: &str = "_delta_log";

/// One table's place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) table: Table,
    pub(super) log: LogStoreRef,
    /// Rooted at the table's folder.
    pub(super) store: Arc<dyn ObjectStore>,
    deadline: std::time::Duration,
}

impl Place {
    pub(super) fn new(lake: &Lake, table: Table) -> Result<Self, LakeError> {
        let log = lake.log_store(table)?;
        let store = log.object_store(None);
        Ok(Self { table, log, store, deadline: lake.options().deadline })
    }

    /// The path of the log entry of `version`.
    pub(super) fn entry(version: i64) -> Path {
        commit_uri_from_version(Some(version.max(0) as u64))
    }

    /// Waits for `work` until the deadline.
    pub(super) async fn within<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, LakeError> {
        match tokio::time::timeout(self.deadline, work).await {
            Ok(done) => done.map_err(|source| LakeError::Store { table: self.table, doing, source }),
            Err(_) => Err(self.too_late(doing)),
        }
    }

    pub(super) fn too_late(&self, doing: &'static str) -> LakeError {
        LakeError::Deadline { table: self.table, doing, after: self.deadline }
    }

    /// How long a request may take.
    pub(super) fn deadline(&self) -> std::time::Duration {
        self.deadline
    }

    /// A file's bytes; `None` if there is none of that name.
    pub(super) async fn get(&self, doing: &'static str, path: &Path) -> Result<Option<Bytes>, LakeError> {
        let got = self.within(doing, async { self.store.get(path).await?.bytes().await }).await;
        match got {
            Err(LakeError::Store { source: Error::NotFound { .. }, .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    pub(super) async fn put(&self, doing: &'static str, path: &Path, bytes: Bytes) -> Result<(), LakeError> {
        self.within(doing, self.store.put(path, PutPayload::from_bytes(bytes))).await.map(drop)
    }

    /// All files below `folder`, or of the whole table.
    pub(super) async fn list(&self, doing: &'static str, folder: Option<&Path>) -> Result<Vec<ObjectMeta>, LakeError> {
        match self.within(doing, self.store.list(folder).try_collect()).await {
            Err(LakeError::Store { source: Error::NotFound { .. }, .. }) => Ok(Vec::new()),
            other => other,
        }
    }

    /// The files of the log whose names come after that of the entry of `version`.
    pub(super) async fn log_after(&self, version: i64) -> Result<Vec<ObjectMeta>, LakeError> {
        let folder = Path::from(LOG);
        let doing = "looking for gaps in its log";
        let files = if version < 0 {
            self.store.list(Some(&folder))
        } else {
            self.store.list_with_offset(Some(&folder), &Self::entry(version))
        };
        match self.within(doing, files.try_collect()).await {
            Err(LakeError::Store { source: Error::NotFound { .. }, .. }) => Ok(Vec::new()),
            other => other,
        }
    }

    /// Deletes files; those that are gone already are fine. Returns how many were there.
    pub(super) async fn delete(&self, doing: &'static str, paths: Vec<Path>) -> Result<usize, LakeError> {
        let mut deleted = 0;
        for path in paths {
            match self.within(doing, self.store.delete(&path)).await {
                Ok(()) => deleted += 1,
                Err(LakeError::Store { source: Error::NotFound { .. }, .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(deleted)
    }

    pub(super) fn gap(&self, version: i64, reason: impl ToString) -> LakeError {
        LakeError::Gap { table: self.table, file: Self::entry(version).to_string(), reason: reason.to_string() }
    }

    pub(super) fn corrupt(&self, file: &Path, reason: impl ToString) -> LakeError {
        LakeError::Corrupt { table: self.table, file: file.to_string(), reason: reason.to_string() }
    }
}
