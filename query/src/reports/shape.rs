//! From the aggregations' columns to the numbers of a report.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use chrono_tz::Tz;
use schemas::UtcMicros;

use super::answer::{Counts, Row, local_text};
use super::estimate::Estimate;
use crate::error::QueryError;

/// One row of an aggregation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) estimate: Estimate,
    pub(crate) visitors: u64,
    /// Σw of rows that have a visitor.
    pub(crate) known: f64,
    /// Greatest weight.
    pub(crate) heaviest: f64,
}

impl Sums {
    /// Visitors are a number only where all rows are there to be looked at, and any has a visitor.
    pub(crate) fn counts(&self) -> Counts {
        let sampled = self.heaviest > 1.0;
        let nobody_known = self.known == 0.0 && self.estimate.weight > 0.0;
        Counts::of(self.estimate, (!sampled && !nobody_known).then_some(self.visitors))
    }
}

/// A column by name, as 64-bit floats or integers or texts.
fn column(batch: &RecordBatch, name: &str, as_type: &DataType) -> Result<ArrayRef, QueryError> {
    let column = batch.column_by_name(name).ok_or_else(|| QueryError::lake("reading an aggregation", name))?;
    cast(column, as_type).map_err(|error| QueryError::lake("reading an aggregation", error))
}

/// The sums in each row of `batch`.
pub(crate) fn sums(batch: &RecordBatch) -> Result<Vec<Sums>, QueryError> {
    let whole = |name: &str| column(batch, name, &DataType::Int64);
    let real = |name: &str| column(batch, name, &DataType::Float64);
    let (rows, visitors) = (whole("rows")?, whole("visitors")?);
    let (weight, variance) = (real("weight")?, real("variance")?);
    let (known, heaviest) = (real("known")?, real("heaviest")?);
    let number = |array: &ArrayRef, row: usize| match array.is_null(row) {
        true => 0,
        false => u64::try_from(array.as_primitive::<Int64Type>().value(row)).unwrap_or(0),
    };
    Ok((0..batch.num_rows())
        .map(|row| Sums {
            estimate: Estimate {
                rows: number(&rows, row),
                weight: float(&weight, row),
                variance: float(&variance, row),
            },
            visitors: number(&visitors, row),
            known: float(&known, row),
            heaviest: float(&heaviest, row),
        })
        .collect())
}

fn float(array: &ArrayRef, row: usize) -> f64 {
    if array.is_null(row) { 0.0 } else { array.as_primitive::<Float64Type>().value(row) }
}

/// One column of numbers.
pub(crate) fn floats(batch: &RecordBatch, name: &str) -> Result<Vec<f64>, QueryError> {
    let array = column(batch, name, &DataType::Float64)?;
    Ok((0..array.len()).map(|row| float(&array, row)).collect())
}

/// One column of texts; null reads as empty.
pub(crate) fn texts(batch: &RecordBatch, name: &str) -> Result<Vec<String>, QueryError> {
    let array = column(batch, name, &DataType::Utf8)?;
    let texts = array.as_string::<i32>();
    Ok(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
}

/// One column of instants or whole numbers.
pub(crate) fn integers(batch: &RecordBatch, name: &str) -> Result<Vec<Option<i64>>, QueryError> {
    let array = column(batch, name, &DataType::Int64)?;
    Ok(array.as_primitive::<Int64Type>().iter().collect())
}

/// A row for every bucket, the empty ones filled.
pub(crate) fn series(batches: &[RecordBatch], ends: &[i64], tz: Tz) -> Result<Vec<Row>, QueryError> {
    let mut found = BTreeMap::new();
    for batch in batches {
        let buckets = integers(batch, "bucket")?;
        found.extend(buckets.into_iter().zip(sums(batch)?));
    }
    let text = |instant: i64| local_text(tz, UtcMicros(instant));
    let rows = ends.windows(2).zip(0..).map(|(pair, bucket)| Row::Bucket {
        start: text(pair[0]),
        end: text(pair[1]),
        counts: found.get(&Some(bucket)).copied().unwrap_or_default().counts(),
    });
    Ok(rows.collect())
}

/// A row for every group, in the order they came in.
pub(crate) fn groups(batches: &[RecordBatch]) -> Result<(Vec<Row>, Estimate), QueryError> {
    let (mut rows, mut shown) = (Vec::new(), Estimate::default());
    for batch in batches {
        for (value, sums) in texts(batch, "value")?.into_iter().zip(sums(batch)?) {
            shown = shown.plus(sums.estimate);
            rows.push(Row::Group { value, counts: sums.counts() });
        }
    }
    Ok((rows, shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, Int64Array};
    use std::sync::Arc;

    fn batch(bucket: i32, weight: f64, known: f64, heaviest: f64) -> RecordBatch {
        let float = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        let columns = [
            ("bucket", Arc::new(Int32Array::from(vec![bucket])) as ArrayRef),
            ("rows", Arc::new(Int64Array::from(vec![2]))),
            ("visitors", Arc::new(Int64Array::from(vec![1]))),
            ("weight", float(weight)),
            ("variance", float(0.0)),
            ("known", float(known)),
            ("heaviest", float(heaviest)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn empty_buckets_are_filled() {
        let rows = series(&[batch(1, 2.0, 2.0, 1.0)], &[0, 10, 20, 30], Tz::UTC).unwrap();
        let clicks: Vec<u64> = rows.iter().map(|row| row.counts().clicks).collect();
        assert_eq!(clicks, [0, 2, 0]);
        assert_eq!(rows[0].counts().visitors, Some(0));
        assert_eq!(rows[1].counts().visitors, Some(1));
    }

    #[test]
    fn visitors_are_not_scaled_and_not_made_up() {
        let visitors = |known, heaviest| sums(&batch(0, 4.0, known, heaviest)).unwrap()[0].counts().visitors;
        assert_eq!(visitors(4.0, 1.0), Some(1));
        assert_eq!(visitors(4.0, 2.0), None, "sampled");
        assert_eq!(visitors(0.0, 1.0), None, "nobody known");
    }
}
