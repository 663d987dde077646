//! Rows of the tables beside `clicks`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::compute::concat_batches;
use schemas::hourly::HourRow;
use schemas::restatement::Why;
use schemas::sketch::VisitorSketch;
use schemas::tables::Table;
use schemas::time::SECOND;
use schemas::{Class, Click, UtcMicros};

use super::TestLake;

/// The id of a workspace's link, of short names.
fn link_of(workspace: &str, code: &str) -> String {
    let name = [workspace, code].concat().bytes().fold(0u64, |name, byte| name << 8 | u64::from(byte));
    format!("018f0000-0000-7000-8000-{name:012x}")
}

/// A rate at which clicks of a link were kept: workspace, code, second since the epoch, rate.
pub(crate) type Rate<'a> = (&'a str, &'a str, i64, f64);

impl TestLake {
    /// Commits what is left of clicks that were sampled away at `rate`: one row a workspace, code, class and hour.
    pub(crate) fn add_shed(&self, shed: &[Click], rate: f64) -> Vec<String> {
        let mut hours: BTreeMap<(i32, &str, &str, Class, i64), VisitorSketch> = BTreeMap::new();
        for click in shed {
            let time = click.event_time;
            let key = (time.day(), &*click.workspace, &*click.code, click.verdict.class, time.hour());
            let sketch = hours.entry(key).or_insert_with(|| VisitorSketch::new().unwrap());
            click.visitor.into_iter().for_each(|visitor| sketch.add(visitor));
        }
        let mut days: BTreeMap<i32, Vec<RecordBatch>> = BTreeMap::new();
        for ((day, workspace, code, class, hour), sketch) in hours {
            let row = HourRow {
                workspace,
                link_id: &link_of(workspace, code),
                domain: "go.example",
                code,
                class: class.as_str(),
                hour: UtcMicros(hour * schemas::time::HOUR),
                lowest_rate: rate,
                visitors: &sketch.to_bytes(),
            };
            days.entry(day).or_default().push(schemas::hourly::to_batch([row]).unwrap());
        }
        let joined = |rows: Vec<RecordBatch>| concat_batches(&rows[0].schema(), &rows).unwrap();
        let files = days.into_iter().map(|(day, rows)| (Some(day), joined(rows)));
        self.add_batches(Table::ClicksHourly, files.collect())
    }

    /// Commits rates at which clicks were kept.
    pub(crate) fn add_rates(&self, rates: &[Rate<'_>]) -> Vec<String> {
        let seconds = rates.iter().map(|(.., second, _)| second * SECOND);
        let seconds = Arc::new(TimestampMicrosecondArray::from_iter_values(seconds).with_timezone("UTC"));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(rates.iter().map(|(workspace, ..)| workspace))),
            Arc::new(StringArray::from_iter_values(rates.iter().map(|(workspace, code, ..)| link_of(workspace, code)))),
            Arc::clone(&seconds) as ArrayRef,
            Arc::new(StringArray::from(vec!["p"; rates.len()])),
            Arc::new(Float64Array::from_iter_values(rates.iter().map(|(.., rate)| *rate))),
            seconds,
        ];
        let batch = RecordBatch::try_new(Table::Sampling.schema(), columns).unwrap();
        self.add_batches(Table::Sampling, vec![(None, batch)])
    }

    /// Commits a gap.
    pub(crate) fn add_gap(&self, workspace: Option<&str>, start: UtcMicros, end: UtcMicros, lost: i64) {
        let time = |time: UtcMicros| Arc::new(TimestampMicrosecondArray::from(vec![time.0]).with_timezone("UTC"));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![workspace])),
            Arc::new(StringArray::from(vec!["j"])),
            time(start),
            time(end),
            Arc::new(Int64Array::from(vec![lost])),
            Arc::new(StringArray::from(vec!["disk full"])),
            time(end),
        ];
        let batch = RecordBatch::try_new(Table::Gaps.schema(), columns).unwrap();
        self.add_batches(Table::Gaps, vec![(None, batch)]);
    }

    /// Commits a restatement, made at its own end, for a backfill.
    pub(crate) fn add_restatement(&self, workspace: Option<&str>, start: UtcMicros, end: UtcMicros) {
        self.restate(Why::Backfill, workspace, start, end);
    }

    /// Commits what is said before rows go that are too old.
    pub(crate) fn add_retention(&self, workspace: &str, start: UtcMicros, end: UtcMicros) {
        self.restate(Why::Retention, Some(workspace), start, end);
    }

    fn restate(&self, why: Why, workspace: Option<&str>, start: UtcMicros, end: UtcMicros) {
        let time = |time: UtcMicros| Arc::new(TimestampMicrosecondArray::from(vec![time.0]).with_timezone("UTC"));
        let count = |count: i64| Arc::new(Int64Array::from(vec![count]));
        let columns: Vec<ArrayRef> = vec![
            time(end),
            Arc::new(StringArray::from(vec![why.as_str()])),
            Arc::new(StringArray::from(vec![workspace])),
            time(start),
            time(end),
            count(1),
            count(0),
            count(0),
            Arc::new(StringArray::new_null(1)),
        ];
        let batch = RecordBatch::try_new(Table::Restatements.schema(), columns).unwrap();
        self.add_batches(Table::Restatements, vec![(None, batch)]);
    }
}
