//! What takes posted events in, wherever the management API runs: straight into the lake, with or without the process
//! role beside it. Made when the first body comes, as many nodes never see one.

use std::sync::Arc;

use async_trait::async_trait;
use ingest::ports::{EventIntake, EventPost, EventsTaken, IntakeError, PortError};
use processor::enrich::Enricher;
use processor::geo::Geo;
use processor::import::EventDesk;
use processor::lake::Lake;
use processor::metrics::Metrics;
use redirect::links::LinkStore;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::imports::importer;
use super::process::following_enricher;
use crate::config::Config;
use crate::rules::RulesMetrics;

/// What makes rows of posted events.
#[derive(Debug)]
pub(crate) enum Rows {
    /// That of the process role beside it.
    Beside(Arc<Enricher>),
    /// One of its own, whose rules follow their files until it is told to stop.
    Own(Arc<Geo>, RulesMetrics, CancellationToken),
}

/// Takes posted events in.
#[derive(Debug)]
pub(crate) struct Events {
    config: Config,
    store: LinkStore,
    lake: Lake,
    counted: Metrics,
    rows: Rows,
    desk: OnceCell<EventDesk>,
}

impl Events {
    /// Into `lake`.
    pub(crate) fn new(config: &Config, store: &LinkStore, lake: &Lake, counted: Metrics, rows: Rows) -> Self {
        let (config, store, lake) = (config.clone(), store.clone(), lake.clone());
        Self { config, store, lake, counted, rows, desk: OnceCell::new() }
    }

    fn make(&self) -> anyhow::Result<EventDesk> {
        let enricher = match &self.rows {
            Rows::Beside(enricher) => Arc::clone(enricher),
            Rows::Own(geo, metrics, stop) => {
                let (enricher, watching) = following_enricher(&self.config, geo, metrics.clone(), stop.clone())?;
                tokio::spawn(watching);
                enricher
            }
        };
        let importer = importer(&self.config, &self.store, self.lake.clone(), enricher)?;
        Ok(EventDesk::new(&importer.with_metrics(self.counted.clone())))
    }
}

#[async_trait]
impl EventIntake for Events {
    async fn take_in(&self, post: EventPost) -> Result<EventsTaken, IntakeError> {
        let made = self.desk.get_or_try_init(async || self.make()).await;
        let desk = made.map_err(|error| PortError { doing: "making ready for events", source: error.into() })?;
        desk.take_in(post).await
    }
}
