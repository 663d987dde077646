//! The query listener's routes.

mod accept;
mod auth;
mod problem;
mod reports;
mod sql;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

pub(crate) use auth::Caller;
pub(crate) use problem::Problem;

use crate::dashboard;
use crate::service::QueryService;

/// Longest body that a request may have.
const MAX_REQUEST: usize = 256 * 1024;

/// The query listener: reports, SQL, status, dashboard.
pub fn router(service: QueryService) -> Router {
    Router::new()
        .route("/v1/reports/clicks", get(reports::clicks))
        .route("/v1/sql", post(sql::sql))
        .route("/v1/status", get(status))
        .route("/v1/openapi.json", get(openapi))
        .merge(dashboard::routes())
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(axum::extract::DefaultBodyLimit::max(MAX_REQUEST))
        .with_state(service)
}

async fn status(State(service): State<QueryService>, caller: Caller) -> Result<Response, Problem> {
    let status = service.status(&caller.0).await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(status)).into_response())
}

/// The description of this interface; it tells nothing about what is in the lake, so that tools can read it first.
async fn openapi(_: Caller) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("openapi.json"))
}

#[cfg(test)]
mod tests;
