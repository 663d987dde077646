//! `final_through`: up to where edge logs are settled too, so that numbers don't move by themselves any more.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use processor::lake::{Lake, LakeError};
use redirect::links::LinkStore;
use schemas::UtcMicros;
use schemas::tables::Table;
use tokio_util::sync::CancellationToken;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(2);
/// How often visitor keys are looked after.
const DESTROY_EVERY: Duration = Duration::from_secs(3_600);

/// How far each continuous source of edge logs has come, by its name.
pub(crate) type Sources = BTreeMap<String, UtcMicros>;

/// min(complete_through; over each continuous source: its progress − the settle window). Without a CDN in front it is
/// `complete_through`; with one, but no source yet, nothing can be said.
fn final_through(complete: UtcMicros, has_edge: bool, sources: &Sources, settle: Duration) -> Option<UtcMicros> {
    if !has_edge {
        return Some(complete);
    }
    let slowest = sources.values().min()?;
    Some(complete.min(slowest.minus(settle)))
}

/// The continuous sources, as the lake remembers them.
///
/// # Errors
/// When the lake can't be read.
pub(crate) async fn sources(lake: &Lake) -> Result<Sources, LakeError> {
    let table = lake.table(Table::EdgeFiles).await?;
    let mut sources = Sources::new();
    for file in table.files() {
        for batch in table.read(file, &["source_name", "last"]).await? {
            let (Some(names), Some(last)) = (batch.column_by_name("source_name"), batch.column_by_name("last")) else {
                continue;
            };
            let (names, last) = (names.as_string::<i32>(), last.as_primitive::<TimestampMicrosecondType>());
            for row in (0..batch.num_rows()).filter(|row| names.is_valid(*row) && last.is_valid(*row)) {
                let through = UtcMicros(last.value(row));
                let known = sources.entry(names.value(row).to_owned()).or_insert(through);
                *known = (*known).max(through);
            }
        }
    }
    Ok(sources)
}

/// Visitor keys are destroyed so many days after their own at the latest, however long logs may take.
const MOST_KEY_DAYS: i32 = 7;

/// The first day whose visitor key is still needed: a key is kept for the settle window after its last use.
fn first_key_day(today: i32, settle: Duration) -> i32 {
    let days = settle.as_secs().div_ceil(86_400) as i32;
    today - days.clamp(1, MOST_KEY_DAYS)
}

/// Destroys visitor keys that are no longer needed, until `stop`.
pub(crate) async fn destroy_keys(store: LinkStore, settle: Duration, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(DESTROY_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        match store.destroy_visitor_keys(first_key_day(UtcMicros::now().day(), settle)).await {
            Ok(0) => {}
            Ok(destroyed) => tracing::info!(destroyed, "visitor keys of past days destroyed"),
            Err(error) => tracing::warn!(%error, "visitor keys can't be destroyed now"),
        }
    }
}

/// Publishes `final_through` until `stop`.
pub(crate) async fn publish(store: LinkStore, lake: Lake, has_edge: bool, settle: Duration, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = publish_once(&store, &lake, has_edge, settle).await {
            tracing::warn!(%error, "final_through can't be published now");
        }
    }
}

async fn publish_once(store: &LinkStore, lake: &Lake, has_edge: bool, settle: Duration) -> anyhow::Result<()> {
    use ingest::ports::Registry as _;
    let complete = store.complete_through(UtcMicros::now()).await?;
    let sources = if has_edge { sources(lake).await? } else { Sources::new() };
    if let Some(at) = final_through(complete, has_edge, &sources, settle) {
        store.publish_final_through(at).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_outlive_the_settle_window_and_no_week() {
        let hours = |n: u64| Duration::from_secs(n * 3_600);
        assert_eq!(first_key_day(100, hours(48)), 98);
        assert_eq!(first_key_day(100, hours(1)), 99);
        assert_eq!(first_key_day(100, hours(24 * 30)), 93);
    }

    #[test]
    fn the_slowest_source_decides_and_no_source_says_nothing() {
        let settle = Duration::from_secs(10);
        let at = |seconds: i64| UtcMicros(seconds * 1_000_000);
        let sources = |list: &[(&str, i64)]| list.iter().map(|(name, s)| ((*name).to_owned(), at(*s))).collect();
        assert_eq!(final_through(at(100), false, &Sources::new(), settle), Some(at(100)));
        assert_eq!(final_through(at(100), true, &Sources::new(), settle), None);
        assert_eq!(final_through(at(100), true, &sources(&[("a", 90), ("b", 50)]), settle), Some(at(40)));
        assert_eq!(final_through(at(100), true, &sources(&[("a", 500)]), settle), Some(at(100)));
    }
}
