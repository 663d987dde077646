//! The questions asked of tables `clicks_hourly` and `sampling`: what was sampled away, when, and how thinly.

use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::prelude::DataFrame;
use schemas::UtcMicros;
use schemas::time::HOUR;

use super::{Split, having, instant, of_chosen_classes, of_dates};
use crate::reports::dims::Dimension;
use crate::reports::period::Span;
use crate::reports::request::ReportRequest;

/// Rows of `clicks_hourly` that touch the span, of the links and classes asked for. Dimensions that hours don't have are
/// let be.
pub(crate) fn hours_in_scope(hourly: DataFrame, request: &ReportRequest, span: Span) -> Result<DataFrame> {
    let rows = having(hourly, request, Dimension::is_of_hours)?;
    let begin = UtcMicros(span.start.0.saturating_sub(HOUR));
    let rows = of_dates(rows, span)?.filter(col("hour").gt(instant(begin)).and(col("hour").lt(instant(span.end))))?;
    of_chosen_classes(rows, request)
}

/// Per hour and value of `dimension`, if hours have it: `hour`, `rate` (the lowest), and `value`.
pub(crate) fn hours(hourly: DataFrame, dimension: Option<Dimension>) -> Result<DataFrame> {
    hourly.aggregate(by_hour(dimension)?, vec![min(col("lowest_rate")).alias("rate")])
}

/// The same per link: `link_id`, `hour`, `rate`, and `value`. Only of hours from `first` to `last`, both included.
pub(crate) fn links(
    hourly: DataFrame,
    dimension: Option<Dimension>,
    (first, last): (UtcMicros, UtcMicros),
) -> Result<DataFrame> {
    let of_hours = hourly.filter(col("hour").between(instant(first), instant(last)))?;
    of_hours
        .aggregate([vec![col("link_id")], by_hour(dimension)?].concat(), vec![min(col("lowest_rate")).alias("rate")])
}

/// The rates of `sampling` for these links, from `start` on and before `end`: `link_id`, `second`, `rate`.
pub(crate) fn rates(sampling: DataFrame, links: &[&str], (start, end): (UtcMicros, UtcMicros)) -> Result<DataFrame> {
    let links: Vec<Expr> = links.iter().map(|link| lit(*link)).collect();
    let of_time = col("second").gt_eq(instant(start)).and(col("second").lt(instant(end)));
    sampling.filter(of_time.and(col("link_id").in_list(links, false)))?.select_columns(&["link_id", "second", "rate"])
}

fn by_hour(dimension: Option<Dimension>) -> Result<Vec<Expr>> {
    let mut by = vec![col("hour")];
    if let Some(dimension) = dimension.filter(|dimension| dimension.is_of_hours()) {
        by.push(dimension.value()?.alias("value"));
    }
    Ok(by)
}

/// Sketches of hours: `hour`, `visitors`, and `value` of groups.
pub(crate) fn sketches(hourly: DataFrame, split: Split<'_>) -> Result<DataFrame> {
    let mut columns = vec![col("hour"), col("visitors")];
    match split {
        Split::Groups(dimension, values) => {
            columns.push(dimension.value()?.alias("value"));
            hourly.filter(dimension.one_of(values))?.select(columns)
        }
        _ => hourly.select(columns),
    }
}
