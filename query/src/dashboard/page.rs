//! The pages' text.

use std::fmt::Write as _;

use schemas::time::{DAY, HOUR};
use schemas::{Class, Principal, UtcMicros};

use super::chart;
use super::html::{escape, number, range};
use crate::error::QueryError;
use crate::reports::{Bound, Classes, Counts, Dimension, Interval, Meta, Period, Preset, Report, ReportRequest, Row};

/// A span that the page offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    name: &'static str,
    shown: &'static str,
    preset: Option<Preset>,
    interval: Interval,
}

const RANGES: [Range; 4] = [
    Range { name: "1h", shown: "1 hour", preset: None, interval: Interval::Minute },
    Range { name: "24h", shown: "24 hours", preset: Some(Preset::Day), interval: Interval::Hour },
    Range { name: "7d", shown: "7 days", preset: Some(Preset::Days(7)), interval: Interval::Hour },
    Range { name: "30d", shown: "30 days", preset: Some(Preset::Days(30)), interval: Interval::Day },
];

impl Range {
    /// The range of that name; the first when there is none.
    pub(super) fn named(name: &str) -> Self {
        RANGES.into_iter().find(|range| range.name == name).unwrap_or(RANGES[0])
    }

    fn request(self, now: UtcMicros) -> ReportRequest {
        let start = Some(Bound::Instant(UtcMicros(now.0 - HOUR)));
        let period = match self.preset {
            Some(preset) => Period { preset: Some(preset), ..Period::default() },
            // clocks of other nodes may be a little ahead
            None => Period { start, end: Some(Bound::Instant(UtcMicros(now.0 + DAY / 8_640))), preset: None },
        };
        ReportRequest { period, ..ReportRequest::default() }
    }

    /// People over time.
    pub(super) fn series(self, now: UtcMicros) -> ReportRequest {
        ReportRequest { interval: Some(self.interval), ..self.request(now) }
    }

    /// The links with most requests of any class.
    pub(super) fn links(self, now: UtcMicros) -> ReportRequest {
        ReportRequest { group_by: Dimension::named("code"), ..self.request(now) }
    }

    /// The machines with most requests, by name.
    pub(super) fn machines(self, now: UtcMicros) -> ReportRequest {
        let machines = Class::ALL.iter().filter(|class| !matches!(class, Class::Human | Class::Unknown));
        let class = Classes::Some(machines.copied().collect());
        ReportRequest { group_by: Dimension::named("agent"), class, ..self.request(now) }
    }
}

/// What the page shows.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) series: Report,
    pub(super) links: Report,
    pub(super) machines: Report,
    pub(super) range: Range,
}

fn page(title: &str, refreshed: bool, body: &str) -> String {
    let fresh = if refreshed {
        r#"<script src="/assets/refresh.js" defer></script><noscript><meta http-equiv="refresh" content="5"></noscript>"#
    } else {
        ""
    };
    format!(
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/assets/style.css">{fresh}</head><body>{body}</body></html>"#
    )
}

/// The page where a token is given.
pub(super) fn login(message: Option<&str>) -> String {
    let message = message.map(|message| format!(r#"<p class="warn">{}</p>"#, escape(message))).unwrap_or_default();
    let body = format!(
        r#"<main class="narrow"><h1>Highwater</h1>{message}<form method="post" action="/login"><label>Token <input type="password" name="token" autocomplete="current-password" required autofocus></label><button>Log in</button></form><p>A token is made with <code>highwater token add</code>; the first is in the file <code>admin.token</code> of the data folder.</p></main>"#
    );
    page("Highwater: log in", false, &body)
}

/// The page between login and home.
pub(super) fn welcome() -> String {
    r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Highwater</title><meta http-equiv="refresh" content="0; url=/"></head><body><p><a href="/">Go on</a></p></body></html>"#.to_owned()
}

/// The page when there is none. Says only what the reader can do something about.
pub(super) fn failed(error: &QueryError) -> String {
    let why = match error {
        QueryError::Unavailable { .. } => "the link store doesn't answer; try again".to_owned(),
        QueryError::Busy { .. } | QueryError::Deadline(_) | QueryError::Resources(_) => escape(&error.to_string()),
        _ => "the operator's log says why".to_owned(),
    };
    page(
        "Highwater",
        true,
        &format!(r#"<main class="narrow"><h1>Highwater</h1><p class="warn">No numbers just now: {why}.</p></main>"#),
    )
}

/// The first page.
pub(super) fn home(principal: &Principal, shown: &Shown) -> String {
    let totals = &shown.series.totals;
    let served: u64 = totals.by_class.values().sum();
    let whose = principal.workspace.as_deref().unwrap_or("all workspaces");
    let visitors = totals.counts.visitors.map_or_else(|| "–".to_owned(), number);
    let (clicks_are, visitors_are) = (sureness(&totals.counts, &shown.series.meta), visitors_are(shown));
    let mut body = format!(
        r#"<header><h1>Highwater</h1><span>{}</span><nav>{}</nav><form method="post" action="/logout"><button>Log out</button></form></header><main><section class="tiles">{}{}{}</section>"#,
        escape(whose),
        ranges(shown.range),
        tile(&format!("clicks by people{clicks_are}"), &number(totals.counts.clicks)),
        tile(visitors_are, &visitors),
        tile("redirects served", &number(served)),
    );
    let _ = write!(
        body,
        r#"<section><h2>Clicks by {}</h2>{}</section><section class="columns"><div><h2>Who asked</h2>{}</div><div><h2>Top links, by people's clicks</h2>{}</div><div><h2>Which machines</h2>{}</div></section>{}</main>"#,
        shown.range.interval,
        chart::bars(&shown.series.data),
        classes(&shown.series, served),
        top(&shown.links),
        top(&shown.machines),
        freshness(&shown.series.meta),
    );
    page("Highwater", true, &body)
}

/// Between which numbers the true one is, if that isn't certain.
fn sureness(counts: &Counts, meta: &Meta) -> String {
    let range = range(counts.clicks_low, counts.clicks_high);
    range.map(|range| format!(", {range} at {:.0} %", meta.confidence * 100.0)).unwrap_or_default()
}

fn visitors_are(shown: &Shown) -> &'static str {
    match (shown.series.totals.counts.visitors, shown.series.meta.sampled) {
        (Some(_), true) => "visitors, estimated",
        (None, true) => "visitors, not known",
        _ => "visitors",
    }
}

fn tile(name: &str, value: &str) -> String {
    format!(r#"<div class="tile"><b>{value}</b><span>{name}</span></div>"#)
}

fn ranges(current: Range) -> String {
    let link = |range: Range| {
        let here = if range == current { r#" aria-current="page""# } else { "" };
        format!(r#"<a href="/?range={}"{here}>{}</a>"#, range.name, range.shown)
    };
    RANGES.into_iter().map(link).collect()
}

fn classes(report: &Report, served: u64) -> String {
    let mut classes: Vec<(&String, &u64)> = report.totals.by_class.iter().collect();
    classes.sort_by_key(|(_, clicks)| std::cmp::Reverse(**clicks));
    table(classes.into_iter().map(|(class, clicks)| (class.as_str(), *clicks)), served)
}

/// The groups with most clicks, and what is in none of them.
fn top(report: &Report) -> String {
    let rows = report.data.iter().filter_map(|row| match row {
        Row::Group { value, counts } => Some((value.as_str(), counts.clicks)),
        Row::Bucket { .. } => None,
    });
    let others = [("all others", report.other.clicks), ("without a name", report.unknown.clicks)];
    table(rows.chain(others.into_iter().filter(|(_, clicks)| *clicks > 0)), report.totals.counts.clicks)
}

fn table<'a>(rows: impl Iterator<Item = (&'a str, u64)>, whole: u64) -> String {
    let row = |(name, clicks): (&str, u64)| {
        let share = chart::share(clicks, whole);
        format!("<tr><th>{}</th><td>{}</td><td>{share}</td></tr>", escape(name), number(clicks))
    };
    let rows: String = rows.map(row).collect();
    if rows.is_empty() { "<p>Nothing yet.</p>".to_owned() } else { format!("<table>{rows}</table>") }
}

fn freshness(meta: &Meta) -> String {
    let text = |instant: UtcMicros| instant.to_datetime().format("%F %T UTC").to_string();
    let instant = |instant: Option<UtcMicros>| instant.map_or_else(|| "not known".to_owned(), text);
    let exact = if meta.sampled {
        format!(
            "Estimated from a sample (at least {:.1} % kept); visitors: {}.",
            meta.lowest_rate * 100.0,
            escape(&meta.visitors)
        )
    } else {
        "Exact, nothing sampled.".to_owned()
    };
    let gaps = match meta.gaps.len() {
        0 => String::new(),
        gaps => format!(r#" <b class="warn">Clicks are known to be missing in {gaps} times of this span.</b>"#),
    };
    let restated = match meta.restated_at {
        Some(at) => format!(
            " Numbers that were final were changed at {}: by a log taken in or back, or by judging anew who clicked.",
            text(at)
        ),
        None => String::new(),
    };
    let kept = meta.kept_from.map(|from| {
        let day = from.to_datetime().format("%F");
        format!(r#" <b class="warn">Clicks before {day} are no longer kept.</b>"#)
    });
    let kept = kept.unwrap_or_default();
    let changing = match meta.changing.len() {
        0 => "",
        _ => {
            r#" <b class="warn">A change of these numbers is under way: some clicks may be missing, or count that shan't.</b>"#
        }
    };
    format!(
        r#"<footer>As of {}. Complete through {}. Final through {}.{restated} {exact}{gaps}{kept}{changing} A click is a redirect served, not an arrival at the destination.</footer>"#,
        text(meta.as_of),
        instant(meta.complete_through),
        instant(meta.final_through),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_ranges_are_the_first() {
        assert_eq!(Range::named("<script>").name, "1h");
        assert_eq!(Range::named("7d").interval, Interval::Hour);
    }

    #[test]
    fn names_are_escaped() {
        let text = table([("<img src=x>", 1)].into_iter(), 1);
        assert!(text.contains("&lt;img src=x&gt;") && !text.contains("<img"));
        assert!(login(Some("<b>")).contains("&lt;b&gt;"));
    }

    #[test]
    fn a_failure_tells_nothing_of_the_inside() {
        let text = failed(&QueryError::lake("reading", "/secret/path"));
        assert!(!text.contains("/secret/path"), "{text}");
    }
}
