//! Rows that are too old leave tables in memory: whose, when, and what stays.

use std::sync::Mutex;

use arrow::array::AsArray as _;
use async_trait::async_trait;
use futures::TryStreamExt as _;
use ingest::ports::PortError;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use schemas::hourly::{HourRow, to_batch};
use schemas::time::{HOUR, SECOND};
use schemas::{Click, ClickBuilder};
use url::Url;

use super::*;
use crate::hot::testing::click;
use crate::import::testing::{Journals, enricher};
use crate::lake::testing::{Fault, FaultStore, Gate};
use crate::lake::{Change, Lake, LakeOptions};
use crate::settle::SettleConfig;
use crate::settle::tests::{append_rows, arrive_rows, memory};

/// 2026-03-14
const TODAY: i32 = 20_526;

/// What a test sets.
#[derive(Debug, Default)]
struct Said(Mutex<Vec<(String, Keep)>>);

impl Said {
    fn of(all: &[(&str, Keep)]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(all.iter().map(|(name, keep)| ((*name).to_owned(), *keep)).collect())))
    }
}

#[async_trait]
impl Keeping for Said {
    async fn keeps(&self) -> Result<Vec<(String, Keep)>, PortError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

fn noon(day: i32) -> UtcMicros {
    UtcMicros(midnight(day).0 + 12 * HOUR)
}

/// Some rows of a day and workspace, over two hours.
fn rows(first: u128, count: u128, day: i32, workspace: &str) -> Vec<Click> {
    let row = |n: u128| {
        let row = click(first + n, noon(day).0 + n as i64 * 1_800 * SECOND);
        Click { workspace: workspace.into(), code: format!("c{}", n % 2).into(), ..row }
    };
    (0..count).map(row).collect()
}

fn batch(rows: &[Click]) -> arrow::array::RecordBatch {
    let mut builder = ClickBuilder::new();
    rows.iter().for_each(|row| builder.push(row));
    builder.finish().unwrap()
}

/// Everything is final up to `through`.
async fn settler(lake: &Lake, limits: Limits, through: UtcMicros) -> Settler {
    let journals = Arc::new(Journals::default());
    journals.set_final(through);
    let config = SettleConfig { maintain_every: Duration::ZERO, ..SettleConfig::default() };
    Settler::new(lake, journals, enricher(), config).await.unwrap().keeping(limits)
}

fn limits(said: &Arc<Said>, default: Option<u32>) -> Limits {
    Limits { keeping: Arc::clone(said) as _, default }
}

/// (workspace, day) of every row of a table, and how many.
async fn held(lake: &Lake, table: Table, time: &str) -> BTreeMap<(String, i32), u64> {
    use arrow::datatypes::TimestampMicrosecondType;
    let table = lake.table(table).await.unwrap();
    let mut held = BTreeMap::new();
    for file in table.files() {
        for rows in table.read(file, &["workspace", time]).await.unwrap() {
            let times = rows.column(1).as_primitive::<TimestampMicrosecondType>();
            for (workspace, time) in rows.column(0).as_string::<i32>().iter().zip(times.values()) {
                *held.entry((workspace.unwrap().to_owned(), UtcMicros(*time).day())).or_default() += 1;
            }
        }
    }
    held
}

fn counts(all: &[(&str, i32, u64)]) -> BTreeMap<(String, i32), u64> {
    all.iter().map(|(workspace, day, rows)| (((*workspace).to_owned(), *day), *rows)).collect()
}

/// What was said of removals: (workspace, end) of each.
async fn said(lake: &Lake) -> BTreeMap<(String, i32), u64> {
    held(lake, Table::Restatements, "end").await
}

/// Four days of two workspaces that share files; one keeps two days, one for ever.
async fn shared_days(lake: &Lake) {
    for back in 0..4 {
        let mut mixed = rows(u128::from(100 * back as u32), 4, TODAY - back, "acme");
        mixed.extend(rows(u128::from(100 * back as u32) + 50, 3, TODAY - back, "ever"));
        append_rows(lake, &batch(&mixed)).await;
    }
}

#[tokio::test]
async fn rows_of_expired_days_go_and_those_of_others_in_the_same_files_stay() {
    let (lake, _) = memory();
    shared_days(&lake).await;
    let all = Said::of(&[("acme", Keep::Days(2)), ("ever", Keep::Forever)]);
    let mut settler = settler(&lake, limits(&all, Some(1)), noon(TODAY)).await;
    let before = held(&lake, Table::Clicks, "event_time").await;
    let told = settler.retain_at(noon(TODAY), true, usize::MAX).await.unwrap();
    assert_eq!(held(&lake, Table::Clicks, "event_time").await, before, "a dry run changes nothing");
    assert!(said(&lake).await.is_empty());
    let done = settler.retain_at(noon(TODAY), false, usize::MAX).await.unwrap();
    assert_eq!(done, told);
    assert_eq!(done.removed, BTreeMap::from([("clicks", 4)]));
    let acme = &done.workspaces[0];
    assert_eq!((&*acme.workspace, &*acme.keep, acme.from, acme.clicks), ("acme", "2d", Some(midnight(TODAY - 2)), 4));
    assert_eq!(done.workspaces[1].from, None);
    let mut left = before;
    left.remove(&("acme".to_owned(), TODAY - 3));
    assert_eq!(held(&lake, Table::Clicks, "event_time").await, left);
    let clicks = lake.table(Table::Clicks).await.unwrap();
    assert!(clicks.files().iter().all(|file| file.is_one_hour()), "in files as before");
    assert_eq!(clicks.txn(RETAINED), Some(midnight(TODAY - 2).0));
    assert_eq!(said(&lake).await, counts(&[("acme", TODAY - 3, 1)]));

    // the next day the next goes, and what was said before is said by that
    settler.retain_at(noon(TODAY + 1), false, usize::MAX).await.unwrap();
    assert_eq!(said(&lake).await, counts(&[("acme", TODAY - 2, 1)]));
}

#[tokio::test]
async fn what_was_said_of_earlier_days_is_said_once() {
    let (lake, _) = memory();
    shared_days(&lake).await;
    let all = Said::of(&[("acme", Keep::Days(1)), ("ever", Keep::Forever)]);
    let mut settler = settler(&lake, limits(&all, None), noon(TODAY)).await;
    let done = settler.retain_at(noon(TODAY), false, usize::MAX).await.unwrap();
    assert_eq!((done.rows(), done.days_left), (8, 0));
    assert_eq!(said(&lake).await, counts(&[("acme", TODAY - 2, 1)]));
    assert_eq!(held(&lake, Table::Clicks, "event_time").await.values().sum::<u64>(), 20);
}

#[tokio::test]
async fn nothing_goes_that_is_not_final_or_has_no_limit() {
    let (lake, _) = memory();
    shared_days(&lake).await;
    let before = held(&lake, Table::Clicks, "event_time").await;
    let all = Said::of(&[("acme", Keep::Days(1)), ("ever", Keep::Default)]);
    let mut early = settler(&lake, limits(&all, None), noon(TODAY - 3)).await;
    let done = early.retain_at(noon(TODAY), false, usize::MAX).await.unwrap();
    assert_eq!((done.rows(), done.final_before), (0, midnight(TODAY - 3)));
    let mut without = settler(&lake, limits(&Said::of(&[]), None), noon(TODAY)).await;
    assert_eq!(without.retain_at(noon(TODAY), false, usize::MAX).await.unwrap().rows(), 0);
    assert_eq!(held(&lake, Table::Clicks, "event_time").await, before);
    // where no source of logs says how far it is, what is older than logs may take counts as final
    let silent = Settler::new(&lake, Arc::new(Journals::default()), enricher(), SettleConfig::default()).await.unwrap();
    let done = silent.keeping(limits(&all, None)).retain_at(noon(TODAY), false, usize::MAX).await.unwrap();
    assert_eq!((done.rows(), done.final_before), (4, midnight(TODAY - 2)));
}

#[tokio::test]
async fn tables_beside_lose_what_is_too_old_too() {
    let (lake, _) = memory();
    for day in [TODAY - 5, TODAY] {
        arrive_rows(&lake, &batch(&rows(10, 2, day, "acme"))).await;
        let hour = |workspace| HourRow {
            workspace,
            link_id: "l",
            domain: "d",
            code: "c",
            class: "human",
            hour: noon(day),
            lowest_rate: 0.5,
            visitors: &[],
        };
        let mut hourly = lake.table(Table::ClicksHourly).await.unwrap();
        let add = hourly.write(&to_batch([hour("acme"), hour("ever")]).unwrap()).await.unwrap();
        hourly.commit(Change { add, ..Change::default() }).await.unwrap();
    }
    let all = Said::of(&[("acme", Keep::Days(2)), ("ever", Keep::Forever)]);
    let mut settler = settler(&lake, limits(&all, None), noon(TODAY)).await;
    let done = settler.retain_at(noon(TODAY), false, usize::MAX).await.unwrap();
    assert_eq!(done.removed, BTreeMap::from([("arrivals", 2), ("clicks_hourly", 1)]));
    assert_eq!(held(&lake, Table::Arrivals, "event_time").await, counts(&[("acme", TODAY, 2)]));
    let hours = counts(&[("acme", TODAY, 1), ("ever", TODAY - 5, 1), ("ever", TODAY, 1)]);
    assert_eq!(held(&lake, Table::ClicksHourly, "hour").await, hours);
}

/// Each day is a commit of its own: killed in between, the rest goes with the next run; nobody is hindered.
#[tokio::test]
async fn a_run_goes_on_where_one_was_killed_beside_appends_and_merges() {
    let (lake, store) = memory();
    shared_days(&lake).await;
    let all = Said::of(&[("acme", Keep::Days(1)), ("ever", Keep::Forever)]);
    let mut first = settler(&lake, limits(&all, None), noon(TODAY)).await;
    store.arm("clicks/_delta_log", 2, Fault::Before);
    first.retain_at(noon(TODAY), false, usize::MAX).await.unwrap_err();
    drop(first);
    let of_acme = async || {
        let held = held(&lake, Table::Clicks, "event_time").await;
        held.into_iter()
            .filter(|((workspace, _), _)| workspace == "acme")
            .map(|((_, day), _)| day - TODAY)
            .collect::<Vec<_>>()
    };
    assert_eq!(of_acme().await, [-2, -1, 0], "the oldest day has gone whole");
    let gate = Gate::new();
    store.arm("clicks/_delta_log", 1, Fault::Hold(gate.clone()));
    let mut second = settler(&lake, limits(&all, None), noon(TODAY)).await;
    let held_up = tokio::spawn(async move { second.retain_at(noon(TODAY), false, usize::MAX).await });
    gate.reached().await;
    append_rows(&lake, &batch(&rows(900, 2, TODAY - 2, "ever"))).await;
    gate.open();
    assert_eq!(held_up.await.unwrap().unwrap().removed, BTreeMap::from([("clicks", 4)]));
    assert_eq!(of_acme().await, [-1, 0]);
    assert_eq!(held(&lake, Table::Clicks, "event_time").await[&("ever".to_owned(), TODAY - 2)], 5);
}

#[tokio::test]
async fn a_pass_takes_them_out_once_a_day_and_the_bytes_go() {
    let store = FaultStore::new(Arc::new(InMemory::new()));
    let options = LakeOptions { keep: Duration::ZERO, ..LakeOptions::default() };
    let lake = Lake::with_store(Arc::new(store.clone()), Url::parse("memory:///lake").unwrap(), options).unwrap();
    let today = UtcMicros::now().day();
    append_rows(&lake, &batch(&rows(0, 4, today - 9, "acme"))).await;
    append_rows(&lake, &batch(&rows(10, 4, today - 1, "acme"))).await;
    let all = Said::of(&[("acme", Keep::Days(3))]);
    let mut settler = settler(&lake, limits(&all, None), midnight(today)).await;
    let later = UtcMicros::now().plus(Duration::from_secs(1));
    settler.pass_at(later).await.unwrap();
    assert_eq!(held(&lake, Table::Clicks, "event_time").await, counts(&[("acme", today - 1, 4)]));
    let day = format!("date={}", midnight(today - 9).to_datetime().format("%F"));
    settler.pass_at(UtcMicros::now().plus(Duration::from_secs(1))).await.unwrap();
    let files: Vec<_> = store.list(Some(&"lake/clicks".into())).try_collect().await.unwrap();
    assert!(!files.iter().any(|meta| meta.location.as_ref().contains(&day)), "{files:?}");
    // what comes afterwards waits for the next day
    append_rows(&lake, &batch(&rows(20, 1, today - 9, "acme"))).await;
    settler.pass_at(later).await.unwrap();
    assert_eq!(held(&lake, Table::Clicks, "event_time").await.len(), 2);
    settler.pass_at(later.plus(Duration::from_secs(86_400))).await.unwrap();
    assert_eq!(held(&lake, Table::Clicks, "event_time").await.len(), 1);
}
