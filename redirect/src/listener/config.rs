//! What the listener is told, and why it can't do it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use schemas::privacy::Privacy;

use super::cache::CacheLimits;
use super::edge::Edge;
use super::patience::Waits;
use super::policy::Ttls;
use crate::links::Domains;

/// What the listener is to do.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The host names served.
    pub domains: Domains,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether every other peer is refused.
    pub edge_only: bool,
    /// What stands in front.
    pub edge: Edge,
    /// The header with the client's address.
    pub client_ip_header: HeaderName,
    /// Who asks for privacy, and what is kept of queries.
    pub privacy: Privacy,
    /// How long each layer may keep an answer.
    pub ttls: Ttls,
    /// What bounds the link cache.
    pub cache: CacheLimits,
    /// The most connections open at once, over all workers.
    pub connections: usize,
    /// How long to wait for a peer.
    pub waits: Waits,
    /// How long connections may take to finish once the listener stops.
    pub drain: Duration,
}

impl ListenerConfig {
    /// A listener for these domains, with defaults for all else.
    pub fn new(listen: SocketAddr, domains: Domains) -> Self {
        Self {
            listen,
            domains,
            trusted_proxies: Vec::new(),
            edge_only: false,
            edge: Edge::none(),
            client_ip_header: HeaderName::from_static("x-forwarded-for"),
            privacy: Privacy::default(),
            ttls: Ttls::default(),
            cache: CacheLimits::default(),
            connections: 16_384,
            waits: Waits { header: Duration::from_secs(10), idle: Duration::from_secs(75) },
            drain: Duration::from_secs(10),
        }
    }
}

/// Why the listener can't begin, or didn't go on.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// The address can't be had.
    #[error("redirect.listen ({address}) can't be listened on: {source}")]
    Bind {
        /// As configured.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no journal to write to.
    #[error("the redirect listener needs a journal for each of its workers, and has none")]
    NoJournal,
    /// A takedown would not be in force in time.
    #[error(
        "redirect.s_maxage + redirect.cache_ttl + redirect.max_age ({takedown:?}) exceeds redirect.takedown_limit \
         ({limit:?})"
    )]
    Takedown {
        /// How long it may take.
        takedown: Duration,
        /// How long it may take at most.
        limit: Duration,
    },
    /// A worker's thread couldn't begin.
    #[error("a thread of the redirect listener can't be started: {0}")]
    Thread(#[source] io::Error),
    /// A worker's thread ended by itself.
    #[error("a thread of the redirect listener has died")]
    Died,
}
