//! The management API (interface §3): links and edge logs over HTTP, for whoever holds a token.
//!
//! ```text
//! request ──► auth (token → caller) ──► route ──► input (body, parameters) ──► links ──► LinkStore
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
mod input;
mod links;
mod problem;
mod staged;
mod uploads;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use http::StatusCode;
use ingest::queue::UploadStore;

pub use problem::Problem;

use crate::links::LinkStore;

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
}

impl Default for ManageConfig {
    fn default() -> Self {
        Self { max_body: 64 * 1024, body_deadline: Duration::from_secs(10), max_upload: 1 << 30, max_uploads: 4 }
    }
}

/// What every handler has.
#[derive(Clone, Debug)]
struct Manage {
    store: LinkStore,
    uploads: Uploads,
    config: ManageConfig,
}

/// Uploads of edge logs: where they are kept, and how many are under way.
#[derive(Clone, Debug)]
struct Uploads {
    store: Arc<dyn UploadStore>,
    places: Arc<staged::Places>,
}

/// The management API over `store`, which also says what the domains are; `uploads` keeps what is uploaded.
pub fn router(store: LinkStore, uploads: Arc<dyn UploadStore>, config: ManageConfig) -> Router {
    let uploads = Uploads { store: uploads, places: staged::Places::new(config.max_uploads) };
    let manage = Manage { store: store.clone(), uploads, config };
    Router::new()
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
