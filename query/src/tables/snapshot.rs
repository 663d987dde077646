//! Snapshots of one table, kept fresh: one look at the log at a time, shared by all who wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deltalake::errors::DeltaTableError;
use deltalake::{DeltaTable, DeltaTableBuilder};
use object_store::ObjectStore;
use object_store::path::Path;
use schemas::UtcMicros;
use schemas::tables::Table;
use tokio::sync::{Mutex, watch};
use url::Url;

use super::file::DataFile;
use crate::error::QueryError;
use crate::ports::{Freshness, StatusSource};

/// One version of a table.
#[derive(Debug)]
pub(crate) struct TableSnapshot {
    pub(crate) table: Table,
    /// The version; `None` when the table doesn't exist yet.
    pub(crate) version: Option<i64>,
    /// Its live files.
    pub(crate) files: Vec<Arc<DataFile>>,
    /// When it was known to be the newest.
    pub(crate) as_of: UtcMicros,
    /// What was promised before the version was looked up.
    pub(crate) freshness: Freshness,
    /// When the look at it was over: what its commits said before they landed can be read from then on.
    pub(crate) seen: Instant,
}

impl TableSnapshot {
    /// Rows, if the log says so of every file.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// The same with some of its files alone.
    pub(crate) fn having(&self, keep: impl Fn(&DataFile) -> bool) -> Self {
        let files = self.files.iter().filter(|file| keep(file)).cloned().collect();
        Self { files, ..*self }
    }
}

#[derive(Debug)]
struct State {
    handle: DeltaTable,
    current: Option<Arc<TableSnapshot>>,
    /// When the last look began.
    looked_at: Instant,
}

/// Where snapshots of one table come from.
#[derive(Debug)]
pub(crate) struct TableSource {
    table: Table,
    store: Arc<dyn ObjectStore>,
    refresh: Duration,
    committed: Option<watch::Receiver<i64>>,
    status: Arc<dyn StatusSource>,
    state: Mutex<State>,
}

impl TableSource {
    /// The table under `root`; nothing is read yet.
    pub(crate) fn open(
        table: Table,
        root: &Url,
        refresh: Duration,
        committed: Option<watch::Receiver<i64>>,
        status: Arc<dyn StatusSource>,
    ) -> Result<Self, QueryError> {
        let refused = |error: String| QueryError::Location { location: root.to_string(), reason: error };
        let url = root.join(&format!("{table}/")).map_err(|error| refused(error.to_string()))?;
        let handle = DeltaTableBuilder::from_url(url)
            .and_then(DeltaTableBuilder::build)
            .map_err(|error| refused(error.to_string()))?;
        let store = handle.log_store().object_store(None);
        let state = Mutex::new(State { handle, current: None, looked_at: Instant::now() });
        Ok(Self { table, store, refresh, committed, status, state })
    }

    /// The store that the files' paths are in.
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// The newest snapshot: at most `refresh` old, not older than the newest commit of this process, and looked at
    /// after `not_before`.
    pub(crate) async fn snapshot(&self, not_before: Option<Instant>) -> Result<Arc<TableSnapshot>, QueryError> {
        let mut state = self.state.lock().await;
        if let Some(current) = &state.current
            && self.serves(current, state.looked_at, not_before)
        {
            return Ok(Arc::clone(current));
        }
        let (began, as_of) = (Instant::now(), UtcMicros::now());
        // The promise first, the version afterwards: the other way round it could cover rows that aren't there.
        let freshness = match self.status.freshness().await {
            Ok(freshness) => freshness,
            Err(error) => {
                // What was promised once still holds.
                tracing::warn!(%error, "no word on how complete the lake is; the last one is used");
                state.current.as_ref().map(|current| current.freshness).unwrap_or_default()
            }
        };
        let known = state.current.clone();
        let version = look(&mut state.handle).await?;
        let files = match (&known, version) {
            (Some(known), _) if known.version == version => known.files.clone(),
            (_, None) => Vec::new(),
            (known, Some(_)) => self.files(&state.handle, known.as_deref())?,
        };
        let seen = Instant::now();
        let snapshot = Arc::new(TableSnapshot { table: self.table, version, files, as_of, freshness, seen });
        state.current = Some(Arc::clone(&snapshot));
        state.looked_at = began;
        Ok(snapshot)
    }

    fn serves(&self, current: &TableSnapshot, looked_at: Instant, not_before: Option<Instant>) -> bool {
        let newest = self.committed.as_ref().map(|committed| *committed.borrow());
        looked_at.elapsed() < self.refresh
            && not_before.is_none_or(|instant| looked_at > instant)
            && newest.is_none_or(|newest| newest <= current.version.unwrap_or(-1))
    }

    /// The live files of the handle's version. Those that the snapshot before had are not parsed again.
    fn files(&self, handle: &DeltaTable, before: Option<&TableSnapshot>) -> Result<Vec<Arc<DataFile>>, QueryError> {
        let known: HashMap<&Path, &Arc<DataFile>> =
            before.iter().flat_map(|before| &before.files).map(|file| (file.path(), file)).collect();
        let state = handle.snapshot().map_err(|error| QueryError::lake("reading the log", error))?;
        let log = state.snapshot().try_log_data().map_err(|error| QueryError::lake("reading the log", error))?;
        log.iter()
            .map(|view| match known.get(&view.object_store_path()) {
                Some(&file) => Ok(Arc::clone(file)),
                None => DataFile::from_log(self.table, &view).map(Arc::new),
            })
            .collect()
    }
}

/// Brings the handle to the newest version; `None` when there is no table yet.
async fn look(handle: &mut DeltaTable) -> Result<Option<i64>, QueryError> {
    let known = handle.version().is_some();
    let mut result = handle.update_incremental(None).await;
    if known && result.is_err() {
        // The log may have been cleaned past the version that is known, or the table made anew.
        handle.state = None;
        result = handle.update_incremental(None).await;
    }
    match result {
        Ok(()) => Ok(handle.version().and_then(|version| i64::try_from(version).ok())),
        Err(DeltaTableError::NotATable(_)) => Ok(None),
        // no folder at all is told apart from a folder that can't be read
        Err(error) => match handle.verify_deltatable_existence().await {
            Ok(false) => Ok(None),
            _ => Err(QueryError::lake("reading the log", error)),
        },
    }
}
