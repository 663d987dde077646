//! An upload's bytes while it is under way: removed again when it ends before it is queued, however it ends. And how
//! many are under way at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ingest::ports::PortError;
use ingest::queue::UploadStore;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Uploads of all workspaces together; each takes a few megabytes of memory.
const MOST_AT_ONCE: usize = 32;

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

/// Who uploads, and how much at once.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// One upload's place, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    workspace: String,
}

impl Places {
    /// `most` for each workspace.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place for an upload of `workspace`; none while there are enough.
    pub(super) fn take(self: &Arc<Self>, workspace: &str) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(workspace).copied().unwrap_or_default();
        if own >= self.most || taken.values().sum::<usize>() >= MOST_AT_ONCE {
            return None;
        }
        taken.insert(workspace.to_owned(), own + 1);
        Some(Place { places: Arc::clone(self), workspace: workspace.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.workspace) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.workspace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workspace_has_its_places_and_all_together_have_theirs() {
        let places = Places::new(2);
        let first = places.take("a").unwrap();
        let _second = places.take("a").unwrap();
        assert!(places.take("a").is_none());
        let _other = places.take("b").unwrap();
        drop(first);
        let _again = places.take("a").unwrap();
        let many: Vec<_> = (0..MOST_AT_ONCE).filter_map(|n| places.take(&format!("w{n}"))).collect();
        assert_eq!(many.len(), MOST_AT_ONCE - 3);
    }
}
