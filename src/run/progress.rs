//! `final_through`: up to where edge logs are settled too, so that numbers don't move by themselves any more.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use processor::lake::{Lake, LakeError, TableHandle};
use redirect::links::{EdgeSource, LinkStore};
use schemas::UtcMicros;
use schemas::link::DEFAULT_WORKSPACE;
use schemas::tables::Table;
use tokio_util::sync::CancellationToken;

use super::signs::Progress;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(2);
/// How often visitor keys are looked after.
const DESTROY_EVERY: Duration = Duration::from_secs(3_600);

/// min(complete_through; over each continuous source: its progress − the settle window). Without a CDN in front it is
/// `complete_through`; with one, but no source yet, or one of which nothing has come, nothing can be said. A tenant's
/// source doesn't count: no tenant may hold everybody's numbers back.
fn final_through(complete: UtcMicros, has_edge: bool, sources: &[EdgeSource], settle: Duration) -> Option<UtcMicros> {
    if !has_edge {
        return Some(complete);
    }
    let mut operators = sources.iter().filter(|source| source.tenant.is_none()).map(|source| source.through);
    // `None` is less than any instant
    let slowest = operators.by_ref().min()??;
    Some(complete.min(slowest.minus(settle)))
}

/// Whether a source has made no progress for longer than logs may take.
pub(crate) fn is_silent(source: &EdgeSource, now: UtcMicros, settle: Duration) -> bool {
    source.through.is_none_or(|through| now.since(through) > settle)
}

/// The silent source that holds `final_through` back the most, if any does.
pub(crate) fn slowest_silent(sources: &[EdgeSource], now: UtcMicros, settle: Duration) -> Option<&EdgeSource> {
    let silent = sources.iter().filter(|source| source.tenant.is_none() && is_silent(source, now, settle));
    silent.min_by_key(|source| source.through)
}

/// What `final_through` waits for where a CDN of this name is in front and no source of an operator's says how far its logs
/// have come: it stands still then, if it is known at all.
pub(crate) fn without_source(provider: &str, sources: &[EdgeSource], known: Option<UtcMicros>) -> Option<String> {
    let is_awaited = provider != "none" && sources.iter().all(|source| source.tenant.is_some());
    is_awaited.then(|| match known {
        None => format!("source: no log of {provider} has come from a continuous source yet"),
        Some(_) => format!("source: no continuous source of {provider}'s logs is left"),
    })
}

/// How far each source has come by the logs that the lake has of it.
#[derive(Debug, Default)]
struct FromLake {
    table: Option<TableHandle>,
    read: HashSet<String>,
}

impl FromLake {
    /// What logs taken in since the last look say: the newest line of each source.
    async fn news(&mut self, lake: &Lake) -> Result<News, LakeError> {
        let table = match &mut self.table {
            Some(table) => {
                table.refresh().await?;
                table
            }
            None => self.table.insert(lake.table(Table::EdgeFiles).await?),
        };
        let mut news = News::new();
        for file in table.files().iter().filter(|file| !self.read.contains(&file.path)) {
            for batch in table.read(file, &["source_name", "workspace", "last"]).await? {
                newest_lines(&batch, &mut news);
            }
        }
        self.read = table.files().iter().map(|file| file.path.clone()).collect();
        Ok(news)
    }
}

/// The newest line of each source, by its tenant (none: an operator's) and name.
type News = BTreeMap<(Option<String>, String), UtcMicros>;

fn newest_lines(batch: &RecordBatch, news: &mut News) {
    let column = |name: &str| batch.column_by_name(name);
    let (Some(names), Some(workspaces), Some(last)) = (column("source_name"), column("workspace"), column("last"))
    else {
        return;
    };
    let (names, workspaces) = (names.as_string::<i32>(), workspaces.as_string::<i32>());
    let last = last.as_primitive::<TimestampMicrosecondType>();
    for row in (0..batch.num_rows()).filter(|row| names.is_valid(*row) && last.is_valid(*row)) {
        let through = UtcMicros(last.value(row));
        let source = match workspaces.value(row) {
            DEFAULT_WORKSPACE => (None, names.value(row).to_owned()),
            // a tenant's source is another than any of that name elsewhere
            tenant => (Some(tenant.to_owned()), format!("{tenant}/{}", names.value(row))),
        };
        let known = news.entry(source).or_insert(through);
        *known = (*known).max(through);
    }
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
        // by the clock that all share: what is destroyed by a wrong one is gone
        let destroyed = async {
            let today = store.clock().await?.now.min(UtcMicros::now()).day();
            store.destroy_visitor_keys(first_key_day(today, settle)).await
        };
        match destroyed.await {
            Ok(0) => {}
            Ok(destroyed) => tracing::info!(destroyed, "visitor keys of past days destroyed"),
            Err(error) => tracing::warn!(%error, "visitor keys can't be destroyed now"),
        }
    }
}

/// Publishes `final_through` until `stop`, and keeps what is `shown` current.
pub(crate) async fn publish(
    store: LinkStore,
    lake: Lake,
    has_edge: bool,
    settle: Duration,
    shown: Progress,
    stop: CancellationToken,
) {
    let mut from_lake = FromLake::default();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = publish_once(&store, &lake, &mut from_lake, has_edge, settle, &shown).await {
            // what was read may not have been noted: all of it is read again
            from_lake = FromLake::default();
            tracing::warn!(%error, "final_through can't be published now");
        }
    }
}

async fn publish_once(
    store: &LinkStore,
    lake: &Lake,
    from_lake: &mut FromLake,
    has_edge: bool,
    settle: Duration,
    shown: &Progress,
) -> anyhow::Result<()> {
    use ingest::ports::Registry as _;
    let now = UtcMicros::now();
    let complete = store.complete_through(now).await?;
    shown.complete(complete);
    for ((tenant, name), through) in from_lake.news(lake).await? {
        // a line from later than now says nothing of what is still to come
        store.hear_source(&name, tenant.as_deref(), through.min(now)).await?;
    }
    let sources = store.edge_sources().await?;
    if let Some(at) = final_through(complete, has_edge, &sources, settle) {
        store.publish_final_through(at).await?;
    }
    if let Some(at) = store.final_through().await? {
        shown.settled(at);
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

    fn source(name: &str, through: Option<i64>) -> EdgeSource {
        let through = through.map(|seconds| UtcMicros(seconds * 1_000_000));
        EdgeSource { name: name.to_owned(), tenant: None, watched: false, through }
    }

    #[test]
    fn the_slowest_source_decides_and_no_source_says_nothing() {
        let settle = Duration::from_secs(10);
        let at = |seconds: i64| UtcMicros(seconds * 1_000_000);
        let of = |sources: &[EdgeSource]| final_through(at(100), true, sources, settle);
        assert_eq!(final_through(at(100), false, &[], settle), Some(at(100)));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[source("a", Some(90)), source("b", Some(50))]), Some(at(40)));
        assert_eq!(of(&[source("a", Some(500))]), Some(at(100)));
        assert_eq!(of(&[source("a", Some(90)), source("b", None)]), None, "a watched prefix of which nothing has come");
        let tenants = |through| EdgeSource { tenant: Some("t".into()), ..source("t/a", through) };
        assert_eq!(of(&[source("a", Some(90)), tenants(Some(1)), tenants(None)]), Some(at(80)), "nobody else's");
        assert_eq!(of(&[tenants(Some(90))]), None);
        assert_eq!(slowest_silent(&[tenants(Some(1))], at(100), settle), None);
    }

    #[test]
    fn a_source_without_progress_is_silent_and_the_slowest_is_named() {
        let settle = Duration::from_secs(10);
        let now = UtcMicros(100_000_000);
        let sources = [source("quick", Some(95)), source("slow", Some(80)), source("edge", Some(90))];
        let silent = |source: &EdgeSource| is_silent(source, now, settle);
        assert_eq!(sources.iter().map(silent).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(slowest_silent(&sources, now, settle).map(|source| &*source.name), Some("slow"));
        assert_eq!(slowest_silent(&sources[..1], now, settle), None);
        assert_eq!(without_source("nginx", &sources, None), None);
        let tenants = [EdgeSource { tenant: Some("t".into()), ..source("t/a", Some(95)) }];
        for none in [&[][..], &tenants] {
            let told = without_source("nginx", none, None).unwrap();
            assert!(told.contains("no log of nginx has come from a continuous source yet"), "{told}");
            assert_ne!(without_source("nginx", none, Some(now)), Some(told));
            assert_eq!(without_source("none", none, None), None);
        }
        assert!(silent(&source("new", None)));
    }
}
