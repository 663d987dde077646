//! Events posted a body at a time: into the lake before the answer.
//!
//! ```text
//! body ──unpack, parse (as any file)──► one chunk ──union by id──► clicks    (settled)
//!                                            │                └──► arrivals  (a journal may bring the same id)
//!                                            └──► rejects                    then the answer: a fate a line
//! ```
//! * `body`: a body's lines, and what it may cost; `landing`: into the lake; `waiting`: events that wait there
//!
//! Invariants
//! * What is accepted is durable before the answer.
//! * Nothing is remembered of a body: its events are known by their ids, so one that comes again adds nothing, also
//!   after a kill between commit and answer.
//! * Bodies land one after the other, each on the newest snapshot, under the settlers' fence.
//! * accepted + duplicates + rejected = lines that aren't blank.
//!
//! Failure: a body that can't be read to its end is refused before anything of it lands; a lake that fails may have
//! taken it in, which the next try finds out.

mod body;
mod landing;
mod waiting;

use std::sync::Arc;

use async_trait::async_trait;
use ingest::edge::ReadError;
use ingest::ports::{EventIntake, EventPost, EventsTaken, IntakeError, PortError};
use schemas::UtcMicros;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use self::landing::Open;
use super::error::Failure;
use super::identity::hash_of;
use super::importer::{Importer, Shared};
use super::run::ID_DIGITS;
use super::side::Origin;
use crate::metrics::Metrics;

pub(super) use self::landing::POSTED;

pub use self::body::{MOST_HOURS, MOST_LINES, MOST_UNPACKED};

impl From<Failure> for IntakeError {
    fn from(failure: Failure) -> Self {
        let failed = |source| Self::Failed(PortError { doing: "taking posted events in", source });
        match failure {
            Failure::Read(ReadError::TooLarge { limit }) => {
                Self::TooMuch(format!("the body unpacks to more than {limit} bytes"))
            }
            Failure::Read(source) => Self::Unreadable(source.to_string()),
            Failure::Settle(source) => failed(source.into()),
            Failure::BrokeOff(part) => failed(part.into()),
            // posts are of no file that could be set back
            Failure::BeginAnew | Failure::TakenBack(_) => failed("another import was taken back meanwhile".into()),
        }
    }
}

/// Takes posted events in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventDesk {
    shared: Arc<Shared>,
    metrics: Metrics,
    open: Arc<Mutex<Option<Open>>>,
}

impl EventDesk {
    /// Into the lake of `importer`.
    pub fn new(importer: &Importer) -> Self {
        Self { shared: Arc::clone(&importer.shared), metrics: importer.metrics.clone(), open: Arc::default() }
    }

    async fn take(&self, post: EventPost) -> Result<EventsTaken, IntakeError> {
        let origin = origin(&post, UtcMicros::now());
        let chunk = self.parse(post, &origin.import_id).await?;
        let mut open = self.open.lock().await;
        let mut state = match open.take() {
            Some(state) => state,
            None => Open::new(&self.shared).await?,
        };
        let taken = state.land(&origin, &chunk, &self.metrics).await?;
        // after a failure it is opened anew: what it shows may be old, or wrong
        *open = Some(state);
        Ok(taken)
    }
}

#[async_trait]
impl EventIntake for EventDesk {
    /// Dropped, the work goes on.
    async fn take_in(&self, post: EventPost) -> Result<EventsTaken, IntakeError> {
        let (desk, runtime) = (self.clone(), Handle::current());
        // parsing and deciding take longer than other tasks should wait
        let done = tokio::task::spawn_blocking(move || runtime.block_on(desk.take(post)));
        done.await.unwrap_or_else(|e| Err(Failure::BrokeOff(e.to_string()).into()))
    }
}

/// Under what the side tables name the posts of one workspace, provider and day.
fn origin(post: &EventPost, now: UtcMicros) -> Origin {
    let EventPost { workspace, naming, .. } = post;
    let day = now.to_datetime().format("%Y-%m-%d").to_string();
    let id = hash_of(b"posted events", &[workspace, naming.provider(), &naming.stand().to_string(), &day]);
    Origin {
        import_id: id[..ID_DIGITS].into(),
        name: format!("POST /v1/events of {day}"),
        workspace: workspace.clone(),
        provider: naming.provider().to_string(),
        brought: naming.provider().to_string(),
        source: None,
        sha256: String::new(),
        location: None,
        options: String::new(),
    }
}
