//! How many pairs of rows a plan makes.
//!
//! A join that has nothing to look rows up by pairs every row of one side with every row of the other. The sides of
//! several such joins multiply: four tables of a few thousand rows are 10^15 pairs, and what a join holds of its left
//! side is in nobody's account when no column of it is wanted. Such a plan is refused before it runs. What is estimated may be
//! more than what comes, never less.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;

/// Most pairs: some ten seconds of a core.
const MOST_PAIRS: u64 = 1_000_000_000;

/// Refuses a plan that makes too many pairs; `table_rows`: of the longest table in it.
///
/// # Errors
/// In words for the statement's author.
pub(super) fn check(plan: &Arc<dyn ExecutionPlan>, table_rows: u64) -> Result<(), String> {
    rows(plan, table_rows).map(drop)
}

/// The most rows that come out of `plan`.
fn rows(plan: &Arc<dyn ExecutionPlan>, table_rows: u64) -> Result<u64, String> {
    let mut inputs = Vec::new();
    for child in plan.children() {
        inputs.push(rows(child, table_rows)?);
    }
    let all = inputs.iter().fold(0_u64, |sum, rows| sum.saturating_add(*rows));
    let most = if plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>() {
        let pairs = inputs.iter().fold(1_u64, |product, rows| product.saturating_mul(*rows));
        if pairs > MOST_PAIRS {
            return Err(format!(
                "this pairs every row of one side of a join with every row of the other, up to {pairs} pairs of at most \
                 {MOST_PAIRS}: join on columns that are equal, or give a side a LIMIT"
            ));
        }
        pairs.max(all)
    } else if plan.is::<PlaceholderRowExec>() || is_total(plan) {
        1
    } else if inputs.is_empty() {
        table_rows
    } else {
        all
    };
    Ok(plan.fetch().map_or(most, |fetch| most.min(fetch as u64)))
}

/// An aggregate over all rows, of which one comes out for each partition at most.
fn is_total(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| aggregate.group_expr().is_true_no_grouping())
}
