//! Statistics of a data file, as its line in the log carries them: rows, and of some columns the least and the
//! greatest value and the number of nulls. Readers skip files by them, so they must bound every row, to the
//! microsecond; what can't be bounded is left out.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{max, max_string, min, min_string};
use arrow::datatypes::{DataType, Int64Type, TimestampMicrosecondType};
use chrono::{DateTime, SecondsFormat};
use schemas::UtcMicros;
use serde_json::{Map, Value, json};

/// A text longer than this is left out of the greatest values, and cut in the least: a cut text is no greater.
const MAX_TEXT_BYTES: usize = 256;

/// What is used of a file's statistics here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) rows: u64,
    pub(super) min_time: Option<UtcMicros>,
    pub(super) max_time: Option<UtcMicros>,
}

/// The statistics of `batch` over `columns`, as JSON.
pub(super) fn of_batch(batch: &RecordBatch, columns: &[&str]) -> String {
    let (mut least, mut greatest, mut nulls) = (Map::new(), Map::new(), Map::new());
    for &name in columns {
        let Some(column) = batch.column_by_name(name) else { continue };
        nulls.insert(name.to_owned(), json!(column.null_count()));
        let (low, high) = bounds(column.as_ref());
        least.extend(low.map(|value| (name.to_owned(), value)));
        greatest.extend(high.map(|value| (name.to_owned(), value)));
    }
    json!({ "numRecords": batch.num_rows(), "minValues": least, "maxValues": greatest, "nullCount": nulls }).to_string()
}

/// Statistics that grow batch by batch, to the same text as of all rows at once.
#[derive(Debug, Default)]
pub(super) struct Running {
    rows: usize,
    nulls: BTreeMap<String, usize>,
    least: BTreeMap<String, Value>,
    greatest: BTreeMap<String, Value>,
    /// Columns of which a batch had values that can't be bounded.
    unbounded: BTreeSet<String>,
}

impl Running {
    /// Takes in more rows.
    pub(super) fn add(&mut self, batch: &RecordBatch, columns: &[&str]) {
        self.rows += batch.num_rows();
        for &name in columns {
            let Some(column) = batch.column_by_name(name) else { continue };
            *self.nulls.entry(name.to_owned()).or_default() += column.null_count();
            if column.null_count() == column.len() {
                continue;
            }
            let (low, high) = bounds(column.as_ref());
            if let Some(low) = low {
                keep(&mut self.least, name, low, false);
            }
            match high {
                Some(high) => keep(&mut self.greatest, name, high, true),
                None => {
                    self.unbounded.insert(name.to_owned());
                }
            }
        }
    }

    /// The statistics as JSON.
    pub(super) fn finish(mut self) -> String {
        self.greatest.retain(|name, _| !self.unbounded.contains(name));
        json!({
            "numRecords": self.rows,
            "minValues": self.least,
            "maxValues": self.greatest,
            "nullCount": self.nulls,
        })
        .to_string()
    }
}

/// Keeps the lesser, or the greater, of two bounds of a column. Instants as texts are in their own order.
fn keep(bounds: &mut BTreeMap<String, Value>, name: &str, value: Value, greater: bool) {
    let better = match (bounds.get(name), &value) {
        (Some(Value::String(kept)), Value::String(new)) => (new > kept) == greater,
        (Some(kept), new) => (new.as_i64() > kept.as_i64()) == greater,
        (None, _) => true,
    };
    if better {
        bounds.insert(name.to_owned(), value);
    }
}

fn bounds(column: &dyn Array) -> (Option<Value>, Option<Value>) {
    match column.data_type() {
        DataType::Timestamp(..) => {
            let times = column.as_primitive::<TimestampMicrosecondType>();
            let text = |micros: i64| Value::from(instant_text(UtcMicros(micros)));
            (min(times).map(text), max(times).map(text))
        }
        DataType::Int64 => {
            let numbers = column.as_primitive::<Int64Type>();
            (min(numbers).map(Value::from), max(numbers).map(Value::from))
        }
        DataType::Utf8 => {
            let texts = column.as_string::<i32>();
            let low = min_string(texts).map(|text| Value::from(schemas::event::cut(text, MAX_TEXT_BYTES)));
            let high = max_string(texts).filter(|text| text.len() <= MAX_TEXT_BYTES).map(Value::from);
            (low, high)
        }
        _ => (None, None),
    }
}

/// An instant with all six decimals: fewer would be read as an earlier one.
fn instant_text(instant: UtcMicros) -> String {
    instant.to_datetime().to_rfc3339_opts(SecondsFormat::Micros, true)
}

impl Stats {
    /// Reads what a line of the log says; nothing where it can't be understood.
    pub(super) fn parse(text: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(text) else { return Self::default() };
        let times = |key: &str, slack: bool| -> Vec<UtcMicros> {
            let values = value.get(key).and_then(Value::as_object);
            values.into_iter().flatten().filter_map(|(_, value)| parse_instant(value.as_str()?, slack)).collect()
        };
        Self {
            rows: value.get("numRecords").and_then(Value::as_u64).unwrap_or(0),
            min_time: times("minValues", false).into_iter().min(),
            max_time: times("maxValues", true).into_iter().max(),
        }
    }
}

/// Reads an instant. Writers that keep milliseconds only have cut it: `slack` adds what may have been there.
fn parse_instant(text: &str, slack: bool) -> Option<UtcMicros> {
    // a workspace or code that reads as an instant would widen the range only, never narrow it
    let instant = UtcMicros::from(DateTime::parse_from_rfc3339(text).ok()?.to_utc());
    let decimals = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    let lacking = 10i64.pow(6u32.saturating_sub(decimals as u32)) - 1;
    Some(if slack { UtcMicros(instant.0.saturating_add(lacking)) } else { instant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringArray, TimestampMicrosecondArray};
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    fn batch(times: Vec<Option<i64>>, codes: Vec<Option<&str>>) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("event_time", schemas::click::timestamp(), true),
            Field::new("code", DataType::Utf8, true),
        ]);
        let times = TimestampMicrosecondArray::from(times).with_timezone("UTC");
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(times), Arc::new(StringArray::from(codes))]).unwrap()
    }

    #[test]
    fn bounds_are_exact_to_the_microsecond() {
        let (low, high) = (1_773_480_413_000_000, 1_773_480_413_999_999);
        let text = of_batch(
            &batch(vec![Some(high), None, Some(low)], vec![Some("b"), Some("a"), None]),
            &["event_time", "code"],
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["minValues"]["event_time"], "2026-03-14T09:26:53.000000Z");
        assert_eq!(value["maxValues"]["event_time"], "2026-03-14T09:26:53.999999Z");
        assert_eq!(value["minValues"]["code"], "a");
        assert_eq!(value["nullCount"]["code"], 1);
        let stats = Stats::parse(&text);
        assert_eq!(stats, Stats { rows: 3, min_time: Some(UtcMicros(low)), max_time: Some(UtcMicros(high)) });
    }

    #[test]
    fn long_texts_bound_or_are_left_out() {
        let long = "é".repeat(300);
        let text = of_batch(&batch(vec![Some(1)], vec![Some(&long)]), &["code"]);
        let value: Value = serde_json::from_str(&text).unwrap();
        let low = value["minValues"]["code"].as_str().unwrap();
        assert!(low <= long.as_str() && low.len() <= MAX_TEXT_BYTES);
        assert_eq!(value["maxValues"].get("code"), None);
    }

    #[test]
    fn a_cut_instant_of_another_writer_is_widened() {
        assert_eq!(parse_instant("1970-01-01T00:00:00.001Z", true), Some(UtcMicros(1_999)));
        assert_eq!(parse_instant("1970-01-01T00:00:00Z", true), Some(UtcMicros(999_999)));
        assert_eq!(parse_instant("1970-01-01T00:00:00.001Z", false), Some(UtcMicros(1_000)));
        assert_eq!(parse_instant("1970-01-01T00:00:00.000001Z", true), Some(UtcMicros(1)));
        assert_eq!(parse_instant("abc", true), None);
    }

    #[test]
    fn what_is_no_json_says_nothing() {
        assert_eq!(Stats::parse("{"), Stats::default());
    }
}
