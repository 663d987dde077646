//! A store that fails on purpose, for tests here and in crate `tests`.
//!
//! A fault is armed for the n-th put, from now on, of a path that holds a text: it fails before anything is
//! written, or after it is (the answer is lost), or waits, or stands still until it is let go (a paused owner).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;

/// What goes wrong with a put.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It fails and nothing is written.
    Before,
    /// It is written, and fails all the same: the answer is lost.
    After,
    /// It takes this much longer.
    Delay(Duration),
    /// It stands still, before anything is written, until the gate is opened.
    Hold(Gate),
    /// It is written whatever is there, although it was to be put on a condition.
    Careless,
}

/// Where a put stands still.
#[derive(Clone, Debug)]
pub struct Gate {
    /// 0 nobody there yet, 1 somebody waits, 2 open.
    state: Arc<watch::Sender<u8>>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { state: Arc::new(watch::Sender::new(0)) }
    }

    /// Waits until a put stands before the gate.
    pub async fn reached(&self) {
        // the sender is held by `self`, so the wait can't end by its going
        drop(self.state.subscribe().wait_for(|state| *state >= 1).await);
    }

    /// Lets the put, and all that come, go on.
    pub fn open(&self) {
        self.state.send_replace(2);
    }

    async fn pass(&self) {
        self.state.send_if_modified(|state| {
            let first = *state == 0;
            *state = (*state).max(1);
            first
        });
        drop(self.state.subscribe().wait_for(|state| *state == 2).await);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct Armed {
    pattern: String,
    left: usize,
    fault: Fault,
}

/// A store with faults to arm. Clones share them.
#[derive(Clone, Debug)]
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    armed: Arc<Mutex<Vec<Armed>>>,
    down: Arc<AtomicBool>,
}

impl FaultStore {
    /// A store that hands all on to `inner` until a fault is armed.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, armed: Arc::default(), down: Arc::default() }
    }

    /// The n-th put from now on (1 is the next) to a path that holds `pattern` goes wrong, once.
    pub fn arm(&self, pattern: &str, nth: usize, fault: Fault) {
        self.faults().push(Armed { pattern: pattern.to_owned(), left: nth.max(1), fault });
    }

    /// Faults that haven't happened won't.
    pub fn disarm(&self) {
        self.faults().clear();
    }

    /// Whether every armed fault has happened.
    pub fn is_spent(&self) -> bool {
        self.faults().is_empty()
    }

    /// Makes every request fail, or none any more.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    fn faults(&self) -> MutexGuard<'_, Vec<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault that is due for a put to `location`. Of several, the one armed first; the next takes the next put.
    fn due(&self, location: &Path) -> Option<Fault> {
        let mut armed = self.faults();
        let matches = |one: &Armed| location.as_ref().contains(&one.pattern);
        let due = armed.iter().position(|one| matches(one) && one.left == 1);
        for one in armed.iter_mut().filter(|one| matches(one) && one.left > 1) {
            one.left -= 1;
        }
        due.map(|at| armed.remove(at).fault)
    }

    fn check(&self) -> Result<()> {
        if self.down.load(Ordering::SeqCst) { Err(failure("the store is down")) } else { Ok(()) }
    }
}

fn failure(reason: &'static str) -> Error {
    Error::Generic { store: "fault", source: reason.into() }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.check()?;
        match self.due(location) {
            Some(Fault::Before) => return Err(failure("armed to fail before the put")),
            Some(Fault::After) => {
                self.inner.put_opts(location, payload, options).await?;
                return Err(failure("armed to fail after the put"));
            }
            Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
            Some(Fault::Hold(gate)) => gate.pass().await,
            Some(Fault::Careless) => {
                let options = PutOptions { mode: PutMode::Overwrite, ..options };
                return self.inner.put_opts(location, payload, options).await;
            }
            None => {}
        }
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.check()?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check()?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check() {
            Ok(()) => self.inner.list(prefix),
            Err(e) => futures::stream::once(async { Err(e) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.check()?;
        self.inner.copy_opts(from, to, options).await
    }
}
