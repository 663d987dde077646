//! The questions a report asks of table `clicks`, each one aggregation, built as expressions and never as text.
//!
//! Visitors are counted once a UTC day: distinct within (…, date), then added up. The sums of weights beside them are
//! of a kind that DataFusion can spill together with the distinct.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{count_distinct, max, min, sum};
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility, cast, col, create_udf, lit, when};
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;
use schemas::UtcMicros;
use schemas::click::timestamp;

use super::buckets;
use super::dims::Dimension;
use super::period::Span;
use super::request::{Classes, ReportRequest};

/// An instant as a literal of the column's own type, so that files can be skipped by it.
fn instant(instant: UtcMicros) -> Expr {
    lit(ScalarValue::TimestampMicrosecond(Some(instant.0), Some("UTC".into())))
}

/// Rows of the links and dimensions asked for, of any time and class.
pub(crate) fn in_scope(clicks: DataFrame, request: &ReportRequest) -> Result<DataFrame> {
    let texts = |values: &[String]| values.iter().map(|value| lit(value.as_str())).collect::<Vec<_>>();
    let mut rows = clicks;
    if !request.code.is_empty() {
        rows = rows.filter(col("code").in_list(texts(&request.code), false))?;
    }
    if !request.domain.is_empty() {
        rows = rows.filter(col("domain").in_list(texts(&request.domain), false))?;
    }
    if !request.link_id.is_empty() {
        let ids = request.link_id.iter().map(|id| lit(id.to_string())).collect();
        rows = rows.filter(col("link_id").in_list(ids, false))?;
    }
    for (dimension, values) in &request.only {
        rows = rows.filter(dimension.one_of(values))?;
    }
    for (dimension, values) in &request.not {
        // of `by_class` every class is shown; this one is a choice among them, like `class`
        if dimension.name() != "class" {
            rows = rows.filter(dimension.none_of(values))?;
        }
    }
    Ok(rows)
}

/// Rows of the span. The date is the partition, the time within it is what decides.
pub(crate) fn in_span(rows: DataFrame, span: Span) -> Result<DataFrame> {
    let date = |instant: UtcMicros| lit(ScalarValue::Date32(Some(instant.day())));
    let last = UtcMicros(span.end.0.saturating_sub(1));
    rows.filter(col("date").between(date(span.start), date(last)))?
        .filter(col("event_time").gt_eq(instant(span.start)).and(col("event_time").lt(instant(span.end))))
}

/// Whether a row is of the classes asked for.
fn of_classes(request: &ReportRequest) -> Option<Expr> {
    let chosen = match &request.class {
        Classes::All => None,
        Classes::Some(classes) => {
            Some(col("class").in_list(classes.iter().map(|class| lit(class.as_str())).collect(), false))
        }
    };
    let not = request.not.iter().find(|(dimension, _)| dimension.name() == "class");
    let not = not.map(|(dimension, values)| dimension.none_of(values));
    chosen.into_iter().chain(not).reduce(Expr::and)
}

/// Rows of the classes asked for.
pub(crate) fn of_chosen_classes(rows: DataFrame, request: &ReportRequest) -> Result<DataFrame> {
    match of_classes(request) {
        Some(filter) => rows.filter(filter),
        None => Ok(rows),
    }
}

/// First and last time: `first`, `last`.
pub(crate) fn extent(rows: DataFrame) -> Result<DataFrame> {
    rows.aggregate(vec![], vec![min(col("event_time")).alias("first"), max(col("event_time")).alias("last")])
}

/// Per class: `class`, `weight`.
pub(crate) fn by_class(rows: DataFrame) -> Result<DataFrame> {
    rows.aggregate(vec![col("class")], vec![sum(col("weight")).alias("weight")])
}

/// `rows`, `weight`, `variance`, `visitors`, `known` (Σw of rows with a visitor), `heaviest`; and `unknown`: Σw of rows
/// without a value of `dimension`.
pub(crate) fn totals(rows: DataFrame, dimension: Option<Dimension>) -> Result<DataFrame> {
    let unknown = match dimension {
        Some(dimension) => when(dimension.value()?.is_null(), col("weight")).otherwise(lit(0.0))?,
        None => lit(0.0),
    };
    let rows = rows.with_column("unknown_weight", unknown)?;
    let mut inner = sums();
    inner.push(sum(col("unknown_weight")).alias("unknown"));
    let mut outer = added_up();
    outer.push(sum(col("unknown")).alias("unknown"));
    rows.aggregate(vec![col("date")], inner)?.aggregate(vec![], outer)
}

/// Per bucket that has rows: `bucket` and the columns of [`totals`].
pub(crate) fn series(rows: DataFrame, ends: &Arc<[i64]>) -> Result<DataFrame> {
    let bucket = bucket_of(Arc::clone(ends)).alias("bucket");
    rows.aggregate(vec![bucket, col("date")], sums())?.aggregate(vec![col("bucket")], added_up())
}

/// The `limit` values with most clicks: `value` and the columns of [`totals`].
pub(crate) fn groups(rows: DataFrame, dimension: Dimension, limit: usize) -> Result<DataFrame> {
    rows.aggregate(vec![dimension.value()?.alias("value"), col("date")], sums())?
        .filter(col("value").is_not_null())?
        .aggregate(vec![col("value")], added_up())?
        .sort(vec![col("weight").sort(false, false), col("value").sort(true, false)])?
        .limit(0, Some(limit))
}

fn sums() -> Vec<Expr> {
    let known = cast(col("visitor").is_not_null(), DataType::Int32);
    vec![
        sum(lit(1i64)).alias("rows"),
        sum(col("weight")).alias("weight"),
        sum(col("weight") * (col("weight") - lit(1.0))).alias("variance"),
        sum(known * col("weight")).alias("known"),
        max(col("weight")).alias("heaviest"),
        count_distinct(col("visitor")).alias("visitors"),
    ]
}

fn added_up() -> Vec<Expr> {
    let mut columns: Vec<Expr> =
        ["rows", "weight", "variance", "known", "visitors"].iter().map(|name| sum(col(*name)).alias(*name)).collect();
    columns.push(max(col("heaviest")).alias("heaviest"));
    columns
}

/// The number of the bucket that a row's time is in.
fn bucket_of(ends: Arc<[i64]>) -> Expr {
    let number = move |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let times = arrays[0].as_primitive::<TimestampMicrosecondType>();
        let mut last = 0;
        let numbers: Int32Array = times
            .iter()
            .map(|time| {
                let time = time?;
                // neighbours are mostly in one bucket
                if !(ends[last] <= time && ends.get(last + 1).is_some_and(|&end| time < end)) {
                    last = buckets::index(&ends, time)?;
                }
                i32::try_from(last).ok()
            })
            .collect();
        Ok(ColumnarValue::Array(Arc::new(numbers) as ArrayRef))
    };
    let function = create_udf("bucket_of", vec![timestamp()], DataType::Int32, Volatility::Immutable, Arc::new(number));
    function.call(vec![col("event_time")])
}
