//! History judged anew on tables in memory: what moves, what stays, and who comes in between.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray as _;
use object_store::memory::InMemory;
use schemas::tables::Table;
use schemas::time::{DAY, HOUR, SECOND};
use schemas::{Click, ClickBuilder, Method};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::*;
use crate::classify::Classifier;
use crate::enrich::EnrichConfig;
use crate::hot::testing::click;
use crate::import::testing::Journals;
use crate::lake::testing::{Fault, FaultStore, Gate};
use crate::lake::{Change, Lake, LakeOptions};
use crate::settle::tests::{append_rows, arrive_rows, memory, restated};
use crate::settle::{SettleConfig, Settler};

/// 2026-03-14T10:00:00Z
const TEN: i64 = 20_526 * DAY + 10 * HOUR;
const SLACK: &str = "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0";

/// By the rules of this release; or with an operator's over them, for whom Slack is a crawler of another name.
fn enricher(later: bool) -> Arc<Enricher> {
    const OWN: &str = "version = 1\n[[group]]\nid = \"own\"\nclass = \"crawler\"\nwhy = \"so we say\"\n\
                       source = \"ourselves\"\n[group.agents]\n\"Slack of later\" = [\"Slackbot\"]\n";
    let classifier = if later { Classifier::with_operator(OWN) } else { Classifier::builtin() };
    Arc::new(Enricher::with_rules(classifier.unwrap(), &EnrichConfig::default()))
}

/// Rows of a minute each, of Slack and people by turns, judged by the rules of this release.
fn rows(first: u128, count: u128, from: i64, workspace: &str) -> Vec<Click> {
    let enricher = enricher(false);
    let row = |n: u128| {
        let agent = if n.is_multiple_of(2) { SLACK } else { FIREFOX };
        let (verdict, agent_info) = enricher.rejudge(agent, Some(Method::Get), "").unwrap();
        let row = click(first + n, TEN + from + n as i64 * 60 * SECOND);
        let code = format!("c{}", n % 3);
        Click {
            user_agent: Some(agent.into()),
            verdict,
            agent_info,
            workspace: workspace.into(),
            code: code.into(),
            ..row
        }
    };
    (0..count).map(row).collect()
}

fn batch(rows: &[Click]) -> RecordBatch {
    let mut builder = ClickBuilder::new();
    rows.iter().for_each(|row| builder.push(row));
    builder.finish().unwrap()
}

async fn settler(lake: &Lake, later: bool, journals: &Arc<Journals>) -> Settler {
    Settler::new(lake, Arc::clone(journals) as _, enricher(later), SettleConfig::default()).await.unwrap()
}

fn all() -> Reclassify {
    Reclassify { start: UtcMicros(TEN), end: UtcMicros(TEN + DAY), workspace: None, dry_run: false }
}

/// (id, agent) of every row, and the rules' versions.
async fn agents(lake: &Lake) -> (Vec<(u128, String)>, Vec<i32>) {
    let clicks = lake.table(Table::Clicks).await.unwrap();
    let (mut found, mut stamps) = (Vec::new(), Vec::new());
    for file in clicks.files() {
        for batch in clicks.read(file, &["click_id", "agent", "rules_version"]).await.unwrap() {
            let agents = batch.column(1).as_string::<i32>();
            let agent = |row| value(agents, row).unwrap_or("-").to_owned();
            found.extend(crate::settle::ids::click_ids(&batch).enumerate().map(|(row, id)| (id.as_u128(), agent(row))));
            stamps.extend(versions(&batch).unwrap().values());
        }
    }
    found.sort();
    stamps.sort_unstable();
    stamps.dedup();
    (found, stamps)
}

fn named<'a>(found: &'a [(u128, String)], agent: &str) -> Vec<&'a (u128, String)> {
    found.iter().filter(|(_, name)| name == agent).collect()
}

#[tokio::test]
async fn what_moves_is_said_and_all_of_it_lands_in_one_commit() {
    let (lake, _) = memory();
    append_rows(&lake, &batch(&rows(0, 10, 0, "default"))).await;
    append_rows(&lake, &batch(&rows(100, 6, 2 * HOUR, "acme"))).await;
    let journals = Arc::new(Journals::default());
    journals.set_final(UtcMicros(TEN + HOUR));
    let version = lake.table(Table::Clicks).await.unwrap().version();
    let dry = Reclassify { dry_run: true, ..all() };
    let mut later = settler(&lake, true, &journals).await;
    let told = later.reclassify(&dry, &mut |_| {}).await.unwrap();
    assert_eq!(lake.table(Table::Clicks).await.unwrap().version(), version, "a dry run changes nothing");
    let mut looks = Vec::new();
    let done = later.reclassify(&all(), &mut |looked| looks.push(looked)).await.unwrap();
    assert_eq!(done, told, "it says what comes of it");
    assert_eq!((done.rows, done.changed, done.same, done.left), (16, 8, 8, 0));
    let moved = |from: &str, to: &str| [Moved { from: Some(from.into()), to: Some(to.into()), rows: 8 }];
    assert_eq!(
        (&done.classes[..], &done.agents[..]),
        (&moved("preview", "crawler")[..], &moved("Slack", "Slack of later")[..])
    );
    assert_eq!(done.reasons.iter().map(|way| way.rows).collect::<Vec<_>>(), [8]);
    let of = |classes: [(&str, u64); 2]| BTreeMap::from(classes.map(|(class, rows)| (class.to_owned(), rows)));
    assert_eq!(done.before, of([("human", 8), ("preview", 8)]));
    assert_eq!(done.after, of([("human", 8), ("crawler", 8)]));
    assert_eq!((done.files, done.rewritten, done.sampled_away), (2, 2, false));
    assert_eq!(looks.last(), Some(&crate::settle::Looked { files: 2, of: 2, rows: 16 }));
    let clicks = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(clicks.version(), version + 1, "one commit");
    assert!(clicks.files().iter().all(|file| file.is_one_hour()));
    let (found, stamps) = agents(&lake).await;
    assert_eq!((found.len(), named(&found, "Slack of later").len(), named(&found, "Slack").len()), (16, 8, 0));
    assert_eq!(stamps, [done.rules_version]);
    // of what was final: five of the first hour, from its first minute to its ninth
    assert_eq!(restated(&lake).await, [("reclassify".to_owned(), 0, 8 * 60, 0)]);
    let again = later.reclassify(&all(), &mut |_| {}).await.unwrap();
    assert_eq!((again.changed, again.same, again.rewritten), (0, 0, 0));
    assert_eq!(lake.table(Table::Clicks).await.unwrap().version(), version + 1);
}

#[tokio::test]
async fn rows_out_of_the_span_or_of_others_stay_and_keep_their_place() {
    let (lake, _) = memory();
    let mut mixed = rows(0, 12, 0, "default");
    mixed.extend(rows(100, 12, 0, "acme"));
    append_rows(&lake, &batch(&mixed)).await;
    append_rows(&lake, &batch(&rows(200, 3, 5 * HOUR, "default"))).await;
    let order = async || {
        let clicks = lake.table(Table::Clicks).await.unwrap();
        let mut rows = Vec::new();
        let mut files: Vec<_> = clicks.files().to_vec();
        files.sort_by_key(|file| file.min_time);
        for file in &files {
            for batch in clicks.read(file, &["click_id"]).await.unwrap() {
                rows.extend(crate::settle::ids::click_ids(&batch).map(|id| id.as_u128()));
            }
        }
        (files.last().unwrap().path.clone(), rows)
    };
    let before = order().await;
    let asked = Reclassify { end: UtcMicros(TEN + 4 * 60 * SECOND), workspace: Some("acme".into()), ..all() };
    let journals = Arc::new(Journals::default());
    let done = settler(&lake, true, &journals).await.reclassify(&asked, &mut |_| {}).await.unwrap();
    assert_eq!((done.rows, done.changed, done.files), (4, 2, 1));
    assert_eq!(named(&agents(&lake).await.0, "Slack of later").iter().map(|row| row.0).collect::<Vec<_>>(), [100, 102]);
    assert_eq!(order().await, before, "every row in its place, and files that aren't concerned left alone");
    let nothing = Reclassify { start: UtcMicros(0), end: UtcMicros(1), ..all() };
    let done = settler(&lake, true, &journals).await.reclassify(&nothing, &mut |_| {}).await.unwrap();
    assert_eq!((done.rows, done.files), (0, 0));
}

#[tokio::test]
async fn appends_land_beside_it_and_are_kept() {
    let (lake, store) = memory();
    append_rows(&lake, &batch(&rows(0, 10, 0, "default"))).await;
    let gate = Gate::new();
    store.arm("clicks/_delta_log", 1, Fault::Hold(gate.clone()));
    let mut later = settler(&lake, true, &Arc::default()).await;
    let held_up = tokio::spawn(async move { later.reclassify(&all(), &mut |_| {}).await });
    gate.reached().await;
    // whoever reads meanwhile sees what was
    assert_eq!(named(&agents(&lake).await.0, "Slack").len(), 5);
    append_rows(&lake, &batch(&rows(50, 2, HOUR / 2, "default"))).await;
    gate.open();
    let done = held_up.await.unwrap().unwrap();
    assert_eq!((done.rows, done.changed), (10, 5));
    let (found, _) = agents(&lake).await;
    assert_eq!((found.len(), named(&found, "Slack of later").len(), named(&found, "Slack").len()), (12, 5, 1));
}

/// Files are merged by another settler after they were looked at: what came of them is looked at anew.
#[tokio::test]
async fn a_file_that_was_merged_away_is_begun_anew() {
    for place in ["clicks/date", "clicks/_delta_log"] {
        let (lake, store) = memory();
        for n in 0..10u128 {
            append_rows(&lake, &batch(&rows(10 * n, 2, 0, "default"))).await;
        }
        let (journals, gate) = (Arc::new(Journals::default()), Gate::new());
        let mut other = settler(&lake, false, &journals).await;
        let mut later = settler(&lake, true, &journals).await;
        store.arm(place, if place.ends_with("log") { 1 } else { 3 }, Fault::Hold(gate.clone()));
        let held_up = tokio::spawn(async move { later.reclassify(&all(), &mut |_| {}).await });
        gate.reached().await;
        let merges = other.pass_at(UtcMicros(TEN + 300 * SECOND)).await.unwrap().merges;
        assert_eq!(merges, 1, "{place}");
        gate.open();
        let done = held_up.await.unwrap().unwrap();
        assert_eq!((done.rows, done.changed), (20, 10), "{place}");
        let (found, _) = agents(&lake).await;
        assert_eq!((found.len(), named(&found, "Slack of later").len()), (20, 10), "{place}");
    }
}

#[tokio::test]
async fn killed_before_its_commit_nothing_has_changed_and_nothing_stays_behind() {
    let store = FaultStore::new(Arc::new(InMemory::new()));
    let options = LakeOptions { keep: Duration::ZERO, ..LakeOptions::default() };
    let lake = Lake::with_store(Arc::new(store.clone()), Url::parse("memory:///lake").unwrap(), options).unwrap();
    append_rows(&lake, &batch(&rows(0, 10, 0, "default"))).await;
    let before = agents(&lake).await;
    let mut later = settler(&lake, true, &Arc::default()).await;
    store.arm("clicks/_delta_log", 1, Fault::Before);
    later.reclassify(&all(), &mut |_| {}).await.unwrap_err();
    assert!(store.is_spent());
    assert_eq!(agents(&lake).await, before);
    let files = async || {
        use futures::TryStreamExt as _;
        use object_store::ObjectStore as _;
        let all: Vec<_> = store.list(Some(&"lake/clicks".into())).try_collect().await.unwrap();
        all.iter().filter(|meta| meta.location.as_ref().ends_with(".parquet")).count()
    };
    assert_eq!(files().await, 2);
    let mut clicks = lake.table(Table::Clicks).await.unwrap();
    clicks.maintain(UtcMicros::now().plus(Duration::from_secs(1))).await.unwrap();
    assert_eq!(files().await, 1);
    // an answer that is lost is another matter: it has landed
    store.arm("clicks/_delta_log", 1, Fault::After);
    assert_eq!(later.reclassify(&all(), &mut |_| {}).await.unwrap().changed, 5);
    assert_eq!(named(&agents(&lake).await.0, "Slack of later").len(), 5);
}

/// What may have landed, or may yet, stays: a store behind a network may carry out what it has failed to answer.
#[tokio::test]
async fn what_surely_has_not_landed_is_given_back_and_nothing_else() {
    use futures::TryStreamExt as _;
    use object_store::ObjectStore as _;
    let cases = [
        ("memory:///lake", "restatements/_delta_log", 1),
        ("memory:///lake", "clicks/_delta_log", 2),
        ("file:///lake", "clicks/_delta_log", 1),
    ];
    for (root, place, left) in cases {
        let store = FaultStore::new(Arc::new(InMemory::new()));
        let root = Url::parse(root).unwrap();
        let lake = Lake::with_store(Arc::new(store.clone()), root.clone(), LakeOptions::default()).unwrap();
        append_rows(&lake, &batch(&rows(0, 10, 0, "default"))).await;
        let (before, journals) = (agents(&lake).await, Arc::new(Journals::default()));
        journals.set_final(UtcMicros(TEN + HOUR));
        let files = async || {
            let all: Vec<_> = store.list(Some(&"lake/clicks".into())).try_collect().await.unwrap();
            all.iter().filter(|meta| meta.location.as_ref().ends_with(".parquet")).count()
        };
        let mut later = settler(&lake, true, &journals).await;
        store.arm(place, 1, Fault::Before);
        later.reclassify(&all(), &mut |_| {}).await.unwrap_err();
        assert!(store.is_spent());
        assert_eq!((files().await, agents(&lake).await), (left, before), "{root} {place}");
        store.arm("clicks/_delta_log", 1, Fault::After);
        assert_eq!(later.reclassify(&all(), &mut |_| {}).await.unwrap().changed, 5, "{root} {place}");
        assert_eq!(files().await, left + 1, "{root} {place}");
    }
}

#[tokio::test]
async fn who_is_told_to_stop_leaves_nothing_behind() {
    use futures::TryStreamExt as _;
    use object_store::ObjectStore as _;
    let (lake, store) = memory();
    for n in 0..4u128 {
        append_rows(&lake, &batch(&rows(10 * n, 2, 0, "default"))).await;
    }
    let before = agents(&lake).await;
    let stop = CancellationToken::new();
    let mut later = settler(&lake, true, &Arc::default()).await.until(stop.clone());
    let stopped = later
        .reclassify(&all(), &mut |looked| {
            if looked.files == 2 {
                stop.cancel()
            }
        })
        .await
        .unwrap_err();
    assert!(matches!(stopped, SettleError::Stopped), "{stopped}");
    let all: Vec<_> = store.list(Some(&"lake/clicks".into())).try_collect().await.unwrap();
    assert_eq!(all.iter().filter(|meta| meta.location.as_ref().ends_with(".parquet")).count(), 4);
    assert_eq!(agents(&lake).await, before);
}

/// As on a disk that gets full: what was made so far gives its room back.
#[tokio::test]
async fn a_file_that_can_not_be_written_takes_those_before_it_along() {
    use futures::TryStreamExt as _;
    use object_store::ObjectStore as _;
    let (lake, store) = memory();
    for n in 0..4u128 {
        append_rows(&lake, &batch(&rows(10 * n, 2, 0, "default"))).await;
    }
    let before = agents(&lake).await;
    let files = async || {
        let all: Vec<_> = store.list(Some(&"lake/clicks".into())).try_collect().await.unwrap();
        all.iter().filter(|meta| meta.location.as_ref().ends_with(".parquet")).count()
    };
    assert_eq!(files().await, 4);
    let mut later = settler(&lake, true, &Arc::default()).await;
    store.arm("clicks/date", 3, Fault::Before);
    later.reclassify(&all(), &mut |_| {}).await.unwrap_err();
    assert!(store.is_spent());
    assert_eq!((files().await, agents(&lake).await), (4, before));
    assert_eq!(later.reclassify(&all(), &mut |_| {}).await.unwrap().changed, 4);
}

#[tokio::test]
async fn what_waits_is_judged_when_it_is_settled() {
    let (lake, _) = memory();
    let waiting: Vec<Click> =
        rows(0, 4, 0, "default").into_iter().map(|row| Click { source: schemas::Source::Edge, ..row }).collect();
    arrive_rows(&lake, &batch(&waiting)).await;
    let mut later = settler(&lake, true, &Arc::default()).await;
    assert_eq!(later.reclassify(&all(), &mut |_| {}).await.unwrap().rows, 0);
    assert_eq!(later.pass_at(UtcMicros(TEN + HOUR)).await.unwrap().added, 4);
    let (found, stamps) = agents(&lake).await;
    assert_eq!((named(&found, "Slack of later").len(), named(&found, "Slack").len()), (2, 0));
    assert_eq!(stamps, [enricher(true).classifier().version()]);
}

#[tokio::test]
async fn what_was_sampled_away_is_said_to_stay() {
    let (lake, _) = memory();
    append_rows(&lake, &batch(&rows(0, 2, 0, "default"))).await;
    let sketch = schemas::sketch::VisitorSketch::new().unwrap().to_bytes();
    let row = schemas::hourly::HourRow {
        workspace: "default",
        link_id: "l",
        domain: "d",
        code: "c",
        class: "human",
        hour: UtcMicros(TEN),
        lowest_rate: 0.5,
        visitors: &sketch,
    };
    let mut hourly = lake.table(Table::ClicksHourly).await.unwrap();
    let add = hourly.write(&schemas::hourly::to_batch([row]).unwrap()).await.unwrap();
    hourly.commit(Change { add, ..Change::default() }).await.unwrap();
    let mut later = settler(&lake, true, &Arc::default()).await;
    let within = Reclassify { start: UtcMicros(TEN + HOUR / 2), end: UtcMicros(TEN + HOUR), ..all() };
    assert!(later.reclassify(&within, &mut |_| {}).await.unwrap().sampled_away);
    let after = Reclassify { start: UtcMicros(TEN + HOUR), end: UtcMicros(TEN + DAY), ..all() };
    assert!(!later.reclassify(&after, &mut |_| {}).await.unwrap().sampled_away);
}
