//! Edge logs that come by themselves: over HTTP, or found below watched prefixes.
//!
//! ```text
//! POST /v1/edge-logs ──store──► staging (the lake's storage) + queue (the link store) ──taker──► Importer
//! watched prefix ──────────────────────────────────────────────► queue ──taker──────────────────►┘
//!                                                     tidy: what is staged and no longer needed goes
//! edge_files: to be taken in again, being taken back ──again──► Importer
//! ```

mod again;
mod fault;
mod staging;
mod store;
mod taker;
mod tidy;

use std::sync::Arc;

use ingest::queue::Way;
use processor::enrich::Enricher;
use processor::lake::Lake;
use processor::metrics::Metrics;
use redirect::links::LinkStore;

use super::tasks::Tasks;
use super::watch::Unseen;
use super::{imports, watch};
use crate::config::Config;

pub(crate) use again::Again;
pub(crate) use store::{Uploads, unended};
pub(crate) use tidy::REMEMBERED;

use staging::Staging;
use taker::Taker;

/// What the tasks of this process that take logs in are made of.
pub(crate) struct Parts<'a> {
    /// The configuration.
    pub(crate) config: &'a Config,
    /// The queue and the sources.
    pub(crate) store: &'a LinkStore,
    /// Where logs go.
    pub(crate) lake: &'a Lake,
    /// What makes rows of lines.
    pub(crate) enricher: Arc<Enricher>,
    /// What counts them.
    pub(crate) metrics: Metrics,
    /// Whether no other process can be taking uploads when this one begins.
    pub(crate) alone: bool,
    /// Where it is noted which watched places can't be looked at.
    pub(crate) unseen: Unseen,
}

/// Starts taking queued logs in, watching prefixes, and tidying up behind uploads.
///
/// # Errors
/// When the spool can't be made, or the sources can't be noted.
pub(crate) async fn start(parts: Parts<'_>, back: &mut Tasks) -> anyhow::Result<()> {
    let Parts { config, store, lake, enricher, metrics, alone, unseen } = parts;
    let importer = imports::importer(config, store, lake.clone(), enricher)?.with_metrics(metrics);
    let folder = std::path::absolute(&config.data_dir)?;
    for (way, task) in [(Way::Upload, "uploads"), (Way::Watched, "watched logs")] {
        let taker = Taker {
            queue: store.clone(),
            staging: Staging::of(lake),
            importer: importer.clone(),
            spool_dir: imports::spool_dir(config)?,
            owner: format!("{}:{}", hostname(), folder.display()),
            way,
        };
        let stop = back.stop_token();
        back.spawn(task, async move {
            taker.run(stop).await;
            Ok(())
        });
    }
    let again = Again::new(config, store, lake, importer)?;
    let stop = back.stop_token();
    back.spawn("logs to be taken in again", async move {
        again.run(stop).await;
        Ok(())
    });
    let (queue, staging, keep, stop) =
        (store.clone(), Staging::of(lake), config.edge_logs.keep_staged.0, back.stop_token());
    back.spawn("staging", async move {
        tidy::tidy(queue, staging, keep, alone, stop).await;
        Ok(())
    });
    store.watch_sources(&config.edge_logs.watch).await?;
    for prefix in config.edge_logs.watch.clone() {
        let (queue, every, stop) = (store.clone(), config.edge_logs.poll.0, back.stop_token());
        let unseen = unseen.clone();
        back.spawn("watched prefix", async move {
            watch::watch(queue, prefix, every, unseen, stop).await;
            Ok(())
        });
    }
    Ok(())
}

/// Begins the location of an upload; its id follows.
const UPLOAD: &str = "upload:";

/// The machine's name, as far as the kernel tells.
fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}
