//! What the lake says of a link, beside the truth.

use anyhow::{Context, Result, ensure};
use tests::node::Node;

use super::load::TURN;
use crate::table::Table;

/// An estimate may be so many standard deviations off before it is wrong.
const OFF: f64 = 5.0;

/// Compares what the lake says of a link with how many clicks were answered.
pub(super) fn judge(node: &Node, code: &str, truth: u64, table: &mut Table) -> Result<()> {
    let sql = format!(
        "SELECT count(*) AS n, sum(weight) AS w, sum(weight * (weight - 1)) AS v FROM clicks WHERE code = '{code}'"
    );
    let rows = node.json(&["sql", &sql, "--format", "json"])?;
    let number = |name: &str| rows[0][name].as_f64().unwrap_or_default();
    let (kept, weight, deviation) = (number("n"), number("w"), number("v").sqrt());
    let report = node.json(&["report", code, "--class", "all", "--json"])?;
    let bound = |name: &str| report["totals"][name].as_f64().context("no report");
    let (low, high) = (bound("clicks_low")?, bound("clicks_high")?);
    let truth = truth as f64;
    let is_exact = TURN.iter().all(|(of, analytics, _)| *of != code || *analytics == "billed");
    if is_exact {
        ensure!(
            (kept, weight, low, high) == (truth, truth, truth, truth),
            "{code}: {truth} answered, {rows}, {report:#}"
        );
        table.row(&format!("  {code}: {truth} answered"), "each a row that weighs one", "", "", "exact");
        return Ok(());
    }
    ensure!((weight - truth).abs() <= OFF * deviation.max(1.0), "{code}: {truth} answered, {rows}");
    let ours = format!("{weight:.0} by {kept} rows, within {low}..{high}");
    let bar = if (low..=high).contains(&truth) { "in its interval (95 %)" } else { "95 %: this is of the other 5" };
    table.row(&format!("  {code}: {truth} answered"), &ours, "", "", bar);
    Ok(())
}
