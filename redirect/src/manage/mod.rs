//! The management API (interface §3): links over HTTP, for whoever holds a token.
//!
//! ```text
//! request ──► auth (token → caller) ──► route ──► input (body, parameters) ──► links ──► LinkStore
//!                    └───────────────────┴─────────────────┴────────────────────┴──► Problem (RFC 9457)
//! ```
//!
//! Invariants: nothing is answered without a token, unknown paths included; a tenant sees and changes its own
//! workspace's links, and another's is the same 404 as none at all; every error is a [`Problem`] that names the field
//! at fault; bodies are bounded in size and in time.
//!
//! The calls on each thing are a file beside `links.rs` and their lines in [`router`].
//!
//! Failure: when the link store fails, 503 with `Retry-After`; why is in the log, not in the answer.

mod auth;
mod input;
mod links;
mod problem;

use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use http::StatusCode;

pub use problem::Problem;

use crate::links::LinkStore;

/// Bounds of the management API.
#[derive(Clone, Debug)]
pub struct ManageConfig {
    /// The largest JSON body, in bytes.
    pub max_body: usize,
    /// How long a JSON body may take to come.
    pub body_deadline: Duration,
}

impl Default for ManageConfig {
    fn default() -> Self {
        Self { max_body: 64 * 1024, body_deadline: Duration::from_secs(10) }
    }
}

/// What every handler has.
#[derive(Clone, Debug)]
struct Manage {
    store: LinkStore,
    config: ManageConfig,
}

/// The management API over `store`, which also says what the domains are.
pub fn router(store: LinkStore, config: ManageConfig) -> Router {
    let manage = Manage { store: store.clone(), config };
    Router::new()
        .route("/v1/links", get(links::list).post(links::create))
        .route("/v1/links/{code}", get(links::get).patch(links::patch).delete(links::delete))
        .route("/v1/links/{code}/disable", post(links::disable))
        .route("/v1/links/{code}/enable", post(links::enable))
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
