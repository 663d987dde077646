//! An upload's bytes while it is under way: removed again when it ends before it is queued, however it ends.

use std::sync::Arc;

use bytes::Bytes;
use ingest::ports::PortError;
use ingest::queue::UploadStore;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A staged object that nobody else knows of yet.
#[derive(Debug)]
pub(super) struct Staged {
    store: Arc<dyn UploadStore>,
    object: String,
    parts: u32,
    under_way: Option<JoinHandle<Result<(), PortError>>>,
    handed_over: bool,
}

impl Staged {
    /// Nothing yet, under a name of its own.
    pub(super) fn new(store: Arc<dyn UploadStore>) -> Self {
        Self { store, object: Uuid::now_v7().simple().to_string(), parts: 0, under_way: None, handed_over: false }
    }

    /// Its name.
    pub(super) fn object(&self) -> &str {
        &self.object
    }

    /// How many parts it has.
    pub(super) fn parts(&self) -> u32 {
        self.parts
    }

    /// Adds a part.
    pub(super) async fn keep(&mut self, bytes: Bytes) -> Result<(), PortError> {
        let (store, object, part) = (Arc::clone(&self.store), self.object.clone(), self.parts);
        self.parts += 1;
        // a task of its own: when this one is dropped, the part is still on its way, and must be waited for
        let keeping = tokio::spawn(async move { store.keep(&object, part, bytes).await });
        let kept = self.under_way.insert(keeping).await;
        self.under_way = None;
        kept.unwrap_or_else(|error| Err(PortError { doing: "staging an upload", source: error.into() }))
    }

    /// The queue knows of it now.
    pub(super) fn hand_over(&mut self) {
        self.handed_over = true;
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.handed_over || self.parts == 0 {
            return;
        }
        let (store, object, parts) = (Arc::clone(&self.store), std::mem::take(&mut self.object), self.parts);
        let under_way = self.under_way.take();
        // at the end of the process there is no runtime any more: then the next one's clean-up finds it
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Some(keeping) = under_way {
                // only that it is over matters
                let _over = keeping.await;
            }
            if let Err(error) = store.remove(&object, parts).await {
                tracing::warn!(%error, object, "an upload that broke off leaves its bytes behind for now");
            }
        });
    }
}
