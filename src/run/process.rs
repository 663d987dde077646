//! The process role: hot path, settler, and what is published from them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ingest::edge::Ids;
use ingest::journal::{Journal, JournalPartition};
use ingest::stream::Partition;
use processor::enrich::{EnrichConfig, Enricher};
use processor::hot::{HotConfig, HotPath};
use processor::lake::{Lake, LakeOptions};
use processor::metrics::Metrics;
use processor::settle::{SettleConfig, Settler, Waits};
use prometheus_client::registry::Registry;
use redirect::links::LinkStore;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::journals::ids_in;
use super::tasks::Tasks;
use super::uploads::{self, Parts};
use super::{gaps, id_mode, progress, retire};
use crate::config::Config;

/// Partitions handed over ahead of the hot path's taking them.
const HANDED_OVER: usize = 16;
/// How often a process that owns no journals looks for new ones.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The process role.
#[derive(Debug)]
pub(crate) struct Process;

impl Process {
    /// The lake of the configuration. Whoever only reads makes no table.
    ///
    /// # Errors
    /// Names the key at fault.
    pub(crate) fn lake(config: &Config) -> anyhow::Result<Lake> {
        let root = config.lake_root();
        Lake::open(&root, LakeOptions::default()).with_context(|| format!("lake = {root:?}"))
    }

    /// Starts hot path, settler, what takes edge logs in, and the publishing of `final_through`. `alone`: no other
    /// process can be taking uploads now. Returns what all of them count into.
    ///
    /// # Errors
    /// When the rules or the tables can't be read.
    pub(crate) async fn start(
        config: &Config,
        store: &LinkStore,
        lake: &Lake,
        own: &[Journal],
        alone: bool,
        metrics: &mut Registry,
        back: &mut Tasks,
    ) -> anyhow::Result<Metrics> {
        let counted = Metrics::default();
        counted.register(metrics);
        let registry: Arc<LinkStore> = Arc::new(store.clone());
        lake.metrics().register(metrics);
        let enricher = Arc::new(enricher(config)?);
        let hot = HotPath::new(
            lake.clone(),
            Arc::clone(&registry) as _,
            Arc::<Enricher>::clone(&enricher),
            hot_config(config),
        )
        .with_metrics(counted.clone());
        let watched =
            retire::watch(store.clone(), lake.clone(), hot.status(), config.journal.retire_after.0, back.stop_token());
        back.spawn("silent journals", async move {
            watched.await;
            Ok(())
        });
        let (hand_over, partitions) = mpsc::channel(HANDED_OVER);
        let stop = back.stop_token();
        back.spawn("hot path", async move { Ok(hot.run(partitions, stop).await?) });
        let stop = back.stop_token();
        let own = own.to_vec();
        let (journals, directory) = (own.clone(), config.journal_dir());
        back.spawn("partitions", async move { partitions_of(journals, directory, hand_over, stop).await });

        let (losing, into, stop) = (own.clone(), lake.clone(), back.stop_token());
        back.spawn("gaps", async move {
            gaps::record(losing, into, stop).await;
            Ok(())
        });
        let parts = Parts { config, store, lake, enricher, metrics: counted.clone(), alone };
        uploads::start(parts, back).await?;
        let settler = Settler::new(lake, registry, settle_config(config)).await?.with_metrics(counted.clone());
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
            progress::publish(store, lake, has_edge, settle, stop).await;
            Ok(())
        });
        Ok(counted)
    }
}

/// Hands every journal to the hot path: this process's own, or those that other processes make in the folder.
async fn partitions_of(
    own: Vec<Journal>,
    directory: PathBuf,
    hand_over: mpsc::Sender<Box<dyn Partition>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    if !own.is_empty() {
        for journal in &own {
            hand_over.send(Box::new(JournalPartition::new(journal))).await.ok().context("the hot path has gone")?;
        }
        stop.cancelled().await;
        return Ok(());
    }
    let mut known = HashSet::new();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        for id in ids_in(&directory)? {
            if known.insert(id) {
                let partition = JournalPartition::in_directory(&directory, id);
                hand_over.send(Box::new(partition)).await.ok().context("the hot path has gone")?;
            }
        }
    }
    Ok(())
}

fn hot_config(config: &Config) -> HotConfig {
    HotConfig {
        commit_after: config.process.commit_after.0,
        window_bytes: config.process.window_bytes.0 as usize,
        skew: config.edge.skew.0,
        repeat: config.edge.repeat.0,
        max_skew: config.edge.max_skew.0,
        ..HotConfig::default()
    }
}

/// What makes rows of events and lines, as configured.
///
/// # Errors
/// When the rules are broken.
pub(crate) fn enricher(config: &Config) -> anyhow::Result<Enricher> {
    Ok(Enricher::new(&EnrichConfig { own_domains: config.redirect.domains.clone(), ..EnrichConfig::default() })?)
}

/// How long records wait, as configured.
pub(crate) fn waits(config: &Config) -> Waits {
    Waits { skew: config.edge.skew.0, repeat: config.edge.repeat.0, recover_after: config.edge.recover_after.0 }
}

/// The provider whose request ids must meet those of events.
fn guarded(config: &Config) -> Option<String> {
    let provider = &config.edge.provider;
    (provider != "none" && id_mode(&config.edge).resolve(provider) == Ids::Trusted).then(|| provider.clone())
}

/// The settler's settings, as configured.
pub(crate) fn settle_config(config: &Config) -> SettleConfig {
    SettleConfig {
        waits: waits(config),
        guarded: guarded(config),
        max_skew: config.edge.max_skew.0,
        settle: config.edge.settle.0,
        ..SettleConfig::default()
    }
}
