//! What became of logs, in words.

use processor::import::{Checks, State, Summary};

/// A summary for people: what came, and what became of the rest.
pub(crate) fn text(summary: &Summary) -> String {
    told(summary, if summary.dry_run { "would add" } else { "added" })
}

/// The summary of a log that was taken in once more: what it has are its rows, whether they have come now or before.
pub(super) fn text_anew(summary: &Summary) -> String {
    told(summary, "decided anew, it has brought")
}

fn told(summary: &Summary, did: &str) -> String {
    let mut lines = Vec::new();
    let format = if summary.format.is_empty() { "empty" } else { &summary.format };
    lines.push(format!("{} ({format}, id {})", summary.name, summary.id));
    let added = &summary.added;
    let came = match added.origin {
        None => format!("{} answered by the edge and {} recovered", added.edge, added.recovered),
        Some(_) => format!("{} events", added.total()),
    };
    let waiting = if added.origin.is_none() { "waiting for their event" } else { "waiting to be settled" };
    if summary.state == State::Running {
        // what the rest of its lines comes to nobody knows yet
        lines.push(format!("  so far {came} have been added, and {} are {waiting}", summary.waiting));
        lines.extend(summary.note.iter().map(|note| format!("  note: {note}")));
        return lines.join("\n");
    }
    lines.push(format!(
        "  {} records: {did} {came}, {} already counted, {} {waiting}",
        summary.records, summary.already_counted, summary.waiting
    ));
    if summary.noted.unlinked > 0 {
        lines.push(format!(
            "  {} of them are of codes that no link has: clicks of workspace `default`, unless `--unknown-codes ignore` leaves \
             them out",
            summary.noted.unlinked
        ));
    }
    if summary.waiting > 0 && !summary.dry_run {
        lines.push("  (what waits is settled by `up` or `process`, or by `highwater compact`, when its event can't come any more)".to_owned());
    }
    let counts = serde_json::to_value(summary.ignored).unwrap_or_default();
    let ignored =
        nonzero(counts.as_object().into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_u64()?))));
    if !ignored.is_empty() {
        lines.push(format!("  ignored: {ignored}"));
    }
    let rejected = nonzero(summary.rejected.iter().map(|(reason, n)| (reason.as_str(), *n)));
    if !rejected.is_empty() {
        let kept = if summary.dry_run { "" } else { " (kept in table `rejects`)" };
        lines.push(format!("  rejected{kept}: {rejected}"));
    }
    lines.extend(summary.mismatched.iter().map(|one| {
        let hour = one.hour.to_string();
        format!(
            "  mismatched: in the hour {hour} the request ids of {} lines meet no event; decide what they are with\n    \
             highwater edge-logs settle --provider {} --hour {} --as recovered|counted",
            one.waiting, one.provider, &hour[..13.min(hour.len())]
        )
    }));
    if let (Some(first), Some(last)) = (summary.first, summary.last) {
        // of a moment's work a rate says nothing
        let rate = (summary.seconds >= 1.0).then(|| format!(", {:.0} lines/s", summary.lines as f64 / summary.seconds));
        lines.push(format!("  from {first} to {last}; {:.1} s{}", summary.seconds, rate.unwrap_or_default()));
    }
    lines.extend(summary.checks.as_ref().map(odd));
    for (title, planned) in [("day", &summary.days), ("link", &summary.links)] {
        for plan in planned.iter().flatten() {
            lines.push(format!("  {title} {}: {} would be added, {} would wait", plan.of, plan.added, plan.waiting));
        }
    }
    lines.extend(summary.note.iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}

/// What is odd about the lines, in words.
fn odd(checks: &Checks) -> String {
    let said = [
        (checks.lost, "reached the origin and have no event there (lost, and recovered from this log)"),
        (checks.surprise, "were answered by the edge, yet the origin has their event (surprise)"),
        (checks.reused_id, "have the id of another network's or agent's request (reused_id)"),
    ];
    let said = said.iter().filter(|(lines, _)| *lines > 0).map(|(lines, what)| format!("{lines} {what}"));
    format!("  check: {}", said.collect::<Vec<_>>().join("; "))
}

fn nonzero<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    counts.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

pub(super) fn total(summaries: &[Summary]) -> String {
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(of).sum::<u64>();
    let did = if summaries.iter().any(|summary| summary.dry_run) { "would be added" } else { "added" };
    // of a dry run none is
    let refused = match summaries.iter().filter(|summary| summary.state == State::Failed).count() {
        0 => String::new(),
        refused if summaries.iter().any(|summary| summary.dry_run) => format!(" {refused} can't be taken in:"),
        refused => format!(" {refused} not taken in:"),
    };
    format!(
        "{} files,{refused} {} records: {} {did}, {} already counted, {} waiting, {} ignored, {} rejected",
        summaries.len(),
        sum(|s| s.records),
        sum(|s| s.added.total()),
        sum(|s| s.already_counted),
        sum(|s| s.waiting),
        sum(|s| s.ignored.total()),
        sum(Summary::rejected_total)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_not_taken_in_are_counted() {
        let summary = |state, records| {
            let mut summary = Summary::new(String::new(), "a.log".into(), String::new(), false);
            (summary.state, summary.records) = (state, records);
            summary
        };
        let mut all = vec![summary(State::Done, 3), summary(State::Failed, 0), summary(State::Failed, 0)];
        assert!(total(&all).starts_with("3 files, 2 not taken in: 3 records: 0 added"), "{}", total(&all));
        all[1].dry_run = true;
        assert!(total(&all).starts_with("3 files, 2 can't be taken in: 3 records: "), "{}", total(&all));
        all.truncate(1);
        assert!(total(&all).starts_with("1 files, 3 records: "), "{}", total(&all));
    }
}
