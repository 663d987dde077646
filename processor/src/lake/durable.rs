//! Local files that survive a power cut.
//!
//! The store of crate `object_store` never syncs (0.13), and links a new file under its name before its bytes
//! are on disk: a power cut could leave an empty log entry, which no reader gets past. Here a file is written under
//! a temporary name, synced, given its name, and its folder synced. So a file that can be seen is whole, and one
//! whose put has returned stays.
//!
//! A put makes no folder but that of its own partition, and only in a table that is there. A table's log folder is made
//! by its first entry alone, within a lake that is there: were the folder taken away (a disk that isn't mounted, a lake
//! that was moved), a commit would else go on in an empty one of the same name.
//!
//! A killed process may leave `.tmp-…` files behind; clean-up takes them as it takes any file that no commit names.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use uuid::Uuid;

use super::place::{LOG, Place};

/// Begins the name of a file that is not whole yet.
pub(super) const TEMPORARY: &str = ".tmp-";

/// A local file system whose puts, copies and renames are on disk when they return.
#[derive(Clone, Debug)]
pub struct DurableStore {
    files: Arc<LocalFileSystem>,
}

impl DurableStore {
    /// The whole local file system.
    pub fn new() -> Self {
        Self { files: Arc::new(LocalFileSystem::new()) }
    }

    async fn sync_at(&self, location: &Path) -> Result<()> {
        let path = self.files.path_to_filesystem(location)?;
        blocking(move || {
            File::open(&path)?.sync_all()?;
            sync_folder(&path)
        })
        .await
    }
}

impl Default for DurableStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for DurableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableStore({})", self.files)
    }
}

#[async_trait]
impl ObjectStore for DurableStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let create = match options.mode {
            PutMode::Create => true,
            PutMode::Overwrite => false,
            // files have no versions to compare: what the inner store says to it
            PutMode::Update(_) => return self.files.put_opts(location, payload, options).await,
        };
        let path = self.files.path_to_filesystem(location)?;
        let written = move || {
            write_whole(&path, &payload, create)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        blocking(written).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.files.put_multipart_opts(location, options).await?;
        Ok(Box::new(DurableUpload { upload, store: self.clone(), location: location.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await?;
        self.sync_at(to).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.files.rename_opts(from, to, options).await?;
        self.sync_at(to).await
    }
}

#[derive(Debug)]
struct DurableUpload {
    upload: Box<dyn MultipartUpload>,
    store: DurableStore,
    location: Path,
}

#[async_trait]
impl MultipartUpload for DurableUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let result = self.upload.complete().await?;
        self.store.sync_at(&self.location).await?;
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

/// Writes `payload` to `path`; with `create` only if there is no such file.
fn write_whole(path: &FsPath, payload: &PutPayload, create: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(FsPath::new("/"));
    let temporary = folder.join(format!("{TEMPORARY}{}", Uuid::new_v4()));
    let mut file = match File::create_new(&temporary) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            make_folders(path, folder)?;
            File::create_new(&temporary)?
        }
        other => other?,
    };
    let written = (|| {
        for chunk in payload {
            file.write_all(chunk)?;
        }
        file.sync_all()?;
        if create { fs::hard_link(&temporary, path) } else { fs::rename(&temporary, path) }
    })();
    if create || written.is_err() {
        // only the name is left over; a clean-up takes it if this fails
        drop(fs::remove_file(&temporary));
    }
    written?;
    sync_folder(path)
}

/// Makes the folder that `path` is to be in, as far as a put may.
fn make_folders(path: &FsPath, folder: &FsPath) -> io::Result<()> {
    if begins_table(path) {
        return match folder.parent().and_then(FsPath::parent) {
            Some(lake) if !lake.exists() => {
                let reason = format!("the lake's folder {} is gone", lake.display());
                Err(io::Error::new(ErrorKind::NotFound, reason))
            }
            _ => make_all(folder),
        };
    }
    if folder.file_name().is_some_and(|name| name == LOG) {
        let reason = format!("{} is gone, and only a new table's first entry makes one", folder.display());
        return Err(io::Error::new(ErrorKind::NotFound, reason));
    }
    match fs::create_dir(folder) {
        // another put was faster
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let reason = format!("the table's folder is gone: {} can't be made", folder.display());
            Err(io::Error::new(ErrorKind::NotFound, reason))
        }
        Err(e) => Err(e),
        Ok(()) => sync_folder(folder),
    }
}

/// Whether this is the first entry of a table's log.
fn begins_table(path: &FsPath) -> bool {
    let in_log = path.parent().and_then(FsPath::file_name).is_some_and(|name| name == LOG);
    in_log && path.file_name().is_some_and(|name| name == Place::entry(0).filename().unwrap_or_default())
}

/// Makes `folder` and what is missing above it, each synced into its parent.
fn make_all(folder: &FsPath) -> io::Result<()> {
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut at = folder;
    while !at.exists() {
        missing.push(at.to_owned());
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    fs::create_dir_all(folder)?;
    missing.iter().rev().try_for_each(|made| sync_folder(made))
}

/// Syncs the folder that holds `path`.
fn sync_folder(path: &FsPath) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Runs `work` where blocking is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let done = match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|source| Error::JoinError { source })?,
        Err(_) => work(),
    };
    done.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => Error::AlreadyExists { path: source.to_string(), source: source.into() },
        ErrorKind::NotFound => Error::NotFound { path: source.to_string(), source: source.into() },
        _ => Error::Generic { store: "local files", source: source.into() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt as _;
    use object_store::ObjectStoreExt as _;

    fn place(folder: &FsPath, name: &str) -> Path {
        Path::from_absolute_path(folder.join(name)).unwrap()
    }

    #[tokio::test]
    async fn a_put_makes_its_partitions_folder_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = DurableStore::new();
        let location = place(folder.path(), "a/c.json");
        store.put(&location, "one".into()).await.unwrap();
        store.put(&location, "two".into()).await.unwrap();
        assert_eq!(store.get(&location).await.unwrap().bytes().await.unwrap(), "two");
        let root = Path::from_absolute_path(folder.path()).unwrap();
        let all: Vec<ObjectMeta> = store.list(Some(&root)).try_collect().await.unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
    }

    #[tokio::test]
    async fn only_a_tables_first_entry_makes_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let store = DurableStore::new();
        for name in [
            "lake/clicks/_delta_log/00000000000000000003.json",
            "lake/clicks/_delta_log/_last_checkpoint",
            "lake/clicks/date=2026-03-14/a.parquet",
        ] {
            let error = store.put(&place(folder.path(), name), "x".into()).await.unwrap_err().to_string();
            assert!(error.contains("gone"), "{error}");
        }
        let first = place(folder.path(), "lake/clicks/_delta_log/00000000000000000000.json");
        assert!(store.put(&first, "x".into()).await.is_err(), "nor that of the lake");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
        fs::create_dir(folder.path().join("lake")).unwrap();
        store.put(&first, "x".into()).await.unwrap();
        let data = place(folder.path(), "lake/clicks/date=2026-03-14/a.parquet");
        store.put(&data, "x".into()).await.unwrap();
    }

    #[tokio::test]
    async fn a_create_only_put_never_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let store = DurableStore::new();
        let location = place(folder.path(), "x.json");
        let create = || PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        store.put_opts(&location, "one".into(), create()).await.unwrap();
        let again = store.put_opts(&location, "two".into(), create()).await;
        assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
        assert_eq!(store.get(&location).await.unwrap().bytes().await.unwrap(), "one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_put_into_a_read_only_place_says_so() {
        let store = DurableStore::new();
        let location = Path::from("proc/highwater/none.json");
        assert!(store.put(&location, "x".into()).await.is_err());
    }

    #[tokio::test]
    async fn an_upload_in_parts_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = DurableStore::new();
        let location = place(folder.path(), "parts.bin");
        let mut upload = store.put_multipart(&location).await.unwrap();
        upload.put_part("one ".into()).await.unwrap();
        upload.put_part("two".into()).await.unwrap();
        upload.complete().await.unwrap();
        assert_eq!(store.get(&location).await.unwrap().bytes().await.unwrap(), "one two");
    }
}
