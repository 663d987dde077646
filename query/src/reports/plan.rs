//! The questions a report asks of table `clicks`, each one aggregation, built as expressions and never as text; `hourly`: those
//! of what was sampled away.
//!
//! Visitors are counted once a UTC day: distinct within (…, date), then added up. The sums of weights beside them are
//! of a kind that DataFusion can spill together with the distinct.

mod hourly;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{count_distinct, max, min, sum};
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility, cast, col, create_udf, lit};
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;
use schemas::UtcMicros;
use schemas::click::timestamp;

use super::buckets;
use super::dims::Dimension;
use super::period::Span;
use super::request::{Classes, ReportRequest};

pub(crate) use hourly::{hours, hours_in_scope, links, rates, sketches};

/// An instant as a literal of the column's own type, so that files can be skipped by it.
fn instant(instant: UtcMicros) -> Expr {
    lit(ScalarValue::TimestampMicrosecond(Some(instant.0), Some("UTC".into())))
}

/// Rows of the links and dimensions asked for, of any time and class.
pub(crate) fn in_scope(clicks: DataFrame, request: &ReportRequest) -> Result<DataFrame> {
    having(clicks, request, |_| true)
}

/// Rows of the links asked for, and of those dimensions asked for that are `known`.
fn having(clicks: DataFrame, request: &ReportRequest, known: fn(Dimension) -> bool) -> Result<DataFrame> {
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
    for (dimension, values) in request.only.iter().filter(|(dimension, _)| known(**dimension)) {
        rows = rows.filter(dimension.one_of(values))?;
    }
    for (dimension, values) in request.not.iter().filter(|(dimension, _)| known(**dimension)) {
        // of `by_class` every class is shown; this one is a choice among them, like `class`
        if dimension.name() != "class" {
            rows = rows.filter(dimension.none_of(values))?;
        }
    }
    Ok(rows)
}

/// Rows of the span. The date is the partition, the time within it is what decides.
pub(crate) fn in_span(rows: DataFrame, span: Span) -> Result<DataFrame> {
    of_dates(rows, span)?
        .filter(col("event_time").gt_eq(instant(span.start)).and(col("event_time").lt(instant(span.end))))
}

fn of_dates(rows: DataFrame, span: Span) -> Result<DataFrame> {
    let last = UtcMicros(span.end.0.saturating_sub(1));
    rows.filter(col("date").between(date(span.start.day()), date(last.day())))
}

fn date(day: i32) -> Expr {
    lit(ScalarValue::Date32(Some(day)))
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

/// The sums of an estimate, `visitors`, `known` (Σw of rows with a visitor), `heaviest`; `private` (Σw of rows of clients that
/// asked not to be known); and, with `unknown_` before their
/// names, the sums over rows without a value of `dimension`.
pub(crate) fn totals(rows: DataFrame, dimension: Option<Dimension>) -> Result<DataFrame> {
    let (mut inner, mut outer) = (sums(), added_up());
    inner.push(sum(cast(col(PRIVATE), DataType::Int32) * col("weight")).alias(PRIVATE));
    outer.push(sum(col(PRIVATE)).alias(PRIVATE));
    if let Some(dimension) = dimension {
        let nameless = cast(dimension.value()?.is_null(), DataType::Int64);
        for (name, term) in terms() {
            let name = format!("{UNKNOWN}{name}");
            inner.push(sum(term * nameless.clone()).alias(&name));
            outer.push(sum(col(&name)).alias(&name));
        }
    }
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

/// What the parts of a report are told apart by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Split<'a> {
    /// By nothing: all of it.
    Whole,
    /// By the ends of buckets.
    Buckets(&'a Arc<[i64]>),
    /// By a dimension's value; only these values.
    Groups(Dimension, &'a [String]),
}

/// Visitors of rows that were kept, each once a `date` and `bucket` or `value`: those columns and `visitor`.
pub(crate) fn kept_visitors(rows: DataFrame, split: Split<'_>, days: &[i32]) -> Result<DataFrame> {
    let days = days.iter().map(|&day| date(day)).collect();
    let rows = rows.filter(col("date").in_list(days, false).and(col("visitor").is_not_null()))?;
    let mut columns = vec![col("date"), col("visitor")];
    match split {
        Split::Whole => rows.aggregate(columns, vec![]),
        Split::Buckets(ends) => {
            columns.push(bucket_of(Arc::clone(ends)).alias("bucket"));
            rows.aggregate(columns, vec![])
        }
        Split::Groups(dimension, values) => {
            columns.push(dimension.value()?.alias("value"));
            rows.filter(dimension.one_of(values))?.aggregate(columns, vec![])
        }
    }
}

/// Those who asked not to be known.
pub(crate) const PRIVATE: &str = "private";

/// What stands before the names of sums over rows without a value to group by.
pub(crate) const UNKNOWN: &str = "unknown_";

/// What is summed over rows for an estimate, by name.
fn terms() -> [(&'static str, Expr); 5] {
    let weight = || col("weight");
    let excess = || weight() - lit(1.0);
    [
        ("rows", lit(1i64)),
        ("weight", weight()),
        ("variance", weight() * excess()),
        ("skew", weight() * excess() * excess()),
        ("doubt", lit(1.0) - lit(1.0) / weight()),
    ]
}

fn sums() -> Vec<Expr> {
    let known = cast(col("visitor").is_not_null(), DataType::Int32);
    let mut sums: Vec<Expr> = terms().into_iter().map(|(name, term)| sum(term).alias(name)).collect();
    sums.push(sum(known * col("weight")).alias("known"));
    sums.push(max(col("weight")).alias("heaviest"));
    sums.push(count_distinct(col("visitor")).alias("visitors"));
    sums
}

fn added_up() -> Vec<Expr> {
    let names = terms().into_iter().map(|(name, _)| name).chain(["known", "visitors"]);
    let mut columns: Vec<Expr> = names.map(|name| sum(col(name)).alias(name)).collect();
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
