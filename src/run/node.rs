//! One process: its parts opened, its roles started, stopped in order.

use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use ingest::ports::{JournalState, RegisteredJournal, Registry as _};
use ingest::topic::Forwarded;
use processor::geo::Geo;
use processor::lake::Lake;
use processor::metrics::Metrics;
use prometheus_client::registry::Registry;
use query::{QueryConfig, QueryService};
use redirect::links::{LinkError, LinkStore, NewLink};
use redirect::listener::ListenerMetrics;
use redirect::manage::{self, ManageConfig};
use schemas::UtcMicros;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::access::Tokens;
use super::changing::Changes;
use super::clock::{self, ClockHealth};
use super::events::{Events, Rows};
use super::geo;
use super::held_up::HeldUp;
use super::journals::node_name;
use super::losses::Keeper;
use super::metrics::JournalMetrics;
use super::ops::{Need, Needed, Ops, Shown};
use super::own::OwnJournals;
use super::process::{Beside, Process};
use super::redirect::Redirect;
use super::refusals::Refusals;
use super::serve::serve;
use super::standing::{Standing, Watcher};
use super::status::{Sources, TopicSource};
use super::tasks::Tasks;
use super::tend::Committed;
use super::topic::Through;
use super::uploads::Uploads;
use super::{Roles, signals};
use crate::commands::link_store;
use crate::config::Config;
use crate::demo;
use crate::rules::{RulesMetrics, Source};

/// How long the front (listeners) and the back (journals, hot path, settler) may each take to stop, and how long the
/// lake may take to catch up in between.
pub(crate) const DRAIN: Duration = Duration::from_secs(15);
/// The same after a start that has failed: whatever runs has hardly begun.
const FAILED: Duration = Duration::from_secs(5);

/// Listeners that are bound before anything else begins.
struct Sockets {
    manage: Option<TcpListener>,
    query: Option<TcpListener>,
    ops: TcpListener,
}

impl Sockets {
    async fn bind(config: &Config, roles: Roles) -> anyhow::Result<Self> {
        let some = |wanted: bool, key: &'static str, address: SocketAddr| async move {
            if wanted { bind(key, address).await.map(Some) } else { Ok(None) }
        };
        Ok(Self {
            manage: some(roles.manage, "manage.listen", config.manage.listen).await?,
            query: some(roles.query, "query.listen", config.query.listen).await?,
            ops: bind("ops.listen", config.ops.listen).await?,
        })
    }
}

async fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        let roles = if key == "ops.listen" { "; roles that share a machine need an ops.listen each" } else { "" };
        format!("{key} = \"{address}\" can't be listened on; is another process there?{roles}")
    })
}

/// What runs.
struct Started {
    ops: Ops,
    store: LinkStore,
    own: OwnJournals,
    forwarded: Option<watch::Receiver<Forwarded>>,
    /// Stops the ops listener, which answers until the end.
    health: CancellationToken,
    serving: JoinHandle<anyhow::Result<()>>,
}

/// Runs the roles until a signal, or until one of them fails.
pub(super) async fn run(config: Config, roles: Roles, demo: bool) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    signals::listen(stop.clone()).context("signals")?;
    let (mut front, mut back) = (Tasks::new(), Tasks::new());
    let started = match start(&config, roles, demo, &stop, &mut front, &mut back).await {
        Ok(started) => started,
        Err(error) => {
            // what runs already comes to rest before the runtime goes, which it would miss
            let _stopped = front.drain(FAILED).await;
            let _ended = back.drain(FAILED).await;
            return Err(error);
        }
    };
    let Started { ops, store, own, forwarded, health, serving } = started;

    let failed = tokio::select! {
        () = stop.cancelled() => None,
        error = front.any_ended() => Some(error),
        error = back.any_ended() => Some(error),
    };
    ops.set_ready(false);
    let stopped = front.drain(DRAIN).await;
    if failed.is_none() && roles.redirect {
        come_to_rest(&store, &own, roles.process, forwarded).await;
    }
    let ended = back.drain(DRAIN).await;
    health.cancel();
    let _served = tokio::time::timeout(Duration::from_secs(1), serving).await;
    failed.map_or(stopped.and(ended), Err)?;
    tracing::info!("stopped");
    Ok(())
}

/// Opens the parts and starts the roles.
async fn start(
    config: &Config,
    roles: Roles,
    demo: bool,
    stop: &CancellationToken,
    front: &mut Tasks,
    back: &mut Tasks,
) -> anyhow::Result<Started> {
    let sockets = Sockets::bind(config, roles).await?;
    let (clock, health) = (ClockHealth::default(), CancellationToken::new());
    let ops = Ops::new(clock.clone());
    let serving = tokio::spawn(serve(sockets.ops, ops.clone().router(), health.clone()));
    let mut metrics = Registry::default();
    let store = link_store(config).await?;
    let (geo, refusals) = follow_geo(config, roles, &store, &mut metrics, back)?;
    watch_clock(config, &store, clock, roles, stop, back).await?;
    let token = if roles == Roles::ALL { first_token(config, &store).await? } else { None };

    let through = Through::start(config, &store, roles, &mut metrics, back).await?;
    let (mut own, mut forwarded) = (OwnJournals::default(), None);
    let mut address = config.redirect.listen;
    let lake = Process::lake(config)?;
    if roles.redirect {
        let listener = ListenerMetrics::default();
        listener.register(&mut metrics);
        let redirect = Redirect::open(config, &store, listener).await?;
        address = redirect.address();
        let committed = Committed::default();
        let started = redirect.start(store.clone(), committed.clone(), through.as_ref(), front, back);
        (own, forwarded) = (started.own, started.forwarded);
        metrics.register_collector(Box::new(JournalMetrics { journals: own.clone(), committed }));
    }
    let (mut counted, mut standing, mut enricher) = (None, None, None);
    let mut held_up = HeldUp { topic: through.as_ref().map(Through::health), hot: None };
    if roles.process {
        let (own, through, alone) = (roles.redirect.then_some(&own), through.as_ref(), is_alone(config, roles));
        let beside = Beside { own, through, alone, geo: &geo, refusals: &refusals };
        let started = Process::start(config, &store, &lake, beside, &mut metrics, back).await?;
        (counted, standing, held_up.hot) = (Some(started.counted), Some(started.standing), Some(started.hot));
        enricher = Some(started.enricher);
    }
    if roles.process || through.is_some() {
        back.spawn("troubles", told(held_up.clone(), store.clone(), back.stop_token()));
    }
    if roles.redirect || roles.process {
        keep_losses(config, &store, own.clone(), standing.clone().map(|standing| (lake.clone(), standing)), back);
    }
    if let Some(socket) = sockets.manage {
        let rows = match enricher {
            Some(enricher) => Rows::Beside(enricher),
            None => own_rows(config, &geo, &mut metrics, refusals, front.stop_token())?,
        };
        let router = manage_router(config, (&store, &lake), counted, rows, &mut metrics);
        front.spawn("management API", serve(socket, router, front.stop_token()));
    }
    let mut login = None;
    if let Some(socket) = sockets.query {
        let standing = match standing.clone() {
            Some(standing) => standing,
            None => watch_lake(config, &store, &lake, back).await,
        };
        let seen = Seen { own: own.clone(), standing, held_up: held_up.clone() };
        let service = query_service(config, roles, &store, &lake, seen)?;
        service.metrics().register(&mut metrics);
        let shown = socket.local_addr()?;
        login = token.as_ref().map(|token| format!("http://{shown}/login?key={}", service.issue_login_key(token)));
        front.spawn("query service", serve(socket, query::router(service), front.stop_token()));
    }
    let needed = Needed::new(Need::of(roles), &store, &config.data_dir);
    ops.show(Shown { metrics, needed, standing, held_up });
    if demo {
        start_demo(config, &store, address, front).await?;
    }
    ops.set_ready(true);
    greet(config, roles, login.as_deref());
    Ok(Started { ops, store, own, forwarded, health, serving })
}

/// Has the clock watched. Whoever begins journals waits until it is right.
async fn watch_clock(
    config: &Config,
    store: &LinkStore,
    health: ClockHealth,
    roles: Roles,
    stop: &CancellationToken,
    back: &mut Tasks,
) -> anyhow::Result<()> {
    let process = format!("{} (ops.listen {})", node_name(), config.ops.listen);
    let mut watcher = clock::Watcher::new(store, process, config.edge.skew.0, health);
    if roles.redirect && !watcher.until_right(stop).await? {
        anyhow::bail!("stopped before the clock was right");
    }
    let stop = back.stop_token();
    back.spawn("clock", async move {
        watcher.run(stop).await;
        Ok(())
    });
    Ok(())
}

/// The geography database, where there is something to look up; and where it is told that it, or another file of the
/// operator's, is refused.
fn follow_geo(
    config: &Config,
    roles: Roles,
    store: &LinkStore,
    metrics: &mut Registry,
    back: &mut Tasks,
) -> anyhow::Result<(Arc<Geo>, Refusals)> {
    let refusals = Refusals::default();
    if !roles.process && !roles.manage {
        return Ok((Arc::default(), refusals));
    }
    let geo = geo::follow(config, metrics, refusals.clone(), back)?;
    let (told, store, stop) = (refusals.clone(), store.clone(), back.stop_token());
    back.spawn("refused files", async move {
        told.tell(store, stop).await;
        Ok(())
    });
    Ok((geo, refusals))
}

/// Sees to it that what journals lose becomes rows of `gaps`: told to whoever has the lake, or written where it is here.
fn keep_losses(
    config: &Config,
    store: &LinkStore,
    own: OwnJournals,
    records: Option<(processor::lake::Lake, watch::Receiver<Standing>)>,
    back: &mut Tasks,
) {
    let keeper = Keeper::new(own, config.journal_dir(), store.clone());
    let keeper = match records {
        Some((lake, standing)) => keeper.recording(lake, standing),
        None => keeper,
    };
    let stop = back.stop_token();
    back.spawn("losses", async move {
        keeper.run(stop).await;
        Ok(())
    });
}

/// Ends the journals, and lets the lake catch up with them if this process brings clicks into it.
async fn come_to_rest(
    store: &LinkStore,
    own: &OwnJournals,
    process: bool,
    forwarded: Option<watch::Receiver<Forwarded>>,
) {
    seal(own).await;
    if process {
        land(store, own).await;
    } else if let Some(mut forwarded) = forwarded {
        let all = forwarded.wait_for(|forwarded| forwarded.all);
        if tokio::time::timeout(DRAIN, all).await.is_err() {
            tracing::warn!("the topic has not taken all clicks in time; the next start sends the rest");
        }
    }
}

/// Nothing more will be written: the journals end here, so that they can be closed when the lake holds them whole and
/// hold nothing back while no redirect runs.
async fn seal(own: &OwnJournals) {
    for journal in own.all() {
        match tokio::task::spawn_blocking(move || journal.seal()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a journal can't be sealed; the next start goes on with it"),
            Err(error) => tracing::error!(%error, "sealing ended early"),
        }
    }
}

/// Waits until the lake holds all that the journals hold, so that a clean stop leaves nothing to replay.
async fn land(store: &LinkStore, own: &OwnJournals) {
    let begin = Instant::now();
    while begin.elapsed() < DRAIN {
        let registered = store.journals().await.unwrap_or_default();
        let is_open = |known: &RegisteredJournal| known.state == JournalState::Open && own.get(known.id).is_some();
        if !registered.iter().any(is_open) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tracing::warn!("the lake has not caught up with the journals in time; the next start goes on from there");
}

/// Whether no other process can be taking uploads now: the folder's locks say so, as long as the lake is in a folder too.
fn is_alone(config: &Config, roles: Roles) -> bool {
    roles.manage && !config.lake_root().contains("://")
}

/// The management API; what it takes in is counted with what the process role does, if this process has it.
fn manage_router(
    config: &Config,
    (store, lake): (&LinkStore, &Lake),
    counted: Option<Metrics>,
    rows: Rows,
    metrics: &mut Registry,
) -> axum::Router {
    let counted = counted.unwrap_or_else(|| {
        let counted = Metrics::default();
        counted.register(metrics);
        counted
    });
    let settings = ManageConfig {
        max_upload: config.edge_logs.max_upload.0,
        max_uploads: config.edge_logs.max_uploads,
        edge_provider: config.edge.provider.clone(),
        ..ManageConfig::default()
    };
    let events = Arc::new(Events::new(config, store, lake, counted, rows));
    manage::router(store.clone(), Arc::new(Uploads::into(lake)), events, settings)
}

/// What makes rows of posted events where no process role is beside it: made when the first come, but of rules that are
/// right now.
fn own_rows(
    config: &Config,
    geo: &Arc<Geo>,
    metrics: &mut Registry,
    refusals: Refusals,
    stop: CancellationToken,
) -> anyhow::Result<Rows> {
    let rules = RulesMetrics::new(refusals);
    rules.register(metrics);
    Source::of(config).show(&rules)?;
    Ok(Rows::Own(Arc::clone(geo), rules, stop))
}

/// What this process sees of the way of clicks.
struct Seen {
    own: OwnJournals,
    standing: watch::Receiver<Standing>,
    held_up: HeldUp,
}

/// Keeps an eye on the lake, for a process that only reads it.
async fn watch_lake(config: &Config, store: &LinkStore, lake: &Lake, back: &mut Tasks) -> watch::Receiver<Standing> {
    let watcher = Watcher::new(lake.clone(), store.clone(), config.journal_dir()).await;
    let (standing, stop) = (watcher.standing(), back.stop_token());
    back.spawn("lake watch", async move {
        watcher.run(stop).await;
        Ok(())
    });
    standing
}

async fn told(held_up: HeldUp, store: LinkStore, stop: CancellationToken) -> anyhow::Result<()> {
    held_up.tell(store, stop).await;
    Ok(())
}

fn query_service(
    config: &Config,
    roles: Roles,
    store: &LinkStore,
    lake: &Lake,
    seen: Seen,
) -> anyhow::Result<QueryService> {
    let mut settings = QueryConfig::new(config.lake_root(), config.data_dir.join("tmp"));
    if roles.process {
        settings.committed = Some(lake.subscribe());
    }
    let sources = Sources {
        changes: Changes::default(),
        store: store.clone(),
        lake: lake.clone(),
        own: seen.own,
        directory: config.journal_dir(),
        provider: config.edge.provider.clone(),
        settle: config.edge.settle.0,
        standing: Some(seen.standing),
        held_up: seen.held_up,
        topic: TopicSource::of(config),
    };
    Ok(QueryService::new(settings, Arc::new(Tokens(store.clone())), Arc::new(sources))?)
}

/// The operator token of the folder, made and written at its first start.
async fn first_token(config: &Config, store: &LinkStore) -> anyhow::Result<Option<String>> {
    use std::io::Write as _;
    let path = config.admin_token_file();
    if let Ok(text) = std::fs::read_to_string(&path)
        && !text.trim().is_empty()
    {
        return Ok(Some(text.trim().to_owned()));
    }
    let token = store.add_operator_token(UtcMicros::now()).await?;
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("can't write {}", path.display()))?;
    writeln!(file, "{}", token.reveal())?;
    file.sync_all()?;
    Ok(Some(token.reveal().to_owned()))
}

/// Sample links, and visitors who come through the listener.
async fn start_demo(config: &Config, store: &LinkStore, address: SocketAddr, front: &mut Tasks) -> anyhow::Result<()> {
    for sample in demo::LINKS {
        let new = NewLink {
            code: Some(sample.code.to_owned()),
            title: Some(sample.title.to_owned()),
            ..NewLink::to(sample.destination)
        };
        match store.create(new, UtcMicros::now()).await {
            Ok(_) | Err(LinkError::Taken { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let domain = config.redirect.domains.first().cloned().unwrap_or_default();
    front.spawn("demo", demo::play(address, domain, front.stop_token()));
    Ok(())
}

/// Says where things are.
fn greet(config: &Config, roles: Roles, login: Option<&str>) {
    tracing::info!(data_dir = %config.data_dir.display(), lake = config.lake_root(), "ready");
    if roles != Roles::ALL {
        return;
    }
    let domain = config.redirect.domains.first().map_or("", String::as_str);
    println!("redirects   http://{domain}/CODE  (listening on {})", config.redirect.listen);
    println!("management  http://{}/v1/links", config.manage.listen);
    println!("reports     http://{}/v1/reports/clicks", config.query.listen);
    println!("health      http://{}/healthz", config.ops.listen);
    println!("token       {}", config.admin_token_file().display());
    if let Some(login) = login.filter(|_| Config::is_loopback(config.query.listen)) {
        println!("\nopen {login}  (logs this browser in, once)");
    }
}
