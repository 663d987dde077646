//! What takes edge logs in, as configured: for the command line, uploads and watched folders alike.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use ingest::edge::{ReadLimits, Settings};
use processor::enrich::Enricher;
use processor::import::{ImportConfig, Importer};
use processor::lake::Lake;
use redirect::links::LinkStore;

use super::process::edge_of;
use super::waits;
use crate::config::Config;

/// An importer into `lake`.
///
/// # Errors
/// When the folder for streams can't be made.
pub(crate) fn importer(
    config: &Config,
    store: &LinkStore,
    lake: Lake,
    enricher: Arc<Enricher>,
) -> anyhow::Result<Importer> {
    let store = Arc::new(store.clone());
    let settings = ImportConfig {
        spool_dir: spool_dir(config)?,
        settle: config.edge.settle.0,
        waits: waits(config),
        max_skew: config.edge.max_skew.0,
        takedown_limit: config.redirect.takedown_limit.0,
        domains: config.redirect.domains.clone(),
        edge: edge_of(config),
        logs: log_settings(config),
        limits: limits(config),
        ..ImportConfig::default()
    };
    Ok(Importer::new(lake, Arc::clone(&store) as _, Arc::clone(&store) as _, store, enricher, settings))
}

/// Where streams and fetched objects are kept until they are taken in: beside the data, and as private, as a system's
/// temporary folder may be small, and in memory.
///
/// # Errors
/// When it can't be made.
pub(crate) fn spool_dir(config: &Config) -> anyhow::Result<PathBuf> {
    let folder = config.data_dir.join("tmp");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    Ok(folder)
}

/// What a log may cost.
fn limits(config: &Config) -> ReadLimits {
    let logs = &config.edge_logs;
    ReadLimits {
        line: logs.max_line.0 as usize,
        unpacked: logs.max_unpacked.0,
        ratio: logs.max_ratio,
        ..ReadLimits::default()
    }
}

/// What `[edge_logs]` says of formats.
fn log_settings(config: &Config) -> Settings {
    let logs = &config.edge_logs;
    Settings {
        cloudfront_realtime: logs.cloudfront_realtime.fields.clone(),
        nginx_log_format: logs.nginx.log_format.clone(),
        fastly: logs.fastly.fields.clone(),
        akamai: logs.akamai.fields.clone(),
        akamai_id_field: logs.akamai.id_field.clone(),
        // checked with the rest of the configuration
        haproxy_timezone: logs.haproxy.timezone.parse().unwrap_or_default(),
        haproxy_captures: logs.haproxy.captures.clone(),
        ..Settings::default()
    }
}
