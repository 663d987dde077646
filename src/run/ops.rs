//! The ops listener: `/healthz` (the process lives), `/readyz` (it can do its work), `/metrics` (Prometheus).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use redirect::links::LinkStore;

/// What the ops listener shows.
#[derive(Clone, Debug)]
pub(crate) struct Ops {
    ready: Arc<AtomicBool>,
    metrics: Arc<Registry>,
    /// The store whose writer this process can't do without; none for a process that only redirects or reads.
    writes: Option<LinkStore>,
}

impl Ops {
    /// Not ready until told, and not while `writes` can't be written.
    pub(crate) fn new(metrics: Registry, writes: Option<LinkStore>) -> Self {
        Self { ready: Arc::new(AtomicBool::new(false)), metrics: Arc::new(metrics), writes }
    }

    /// Tells whether new work is welcome: from the end of the start to the beginning of the drain.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// The routes.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

async fn readyz(State(ops): State<Ops>) -> Response {
    if !ops.ready.load(Ordering::Acquire) {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response();
    }
    if let Some(store) = &ops.writes
        && let Err(error) = store.check_writable().await
    {
        tracing::error!(%error, "not ready");
        return (StatusCode::SERVICE_UNAVAILABLE, "the link store can't be written\n").into_response();
    }
    "ready\n".into_response()
}

async fn metrics(State(ops): State<Ops>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &ops.metrics) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
