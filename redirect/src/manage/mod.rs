//! The management API (interface §3): links, edge logs and events over HTTP, for whoever holds a token.
//!
//! ```text
//! request ──► auth (token → caller) ──► route ──► input (body, parameters) ──► links  ──► LinkStore
//!                    │                   │                 │              └──► events ──► pipeline
//!                    └───────────────────┴─────────────────┴────────────────────┴──► Problem (RFC 9457)
//! ```
//!
//! Invariants: nothing is answered without a token, unknown paths included; a tenant sees and changes its own
//! workspace's links, and another's is the same 404 as none at all; every error is a [`Problem`] that names the field
//! at fault; bodies are bounded in size and in time, and an upload is never held in memory as a whole.
//!
//! The calls on each thing are a file beside `links.rs` and their lines in [`router`].
//!
//! Failure: when the link store fails, 503 with `Retry-After`; why is in the log, not in the answer.

mod auth;
mod body;
mod events;
mod input;
mod links;
mod places;
mod problem;
mod staged;
mod uploads;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use http::StatusCode;
use ingest::ports::EventIntake;
use ingest::queue::UploadStore;

pub use events::naming_of;
pub use problem::Problem;

use crate::links::LinkStore;
use places::Places;

/// Bodies of events that are worked on at once.
const EVENT_BODIES: usize = 16;
/// As many of them may be of one workspace.
const EVENT_BODIES_EACH: usize = 4;
/// Uploads under way at once; each takes a few megabytes of memory.
const UPLOADS: usize = 32;

/// Bounds of the management API.
#[derive(Clone, Debug)]
pub struct ManageConfig {
    /// The largest JSON body, in bytes.
    pub max_body: usize,
    /// How long a JSON body may take to come.
    pub body_deadline: Duration,
    /// The largest upload of an edge log, in bytes.
    pub max_upload: u64,
    /// Uploads of one workspace at once.
    pub max_uploads: usize,
    /// The largest body of events, in bytes as they are sent.
    pub max_events: usize,
    /// How long a body of events may take to come.
    pub events_deadline: Duration,
    /// The edge that events came through if they don't say (`[edge] provider`).
    pub edge_provider: String,
}

impl Default for ManageConfig {
    fn default() -> Self {
        Self {
            max_body: 64 * 1024,
            body_deadline: Duration::from_secs(10),
            max_upload: 1 << 30,
            max_uploads: 4,
            max_events: 10 << 20,
            events_deadline: Duration::from_secs(60),
            edge_provider: "none".to_owned(),
        }
    }
}

/// What every handler has.
#[derive(Clone, Debug)]
struct Manage {
    store: LinkStore,
    uploads: Uploads,
    events: Arc<dyn EventIntake>,
    event_places: Places,
    config: ManageConfig,
}

/// Uploads of edge logs: where they are kept, and how many are under way.
#[derive(Clone, Debug)]
struct Uploads {
    store: Arc<dyn UploadStore>,
    places: Places,
}

/// The management API over `store`, which also says what the domains are; `uploads` keeps what is uploaded, and `events`
/// takes in what is posted.
pub fn router(
    store: LinkStore,
    uploads: Arc<dyn UploadStore>,
    events: Arc<dyn EventIntake>,
    config: ManageConfig,
) -> Router {
    let uploads = Uploads { store: uploads, places: Places::new("uploads", UPLOADS, config.max_uploads, "5") };
    let event_places = Places::new("bodies", EVENT_BODIES, EVENT_BODIES_EACH, "1");
    let manage = Manage { store: store.clone(), uploads, events, event_places, config };
    Router::new()
        .route("/v1/events", post(events::post))
        .route("/v1/links", get(links::list).post(links::create))
        .route("/v1/links/{code}", get(links::get).patch(links::patch).delete(links::delete))
        .route("/v1/links/{code}/disable", post(links::disable))
        .route("/v1/links/{code}/enable", post(links::enable))
        .route("/v1/edge-logs", post(uploads::create))
        .route("/v1/edge-logs/{code}", get(uploads::get))
        .fallback(async || Problem::no_such_path())
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(manage)
        .layer(from_fn_with_state(store, auth::authenticate))
}

async fn method_not_allowed(method: http::Method) -> Problem {
    let detail = format!("this path doesn't take {method}; the header Allow names what it takes");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed", detail)
}

#[cfg(test)]
mod tests;
