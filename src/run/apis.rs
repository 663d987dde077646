//! The management API and the query service, made of what this process has: what a role beside them has they share, and make
//! for themselves what none has.

use std::sync::Arc;

use processor::geo::Geo;
use processor::lake::Lake;
use processor::metrics::Metrics;
use prometheus_client::registry::Registry;
use query::{QueryConfig, QueryService};
use redirect::links::LinkStore;
use redirect::manage::{self, ManageConfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Roles;
use super::access::Tokens;
use super::changing::Changes;
use super::events::{Events, Rows};
use super::held_up::HeldUp;
use super::own::OwnJournals;
use super::refusals::Refusals;
use super::standing::Standing;
use super::status::{Sources, TopicSource};
use super::uploads::Uploads;
use crate::config::Config;
use crate::rules::{RulesMetrics, Source};

/// The management API; what it takes in is counted with what the process role does, if this process has it.
pub(super) fn manage(
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
///
/// # Errors
/// When the rules are broken.
pub(super) fn own_rows(
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
#[derive(Debug)]
pub(super) struct Seen {
    /// Its journals.
    pub(super) own: OwnJournals,
    /// What is known of the lake.
    pub(super) standing: watch::Receiver<Standing>,
    /// What holds clicks up.
    pub(super) held_up: HeldUp,
}

/// The query service.
///
/// # Errors
/// When its threads, or the folder that it spills into, can't be made.
pub(super) fn query(
    config: &Config,
    roles: Roles,
    (store, lake): (&LinkStore, &Lake),
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
