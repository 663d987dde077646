//! A report's rows as a table, for CSV, Arrow and Parquet.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;

use super::answer::{Counts, Report, Row};
use super::request::ReportRequest;

/// The rows of `report` as columns; a report without rows is one row, its totals. What kind of rows they are follows
/// from the request, so that an empty answer has the same columns as a full one.
pub(crate) fn to_batch(report: &Report, request: &ReportRequest) -> Result<RecordBatch, ArrowError> {
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    if request.interval.is_some() {
        let ends = |pick: fn(&Row) -> Option<&str>| Arc::new(report.data.iter().map(pick).collect::<StringArray>());
        columns.push(("start", ends(start)));
        columns.push(("end", ends(end)));
    } else if request.group_by.is_some() {
        columns.push(("value", Arc::new(report.data.iter().map(value).collect::<StringArray>())));
    }
    let counts: Vec<&Counts> = match columns.is_empty() {
        true => vec![&report.totals.counts],
        false => report.data.iter().map(Row::counts).collect(),
    };
    let number = |pick: fn(&Counts) -> Option<u64>| {
        let numbers = counts.iter().map(|counts| pick(counts).and_then(|number| i64::try_from(number).ok()));
        Arc::new(numbers.collect::<Int64Array>()) as ArrayRef
    };
    columns.push(("clicks", number(|counts| Some(counts.clicks))));
    columns.push(("clicks_low", number(|counts| Some(counts.clicks_low))));
    columns.push(("clicks_high", number(|counts| Some(counts.clicks_high))));
    columns.push(("visitors", number(|counts| counts.visitors)));
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), *name == "visitors" || array.data_type() == &DataType::Utf8)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array)| array).collect())
}

fn start(row: &Row) -> Option<&str> {
    match row {
        Row::Bucket { start, .. } => Some(start),
        Row::Group { .. } => None,
    }
}

fn end(row: &Row) -> Option<&str> {
    match row {
        Row::Bucket { end, .. } => Some(end),
        Row::Group { .. } => None,
    }
}

fn value(row: &Row) -> Option<&str> {
    match row {
        Row::Group { value, .. } => Some(value),
        Row::Bucket { .. } => None,
    }
}
