//! The redirect role: listener, journals, their sync and trimming.

use std::time::Duration;

use anyhow::Context;
use http::HeaderName;
use ingest::topic::{Forwarded, Forwarder};
use redirect::links::{Domains, LinkStore};
use redirect::listener::{Edge as EdgeRules, Listener, ListenerConfig, ListenerMetrics, OwnHeaders, Ttls};
use tokio::sync::watch;

use super::backlog;
use super::journals::NodeJournals;
use super::own::OwnJournals;
use super::tasks::Tasks;
use super::tend::{Committed, Tending};
use super::topic::Through;
use crate::config::{Config, Edge, IdMode};

/// What the redirect role was started with.
#[derive(Debug)]
pub(crate) struct Redirect {
    /// Its journals.
    node: NodeJournals,
    listener: Listener,
    skew: Duration,
}

impl Redirect {
    /// Opens the journals, each of which is in `own` from then on, and binds the listener.
    ///
    /// # Errors
    /// Names the key at fault.
    pub(crate) async fn open(
        config: &Config,
        store: &LinkStore,
        own: &OwnJournals,
        metrics: ListenerMetrics,
    ) -> anyhow::Result<Self> {
        let listener = listener_config(config)?;
        let workers = match config.redirect.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        let node = NodeJournals::open(config, store, own, workers).await?;
        let listener = Listener::bind(listener, store.clone(), node.workers.clone(), metrics)?;
        let unserved = store.unserved_domains().await?;
        if !unserved.is_empty() {
            let (domains, served) = (unserved.join(", "), config.redirect.domains.join(", "));
            tracing::warn!(
                domains,
                served,
                "there are links of domains that redirect.domains doesn't name: they answer 404"
            );
        }
        Ok(Self { node, listener, skew: config.edge.skew.0 })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.listener.local_addr()
    }

    /// Starts answering. `front` is stopped before `back`, which syncs what the front has written. Returns what has been sent
    /// into the topic, when journals go through one.
    pub(crate) fn start(
        self,
        store: LinkStore,
        committed: Committed,
        through: Option<&Through>,
        front: &mut Tasks,
        back: &mut Tasks,
    ) -> Option<watch::Receiver<Forwarded>> {
        let stop = front.stop_token();
        let listener = self.listener;
        front.spawn("redirect listener", async move { Ok(listener.run(stop).await?) });
        let own = self.node.own.clone();
        let sync = self.node.journals.sync_task(own.watch());
        let stop = back.stop_token();
        back.spawn("journal sync", async move {
            sync.run(stop).await;
            Ok(())
        });
        let stop = back.stop_token();
        let tending = Tending::new(self.node, store, committed, self.skew);
        back.spawn("journal upkeep", async move {
            tending.run(stop).await;
            Ok(())
        });
        through.map(|through| {
            let forwarder = Forwarder::new(through.topic.clone(), own.watch(), through.present.clone());
            let (own, retention, stop) = (own.clone(), through.topic.retention(), back.stop_token());
            let missing_hours = through.missing_hours.clone();
            back.spawn("backlog", async move {
                backlog::watch(own, retention, missing_hours, stop).await;
                Ok(())
            });
            let (forwarded, stop) = (forwarder.forwarded(), back.stop_token());
            back.spawn("forwarder", async move {
                forwarder.run(stop).await;
                Ok(())
            });
            forwarded
        })
    }
}

fn own_headers(edge: &Edge) -> OwnHeaders<'_> {
    OwnHeaders {
        request_id: &edge.request_id_header,
        country: &edge.country_header,
        region: &edge.region_header,
        city: &edge.city_header,
    }
}

fn listener_config(config: &Config) -> anyhow::Result<ListenerConfig> {
    let redirect = &config.redirect;
    let domains = Domains::new(&redirect.domains).context("redirect.domains")?;
    let edge = &config.edge;
    let client_ip_header: HeaderName = edge
        .client_ip_header
        .parse()
        .with_context(|| format!("edge.client_ip_header = {:?} is not the name of a header", edge.client_ip_header))?;
    Ok(ListenerConfig {
        trusted_proxies: redirect.trusted_proxies.clone(),
        edge_only: redirect.edge_only,
        edge: EdgeRules::new(&edge.provider, id_mode(edge), own_headers(edge))?,
        client_ip_header,
        privacy: config.privacy.rules(),
        ttls: Ttls {
            s_maxage: redirect.s_maxage.0,
            max_age: redirect.max_age.0,
            cache: redirect.cache_ttl.0,
            negative: redirect.negative_ttl.0,
            takedown_limit: redirect.takedown_limit.0,
        },
        ..ListenerConfig::new(redirect.listen, domains)
    })
}

/// The configured mode as the pipeline's word. A header of one's own carries ids that are one's own: `auto` trusts
/// those, whatever is known of the provider.
pub(crate) fn id_mode(edge: &Edge) -> ingest::edge::IdMode {
    match edge.id {
        IdMode::Auto if !edge.request_id_header.is_empty() => ingest::edge::IdMode::Trusted,
        IdMode::Auto => ingest::edge::IdMode::Auto,
        IdMode::Trusted => ingest::edge::IdMode::Trusted,
        IdMode::StatusOnly => ingest::edge::IdMode::StatusOnly,
    }
}
