//! The HTTP listeners beside the redirects': bounded in connections and in what a slow peer may cost, so that they can
//! never take from redirects what those need.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The most connections of one listener; more wait to be accepted.
const CONNECTIONS: usize = 256;
/// How long a head may take to come, an idle connection's next one included.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// How long requests under way may take to finish once the listener stops.
const FINISH_WITHIN: Duration = Duration::from_secs(5);
/// The pause after a failed accept, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers until `stop`, then lets requests under way finish.
///
/// # Errors
/// None by itself: what fails is a connection, not the listener.
pub(crate) async fn serve(socket: TcpListener, router: Router, stop: CancellationToken) -> anyhow::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let running = TaskTracker::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_headers(64);
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await.context("no more places")?;
            anyhow::Ok((place, socket.accept().await))
        };
        let Some(next) = stop.run_until_cancelled(accept).await else { break };
        let (place, accepted) = next?;
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let stop = stop.clone();
        running.spawn(async move {
            let mut connection = std::pin::pin!(connection);
            // how a peer leaves is its own business
            tokio::select! {
                _ = connection.as_mut() => {}
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            drop(place);
        });
    }
    running.close();
    if tokio::time::timeout(FINISH_WITHIN, running.wait()).await.is_err() {
        tracing::warn!("requests under way were cut off");
    }
    Ok(())
}

/// Raises the limit of open files to what the system allows: each connection takes one, and so do the lake's files.
pub(crate) fn raise_file_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files can't be raised");
    }
}
