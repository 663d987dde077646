//! What takes posted events in, wherever the management API runs: straight into the lake, with or without the process
//! role beside it. Made when the first body comes, as many nodes never see one.

use std::sync::Arc;

use async_trait::async_trait;
use ingest::ports::{EventIntake, EventPost, EventsTaken, IntakeError, PortError};
use processor::geo::Geo;
use processor::import::EventDesk;
use processor::lake::Lake;
use processor::metrics::Metrics;
use redirect::links::LinkStore;
use tokio::sync::OnceCell;

use super::enricher;
use super::imports::importer;
use crate::config::Config;

/// Takes posted events in.
#[derive(Debug)]
pub(crate) struct Events {
    config: Config,
    store: LinkStore,
    lake: Lake,
    counted: Metrics,
    geo: Arc<Geo>,
    desk: OnceCell<EventDesk>,
}

impl Events {
    /// Into `lake`; addresses are where `geo` says.
    pub(crate) fn new(config: &Config, store: &LinkStore, lake: &Lake, counted: Metrics, geo: &Arc<Geo>) -> Self {
        let (config, store, lake, geo) = (config.clone(), store.clone(), lake.clone(), Arc::clone(geo));
        Self { config, store, lake, counted, geo, desk: OnceCell::new() }
    }

    fn make(&self) -> anyhow::Result<EventDesk> {
        let enricher = Arc::new(enricher(&self.config, &self.geo)?);
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
