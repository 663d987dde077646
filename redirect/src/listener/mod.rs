//! The redirect listener (interface §2): answers `GET|HEAD /{code}`, and leaves one event a click in a journal before
//! it does.
//!
//! ```text
//! accept (one thread a worker, SO_REUSEPORT) ─► connection (HTTP/1.1, limits)
//!                                                   │ head
//!   edge, client, fields (what it says) ──► worker ─┤
//!   link store ──Lookup──► cache ─────────────┘     ├─► event ──► the worker's Journal
//!                                                   └─► answer, once the event is written
//! ```
//!
//! * `policy`: cache headers and takedown; `edge`: request ids; `client`: client addresses: pure rules
//! * `accept`, `connection`, `patience`: sockets, and what slow or many peers may cost
//! * `worker`, `event`, `answers`: a request's way
//! * `cache` with `flights` and `generations`, `keys`: what is kept of the link store
//!
//! Invariants:
//! * A redirect waits for its link's lookup and its own journal, and nothing else; its event is with the kernel before
//!   its answer is (P1, P2).
//! * The query string is no part of the lookup; nothing a peer sends makes a redirect fail.
//! * A taken-down link is answered no longer than [`Ttls::takedown`] by this listener and the caches behind it, than
//!   [`Ttls::takedown_limit`] while the link store fails, and not once more by this listener after a change made in
//!   this process has returned (P8).
//!
//! Failure: when the link store fails, links are answered from memory as long as the takedown limit allows, then with
//! 503. When the journal refuses, redirects go on and are counted. When a worker's thread dies, [`Listener::run`] ends
//! with an error, so that whoever runs it can start anew.

mod accept;
mod answers;
mod cache;
mod client;
mod config;
mod connection;
mod edge;
mod event;
mod fields;
mod flights;
mod found;
mod generations;
mod keys;
mod lookup;
mod metrics;
mod pages;
mod patience;
mod policy;
#[cfg(test)]
mod tests;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ingest::journal::WorkerJournal;
use ingest::ports::VisitorKeys;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::links::LinkStore;
use accept::ConnectionLimits;
use answers::Answers;
use cache::LinkCache;
use client::{ClientHeader, Networks};
use keys::KeyRing;
use lookup::Lookup;
use worker::{Shared, Worker};

pub use cache::CacheLimits;
pub use config::{ListenerConfig, ListenerError};
pub use edge::{Edge, EdgeError, OwnHeaders, providers};
pub use metrics::ListenerMetrics;
pub use patience::Waits;
pub use policy::Ttls;

/// How long the first answer may wait for visitor keys.
const KEYS_AT_START: Duration = Duration::from_secs(2);

/// The listener, bound to its address; it answers once it [runs](Listener::run).
#[derive(Debug)]
pub struct Listener {
    config: ListenerConfig,
    lookup: Arc<dyn Lookup>,
    keys: Arc<dyn VisitorKeys>,
    address: SocketAddr,
    workers: Vec<(TcpListener, WorkerJournal)>,
    metrics: ListenerMetrics,
}

impl Listener {
    /// Binds the address. There is a worker for each journal.
    ///
    /// # Errors
    /// [`ListenerError::Bind`] when the address is taken or can't be had, [`ListenerError::NoJournal`],
    /// [`ListenerError::Takedown`].
    pub fn bind(
        config: ListenerConfig,
        store: LinkStore,
        journals: Vec<WorkerJournal>,
        metrics: ListenerMetrics,
    ) -> Result<Self, ListenerError> {
        let store = Arc::new(store);
        Self::with_ports(config, Arc::clone(&store) as _, store, journals, metrics)
    }

    fn with_ports(
        config: ListenerConfig,
        lookup: Arc<dyn Lookup>,
        keys: Arc<dyn VisitorKeys>,
        journals: Vec<WorkerJournal>,
        metrics: ListenerMetrics,
    ) -> Result<Self, ListenerError> {
        let (takedown, limit) = (config.ttls.takedown(), config.ttls.takedown_limit);
        if takedown > limit {
            return Err(ListenerError::Takedown { takedown, limit });
        }
        let failed = |source| ListenerError::Bind { address: config.listen, source };
        let sockets = accept::bind(config.listen, journals.len()).map_err(failed)?;
        let workers: Vec<_> = sockets.into_iter().zip(journals).collect();
        let address = workers.first().ok_or(ListenerError::NoJournal)?.0.local_addr().map_err(failed)?;
        Ok(Self { config, lookup, keys, address, workers, metrics })
    }

    /// Where it listens: with the port that was given when it was asked for any.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`, then lets connections finish. The journals take no more events of it after that.
    ///
    /// # Errors
    /// [`ListenerError::Thread`] and [`ListenerError::Died`]; the other workers are stopped then.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ListenerError> {
        let stop = stop.child_token();
        // whatever ends this ends the workers
        let _stopped = stop.clone().drop_guard();
        let shared = Arc::new(self.shared());
        let first = shared.keys.refresh(&*self.keys, schemas::UtcMicros::now().day());
        // without a key clicks carry no visitor, which is better than no redirects
        let _ = tokio::time::timeout(KEYS_AT_START, first).await;
        let limits = ConnectionLimits {
            connections: self.config.connections.div_ceil(self.workers.len()).max(1),
            waits: self.config.waits,
            drain: self.config.drain,
        };
        let mut running = Vec::with_capacity(self.workers.len());
        for (number, (socket, journal)) in self.workers.into_iter().enumerate() {
            let worker = Arc::new(Worker::new(Arc::clone(&shared), journal, self.metrics.cells()));
            running.push(spawn(number, worker, socket, limits, stop.clone())?);
        }
        let all = futures::future::try_join_all(running.into_iter().map(|worker| async {
            match worker.await {
                Ok(ended) => ended.map_err(ListenerError::Thread),
                Err(_) => Err(ListenerError::Died),
            }
        }));
        tokio::select! {
            ended = all => ended.map(drop),
            () = shared.keys.keep(&*self.keys) => Ok(()),
        }
    }

    fn shared(&self) -> Shared {
        let config = &self.config;
        let names: Vec<String> = config.domains.names().map(str::to_owned).collect();
        let cache =
            LinkCache::new(Arc::clone(&self.lookup), names.clone(), config.ttls, config.cache, Handle::current());
        Shared {
            domains: config.domains.clone(),
            names,
            cache: Arc::new(cache),
            keys: KeyRing::default(),
            answers: Answers::new(&config.ttls),
            edge: config.edge.clone(),
            client_header: ClientHeader::new(config.client_ip_header.clone()),
            trusted: Networks::new(&config.trusted_proxies),
            edge_only: config.edge_only,
            privacy: config.privacy.clone(),
        }
    }
}

/// Starts a worker's thread; what comes back tells how it ended.
fn spawn(
    number: usize,
    worker: Arc<Worker>,
    socket: TcpListener,
    limits: ConnectionLimits,
    stop: CancellationToken,
) -> Result<oneshot::Receiver<io::Result<()>>, ListenerError> {
    let (tell, ended) = oneshot::channel();
    thread::Builder::new()
        .name(format!("redirect-{number}"))
        .spawn(move || {
            let result = accept::run(worker, socket, limits, &stop);
            // whoever ran the listener may have given up on it
            let _ = tell.send(result);
        })
        .map_err(ListenerError::Thread)?;
    Ok(ended)
}
