//! The start of a process: parts opened, roles begun, in the order in which each needs those before it.
//!
//! ```text
//! link store ─► geography ─► clock right ─► topic ─► redirects ─► hot path, settler ─► management API, query service
//! ```
//! Whatever has begun is the [`Node`]'s at once, for this may end anywhere: in an error, or dropped because of a signal.

use std::net::SocketAddr;
use std::sync::Arc;

use ingest::topic::Forwarded;
use processor::geo::Geo;
use processor::lake::Lake;
use prometheus_client::registry::Registry;
use redirect::links::LinkStore;
use redirect::listener::ListenerMetrics;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::apis::{self, Seen};
use super::clock::{self, ClockHealth};
use super::events::Rows;
use super::held_up::HeldUp;
use super::journals::node_name;
use super::losses::Keeper;
use super::metrics::JournalMetrics;
use super::node::Node;
use super::ops::{Need, Needed, Shown};
use super::process::{Beside, Process, Processing};
use super::redirect::Redirect;
use super::refusals::Refusals;
use super::serve::serve;
use super::sockets::Sockets;
use super::standing::{Standing, Watcher};
use super::tend::Committed;
use super::topic::Through;
use super::{Roles, first, geo};
use crate::commands::link_store;
use crate::config::Config;

/// What the end of a process needs of its start.
#[derive(Debug)]
pub(super) struct Started {
    /// The link store.
    pub(super) store: LinkStore,
    /// What has been sent into the topic, where this process's journals go through one.
    pub(super) forwarded: Option<watch::Receiver<Forwarded>>,
}

/// Starts the roles, with sample links and visitors if it is a demonstration.
///
/// # Errors
/// Names the key at fault.
pub(super) async fn start(
    config: &Config,
    (roles, demo): (Roles, bool),
    sockets: Sockets,
    clock: ClockHealth,
    node: &mut Node,
) -> anyhow::Result<Started> {
    let mut parts = Parts::open(config, roles, node).await?;
    parts.watch_clock(clock, node).await?;
    let token = if roles == Roles::ALL { first::token(config, &parts.store).await? } else { None };
    parts.through = Through::start(config, &parts.store, roles, &mut parts.metrics, &mut node.back).await?;
    let (mut address, mut forwarded) = (config.redirect.listen, None);
    if roles.redirect {
        (address, forwarded) = parts.redirect(node).await?;
    }
    let processing = if roles.process { Some(parts.process(node).await?) } else { None };
    let held_up = HeldUp {
        topic: parts.through.as_ref().map(Through::health),
        hot: processing.as_ref().map(|processing| processing.hot.clone()),
        unseen: processing.as_ref().map(|processing| processing.unseen.clone()).unwrap_or_default(),
    };
    let standing = processing.as_ref().map(|processing| processing.standing.clone());
    parts.tell_losses(&held_up, standing.as_ref(), node);
    if let Some(socket) = sockets.manage {
        parts.manage(socket, processing.as_ref(), node)?;
    }
    let mut login = None;
    if let Some(socket) = sockets.query {
        let standing = match standing.clone() {
            Some(standing) => standing,
            None => parts.watch_lake(node).await,
        };
        let seen = Seen { own: node.own.clone(), standing, held_up: held_up.clone() };
        login = parts.query(socket, seen, token.as_deref(), node)?;
    }
    let Parts { store, metrics, .. } = parts;
    let needed = Needed::new(Need::of(roles), &store, &config.data_dir);
    node.ops.show(Shown { metrics, needed, standing, held_up });
    if demo {
        first::demo(config, &store, address, &mut node.front).await?;
    }
    node.ops.set_ready(true);
    first::greet(config, roles, login.as_deref());
    Ok(Started { store, forwarded })
}

/// What the roles share.
struct Parts<'a> {
    config: &'a Config,
    roles: Roles,
    store: LinkStore,
    lake: Lake,
    metrics: Registry,
    geo: Arc<Geo>,
    refusals: Refusals,
    /// The topic, once it is looked after, if there is one.
    through: Option<Through>,
}

impl<'a> Parts<'a> {
    /// Opens the link store and what is read of files. Nothing asks the lake yet.
    async fn open(config: &'a Config, roles: Roles, node: &mut Node) -> anyhow::Result<Self> {
        let store = link_store(config).await?;
        let (lake, refusals) = (Process::lake(config)?, Refusals::default());
        let mut metrics = Registry::default();
        let mut geo = Arc::default();
        // elsewhere there is nothing to look up, and no file of the operator's is read
        if roles.process || roles.manage {
            geo = geo::follow(config, &mut metrics, refusals.clone(), &mut node.back)?;
            let (told, store, stop) = (refusals.clone(), store.clone(), node.back.stop_token());
            node.back.spawn("refused files", async move {
                told.tell(store, stop).await;
                Ok(())
            });
        }
        Ok(Self { config, roles, store, lake, metrics, geo, refusals, through: None })
    }

    /// Has the clock watched. Whoever begins journals waits until it is right.
    async fn watch_clock(&self, health: ClockHealth, node: &mut Node) -> anyhow::Result<()> {
        let process = format!("{} (ops.listen {})", node_name(), self.config.ops.listen);
        let mut watcher = clock::Watcher::new(&self.store, process, self.config.edge.skew.0, health);
        if self.roles.redirect {
            watcher.until_right().await?;
        }
        let stop = node.back.stop_token();
        node.back.spawn("clock", async move {
            watcher.run(stop).await;
            Ok(())
        });
        Ok(())
    }

    /// Begins to answer clicks. Returns where, and what has been sent into the topic.
    async fn redirect(&mut self, node: &mut Node) -> anyhow::Result<(SocketAddr, Option<watch::Receiver<Forwarded>>)> {
        let (listener, committed) = (ListenerMetrics::default(), Committed::default());
        listener.register(&mut self.metrics);
        let redirect = Redirect::open(self.config, &self.store, &node.own, listener).await?;
        let address = redirect.address();
        let (store, through) = (self.store.clone(), self.through.as_ref());
        let forwarded = redirect.start(store, committed.clone(), through, &mut node.front, &mut node.back);
        let journals = JournalMetrics { journals: node.own.clone(), committed };
        self.metrics.register_collector(Box::new(journals));
        Ok((address, forwarded))
    }

    /// Begins to bring clicks into the lake.
    async fn process(&mut self, node: &mut Node) -> anyhow::Result<Processing> {
        let beside = Beside {
            own: self.roles.redirect.then_some(&node.own),
            through: self.through.as_ref(),
            // the folder's locks say so, as long as the lake is in a folder too
            alone: self.roles.manage && !self.config.lake_root().contains("://"),
            geo: &self.geo,
            refusals: &self.refusals,
        };
        Process::start(self.config, &self.store, &self.lake, beside, &mut self.metrics, &mut node.back).await
    }

    /// Sees to it that others hear of what holds clicks up here, and that what journals lose becomes rows of `gaps`: told to
    /// whoever has the lake, or written where it is here.
    fn tell_losses(&self, held_up: &HeldUp, standing: Option<&watch::Receiver<Standing>>, node: &mut Node) {
        let Roles { redirect, process, .. } = self.roles;
        if process || self.through.is_some() {
            let (held_up, store, stop) = (held_up.clone(), self.store.clone(), node.back.stop_token());
            node.back.spawn("troubles", async move {
                held_up.tell(store, stop).await;
                Ok(())
            });
        }
        if redirect || process {
            let keeper = Keeper::new(node.own.clone(), self.config.journal_dir(), self.store.clone());
            let keeper = match standing {
                Some(standing) => keeper.recording(self.lake.clone(), standing.clone()),
                None => keeper,
            };
            let stop = node.back.stop_token();
            node.back.spawn("losses", async move {
                keeper.run(stop).await;
                Ok(())
            });
        }
    }

    /// Begins to serve the management API.
    fn manage(&mut self, socket: TcpListener, processing: Option<&Processing>, node: &mut Node) -> anyhow::Result<()> {
        let stop = node.front.stop_token();
        let rows = match processing {
            Some(processing) => Rows::Beside(Arc::clone(&processing.enricher)),
            None => apis::own_rows(self.config, &self.geo, &mut self.metrics, self.refusals.clone(), stop.clone())?,
        };
        let counted = processing.map(|processing| processing.counted.clone());
        let router = apis::manage(self.config, (&self.store, &self.lake), counted, rows, &mut self.metrics);
        node.front.spawn("management API", serve(socket, router, stop));
        Ok(())
    }

    /// Keeps an eye on the lake, for a process that only reads it.
    async fn watch_lake(&self, node: &mut Node) -> watch::Receiver<Standing> {
        let watcher = Watcher::new(self.lake.clone(), self.store.clone(), self.config.journal_dir()).await;
        let (standing, stop) = (watcher.standing(), node.back.stop_token());
        node.back.spawn("lake watch", async move {
            watcher.run(stop).await;
            Ok(())
        });
        standing
    }

    /// Begins to serve reports. Returns where a browser is logged in by itself, if there is a `token` to do it with.
    fn query(
        &mut self,
        socket: TcpListener,
        seen: Seen,
        token: Option<&str>,
        node: &mut Node,
    ) -> anyhow::Result<Option<String>> {
        let service = apis::query(self.config, self.roles, (&self.store, &self.lake), seen)?;
        service.metrics().register(&mut self.metrics);
        let shown = socket.local_addr()?;
        let login = token.map(|token| format!("http://{shown}/login?key={}", service.issue_login_key(token)));
        let stop = node.front.stop_token();
        node.front.spawn("query service", serve(socket, query::router(service), stop));
        Ok(login)
    }
}
