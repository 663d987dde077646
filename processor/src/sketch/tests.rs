use std::sync::Arc;

use super::*;
use crate::lake::{Lake, LakeOptions};
use object_store::memory::InMemory;
use schemas::sketch::VisitorSketch;
use schemas::tables::Table;
use schemas::time::{DAY, HOUR, SECOND};

const NOON: i64 = 20_526 * DAY + 12 * HOUR;

fn lake() -> Lake {
    let url = url::Url::parse("memory:///lake").unwrap();
    Lake::with_store(Arc::new(InMemory::new()), url, LakeOptions::default()).unwrap()
}

fn link(number: u128) -> LinkId {
    LinkId(uuid::Uuid::from_u128(number))
}

fn shed(time: i64, visitor: i64) -> SampledAway<'static> {
    SampledAway {
        event_time: UtcMicros(time),
        workspace: "a",
        link_id: link(1),
        domain: "go.example",
        code: "x",
        class: Class::Human,
        visitor: Some(visitor),
        rate: 0.1,
    }
}

/// What the table says: code, class, hour, lowest rate, visitors.
async fn told(table: &TableHandle) -> Vec<(String, String, i64, f64, u64)> {
    use arrow::array::AsArray as _;
    use arrow::datatypes::{Float64Type, TimestampMicrosecondType};
    let mut told = Vec::new();
    for file in table.files() {
        for rows in table.read(file, &["code", "class", "hour", "lowest_rate", "visitors"]).await.unwrap() {
            for row in 0..rows.num_rows() {
                let mut sketch = VisitorSketch::new().unwrap();
                sketch.take_in(rows.column(4).as_binary::<i32>().value(row)).unwrap();
                told.push((
                    rows.column(0).as_string::<i32>().value(row).to_owned(),
                    rows.column(1).as_string::<i32>().value(row).to_owned(),
                    rows.column(2).as_primitive::<TimestampMicrosecondType>().value(row),
                    rows.column(3).as_primitive::<Float64Type>().value(row),
                    sketch.count(),
                ));
            }
        }
    }
    told.sort_by(|a, b| a.partial_cmp(b).unwrap());
    told
}

#[tokio::test]
async fn events_become_a_row_a_link_class_and_hour() {
    let mut table = lake().table(Table::ClicksHourly).await.unwrap();
    let events = [
        shed(NOON, 7),
        shed(NOON + HOUR - 1, 8),
        SampledAway { rate: 0.02, ..shed(NOON + SECOND, 7) },
        SampledAway { visitor: None, rate: 0.01, ..shed(NOON, 0) },
        SampledAway { class: Class::Crawler, ..shed(NOON, 7) },
        SampledAway { link_id: link(2), code: "y", ..shed(NOON, 7) },
        shed(NOON + HOUR, 7),
        shed(NOON + 12 * HOUR, 7),
    ];
    write(&mut table, &events).await.unwrap();
    let row = |code: &str, class: &str, hour, rate, visitors| (code.to_owned(), class.to_owned(), hour, rate, visitors);
    let expected = [
        row("x", "crawler", NOON, 0.1, 1),
        row("x", "human", NOON, 0.01, 2),
        row("x", "human", NOON + HOUR, 0.1, 1),
        row("x", "human", NOON + 12 * HOUR, 0.1, 1),
        row("y", "human", NOON, 0.1, 1),
    ];
    assert_eq!(told(&table).await, expected);
    let days: Vec<Option<i32>> = table.files().iter().map(|file| file.date).collect();
    assert_eq!(days, [Some(20_526), Some(20_527)]);
    let version = table.version();
    write(&mut table, &[]).await.unwrap();
    assert_eq!(table.version(), version, "nothing shed, nothing written");
}

/// Written again by another attempt or a replay, and then merged: the same set.
#[tokio::test]
async fn a_merge_unites_the_rows_of_a_key_whatever_was_written_twice() {
    let mut table = lake().table(Table::ClicksHourly).await.unwrap();
    for n in 0..16 {
        let visitor = |k: i64| (n / 2 * 500 + k).wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64);
        let events: Vec<SampledAway<'_>> =
            (0..500).map(|k| SampledAway { rate: 1.0 / (n + 2) as f64, ..shed(NOON + k, visitor(k)) }).collect();
        write(&mut table, &events).await.unwrap();
    }
    write(&mut table, &[shed(NOON - DAY, 1)]).await.unwrap();
    let file_of_yesterday = |table: &TableHandle| table.files().iter().filter(|file| file.date == Some(20_525)).count();
    assert_eq!((table.files().len(), file_of_yesterday(&table)), (17, 1));
    assert_eq!(tidy(&mut table, 20_525).await.unwrap(), 1);
    let rows = told(&table).await;
    assert_eq!(rows.len(), 2);
    let (_, _, hour, rate, visitors) = rows[1].clone();
    assert_eq!((hour, rate), (NOON, 1.0 / 17.0));
    assert!(visitors.abs_diff(4_000) < 100, "{visitors}");
    assert_eq!(tidy(&mut table, 20_530).await.unwrap(), 0, "one file a day is as few as there can be");

    write(&mut table, &[shed(NOON + HOUR, 1)]).await.unwrap();
    assert_eq!(tidy(&mut table, 20_526).await.unwrap(), 0, "the day goes on");
    assert_eq!(tidy(&mut table, 20_527).await.unwrap(), 1);
    let after = told(&table).await;
    assert_eq!(after[..2], rows[..]);
    assert_eq!((after.len(), table.files().len()), (3, 2));
}

#[tokio::test]
async fn rows_that_cannot_be_read_are_left_as_they_are() {
    let mut table = lake().table(Table::ClicksHourly).await.unwrap();
    let row = schemas::hourly::HourRow {
        workspace: "a",
        link_id: &link(1).to_string(),
        domain: "go.example",
        code: "x",
        class: "human",
        hour: UtcMicros(NOON),
        lowest_rate: 0.5,
        visitors: b"of a later version",
    };
    let add = table.write(&schemas::hourly::to_batch([row]).unwrap()).await.unwrap();
    table.commit(Change { add, ..Change::default() }).await.unwrap();
    write(&mut table, &[shed(NOON, 1)]).await.unwrap();
    assert_eq!(tidy(&mut table, 20_530).await.unwrap(), 0);
    assert_eq!(table.files().len(), 2);
}
