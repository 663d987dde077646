//! From the aggregations' columns to the numbers of a report.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use chrono_tz::Tz;
use schemas::UtcMicros;

use super::answer::{Counts, Row, local_text};
use super::estimate::Estimate;
use super::sampled::{Part, Sampled, Visitors};
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
    /// `heaviest`: the greatest weight that a click in scope can have had. `visitors`: of those that no row tells of.
    pub(crate) fn counts(&self, heaviest: f64, visitors: Visitors) -> Counts {
        let nobody_known = self.known == 0.0 && self.estimate.weight > 0.0;
        let visitors = match visitors {
            Visitors::AsKept if nobody_known || self.heaviest > 1.0 => None,
            Visitors::AsKept => Some(self.visitors),
            Visitors::Estimated { all: 0, .. } if nobody_known => None,
            Visitors::Estimated { kept, all } => Some(self.visitors.saturating_sub(kept) + all),
            Visitors::Unknown => None,
        };
        Counts::of(self.estimate, heaviest.max(self.heaviest), visitors)
    }
}

/// A column by name, as 64-bit floats or integers or texts.
pub(super) fn column(batch: &RecordBatch, name: &str, as_type: &DataType) -> Result<ArrayRef, QueryError> {
    let column = batch.column_by_name(name).ok_or_else(|| QueryError::lake("reading an aggregation", name))?;
    cast(column, as_type).map_err(|error| QueryError::lake("reading an aggregation", error))
}

/// The sums in each row of `batch`.
pub(crate) fn sums(batch: &RecordBatch) -> Result<Vec<Sums>, QueryError> {
    let visitors = column(batch, "visitors", &DataType::Int64)?;
    let (known, heaviest) = (floats(batch, "known")?, floats(batch, "heaviest")?);
    let rows = estimates(batch, "")?.into_iter().enumerate();
    Ok(rows
        .map(|(row, estimate)| Sums {
            estimate,
            visitors: number(&visitors, row),
            known: known[row],
            heaviest: heaviest[row],
        })
        .collect())
}

/// The sums of an estimate in each row of `batch`, with `prefix` before their names.
pub(crate) fn estimates(batch: &RecordBatch, prefix: &str) -> Result<Vec<Estimate>, QueryError> {
    let real = |name: &str| floats(batch, &format!("{prefix}{name}"));
    let rows = column(batch, &format!("{prefix}rows"), &DataType::Int64)?;
    let (weight, variance, skew, doubt) = (real("weight")?, real("variance")?, real("skew")?, real("doubt")?);
    Ok((0..batch.num_rows())
        .map(|row| Estimate {
            rows: number(&rows, row),
            weight: weight[row],
            variance: variance[row],
            skew: skew[row],
            doubt: doubt[row],
        })
        .collect())
}

fn number(array: &ArrayRef, row: usize) -> u64 {
    match array.is_null(row) {
        true => 0,
        false => u64::try_from(array.as_primitive::<Int64Type>().value(row)).unwrap_or(0),
    }
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
pub(crate) fn series(batches: &[RecordBatch], ends: &[i64], tz: Tz, sampled: &Sampled) -> Result<Vec<Row>, QueryError> {
    let mut found = BTreeMap::new();
    for batch in batches {
        let buckets = integers(batch, "bucket")?;
        found.extend(buckets.into_iter().zip(sums(batch)?));
    }
    let text = |instant: i64| local_text(tz, UtcMicros(instant));
    let rows = ends.windows(2).enumerate().map(|(number, pair)| {
        let sums = found.get(&Some(number as i64)).copied().unwrap_or_default();
        let part = Part::Bucket(number);
        let counts = sums.counts(sampled.heaviest(&part), sampled.visitors(&part));
        Row::Bucket { start: text(pair[0]), end: text(pair[1]), counts }
    });
    Ok(rows.collect())
}

/// The values of the groups, in the order they came in.
pub(crate) fn values(batches: &[RecordBatch]) -> Result<Vec<String>, QueryError> {
    let values: Result<Vec<Vec<String>>, _> = batches.iter().map(|batch| texts(batch, "value")).collect();
    Ok(values?.into_iter().flatten().collect())
}

/// A row for every group, in the order they came in, and all of them together. `heaviest`: the greatest weight of a row in
/// scope; where hours don't tell of groups it may be any's.
pub(crate) fn groups(
    batches: &[RecordBatch],
    heaviest: f64,
    sampled: &Sampled,
) -> Result<(Vec<Row>, Estimate), QueryError> {
    let (mut rows, mut shown) = (Vec::new(), Estimate::default());
    for batch in batches {
        for (value, sums) in texts(batch, "value")?.into_iter().zip(sums(batch)?) {
            shown = shown.plus(sums.estimate);
            let part = Part::Group(value.clone());
            let heaviest = if sampled.tells_groups() { sampled.heaviest(&part) } else { heaviest };
            rows.push(Row::Group { value, counts: sums.counts(heaviest, sampled.visitors(&part)) });
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
            ("skew", float(0.0)),
            ("doubt", float(0.0)),
            ("known", float(known)),
            ("heaviest", float(heaviest)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn empty_buckets_are_filled() {
        let rows = series(&[batch(1, 2.0, 2.0, 1.0)], &[0, 10, 20, 30], Tz::UTC, &Sampled::default()).unwrap();
        let clicks: Vec<u64> = rows.iter().map(|row| row.counts().clicks).collect();
        assert_eq!(clicks, [0, 2, 0]);
        assert_eq!(rows[0].counts().visitors, Some(0));
        assert_eq!(rows[1].counts().visitors, Some(1));
    }

    #[test]
    fn visitors_are_not_scaled_and_not_made_up() {
        let visitors =
            |known, heaviest| sums(&batch(0, 4.0, known, heaviest)).unwrap()[0].counts(1.0, Visitors::AsKept).visitors;
        assert_eq!(visitors(4.0, 1.0), Some(1));
        assert_eq!(visitors(4.0, 2.0), None, "sampled");
        assert_eq!(visitors(0.0, 1.0), None, "nobody known");
        let told = |visitors| sums(&batch(0, 4.0, 4.0, 2.0)).unwrap()[0].counts(2.0, visitors).visitors;
        assert_eq!(told(Visitors::Estimated { kept: 1, all: 9 }), Some(9));
        assert_eq!(told(Visitors::Estimated { kept: 0, all: 9 }), Some(10), "of another day");
        assert_eq!(told(Visitors::Unknown), None);
    }
}
