//! The settler on tables in memory: in its time, killed between its commits, beside another, and tidying up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray as _, RecordBatch};
use futures::StreamExt as _;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use schemas::tables::{Table, arriving};
use schemas::time::{DAY, HOUR, SECOND};
use schemas::{ClickBuilder, Source, UtcMicros};
use url::Url;

use super::*;
use crate::hot::testing::click;
use crate::import::testing::{Journals, enricher};
use crate::lake::testing::{Fault, FaultStore, Gate};
use crate::lake::{Change, Lake, LakeOptions, TableHandle};

/// 2026-03-14T10:00:00Z
const TEN: i64 = 20_526 * DAY + 10 * HOUR;

pub(super) fn memory() -> (Lake, FaultStore) {
    let store = FaultStore::new(Arc::new(InMemory::new()));
    (lake_in(&store, Duration::from_secs(3_600)), store)
}

fn lake_in(store: &FaultStore, keep: Duration) -> Lake {
    let options = LakeOptions { keep, ..LakeOptions::default() };
    Lake::with_store(Arc::new(store.clone()), Url::parse("memory:///lake").unwrap(), options).unwrap()
}

pub(super) fn at(seconds: i64) -> UtcMicros {
    UtcMicros(TEN + seconds * SECOND)
}

fn rows(records: &[(u128, i64, Source)]) -> RecordBatch {
    let mut builder = ClickBuilder::new();
    for (id, seconds, source) in records {
        let mut row = click(*id, at(*seconds).0);
        row.source = *source;
        builder.push(&row);
    }
    builder.finish().unwrap()
}

/// Puts records into `arrivals`, as an import or the hot path does.
async fn arrive(lake: &Lake, records: &[(u128, i64, Source)]) {
    arrive_rows(lake, &rows(records)).await;
}

pub(super) async fn arrive_rows(lake: &Lake, rows: &RecordBatch) {
    let mut arrivals = lake.table(Table::Arrivals).await.unwrap();
    let providers = std::iter::repeat_n("nginx", rows.num_rows());
    let rows = arriving(rows, providers, UtcMicros(TEN), false).unwrap();
    let add = arrivals.write(&rows).await.unwrap();
    arrivals.commit(Change { add, ..Change::default() }).await.unwrap();
}

/// Appends rows, as the hot path does.
async fn append(lake: &Lake, records: &[(u128, i64, Source)]) {
    append_rows(lake, &rows(records)).await;
}

pub(super) async fn append_rows(lake: &Lake, rows: &RecordBatch) {
    let mut clicks = lake.table(Table::Clicks).await.unwrap();
    let add = clicks.write(rows).await.unwrap();
    clicks.commit(Change { add, ..Change::default() }).await.unwrap();
}

pub(super) async fn settler(lake: &Lake) -> Settler {
    Settler::new(lake, Arc::new(Journals::default()), enricher(), SettleConfig::default()).await.unwrap()
}

async fn ids_in(table: &TableHandle) -> Vec<(u128, String)> {
    let mut found = Vec::new();
    for file in table.files() {
        for batch in table.read(file, &["click_id", "source"]).await.unwrap() {
            let sources = batch.column(1).as_string::<i32>();
            found.extend(ids::click_ids(&batch).zip(sources).map(|(id, s)| (id.as_u128(), s.unwrap().to_owned())));
        }
    }
    found.sort();
    found
}

pub(super) async fn held(lake: &Lake, table: Table) -> Vec<(u128, String)> {
    ids_in(&lake.table(table).await.unwrap()).await
}

fn sources(held: &[(u128, String)]) -> Vec<(u128, &str)> {
    held.iter().map(|(id, source)| (*id, source.as_str())).collect()
}

#[tokio::test]
async fn each_record_is_settled_in_its_time() {
    let (lake, _) = memory();
    append(&lake, &[(1, 0, Source::Origin)]).await;
    let records = [
        (1, 1, Source::Recovered),
        (2, 2, Source::Edge),
        (3, 3, Source::Recovered),
        (4, 100, Source::Edge),
        (5, 4, Source::Origin),
        (2, 2, Source::Edge),
    ];
    arrive(&lake, &records).await;
    let mut settler = settler(&lake).await;

    let first = settler.pass_at(at(66)).await.unwrap();
    assert_eq!(
        (first.added, first.already_counted, first.waiting),
        (0, 0, 0),
        "nothing can be ready yet: not looked at"
    );
    let second = settler.pass_at(at(80)).await.unwrap();
    assert_eq!((second.added, second.already_counted, second.waiting), (2, 2, 2));
    assert_eq!(sources(&held(&lake, Table::Clicks).await), [(1, "origin"), (2, "edge"), (5, "origin")]);
    assert_eq!(sources(&held(&lake, Table::Arrivals).await), [(3, "recovered"), (4, "edge")]);
    let clicks = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(clicks.txn(&format!("settled/{}", at(0).hour())), Some(at(4).0));

    settler.pass_at(at(170)).await.unwrap();
    let last = settler.pass_at(at(904)).await.unwrap();
    assert_eq!(last.added, 1);
    let all = held(&lake, Table::Clicks).await;
    assert_eq!(sources(&all), [(1, "origin"), (2, "edge"), (3, "recovered"), (4, "edge"), (5, "origin")]);
    assert!(held(&lake, Table::Arrivals).await.is_empty());
    assert_eq!(settler.pass_at(at(2_000)).await.unwrap().added, 0);
}

#[tokio::test]
async fn an_open_journal_holds_records_back() {
    let (lake, _) = memory();
    arrive(&lake, &[(1, 0, Source::Edge)]).await;
    let journals = Arc::new(Journals::open(at(-100), at(10)));
    let registry: Arc<dyn ingest::ports::Registry> = Arc::clone(&journals) as _;
    let mut settler = Settler::new(&lake, registry, enricher(), SettleConfig::default()).await.unwrap();
    assert_eq!(settler.pass_at(at(5_000)).await.unwrap().added, 0);
    journals.set(at(-100), at(66));
    assert_eq!(settler.pass_at(at(5_000)).await.unwrap().added, 1);
}

#[tokio::test]
async fn ids_are_found_across_midnight() {
    let (lake, _) = memory();
    let midnight = 14 * 3_600;
    append(&lake, &[(1, midnight - 30, Source::Origin)]).await;
    arrive(&lake, &[(1, midnight + 20, Source::Edge), (2, midnight + 20, Source::Edge)]).await;
    let settled = settler(&lake).await.pass_at(at(midnight + 1_000)).await.unwrap();
    assert_eq!((settled.added, settled.already_counted), (1, 1));
}

/// Killed at any of its writes, or with any answer lost, a settler leaves a lake from which the next one comes to the
/// same rows.
#[tokio::test]
async fn killed_anywhere_nothing_is_lost_or_doubled() {
    for table in ["clicks/_delta_log", "arrivals/_delta_log", "clicks/date", "arrivals/"] {
        for fault in [Fault::Before, Fault::After] {
            let (lake, store) = memory();
            append(&lake, &[(1, 0, Source::Origin)]).await;
            arrive(&lake, &[(1, 0, Source::Recovered), (2, 0, Source::Edge), (3, 500, Source::Edge)]).await;
            let mut first = settler(&lake).await;
            store.arm(table, 1, fault.clone());
            // whether it notices or not: this settler is killed now
            let _ = first.pass_at(at(300)).await;
            assert!(store.is_spent(), "{table} {fault:?}");
            drop(first);
            let mut second = settler(&lake).await;
            second.pass_at(at(300)).await.unwrap();
            let settled = second.pass_at(at(310)).await.unwrap();
            assert_eq!(settled.added, 0);
            assert_eq!(sources(&held(&lake, Table::Clicks).await), [(1, "origin"), (2, "edge")], "{table} {fault:?}");
            assert_eq!(sources(&held(&lake, Table::Arrivals).await), [(3, "edge")], "{table} {fault:?}");
        }
    }
}

#[tokio::test]
async fn of_two_settlers_the_slower_looks_again() {
    for table in ["clicks/_delta_log", "arrivals/_delta_log"] {
        let (lake, store) = memory();
        arrive(&lake, &[(1, 0, Source::Edge), (2, 1, Source::Recovered), (3, 2_000, Source::Edge)]).await;
        let (mut slow, mut fast) = (settler(&lake).await, settler(&lake).await);
        let gate = Gate::new();
        store.arm(table, 1, Fault::Hold(gate.clone()));
        let held_up = tokio::spawn(async move { slow.pass_at(at(1_000)).await.map(|_| slow) });
        gate.reached().await;
        fast.pass_at(at(1_000)).await.unwrap();
        gate.open();
        held_up.await.unwrap().unwrap();
        fast.pass_at(at(1_100)).await.unwrap();
        assert_eq!(sources(&held(&lake, Table::Clicks).await), [(1, "edge"), (2, "recovered")], "{table}");
        assert_eq!(sources(&held(&lake, Table::Arrivals).await), [(3, "edge")], "{table}");
    }
}

/// (why, start, end, added) of every restatement, in seconds.
pub(super) async fn restated(lake: &Lake) -> Vec<(String, i64, i64, i64)> {
    use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
    let table = lake.table(Table::Restatements).await.unwrap();
    let mut found = Vec::new();
    for file in table.files() {
        for batch in table.read(file, &["why", "start", "end", "added"]).await.unwrap() {
            let times = |column: usize| batch.column(column).as_primitive::<TimestampMicrosecondType>();
            for row in 0..batch.num_rows() {
                let seconds = |column: usize| (times(column).value(row) - TEN) / SECOND;
                let why = batch.column(0).as_string::<i32>().value(row).to_owned();
                found.push((why, seconds(1), seconds(2), batch.column(3).as_primitive::<Int64Type>().value(row)));
            }
        }
    }
    found.sort();
    found
}

/// A change of final numbers is told before it lands, once, however often its commit is tried.
#[tokio::test]
async fn what_changes_final_numbers_is_told_and_nothing_else_is() {
    let late = |start, end, added| ("late".to_owned(), start, end, added);
    for fault in [None, Some(Fault::Before), Some(Fault::After)] {
        let (lake, store) = memory();
        let journals = Arc::new(Journals::default());
        let registry: Arc<dyn ingest::ports::Registry> = Arc::clone(&journals) as _;
        let mut first = Settler::new(&lake, Arc::clone(&registry), enricher(), SettleConfig::default()).await.unwrap();
        arrive(&lake, &[(1, 0, Source::Edge)]).await;
        first.pass_at(at(70)).await.unwrap();
        assert!(restated(&lake).await.is_empty(), "nothing is final yet");

        journals.set_final(at(100));
        arrive(&lake, &[(2, 90, Source::Origin), (3, 100, Source::Origin), (4, 101, Source::Edge)]).await;
        if let Some(fault) = &fault {
            store.arm("clicks/_delta_log", 1, fault.clone());
        }
        // whether it notices or not: this settler is killed now
        let _ = first.pass_at(at(300)).await;
        drop(first);
        assert_eq!(restated(&lake).await, [late(90, 100, 2)], "{fault:?}");
        let mut second = Settler::new(&lake, registry, enricher(), SettleConfig::default()).await.unwrap();
        second.pass_at(at(310)).await.unwrap();
        assert_eq!(held(&lake, Table::Clicks).await.len(), 4);
        assert_eq!(restated(&lake).await, [late(90, 100, 2)], "{fault:?}");
        arrive(&lake, &[(5, 10, Source::Origin), (2, 90, Source::Origin)]).await;
        second.pass_at(at(320)).await.unwrap();
        assert_eq!(
            restated(&lake).await,
            [late(10, 10, 1), late(90, 100, 2)],
            "what was counted already moves nothing"
        );
    }
}

#[tokio::test]
async fn small_files_are_merged_within_their_hour_and_no_row_changes() {
    let (lake, _) = memory();
    for n in 0..40u128 {
        append(&lake, &[(2 * n, (n as i64) * 120, Source::Origin), (2 * n + 1, 5_000, Source::Origin)]).await;
    }
    let before = held(&lake, Table::Clicks).await;
    let mut settler = settler(&lake).await;
    let merges = settler.pass_at(at(4 * 3_600)).await.unwrap().merges;
    assert!(merges >= 2, "{merges}");
    let clicks = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(clicks.files().len(), 2);
    assert!(clicks.files().iter().all(|file| file.is_one_hour()));
    assert_eq!(ids_in(&clicks).await, before);

    let later = at(14 * 3_600 + 49 * 3_600);
    settler.pass_at(later).await.unwrap();
    let clicks = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(clicks.files().len(), 1, "a final day's hours share a file");
    assert_eq!(ids_in(&clicks).await, before);
}

#[tokio::test]
async fn a_merge_under_way_survives_appends_and_gives_way_to_another_settler() {
    let (lake, store) = memory();
    for n in 0..10u128 {
        append(&lake, &[(n, 0, Source::Origin)]).await;
    }
    let (mut slow, mut fast) = (settler(&lake).await, settler(&lake).await);
    let gate = Gate::new();
    store.arm("clicks/_delta_log", 1, Fault::Hold(gate.clone()));
    let held_up = tokio::spawn(async move { slow.pass_at(at(300)).await });
    gate.reached().await;
    append(&lake, &[(10, 1, Source::Origin)]).await;
    assert_eq!(fast.pass_at(at(300)).await.unwrap().merges, 1);
    gate.open();
    held_up.await.unwrap().unwrap();
    let held = held(&lake, Table::Clicks).await;
    assert_eq!(held.iter().map(|(id, _)| *id).collect::<Vec<u128>>(), (0..11).collect::<Vec<u128>>());
}

#[tokio::test]
async fn many_commits_leave_few_files_and_a_short_log() {
    let store = FaultStore::new(Arc::new(InMemory::new()));
    let lake = lake_in(&store, Duration::ZERO);
    let config = SettleConfig { maintain_every: Duration::ZERO, ..SettleConfig::default() };
    let mut settler = Settler::new(&lake, Arc::new(Journals::default()), enricher(), config).await.unwrap();
    for n in 0..240u128 {
        append(&lake, &[(n, n as i64, Source::Origin)]).await;
        if n % 20 == 19 {
            // dead files go once they are older than what is kept: nothing
            settler.pass_at(UtcMicros::now().plus(Duration::from_secs(1))).await.unwrap();
        }
    }
    settler.pass_at(UtcMicros::now().plus(Duration::from_secs(1))).await.unwrap();
    let objects = objects(&store).await;
    let of_clicks: usize = objects.iter().filter(|(path, _)| path.contains("/clicks/")).map(|(_, n)| n).sum();
    assert!(of_clicks < 150, "{objects:?}");
    assert_eq!(held(&lake, Table::Clicks).await.len(), 240);
}

async fn objects(store: &FaultStore) -> BTreeMap<String, usize> {
    use futures::TryStreamExt as _;
    use object_store::ObjectStore as _;
    let mut folders = BTreeMap::new();
    let all: Vec<_> = store.list(None).try_collect().await.unwrap();
    for meta in all {
        let path = format!("/{}", meta.location);
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(format!("{folder}/")).or_default() += 1;
    }
    folders
}

#[tokio::test]
async fn three_thousand_commits_leave_few_files() {
    let store = FaultStore::new(Arc::new(InMemory::new()));
    let lake = lake_in(&store, Duration::from_secs(1));
    let config = SettleConfig { maintain_every: Duration::ZERO, ..SettleConfig::default() };
    let mut settler = Settler::new(&lake, Arc::new(Journals::default()), enricher(), config).await.unwrap();
    let mut clicks = lake.table(Table::Clicks).await.unwrap();
    for n in 0..3_000 {
        clicks.refresh().await.unwrap();
        let add = clicks.write(&rows(&[(n, (n / 2) as i64, Source::Origin)])).await.unwrap();
        clicks.commit(Change { add, ..Change::default() }).await.unwrap();
        if n % 20 == 19 {
            // the clean-up's clock is ahead of the files', so that what is dead is old enough
            settler.pass_at(UtcMicros::now().plus(Duration::from_secs(5))).await.unwrap();
        }
    }
    let files = store.list(None).collect::<Vec<_>>().await.len();
    assert!(files < 500, "{files} files");
    assert_eq!(held(&lake, Table::Clicks).await.len(), 3_000);
}
