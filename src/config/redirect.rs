//! `[redirect]` and `[edge]`: what is answered, and what stands before it.

use std::net::SocketAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Span, loopback, seconds, units};

/// `[redirect]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Redirect {
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    /// Host names served; the first is the default for new links and for logs without a host.
    pub(crate) domains: Vec<String>,
    /// Peers whose forwarding headers are believed.
    #[serde(deserialize_with = "units::nets")]
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Refuse every other peer.
    pub(crate) edge_only: bool,
    /// Threads; 0 = one a core.
    pub(crate) workers: usize,
    /// How long the edge may store a redirect.
    pub(crate) s_maxage: Span,
    /// How long a browser may.
    pub(crate) max_age: Span,
    /// How long a node may.
    pub(crate) cache_ttl: Span,
    /// How long a node remembers that a code is unknown.
    pub(crate) negative_ttl: Span,
    /// Within this a takedown is in force everywhere.
    pub(crate) takedown_limit: Span,
}

/// `[edge]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Edge {
    /// Which CDN is in front.
    pub(crate) provider: String,
    /// How its request ids are judged.
    pub(crate) id: IdMode,
    /// Header with its request id; empty: the provider's.
    pub(crate) request_id_header: String,
    /// Header with the client's address.
    pub(crate) client_ip_header: String,
    /// Header with the client's country; empty: the provider's.
    pub(crate) country_header: String,
    /// Header with its region; empty: the provider's.
    pub(crate) region_header: String,
    /// Header with its city; empty: the provider's.
    pub(crate) city_header: String,
    /// How far clocks may differ.
    pub(crate) skew: Span,
    /// How long an edge may ask again under one id.
    pub(crate) repeat: Span,
    /// How far two records of one id may be apart.
    pub(crate) max_skew: Span,
    /// How long an origin-class line waits for its event.
    pub(crate) recover_after: Span,
    /// How long logs may take until numbers are final.
    pub(crate) settle: Span,
}

/// How request ids of a provider are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdMode {
    /// As is known of the provider.
    Auto,
    /// The union by id decides.
    Trusted,
    /// The cache status decides.
    StatusOnly,
}

impl Default for Redirect {
    fn default() -> Self {
        Self {
            listen: loopback(8080),
            domains: vec!["localhost:8080".into()],
            trusted_proxies: ["127.0.0.0/8", "::1/128"].iter().filter_map(|net| net.parse().ok()).collect(),
            edge_only: false,
            workers: 0,
            s_maxage: seconds(10),
            max_age: seconds(0),
            cache_ttl: seconds(5),
            negative_ttl: seconds(2),
            takedown_limit: seconds(30),
        }
    }
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            provider: "none".into(),
            id: IdMode::Auto,
            request_id_header: String::new(),
            client_ip_header: "x-forwarded-for".into(),
            country_header: String::new(),
            region_header: String::new(),
            city_header: String::new(),
            skew: seconds(5),
            repeat: seconds(60),
            max_skew: seconds(600),
            recover_after: seconds(900),
            settle: seconds(48 * 3600),
        }
    }
}
