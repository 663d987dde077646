//! `highwater report`: the same report as over HTTP, in the terminal.

use std::process::ExitCode;

use ingest::ports::LinkDirectory as _;
use query::{Counts, QueryError, Report as Answer, ReportRequest, Row};

use super::{WrongUsage, open, print};
use crate::cli::Report;
use crate::config::Config;

/// Width of the longest bar.
const BAR: usize = 40;

/// Asks and prints.
pub(crate) async fn run(arguments: Report, config: &Config) -> anyhow::Result<ExitCode> {
    let request = ReportRequest::from_pairs(parameters(&arguments)).map_err(in_flags)?;
    let service = open::query_service(config).await?;
    let report = service.report(&open::operator(), &request).await.map_err(in_flags)?;
    if let Some(code) = &arguments.code
        && report.totals.by_class.is_empty()
        && !is_link(code, arguments.domain.as_deref(), config).await?
    {
        let on = arguments.domain.as_deref().map(|domain| format!(" on the domain {domain:?}")).unwrap_or_default();
        anyhow::bail!("there is no link with the code {code:?}{on}");
    }
    if arguments.json {
        print::json(&report)?;
    } else {
        print::line(&text(&report, &arguments))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An error about a parameter, in the names that the command line has for them.
fn in_flags(error: QueryError) -> anyhow::Error {
    let flags = [("group_by", "--by (or --interval hour for a series)")];
    match error {
        QueryError::Invalid(mut errors) => {
            for error in &mut errors {
                let flag = flags.iter().find(|(name, _)| *name == error.field);
                error.field = flag.map_or_else(|| format!("--{}", error.field), |(_, flag)| (*flag).to_owned());
            }
            WrongUsage(QueryError::Invalid(errors).to_string()).into()
        }
        error => error.into(),
    }
}

/// The parameters of the HTTP report that mean the same.
fn parameters(arguments: &Report) -> Vec<(&'static str, String)> {
    let one = |name, value: &Option<String>| value.clone().map(|value| (name, value));
    let mut pairs: Vec<_> = [
        one("code", &arguments.code),
        one("domain", &arguments.domain),
        one("group_by", &arguments.by),
        one("interval", &arguments.interval),
        one("start", &arguments.start),
        one("end", &arguments.end),
        one("timezone", &arguments.timezone),
    ]
    .into_iter()
    .flatten()
    .collect();
    match arguments.class.is_empty() {
        true if is_about_machines(arguments) => pairs.push(("class", "all".to_owned())),
        true => {}
        false => pairs.extend(arguments.class.iter().map(|class| ("class", class.clone()))),
    }
    pairs
}

/// Whether there is such a link, on the domain that was named or on any that is served.
async fn is_link(code: &str, domain: Option<&str>, config: &Config) -> anyhow::Result<bool> {
    let domains = domain.map_or_else(|| config.redirect.domains.clone(), |domain| vec![domain.to_owned()]);
    let asked: Vec<_> = domains.into_iter().map(|domain| (domain, code.to_owned())).collect();
    let found = open::link_store(config).await?.histories(&asked).await?;
    Ok(found.iter().any(Option::is_some))
}

/// Grouping by class or agent is about machines too.
fn is_about_machines(arguments: &Report) -> bool {
    matches!(arguments.by.as_deref(), Some("class" | "agent"))
}

/// A count, and between which numbers the true one is if that isn't certain.
fn sure(counts: &Counts) -> String {
    match counts.clicks_low < counts.clicks_high {
        true => format!("{} [{}, {}]", counts.clicks, counts.clicks_low, counts.clicks_high),
        false => counts.clicks.to_string(),
    }
}

/// What is said of clicks without a value of this dimension.
fn no_value(by: &str) -> &'static str {
    // people have none, nor has what was found out by its behaviour
    if by == "agent" { "no agent named" } else { "value not known" }
}

fn text(report: &Answer, arguments: &Report) -> String {
    let mut lines = Vec::new();
    let counts = &report.totals.counts;
    let about = if report.meta.sampled { "about " } else { "" };
    let visitors = counts.visitors.map(|visitors| format!(", visitors: {about}{visitors}")).unwrap_or_default();
    let clicks = sure(counts);
    let what = arguments.code.as_deref().map_or("all links".to_owned(), |code| format!("/{code}"));
    let machines: u64 = report.totals.by_class.iter().filter(|(class, _)| *class != "human").map(|(_, n)| n).sum();
    let who = if arguments.class.is_empty() && !is_about_machines(arguments) {
        format!("clicks by people: {clicks}{visitors}; requests by machines: {machines}")
    } else {
        format!("clicks: {clicks}{visitors}")
    };
    lines.push(format!("{what}: {who}"));
    let most = report.data.iter().map(|row| row.counts().clicks).max().unwrap_or_default();
    let rows: Vec<Vec<String>> = report
        .data
        .iter()
        .map(|row| {
            let name = match row {
                Row::Bucket { start, .. } => start.clone(),
                Row::Group { value, .. } => value.clone(),
            };
            vec![name, sure(row.counts()), print::bar(row.counts().clicks as f64, most as f64, BAR)]
        })
        .collect();
    if !rows.is_empty() {
        let head = arguments.by.as_deref().or(arguments.interval.as_deref()).unwrap_or_default();
        lines.push(String::new());
        lines.push(print::columns(&[head, "clicks", ""], &rows));
    }
    if let Some(by) = &arguments.by {
        lines.push(format!("others {}, {} {}", report.other.clicks, no_value(by), report.unknown.clicks));
    }
    let classes: Vec<String> = report.totals.by_class.iter().map(|(class, n)| format!("{class} {n}")).collect();
    if !classes.is_empty() {
        lines.push(String::new());
        lines.push(format!("redirects served by class: {}", classes.join(", ")));
    }
    let meta = &report.meta;
    let when = |instant: Option<schemas::UtcMicros>| instant.map_or("not known yet".to_owned(), |at| at.to_string());
    lines.push(format!("complete through {}, final through {}", when(meta.complete_through), when(meta.final_through)));
    if meta.sampled {
        let (kept, sure) = (meta.lowest_rate * 100.0, meta.confidence * 100.0);
        lines.push(format!(
            "sampled, at least {kept:.1} % kept: in {sure:.0} % of the cases the true number is in the brackets"
        ));
    }
    lines.push(format!("visitors: {}", meta.visitors));
    lines.extend(meta.restated_at.map(|at| {
        format!(
            "numbers that were final were changed at {at}: by a log taken in or back, or by judging anew who clicked"
        )
    }));
    // of a code it is known by now that there is such a link
    lines.extend(meta.remark.filter(|_| arguments.code.is_none()).map(str::to_owned));
    lines.extend(meta.kept_from.map(|from| format!("clicks before {from} are no longer kept")));
    for change in &meta.changing {
        lines.push(format!("under way: {} to {}, {}", change.start, change.end, change.reason));
    }
    for gap in &meta.gaps {
        lines.push(format!("gap: {} to {}, {}", gap.start, gap.end, gap.reason));
    }
    lines.join("\n")
}
