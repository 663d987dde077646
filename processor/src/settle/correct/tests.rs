//! Corrections on tables in memory: in their time, killed anywhere, beside another settler, across an hour, of what is
//! final, and of a row that has gone.

use std::sync::Arc;
use std::time::Duration;

use schemas::tables::Table;
use schemas::{Class, Click, ClickBuilder, ClickRows, Method, Source, UtcMicros};

use super::super::tests::{append_rows, arrive_rows, at, held, memory, restated, settler};
use super::super::waiting;
use crate::hot::testing::click;
use crate::import::testing::{Journals, enricher};
use crate::lake::testing::{Fault, Gate};
use crate::lake::{Change, Lake};
use crate::settle::{SettleConfig, Settler};

const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";

/// A row with what follows from its agent and method.
fn record(id: u128, seconds: i64, source: Source, method: Method, user_agent: &str) -> Click {
    let plain = Click {
        source,
        method: Some(method),
        user_agent: Some(user_agent.into()),
        client_net: Some("203.0.113.0/24".into()),
        ..click(id, at(seconds).0)
    };
    // merged with itself it is as the enricher makes it
    enricher().merged(&plain, &plain).unwrap()
}

/// The origin's event, from behind a CDN that hides who asks.
fn event(id: u128, seconds: i64) -> Click {
    record(id, seconds, Source::Origin, Method::Get, "Amazon CloudFront")
}

/// A line of the edge's log.
fn line(id: u128, seconds: i64, source: Source) -> Click {
    Click { referrer: Some("news.example".into()), ..record(id, seconds, source, Method::Get, CHROME) }
}

async fn put(lake: &Lake, clicks: &[Click]) {
    append_rows(lake, &built(clicks)).await;
}

async fn arrive(lake: &Lake, clicks: &[Click]) {
    arrive_rows(lake, &built(clicks)).await;
}

fn built(clicks: &[Click]) -> arrow::array::RecordBatch {
    let mut builder = ClickBuilder::new();
    clicks.iter().for_each(|click| builder.push(click));
    builder.finish().unwrap()
}

/// All rows of `clicks`, by id.
async fn rows(lake: &Lake) -> Vec<Click> {
    let clicks = lake.table(Table::Clicks).await.unwrap();
    let mut found = Vec::new();
    for file in clicks.files() {
        for batch in clicks.read(file, &[]).await.unwrap() {
            let rows = ClickRows::of(&batch).unwrap();
            found.extend((0..batch.num_rows()).map(|row| rows.row(row).unwrap()));
        }
    }
    found.sort_by_key(|click| click.click_id);
    found
}

async fn waits(lake: &Lake) -> (u64, usize) {
    let arrivals = lake.table(Table::Arrivals).await.unwrap();
    let left = waiting(&arrivals).await.unwrap();
    (left.lines + left.late, held(lake, Table::Arrivals).await.len())
}

#[tokio::test]
async fn a_line_that_knows_better_corrects_its_row_in_its_time() {
    let (lake, _) = memory();
    let others: Vec<Click> = (10..30).map(|id| event(id, id as i64)).collect();
    put(&lake, &others).await;
    put(&lake, &[event(1, 0), event(2, 1)]).await;
    arrive(&lake, &[line(1, 0, Source::Recovered), line(3, 2, Source::Edge), line(4, 500, Source::Edge)]).await;
    arrive(&lake, &[line(10, 10, Source::Recovered)]).await;
    let mut settler = settler(&lake).await;

    let settled = settler.pass_at(at(80)).await.unwrap();
    assert_eq!((settled.added, settled.corrected, settled.waiting), (1, 0, 1));
    assert_eq!(waits(&lake).await, (1, 3), "a correction waits for nothing to be counted");
    assert_eq!(rows(&lake).await.len(), 23);
    assert_eq!(settler.pass_at(at(370)).await.unwrap().corrected, 0);
    let settled = settler.pass_at(at(390)).await.unwrap();
    assert_eq!((settled.added, settled.corrected), (0, 2));
    assert_eq!(waits(&lake).await, (1, 1));

    let all = rows(&lake).await;
    let one = &all[0];
    assert_eq!((one.verdict.class, one.agent_info.browser.as_deref()), (Class::Human, Some("Chrome")));
    assert_eq!((one.source, one.referrer.as_deref()), (Source::Origin, Some("news.example")));
    assert_eq!(all[1], event(2, 1));
    assert_eq!((all[3].verdict.class, &all[4..]), (Class::Human, &others[1..]));
    assert_eq!(lake.table(Table::Clicks).await.unwrap().files().len(), 2, "two files were written as one");
    let again = settler.pass_at(at(400)).await.unwrap();
    assert_eq!((again.corrected, again.already_counted), (0, 0));
}

/// Killed at any of its writes, or with any answer lost, what is left is done by the next one.
#[tokio::test]
async fn killed_anywhere_the_next_settler_comes_to_the_same_rows() {
    let spots = [("clicks/_delta_log", 1), ("clicks/_delta_log", 2), ("clicks/date", 2), ("arrivals/_delta_log", 1)];
    for (pattern, nth) in spots {
        for fault in [Fault::Before, Fault::After] {
            let (lake, store) = memory();
            put(&lake, &[event(1, 0), event(2, 1)]).await;
            let head = record(2, 1, Source::Recovered, Method::Head, CHROME);
            arrive(&lake, &[line(1, 0, Source::Recovered), head, line(3, 2, Source::Edge)]).await;
            let mut first = settler(&lake).await;
            first.eager = true;
            store.arm(pattern, nth, fault.clone());
            // whether it notices or not: this settler is killed now
            let _ = first.pass_at(at(300)).await;
            assert!(store.is_spent(), "{pattern} {nth} {fault:?}");
            drop(first);
            let mut second = settler(&lake).await;
            second.eager = true;
            second.pass_at(at(300)).await.unwrap();
            let all = rows(&lake).await;
            let classes: Vec<Class> = all.iter().map(|row| row.verdict.class).collect();
            assert_eq!(classes, [Class::Human, Class::Probe, Class::Human], "{pattern} {nth} {fault:?}");
            assert_eq!(all[1].method, Some(Method::Head));
            assert_eq!(waits(&lake).await, (0, 0));
            let third = settler(&lake).await.pass_at(at(2_000)).await.unwrap();
            assert_eq!((third.added, third.corrected), (0, 0));
        }
    }
}

#[tokio::test]
async fn beside_a_merge_and_another_settler_the_rows_are_the_same() {
    let (lake, store) = memory();
    for id in 0..9 {
        put(&lake, &[event(id, id as i64)]).await;
    }
    arrive(&lake, &(0..9).map(|id| line(id, id as i64, Source::Recovered)).collect::<Vec<_>>()).await;
    let (mut slow, mut fast) = (settler(&lake).await, settler(&lake).await);
    slow.eager = true;
    let gate = Gate::new();
    // held up when all it has read and written is to land
    store.arm("clicks/_delta_log", 2, Fault::Hold(gate.clone()));
    let held_up = tokio::spawn(async move { slow.pass_at(at(2_000)).await.map(|_| slow) });
    gate.reached().await;
    assert_eq!(fast.pass_at(at(2_000)).await.unwrap().merges, 1);
    fast.eager = true;
    fast.pass_at(at(2_000)).await.unwrap();
    gate.open();
    held_up.await.unwrap().unwrap();
    fast.pass_at(at(2_000)).await.unwrap();
    let all = rows(&lake).await;
    assert_eq!(all.len(), 9);
    assert!(all.iter().all(|row| row.verdict.class == Class::Human && row.source == Source::Origin));
    assert_eq!(waits(&lake).await, (0, 0));
}

#[tokio::test]
async fn a_late_event_takes_its_row_over_into_another_hour() {
    let (lake, _) = memory();
    let import = |click: Click| Click { import_id: Some("i".into()), ..click };
    put(&lake, &[import(line(1, 3_599, Source::Edge)), import(line(2, 3_598, Source::Edge))]).await;
    arrive(&lake, &[event(1, 3_601)]).await;
    let mut settler = settler(&lake).await;
    settler.eager = true;
    assert_eq!(settler.pass_at(at(4_000)).await.unwrap().corrected, 1);
    let all = rows(&lake).await;
    let one = &all[0];
    assert_eq!((one.source, one.event_time, one.import_id.as_deref()), (Source::Origin, at(3_601), None));
    assert_eq!(one.user_agent.as_deref(), Some(CHROME), "what the line knew stays");
    assert_eq!(all[1], import(line(2, 3_598, Source::Edge)));
    let clicks = lake.table(Table::Clicks).await.unwrap();
    assert!(clicks.files().len() == 2 && clicks.files().iter().all(|file| file.is_one_hour()));
}

#[tokio::test]
async fn a_correction_of_what_is_final_is_told() {
    let (lake, _) = memory();
    put(&lake, &[event(1, 0), event(2, 200)]).await;
    let journals = Arc::new(Journals::default());
    journals.set_final(at(100));
    let registry: Arc<dyn ingest::ports::Registry> = Arc::clone(&journals) as _;
    let mut settler = Settler::new(&lake, registry, enricher(), SettleConfig::default()).await.unwrap();
    settler.eager = true;
    arrive(&lake, &[line(1, 0, Source::Recovered), line(2, 200, Source::Recovered)]).await;
    assert_eq!(settler.pass_at(at(2_000)).await.unwrap().corrected, 2);
    assert_eq!(restated(&lake).await, [("correction".to_owned(), 0, 0, 0)]);
}

#[tokio::test]
async fn a_correction_whose_row_has_gone_becomes_the_row() {
    let (lake, _) = memory();
    put(&lake, &[event(1, 0)]).await;
    arrive(&lake, &[line(1, 0, Source::Recovered)]).await;
    let mut settler = settler(&lake).await;
    settler.pass_at(at(2_000)).await.unwrap();
    assert_eq!(waits(&lake).await, (0, 1));
    let mut clicks = lake.table(Table::Clicks).await.unwrap();
    let remove = clicks.files().to_vec();
    clicks.commit(Change { remove, ..Change::default() }).await.unwrap();
    settler.eager = true;
    settler.pass_at(at(2_010)).await.unwrap();
    assert_eq!(rows(&lake).await.iter().map(|row| row.source).collect::<Vec<_>>(), [Source::Recovered]);
    assert_eq!(waits(&lake).await, (0, 0));
}

#[tokio::test]
async fn an_id_used_twice_merges_nothing_and_is_counted_once_by_its_import() {
    let (lake, _) = memory();
    put(&lake, &[record(1, 0, Source::Origin, Method::Get, CHROME)]).await;
    let other = |id, seconds| Click {
        import_id: Some("i".into()),
        client_net: Some("198.51.100.0/24".into()),
        ..record(id, seconds, Source::Edge, Method::Head, CHROME)
    };
    let surprise = Click { import_id: Some("i".into()), ..line(1, 0, Source::Edge) };
    arrive(&lake, &[other(1, 0), surprise, other(2, 0)]).await;
    let mut settler = settler(&lake).await;
    settler.pass_at(at(80)).await.unwrap();
    settler.eager = true;
    settler.pass_at(at(90)).await.unwrap();
    let arrivals = lake.table(Table::Arrivals).await.unwrap();
    assert_eq!((arrivals.txn("reused_id/i"), arrivals.txn("surprise/i")), (Some(1), Some(1)));
    let all = rows(&lake).await;
    assert_eq!((all[0].method, all[0].referrer.as_deref()), (Some(Method::Get), Some("news.example")));
    assert_eq!(all.len(), 2);
}

#[tokio::test]
async fn corrections_of_a_final_days_file_keep_its_other_rows() {
    let (lake, _) = memory();
    for hour in 0..3u128 {
        put(&lake, &[event(2 * hour, 3_600 * hour as i64), event(2 * hour + 1, 3_600 * hour as i64 + 5)]).await;
    }
    let later = UtcMicros(at(0).0).plus(Duration::from_secs(72 * 3_600));
    let mut settler = settler(&lake).await;
    settler.pass_at(later).await.unwrap();
    assert_eq!(lake.table(Table::Clicks).await.unwrap().files().len(), 1, "a day's file");
    arrive(&lake, &[line(2, 3_600, Source::Recovered)]).await;
    settler.eager = true;
    assert_eq!(settler.pass_at(later).await.unwrap().corrected, 1);
    let all = rows(&lake).await;
    let human: Vec<bool> = all.iter().map(|row| row.verdict.class == Class::Human).collect();
    assert_eq!(human, [false, false, true, false, false, false]);
    assert_eq!(lake.table(Table::Clicks).await.unwrap().files().len(), 1);
}
