//! The lake: Delta tables, the one truth that reports, SQL and data teams read (design §4.4–4.5, §5).
//!
//! ```text
//! rows ──write──► data file (synced) ──commit──► log entry N (synced, create-only) ──► every reader
//!                                        │ on the version before N: transactions compared, files still there
//! settler ──maintain──► checkpoint every 50 entries · old entries, removed and orphaned files deleted
//! ```
//!
//! A [`TableHandle`] is a table at one version and belongs to one task. It follows the log by itself, entry by
//! entry: what `deltalake` offers for commits compares no transaction and rebases behind the caller's back, while
//! here every attempt is judged on the very version that it builds on. The library still puts log entries, makes
//! checkpoints, and reads the same tables in crate `query`; the tests hold both readings against each other.
//!
//! Invariants
//! * A data file is whole and on disk before the log entry that names it; an entry is whole before it can be seen.
//! * [`TableHandle::commit`] returns `Ok` only if that very commit is in the log: it knows it by an id of its own.
//! * A version is written only behind the one before it, in a log without gaps; a log with a gap, or with an entry that
//!   is empty or cut, is refused by name, and never read past.
//! * Two commits that set one transaction, or remove one file, never both land on the same base.
//! * Files are removed by [`TableHandle::maintain`] alone: those that a commit has removed, or that none ever
//!   named, and only when that is longer ago than [`LakeOptions::keep`].
//!
//! Failure: whatever fails leaves the table as it was, and at worst a file that nobody names. A commit whose answer
//! is lost is looked up; if that fails too, the caller is told that it is unknown.

mod columns;
mod commit;
mod create;
mod durable;
mod error;
mod grow;
mod log;
mod maintain;
mod place;
mod read;
mod remote;
mod replay;
#[cfg(test)]
mod sim;
mod stats;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod whole;
mod write;

use std::collections::HashMap;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::Duration;

use deltalake::logstore::{LogStoreRef, StorageConfig, logstore_with, object_store_factories};
use object_store::ObjectStore;
use object_store::path::Path;
use schemas::tables::Table;
use tokio::sync::{OnceCell, watch};
use url::Url;

pub use self::commit::Change;
pub use self::durable::DurableStore;
pub use self::error::{CommitError, LakeError};
pub use self::grow::{Batches, Growing};
pub use self::log::DataFile;
pub use self::maintain::Maintained;
use self::remote::Unfit;
pub use self::remote::remote_store;
pub use self::table::TableHandle;
pub use self::write::{NewFile, Span};
use crate::metrics::LakeMetrics;

/// How tables are kept.
#[derive(Clone, Debug)]
pub struct LakeOptions {
    /// [`TableHandle::maintain`] makes a checkpoint when the last is at least this many commits old.
    pub checkpoint_every: u64,
    /// How long log entries, removed files and files that no commit names stay: longer than the longest query and
    /// the longest commit.
    pub keep: Duration,
    /// How long the store may take for one request.
    pub deadline: Duration,
    /// What the storage needs to know beyond its address (keys, region, endpoint), by the names of crate `deltalake`.
    pub storage: HashMap<String, String>,
}

impl Default for LakeOptions {
    fn default() -> Self {
        Self {
            checkpoint_every: 50,
            keep: Duration::from_secs(3_600),
            deadline: Duration::from_secs(30),
            storage: HashMap::new(),
        }
    }
}

/// A lake: a folder or object-store prefix with one Delta table in each of its folders. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lake {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: Url,
    store: Arc<dyn ObjectStore>,
    storage: StorageConfig,
    options: LakeOptions,
    newest: watch::Sender<i64>,
    metrics: LakeMetrics,
    /// Set once it is known that the storage puts only what may be put.
    proven: OnceCell<()>,
}

impl Lake {
    /// The lake at `root`: a path, or an address such as `file:///…` or `s3://bucket/prefix`. A local folder is made when
    /// missing; of other storage nothing is asked yet.
    ///
    /// # Errors
    /// [`LakeError::Root`] when the folder can't be made, [`LakeError::Scheme`] for storage that isn't built in.
    pub fn open(root: &str, options: LakeOptions) -> Result<Self, LakeError> {
        let bad = |reason: String| LakeError::Root { root: root.to_owned(), reason };
        let url = match Url::parse(root) {
            Ok(url) if root.contains("://") => url,
            _ => folder_url(FsPath::new(root)).map_err(bad)?,
        };
        if url.scheme() == "file" {
            let folder = url.to_file_path().map_err(|()| bad("not a path on this machine".to_owned()))?;
            let url = folder_url(&folder).map_err(bad)?;
            return Self::with_store(Arc::new(DurableStore::new()), url, options);
        }
        remote::register();
        let factories = object_store_factories();
        let scheme = Url::parse(&format!("{}://", url.scheme())).map_err(|e| bad(e.to_string()))?;
        let Some(factory) = factories.get(&scheme).map(|entry| Arc::clone(entry.value())) else {
            let mut known: Vec<String> = factories.iter().map(|entry| entry.key().scheme().to_owned()).collect();
            known.sort();
            return Err(LakeError::Scheme {
                root: root.to_owned(),
                scheme: url.scheme().to_owned(),
                known: known.join(", "),
            });
        };
        let storage = StorageConfig::parse_options(options.storage.clone()).map_err(|e| bad(e.to_string()))?;
        let (store, _) = factory.parse_url_opts(&url, &storage).map_err(|e| bad(e.to_string()))?;
        Ok(Self::with_store(store, url, options)?.unproven())
    }

    /// A lake at `root` within `store`, which holds the whole of the storage that `root` is an address of.
    ///
    /// # Errors
    /// [`LakeError::Root`] when the options don't suit the storage.
    pub fn with_store(store: Arc<dyn ObjectStore>, root: Url, options: LakeOptions) -> Result<Self, LakeError> {
        let bad = |reason: String| LakeError::Root { root: root.to_string(), reason };
        let storage = StorageConfig::parse_options(options.storage.clone()).map_err(|e| bad(e.to_string()))?;
        let mut root = root;
        if !root.path().ends_with('/') {
            root.set_path(&format!("{}/", root.path()));
        }
        let (newest, metrics) = (watch::Sender::new(-1), LakeMetrics::default());
        let proven = OnceCell::new_with(Some(()));
        Ok(Self { inner: Arc::new(Inner { root, store, storage, options, newest, metrics, proven }) })
    }

    /// The same, of whose storage nothing is known.
    fn unproven(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.proven = OnceCell::new();
        }
        self
    }

    /// Finds out whether the storage puts only what may be put, unless that is known: two processes that commit at once
    /// would overwrite each other otherwise. Whatever writes does it by itself, before it writes.
    ///
    /// # Errors
    /// [`LakeError::Careless`] when it doesn't, [`LakeError::Unproven`] when that can't be found out now.
    pub async fn prove(&self) -> Result<(), LakeError> {
        let root = || self.inner.root.to_string();
        let prove = async {
            let path = self.path();
            let proof = remote::prove(self.inner.store.as_ref(), &path);
            match tokio::time::timeout(self.inner.options.deadline, proof).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(Unfit::Careless(reason))) => Err(LakeError::Careless { root: root(), reason }),
                Ok(Err(Unfit::Failed(error))) => Err(LakeError::Unproven { root: root(), reason: error.to_string() }),
                Err(_) => {
                    let reason = format!("no answer within {:?}", self.inner.options.deadline);
                    Err(LakeError::Unproven { root: root(), reason })
                }
            }
        };
        self.inner.proven.get_or_try_init(|| prove).await.copied()
    }

    /// The lake's address, with a slash at its end.
    pub fn root(&self) -> &Url {
        &self.inner.root
    }

    /// The address of `table`.
    pub fn url_of(&self, table: Table) -> Url {
        let mut url = self.inner.root.clone();
        url.set_path(&format!("{}{table}/", self.inner.root.path()));
        url
    }

    /// The storage that the lake is in, and [`Lake::path`] within it: for what is kept beside the tables.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner.store)
    }

    /// Where the lake is within its storage.
    pub fn path(&self) -> Path {
        // an address that can't be decoded was refused when the lake was opened
        Path::from_url_path(self.inner.root.path()).unwrap_or_default()
    }

    /// How tables are kept.
    pub fn options(&self) -> &LakeOptions {
        &self.inner.options
    }

    /// What reads and writes the log of `table`, for readers that use crate `deltalake` themselves.
    ///
    /// # Errors
    /// When the storage doesn't know such logs.
    pub fn log_store(&self, table: Table) -> Result<LogStoreRef, LakeError> {
        let url = self.url_of(table);
        logstore_with(Arc::clone(&self.inner.store), &url, self.inner.storage.clone())
            .map_err(|source| LakeError::Delta { table, doing: "opening its log", source: Box::new(source) })
    }

    /// Opens `table` at its newest version; makes it when there is none. Two that make it at once get the same one.
    ///
    /// # Errors
    /// As [`LakeError`] says.
    pub async fn table(&self, table: Table) -> Result<TableHandle, LakeError> {
        TableHandle::open(self.clone(), table).await
    }

    /// What it counts, to register.
    pub fn metrics(&self) -> &LakeMetrics {
        &self.inner.metrics
    }

    /// Tells the newest version of `clicks` that was committed through this lake or a clone of it; -1 before any.
    pub fn subscribe(&self) -> watch::Receiver<i64> {
        self.inner.newest.subscribe()
    }

    fn tell(&self, table: Table, version: i64) {
        if table == Table::Clicks {
            self.inner.newest.send_if_modified(|newest| {
                let newer = version > *newest;
                *newest = version.max(*newest);
                newer
            });
        }
    }
}

/// The address of a folder, which is made when missing.
fn folder_url(folder: &FsPath) -> Result<Url, String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("can't make the folder: {e}"))?;
    let whole = std::fs::canonicalize(folder).map_err(|e| e.to_string())?;
    Url::from_directory_path(&whole).map_err(|()| format!("{} has no address", whole.display()))
}
