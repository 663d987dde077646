//! One live data file, as the log describes it: where it is, and what its rows lie between.

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate};
use datafusion::scalar::ScalarValue;
use deltalake::kernel::LogicalFileView;
use object_store::ObjectMeta;
use object_store::path::Path;
use schemas::UtcMicros;
use schemas::tables::Table;
use serde::Deserialize;
use serde_json::Value;

use crate::error::QueryError;

/// A data file of a snapshot.
#[derive(Debug)]
pub(crate) struct DataFile {
    /// Where it is in the table's store, how big, and when it was written.
    pub(crate) meta: ObjectMeta,
    /// Rows, if the log says.
    pub(crate) rows: Option<u64>,
    /// Values of the partition columns, in the table's order.
    pub(crate) partition: Vec<ScalarValue>,
    /// What the rows lie between, by column. A column that isn't here, or an end that is null, is unknown.
    bounds: HashMap<&'static str, (ScalarValue, ScalarValue)>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stats {
    num_records: Option<u64>,
    min_values: HashMap<String, Value>,
    max_values: HashMap<String, Value>,
}

impl DataFile {
    /// Reads one line of the log.
    ///
    /// # Errors
    /// When the file can't be read without knowing more than this code does.
    pub(crate) fn from_log(table: Table, view: &LogicalFileView) -> Result<Self, QueryError> {
        let broken = |reason: &str| QueryError::lake("reading the log", format!("{}: {reason}", view.path()));
        if view.deletion_vector_descriptor().is_some() {
            return Err(broken("deletion vectors are not supported"));
        }
        let values = view.partition_values_map();
        let mut partition = Vec::new();
        for &column in table.partitioned_by() {
            let text = values.get(column).and_then(Option::as_deref).ok_or_else(|| broken("no partition value"))?;
            let date: NaiveDate = text.parse().map_err(|_| broken("a partition that is no date"))?;
            partition.push(ScalarValue::Date32(Some(arrow::datatypes::Date32Type::from_naive_date(date))));
        }
        // What can't be read is unknown, and an unknown bound skips nothing.
        let stats: Stats = view.stats().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let bounds = table.stats_columns().iter().filter_map(|&column| Some((column, bounds(table, column, &stats)?)));
        Ok(Self {
            meta: ObjectMeta {
                location: view.object_store_path(),
                last_modified: view.modification_datetime().unwrap_or_default(),
                size: u64::try_from(view.size()).unwrap_or_default(),
                e_tag: None,
                version: None,
            },
            rows: stats.num_records,
            partition,
            bounds: bounds.collect(),
        })
    }

    /// The file's path in the table's store; unique for good.
    pub(crate) fn path(&self) -> &Path {
        &self.meta.location
    }

    /// Least and greatest value of a column; a null end is unknown. `None`: nothing is known.
    pub(crate) fn bounds(&self, column: &str) -> Option<&(ScalarValue, ScalarValue)> {
        self.bounds.get(column)
    }

    /// First and last instant of a column, as microseconds; as far away as can be where the log doesn't say.
    pub(crate) fn times(&self, column: &str) -> (i64, i64) {
        let micros = |end: &ScalarValue| match end {
            ScalarValue::TimestampMicrosecond(micros, _) => *micros,
            _ => None,
        };
        let (first, last) = self.bounds(column).map_or((None, None), |(first, last)| (micros(first), micros(last)));
        (first.unwrap_or(i64::MIN), last.unwrap_or(i64::MAX))
    }
}

fn bounds(table: Table, column: &str, stats: &Stats) -> Option<(ScalarValue, ScalarValue)> {
    use arrow::datatypes::DataType;
    let (least, greatest) = (stats.min_values.get(column), stats.max_values.get(column));
    match table.schema().field_with_name(column).ok()?.data_type() {
        DataType::Timestamp(..) => {
            let scalar = |micros| ScalarValue::TimestampMicrosecond(micros, Some("UTC".into()));
            Some((scalar(instant(least, false)), scalar(instant(greatest, true))))
        }
        DataType::Utf8 => {
            let text = |value: Option<&Value>| ScalarValue::Utf8(value.and_then(Value::as_str).map(str::to_owned));
            Some((text(least), text(greatest)))
        }
        DataType::Int64 => {
            let number = |value: Option<&Value>| ScalarValue::Int64(value.and_then(Value::as_i64));
            Some((number(least), number(greatest)))
        }
        _ => None,
    }
}

/// An instant of the log. Some writers keep milliseconds only: what they cut off is added to a greatest value.
fn instant(value: Option<&Value>, greatest: bool) -> Option<i64> {
    let text = value?.as_str()?;
    let instant = UtcMicros::from(DateTime::parse_from_rfc3339(text).ok()?.to_utc());
    let digits = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    let cut = 10i64.pow(6u32.saturating_sub(digits as u32)) - 1;
    Some(if greatest { instant.0.saturating_add(cut) } else { instant.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greatest_instant_that_was_cut_still_bounds_its_rows() {
        let read = |text: &str, greatest| instant(Some(&Value::from(text)), greatest).unwrap();
        let second = 1_773_480_413_000_000;
        assert_eq!(read("2026-03-14T09:26:53.123456Z", true), second + 123_456);
        assert_eq!(read("2026-03-14T09:26:53.123Z", true), second + 123_999);
        assert_eq!(read("2026-03-14T09:26:53Z", true), second + 999_999);
        assert_eq!(read("2026-03-14T09:26:53.123Z", false), second + 123_000);
        assert_eq!(instant(Some(&Value::from(5)), true), None);
        assert_eq!(instant(None, true), None);
    }

    #[test]
    fn what_the_log_does_not_say_is_unknown() {
        let (least, greatest) = bounds(Table::Clicks, "code", &Stats::default()).unwrap();
        assert!(least.is_null() && greatest.is_null());
        assert_eq!(bounds(Table::Clicks, "weight", &Stats::default()), None);
    }
}
