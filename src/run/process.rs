//! The process role: hot path, settler, and what is published from them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ingest::journal::JournalPartition;
use ingest::stream::Partition;
use processor::enrich::{EnrichConfig, Enricher, Rules};
use processor::geo::Geo;
use processor::hot::{HotConfig, HotError, HotPath, HotStatus, Seating};
use processor::lake::{Lake, LakeOptions};
use processor::metrics::Metrics;
use processor::settle::{Edge, Limits, SettleConfig, Settler, Waits};
use prometheus_client::registry::Registry;
use redirect::links::LinkStore;
use schemas::UtcMicros;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::journals::ids_in;
use super::own::OwnJournals;
use super::refusals::Refusals;
use super::signs::{Failing, Progress};
use super::standing::{self, Standing};
use super::tasks::Tasks;
use super::topic::Through;
use super::uploads::{self, Parts};
use super::watch::Unseen;
use super::{id_mode, progress, readers, retire};
use crate::config::Config;
use crate::rules::{self, Kept, RulesMetrics, Source};

/// Partitions handed over ahead of the hot path's taking them.
const HANDED_OVER: usize = 16;
/// How often a process that owns no journals looks for new ones.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The process role.
#[derive(Debug)]
pub(crate) struct Process;

/// What the process role has beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    /// The journals of this process, when it redirects too.
    pub(crate) own: Option<&'a OwnJournals>,
    /// The topic, when journals go through one.
    pub(crate) through: Option<&'a Through>,
    /// No other process can be taking uploads now.
    pub(crate) alone: bool,
    /// Where addresses are.
    pub(crate) geo: &'a Arc<Geo>,
    /// Where it is told what of the operator's files is refused.
    pub(crate) refusals: &'a Refusals,
}

/// The process role at work.
#[derive(Debug)]
pub(crate) struct Processing {
    /// What all of it counts into.
    pub(crate) counted: Metrics,
    /// What is known of the lake.
    pub(crate) standing: watch::Receiver<Standing>,
    /// How far the hot path is.
    pub(crate) hot: watch::Receiver<HotStatus>,
    /// What makes rows, by rules that follow their files.
    pub(crate) enricher: Arc<Enricher>,
    /// The watched places that it can't look at.
    pub(crate) unseen: Unseen,
}

impl Process {
    /// The lake of the configuration. Whoever only reads makes no table.
    ///
    /// # Errors
    /// Names the key at fault.
    pub(crate) fn lake(config: &Config) -> anyhow::Result<Lake> {
        let root = config.lake_root();
        Lake::open(&root, LakeOptions::default()).with_context(|| format!("lake = {root:?}"))
    }

    /// Starts hot path, settler, what takes edge logs in, and the publishing of `final_through`.
    ///
    /// # Errors
    /// When the rules or the tables can't be read.
    pub(crate) async fn start(
        config: &Config,
        store: &LinkStore,
        lake: &Lake,
        beside: Beside<'_>,
        metrics: &mut Registry,
        back: &mut Tasks,
    ) -> anyhow::Result<Processing> {
        let Beside { own, through, alone, geo, refusals } = beside;
        // before anything is read for it
        lake.prove().await.with_context(|| format!("lake = {:?}", config.lake_root()))?;
        let lake_watcher = standing::Watcher::new(lake.clone(), store.clone(), config.journal_dir()).await;
        let standing = lake_watcher.standing();
        let stop = back.stop_token();
        back.spawn("lake watch", async move {
            lake_watcher.run(stop).await;
            Ok(())
        });
        let counted = Metrics::default();
        counted.register(metrics);
        let registry: Arc<LinkStore> = Arc::new(store.clone());
        lake.metrics().register(metrics);
        let rules = RulesMetrics::new(refusals.clone());
        rules.register(metrics);
        let (enricher, watching) = following_enricher(config, geo, rules, back.stop_token())?;
        back.spawn("rules", async move {
            watching.await;
            Ok(())
        });
        let hot = HotPath::new(
            lake.clone(),
            Arc::clone(&registry) as _,
            Arc::<Enricher>::clone(&enricher),
            hot_config(config),
        )
        .with_metrics(counted.clone())
        .with_coverage(Arc::clone(&registry) as _);
        let (hand_over, partitions) = mpsc::channel(HANDED_OVER);
        let shown = Progress::default();
        shown.register(metrics);
        let failing = Failing { topic: None, lake: Some((hot.status(), standing.clone())) };
        metrics.register_collector(Box::new(failing));
        let reading = Reading { config, store, lake, own, through, standing: standing.clone(), shown: shown.clone() };
        reading.start(hot.status(), hand_over, back);
        if through.is_none() {
            let (store, folder, stop) = (store.clone(), config.data_dir.clone(), back.stop_token());
            back.spawn("word of the journals' reader", async move { readers::say(store, &folder, stop).await });
        }
        let status = hot.status();
        let stop = back.stop_token();
        back.spawn("hot path", async move { drained(hot.run(partitions, stop).await) });
        let unseen = Unseen::default();
        let (metrics, enriching) = (counted.clone(), Arc::clone(&enricher));
        let parts = Parts { config, store, lake, enricher: enriching, metrics, alone, unseen: unseen.clone() };
        uploads::start(parts, back).await?;
        let settler = Settler::new(lake, registry, Arc::clone(&enricher), settle_config(config))
            .await?
            .with_metrics(counted.clone())
            .keeping(limits(config, store))
            .beside(status.clone());
        let stop = back.stop_token();
        back.spawn("settler", async move {
            settler.run(stop).await;
            Ok(())
        });
        let (has_edge, settle) = (config.edge.provider != "none", config.edge.settle.0);
        let (keys, stop) = (store.clone(), back.stop_token());
        back.spawn("visitor keys", async move {
            progress::destroy_keys(keys, settle, stop).await;
            Ok(())
        });
        let (store, lake, stop) = (store.clone(), lake.clone(), back.stop_token());
        back.spawn("final_through", async move {
            progress::publish(store, lake, has_edge, settle, shown, stop).await;
            Ok(())
        });
        Ok(Processing { counted, standing, hot: status, enricher, unseen })
    }
}

/// What journals are read with.
struct Reading<'a> {
    config: &'a Config,
    store: &'a LinkStore,
    lake: &'a Lake,
    /// Those of this process, when it redirects too.
    own: Option<&'a OwnJournals>,
    /// The topic, when journals go through one.
    through: Option<&'a Through>,
    standing: watch::Receiver<Standing>,
    /// Where it is shown who is silent.
    shown: Progress,
}

impl Reading<'_> {
    /// Hands journals to the hot path, whose `status` comes along, and gives up those that are silent.
    fn start(self, status: watch::Receiver<HotStatus>, hand_over: mpsc::Sender<Seating>, back: &mut Tasks) {
        let Self { config, store, lake, own, through, standing, shown } = self;
        let directory = config.journal_dir();
        let watcher = retire::Watcher {
            store: store.clone(),
            lake: lake.clone(),
            directory: directory.clone(),
            topic: through.map(|_| config.stream.fluvio.topic.clone()),
            own: own.cloned().unwrap_or_default(),
            status,
            standing: standing.clone(),
            after: config.journal.retire_after.0,
            shown,
        };
        let stop = back.stop_token();
        back.spawn("silent journals", async move {
            watcher.run(stop).await;
            Ok(())
        });
        let (stop, mut right_lake, own, through) = (back.stop_token(), standing, own.cloned(), through.cloned());
        back.spawn("partitions", async move {
            // nothing goes into a lake that isn't known to be the right one
            let is_whole = right_lake.wait_for(|standing| *standing == Standing::Whole);
            if stop.run_until_cancelled(is_whole).await.is_none() {
                return Ok(());
            }
            let stopping = stop.clone();
            let handed_over = match (through, own) {
                (Some(through), _) => through.read(hand_over, stop).await,
                (None, Some(own)) => own_partitions(own, hand_over, stop).await,
                (None, None) => partitions_of(directory, hand_over, stop).await,
            };
            // when all is stopped, the hot path may be the first to go
            if stopping.is_cancelled() { Ok(()) } else { handed_over }
        });
    }
}

/// Hands every journal of this process to the hot path, those that join later too.
async fn own_partitions(
    own: OwnJournals,
    hand_over: mpsc::Sender<Seating>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut joined = own.watch();
    let mut known = 0;
    loop {
        let all = joined.borrow_and_update().clone();
        for journal in &all[known..] {
            hand_over.send(take(JournalPartition::new(journal))).await.ok().context("the hot path has gone")?;
        }
        known = all.len();
        if stop.run_until_cancelled(joined.changed()).await.is_none_or(|changed| changed.is_err()) {
            return Ok(());
        }
    }
}

/// Hands every journal that other processes make in the folder to the hot path.
async fn partitions_of(
    directory: PathBuf,
    hand_over: mpsc::Sender<Seating>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut known = HashSet::new();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        for id in ids_in(&directory)? {
            if known.insert(id) {
                let partition = JournalPartition::in_directory(&directory, id);
                hand_over.send(take(partition)).await.ok().context("the hot path has gone")?;
            }
        }
    }
    Ok(())
}

/// What could not be committed in time at a shutdown is nobody's fault here: whoever reads on commits it.
fn drained(ended: Result<(), HotError>) -> anyhow::Result<()> {
    match ended {
        Err(late @ HotError::Drain(_)) => {
            tracing::warn!(%late, "nothing is lost by that: it is read again by the next start, or by another processor");
            Ok(())
        }
        ended => Ok(ended?),
    }
}

fn take(partition: impl Partition + 'static) -> Seating {
    Seating::Take(Box::new(partition))
}

fn hot_config(config: &Config) -> HotConfig {
    HotConfig {
        commit_after: config.process.commit_after.0,
        window_bytes: config.process.window_bytes.0 as usize,
        max_bytes: config.process.buffer_bytes.0 as usize,
        skew: config.edge.skew.0,
        repeat: config.edge.repeat.0,
        max_skew: config.edge.max_skew.0,
        lag_limit: config.process.lag_limit.0,
        ..HotConfig::default()
    }
}

/// What makes rows of events and lines, as configured.
///
/// # Errors
/// When the rules are broken.
pub(crate) fn enricher(config: &Config, geo: &Arc<Geo>) -> anyhow::Result<Enricher> {
    Ok(with_rules(config, geo, Source::of(config).load()?))
}

/// What is known of agents while history is judged anew, in bytes: it has more of them than come at a time, and meets each
/// again and again.
const AGENTS_OF_HISTORY: usize = 96 << 20;

/// What judges rows anew that are there, as configured.
///
/// # Errors
/// When the rules are broken.
pub(crate) fn enricher_of_history(config: &Config) -> anyhow::Result<Enricher> {
    let (own_domains, cache_bytes) = (config.redirect.domains.clone(), AGENTS_OF_HISTORY);
    let settings = EnrichConfig { own_domains, cache_bytes, ..EnrichConfig::default() };
    Ok(Enricher::with_rules(Source::of(config).load()?, &settings))
}

fn with_rules(config: &Config, geo: &Arc<Geo>, rules: Rules) -> Enricher {
    let (own_domains, geo) = (config.redirect.domains.clone(), Arc::clone(geo));
    let privacy = config.privacy.rules();
    Enricher::with_rules(rules, &EnrichConfig { own_domains, geo, privacy, ..EnrichConfig::default() })
}

/// The same, with rules that follow their files until `stop`, and what watches them.
///
/// # Errors
/// When the rules are broken.
pub(crate) fn following_enricher(
    config: &Config,
    geo: &Arc<Geo>,
    metrics: RulesMetrics,
    stop: CancellationToken,
) -> anyhow::Result<(Arc<Enricher>, impl Future<Output = ()> + Send + use<>)> {
    let source = Source::of(config);
    let found = source.read()?;
    let enricher = Arc::new(with_rules(config, geo, source.rules(&found, UtcMicros::now())?));
    let kept = Kept { enricher: Arc::clone(&enricher), metrics };
    Ok((enricher, rules::watch(kept, source, found, config.classify.reload.0, stop)))
}

/// How long rows are kept, as configured and set.
pub(crate) fn limits(config: &Config, store: &LinkStore) -> Limits {
    Limits { keeping: Arc::new(store.clone()), default: config.retention.keep.0 }
}

/// How long records wait, as configured.
pub(crate) fn waits(config: &Config) -> Waits {
    Waits { skew: config.edge.skew.0, repeat: config.edge.repeat.0, recover_after: config.edge.recover_after.0 }
}

/// The edge in front of our redirect, as configured.
pub(crate) fn edge_of(config: &Config) -> Edge {
    Edge { provider: config.edge.provider.clone(), ids: id_mode(&config.edge) }
}

/// The settler's settings, as configured.
pub(crate) fn settle_config(config: &Config) -> SettleConfig {
    SettleConfig {
        waits: waits(config),
        edge: edge_of(config),
        max_skew: config.edge.max_skew.0,
        settle: config.edge.settle.0,
        behaviour: config.behaviour.config(),
        ..SettleConfig::default()
    }
}
