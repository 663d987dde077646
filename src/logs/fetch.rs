//! An object's bytes into a file without a name, as a stream that is taken up again where it broke off.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use object_store::{GetOptions, GetRange};
use tokio::io::AsyncWriteExt as _;

use super::objects::{ANSWER_WITHIN, Object, ObjectError, within};

/// Times in a row that a stream may break off without a byte in between.
const TRIES: u32 = 5;
/// The pause before the next try; twice as long after each that brought nothing.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 200 });

/// How far it is.
struct Fetching {
    file: tokio::fs::File,
    at: u64,
    /// Size and tag as of the first answer.
    first: Option<(u64, Option<String>)>,
}

/// Fetches an object. `fetched` is told how many bytes are there, and of how many.
pub(super) async fn fetch(
    object: &Object,
    spool_dir: &Path,
    mut fetched: impl FnMut(u64, u64),
) -> Result<File, ObjectError> {
    let spool = |source| ObjectError::Spool { url: object.url().to_owned(), source };
    let file = tempfile::tempfile_in(spool_dir).map_err(spool)?;
    let mut fetching = Fetching { file: tokio::fs::File::from_std(file), at: 0, first: None };
    let mut failed = 0;
    loop {
        let before = fetching.at;
        let Err(error) = fetching.go_on(object, &mut fetched).await else { break };
        failed = if fetching.at > before { 0 } else { failed + 1 };
        if !matches!(error, ObjectError::Unreachable { .. }) || failed >= TRIES {
            return Err(error);
        }
        tracing::debug!(%error, at = fetching.at, "goes on from there");
        tokio::time::sleep(PAUSE * (1 << failed)).await;
    }
    fetching.file.flush().await.map_err(spool)?;
    Ok(fetching.file.into_std().await)
}

impl Fetching {
    /// Reads from where it is to the end.
    async fn go_on(&mut self, object: &Object, fetched: &mut impl FnMut(u64, u64)) -> Result<(), ObjectError> {
        let unreachable = |why: String| ObjectError::Unreachable { url: object.url().to_owned(), why };
        let replaced = || ObjectError::Replaced { url: object.url().to_owned() };
        if self.first.as_ref().is_some_and(|(size, _)| *size == self.at) {
            return Ok(());
        }
        let options = GetOptions {
            range: (self.at > 0).then_some(GetRange::Offset(self.at)),
            if_match: self.first.as_ref().and_then(|(_, tag)| tag.clone()),
            ..GetOptions::default()
        };
        let got = within(object.url(), object.store.get_opts(&object.path, options)).await?;
        let now = (got.meta.size, got.meta.e_tag.clone());
        let first = self.first.get_or_insert_with(|| now.clone());
        if *first != now {
            return Err(replaced());
        }
        let size = first.0;
        let mut bytes = got.into_stream();
        while self.at < size {
            let next = tokio::time::timeout(ANSWER_WITHIN, bytes.next()).await;
            let chunk = match next {
                Ok(Some(chunk)) => chunk.map_err(|error| ObjectError::of(object.url(), &error))?,
                Ok(None) => return Err(unreachable(format!("broke off after {} of {size} bytes", self.at))),
                Err(_) => return Err(unreachable(format!("stood still for {ANSWER_WITHIN:?}"))),
            };
            let spool = |source| ObjectError::Spool { url: object.url().to_owned(), source };
            self.file.write_all(&chunk).await.map_err(spool)?;
            self.at += chunk.len() as u64;
            fetched(self.at, size);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::objects::testing::prefix;
    use super::*;
    use async_trait::async_trait;
    use bytes::Bytes;
    use futures::stream::BoxStream;
    use object_store::memory::InMemory;
    use object_store::path::Path as Key;
    use object_store::{
        CopyOptions, Error, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
        ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    };

    /// Gives a few bytes of each answer, then breaks off; replaces the object after `replace_after` answers.
    #[derive(Debug)]
    struct Flaky {
        inner: InMemory,
        gives: usize,
        answers: AtomicU32,
        replace_after: u32,
    }

    impl std::fmt::Display for Flaky {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("flaky")
        }
    }

    #[async_trait]
    impl ObjectStore for Flaky {
        async fn put_opts(&self, at: &Key, bytes: PutPayload, options: PutOptions) -> Result<PutResult> {
            self.inner.put_opts(at, bytes, options).await
        }
        async fn put_multipart_opts(&self, at: &Key, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
            self.inner.put_multipart_opts(at, o).await
        }
        async fn get_opts(&self, at: &Key, options: GetOptions) -> Result<GetResult> {
            if self.answers.fetch_add(1, Ordering::SeqCst) == self.replace_after {
                self.inner.put(at, "something else".into()).await?;
            }
            let head = options.head;
            let mut got = self.inner.get_opts(at, options).await?;
            if !head {
                let meta = got.meta.clone();
                let range = got.range.clone();
                let attributes = got.attributes.clone();
                let bytes = got.bytes().await?;
                let given = bytes.slice(..bytes.len().min(self.gives));
                let broken = Error::Generic { store: "flaky", source: "reset by peer".into() };
                let parts: Vec<Result<Bytes>> = vec![Ok(given), Err(broken)];
                let payload = GetResultPayload::Stream(futures::stream::iter(parts).boxed());
                got = GetResult { payload, meta, range, attributes };
            }
            Ok(got)
        }
        fn delete_stream(&self, at: BoxStream<'static, Result<Key>>) -> BoxStream<'static, Result<Key>> {
            self.inner.delete_stream(at)
        }
        fn list(&self, at: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
            self.inner.list(at)
        }
        async fn list_with_delimiter(&self, at: Option<&Key>) -> Result<ListResult> {
            self.inner.list_with_delimiter(at).await
        }
        async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> Result<()> {
            self.inner.copy_opts(from, to, options).await
        }
    }

    async fn fetched(gives: usize, replace_after: u32) -> std::result::Result<String, ObjectError> {
        let store = Flaky { inner: InMemory::new(), gives, answers: AtomicU32::new(0), replace_after };
        store.put(&Key::from("a.log"), "the whole of it".into()).await.unwrap();
        let object = prefix(Arc::new(store), "a.log").list().await.unwrap().remove(0);
        let dir = tempfile::tempdir().unwrap();
        let mut file = fetch(&object, dir.path(), |at, of| assert!(at <= of)).await?;
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_is_taken_up_again() {
        assert_eq!(fetched(2, u32::MAX).await.unwrap(), "the whole of it");
        assert_eq!(fetched(100, u32::MAX).await.unwrap(), "the whole of it");
    }

    #[tokio::test]
    async fn one_that_gives_nothing_is_given_up() {
        let error = fetched(0, u32::MAX).await.unwrap_err();
        assert!(error.may_pass() && error.to_string().contains("reset by peer"), "{error}");
    }

    #[tokio::test]
    async fn two_versions_are_never_mixed() {
        let error = fetched(4, 3).await.unwrap_err();
        assert!(matches!(error, ObjectError::Replaced { .. }), "{error}");
    }
}
