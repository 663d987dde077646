//! Rows of days long past that lie thinly over many hours: one file a day for them, not one an hour.
//!
//! Until its day is final no file spans more than one hour, so that the ids around an instant are read fast. A year of a
//! small export, a click now and then, would become thousands of files in one commit that way. Once a day is final its
//! hours may share a file, and where many would hold next to nothing they do from the first.

use std::collections::HashSet;

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::UtcMicros;

/// Rows of final days in no more hours than this stay apart by the hour.
const MANY_HOURS: usize = 48;

/// Rows, by how much time their files may span.
#[derive(Debug, Default)]
pub(super) struct Apart {
    pub(super) hours: Vec<RecordBatch>,
    pub(super) days: Vec<RecordBatch>,
}

/// Parts `rows`; days before `final_before` (since the epoch) are final.
pub(super) fn apart(rows: Vec<RecordBatch>, final_before: i64) -> Result<Apart, ArrowError> {
    let is_final = |time: i64| i64::from(UtcMicros(time).day()) < final_before;
    let mut hours = HashSet::new();
    for batch in &rows {
        let of_batch = times(batch)?.iter().filter(|time| is_final(**time)).map(|time| UtcMicros(*time).hour());
        hours.extend(of_batch);
    }
    if hours.len() <= MANY_HOURS {
        return Ok(Apart { hours: rows, days: Vec::new() });
    }
    let mut parted = Apart::default();
    for batch in &rows {
        let of_days: BooleanArray = times(batch)?.iter().map(|time| Some(is_final(*time))).collect();
        let of_hours: BooleanArray = of_days.iter().map(|of_days| of_days.map(|of_days| !of_days)).collect();
        for (into, mask) in [(&mut parted.days, of_days), (&mut parted.hours, of_hours)] {
            let part = filter_record_batch(batch, &mask)?;
            if part.num_rows() > 0 {
                into.push(part);
            }
        }
    }
    Ok(parted)
}

fn times(batch: &RecordBatch) -> Result<&[i64], ArrowError> {
    let column = batch.column_by_name("event_time");
    let times = column.and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    times.map(|times| &times.values()[..]).ok_or_else(|| ArrowError::SchemaError("event_time is missing".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::click;
    use schemas::ClickBuilder;
    use schemas::time::HOUR;

    fn rows(hours: impl Iterator<Item = i64>) -> Vec<RecordBatch> {
        let mut builder = ClickBuilder::new();
        hours.enumerate().for_each(|(n, hour)| builder.push(&click(n as u128, hour * HOUR)));
        vec![builder.finish().unwrap()]
    }

    fn counts(apart: &Apart) -> (usize, usize) {
        let of = |rows: &[RecordBatch]| rows.iter().map(RecordBatch::num_rows).sum();
        (of(&apart.hours), of(&apart.days))
    }

    #[test]
    fn only_many_hours_of_final_days_go_together() {
        let ten_days = 24 * 10;
        assert_eq!(counts(&apart(rows(0..48), ten_days).unwrap()), (48, 0));
        assert_eq!(counts(&apart(rows(0..49), ten_days).unwrap()), (0, 49));
        assert_eq!(counts(&apart(rows(0..100), 3).unwrap()), (28, 72));
        assert_eq!(counts(&apart(rows(0..500), 0).unwrap()), (500, 0), "nothing is final");
        assert_eq!(counts(&apart(rows((0..500).map(|n| n % 40)), ten_days).unwrap()), (500, 0), "dense hours");
        assert_eq!(counts(&apart(Vec::new(), 3).unwrap()), (0, 0));
    }
}
