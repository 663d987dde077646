//! The geography database of `[geo]`: opened before anything is done with it, and looked at again as long as the process
//! runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use processor::geo::Geo;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::refusals::Refusals;
use super::tasks::Tasks;
use crate::config::Config;

/// How often the file is looked at. It is read when it has come to rest: two looks after it was written.
const EVERY: Duration = Duration::from_secs(2);

/// What the file is called among what is refused.
const KEY: &str = "geo.mmdb";

/// The database of the configuration.
///
/// # Errors
/// Names the key, when there is a file and it can't be used.
pub(crate) fn open(config: &Config) -> anyhow::Result<Arc<Geo>> {
    let path = &config.geo.mmdb;
    if *path == Path::new("") {
        return Ok(Arc::default());
    }
    Ok(Arc::new(Geo::open(path).with_context(|| format!("geo.mmdb = {path:?}"))?))
}

/// The same for a process that goes on: says what it has, follows the file, and shows in `/metrics` when it is refused.
///
/// # Errors
/// As [`open`].
pub(crate) fn follow(
    config: &Config,
    metrics: &mut Registry,
    refusals: Refusals,
    back: &mut Tasks,
) -> anyhow::Result<Arc<Geo>> {
    let geo = open(config)?;
    let refused = Gauge::default();
    metrics.register(
        "highwater_geo_refused",
        "1 while the geography database on disk can't be used and the one before it stays in force",
        refused.clone(),
    );
    let Some(has) = geo.in_force() else {
        tracing::info!(
            "geo.mmdb names no file: countries, regions and cities are those that the edge tells, else unknown"
        );
        return Ok(geo);
    };
    tracing::info!(file = %config.geo.mmdb.display(), kind = has.kind, made = has.made, "places are looked up");
    let (watched, stop) = (Arc::clone(&geo), back.stop_token());
    back.spawn("geography database", async move {
        watch(watched, (refused, refusals), stop).await;
        Ok(())
    });
    Ok(geo)
}

async fn watch(geo: Arc<Geo>, (refused, refusals): (Gauge, Refusals), stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let looked = Arc::clone(&geo);
        // whoever stops doesn't wait for a disk that doesn't answer
        let looked = stop.run_until_cancelled(tokio::task::spawn_blocking(move || looked.look()));
        match looked.await {
            None => return,
            Some(Ok(Ok(None))) => {}
            Some(Ok(Ok(Some(has)))) => {
                refused.set(0);
                refusals.accept(KEY);
                tracing::info!(kind = has.kind, made = has.made, "a newer geography database is in force");
            }
            Some(Ok(Err(error))) => {
                refused.set(1);
                refusals.refuse(KEY, &error.to_string());
                tracing::warn!(%error, "geo.mmdb: the geography database before it stays in force");
            }
            Some(Err(error)) => tracing::warn!(%error, "geo.mmdb can't be looked at"),
        }
    }
}
