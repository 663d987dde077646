//! A series as bars, in SVG.

use std::fmt::Write as _;

use super::html::{escape, number, range};
use crate::reports::Row;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;

/// One bar a bucket, the highest as high as the chart.
pub(super) fn bars(rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.counts().clicks).max().unwrap_or(0);
    let mut svg = format!(
        r#"<svg class="series" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="clicks over time, at most {} a bucket">"#,
        number(most)
    );
    let step = WIDTH / rows.len().max(1) as f64;
    for (at, row) in rows.iter().enumerate() {
        let Row::Bucket { start, counts, .. } = row else { continue };
        // a bucket with clicks is never invisible
        let height = if counts.clicks == 0 { 0.0 } else { (HEIGHT * counts.clicks as f64 / most as f64).max(1.5) };
        // writing into a String can't fail
        let _ = write!(
            svg,
            r#"<rect x="{:.2}" y="{:.2}" width="{:.2}" height="{height:.2}"><title>{}: {}{}</title></rect>"#,
            at as f64 * step,
            HEIGHT - height,
            (step * 0.85).max(0.5),
            escape(start),
            number(counts.clicks),
            range(counts.clicks_low, counts.clicks_high).map(|range| format!(" ({range})")).unwrap_or_default(),
        );
    }
    svg.push_str("</svg>");
    svg
}

/// One bar, as long as `part` is of `whole`.
pub(super) fn share(part: u64, whole: u64) -> String {
    let width = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    format!(
        r#"<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width="{width:.2}" height="8"/></svg>"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::Counts;

    #[test]
    fn the_highest_bar_fills_the_chart_and_empty_ones_are_flat() {
        let bucket = |clicks| Row::Bucket {
            start: "<1>".into(),
            end: "2".into(),
            counts: Counts { clicks, clicks_low: clicks, clicks_high: clicks.max(1), ..Counts::default() },
        };
        let svg = bars(&[bucket(0), bucket(1), bucket(1_000)]);
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(
            svg.contains(r#"height="160.00""#) && svg.contains(r#"height="0.00""#) && svg.contains(r#"height="1.50""#)
        );
        assert!(svg.contains("&lt;1&gt;: 0 (0\u{2009}–\u{2009}1)<") && svg.contains(": 1<"), "{svg}");
        assert!(svg.contains("&lt;1&gt;: 0") && !svg.contains("NaN"));
        assert!(!bars(&[]).contains("NaN"));
        assert!(share(1, 0).contains(r#"width="0.00""#));
    }
}
