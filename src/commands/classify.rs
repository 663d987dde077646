//! `highwater classify`: class, agent and reason of one request, or of a labelled set.

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use anyhow::Context;
use processor::classify::{Evaluation, Mark, Request, evaluate};
use processor::enrich::{Rules, mark};
use schemas::event::PURPOSE_HEADERS;
use serde_json::json;

use super::{WrongUsage, print};
use crate::cli::Classify;
use crate::config::Config;
use crate::rules::Source;

/// Judges and prints.
pub(crate) fn run(arguments: &Classify, config: &Config) -> anyhow::Result<ExitCode> {
    let Rules { classifier, networks } = Source::of(config).load()?;
    if let Some(path) = &arguments.tsv {
        let file = File::open(path).with_context(|| format!("can't open {}", path.display()))?;
        let evaluation = evaluate(&classifier, BufReader::new(file)).with_context(|| path.display().to_string())?;
        let labels: Vec<&str> = evaluation.by_category.keys().map(String::as_str).collect();
        if evaluation.human.total == 0
            && let Some(label) = misnamed(&labels)
        {
            eprintln!(
                "highwater: no category begins with \"human\", so that all lines count as machines; is {label:?} people's?"
            );
        }
        return labelled(&evaluation, arguments);
    }
    let mut user_agent = arguments.ua.clone();
    let mut purpose = String::new();
    for header in &arguments.header {
        let (name, value) =
            header.split_once(':').ok_or_else(|| WrongUsage(format!("--header: {header:?} is not 'Name: value'")))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name == "user-agent" {
            user_agent = value.to_owned();
        } else if PURPOSE_HEADERS.iter().any(|(known, _)| *known == name) {
            purpose.push_str(&format!("{name}: {value}\n"));
        }
    }
    let request = Request { method: Some(arguments.method), user_agent: &user_agent, purpose: purpose.trim_end() };
    let verdict = classifier.judge(&request);
    let address = arguments.address;
    let mark = address.and_then(|address| mark(&networks, address, &user_agent, verdict.agent.as_deref()));
    let verdict = mark.map(|mark| classifier.with_mark(&verdict, mark)).unwrap_or(verdict);
    let hosting = address.and_then(|address| networks.hosting(address));
    let network = match mark {
        Some(Mark::Scanner(list)) => Some(("scanner", list)),
        Some(Mark::Confirmed(list)) => Some(("confirmed", list)),
        None => hosting.map(|list| ("hosting", list)),
    };
    if arguments.json {
        print::json(&json!({
            "class": verdict.class, "agent": verdict.agent, "reason": verdict.reason,
            "network": network.map(|(is, list)| json!({"is": is, "list": list})),
            "rules_version": verdict.rules_version,
        }))?;
    } else {
        let agent = verdict.agent.as_deref().map(|agent| format!(" ({agent})")).unwrap_or_default();
        let network = network.map(|(is, list)| format!("; network: {is}, by list {list}")).unwrap_or_default();
        let (class, reason, version) = (verdict.class, &verdict.reason, verdict.rules_version);
        print::line(&format!("{class}{agent}, by {reason} of rules {version}{network}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A label that may mean people.
fn misnamed<'a>(labels: &[&'a str]) -> Option<&'a str> {
    const OF_PEOPLE: [&str; 6] = ["human", "person", "people", "user", "inapp", "in-app"];
    labels.iter().copied().find(|label| OF_PEOPLE.iter().any(|word| label.to_lowercase().contains(word)))
}

fn labelled(evaluation: &Evaluation, arguments: &Classify) -> anyhow::Result<ExitCode> {
    if arguments.json {
        print::json(evaluation)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = evaluation
        .by_category
        .iter()
        .map(|(category, count)| {
            let classes: Vec<String> = count.classes.iter().map(|(class, n)| format!("{class} {n}")).collect();
            vec![
                category.clone(),
                count.total.to_string(),
                count.found.to_string(),
                count.missed.to_string(),
                classes.join(", "),
            ]
        })
        .collect();
    print::line(&print::columns(&["category", "total", "as machines", "as people", "classes"], &rows))?;
    let share = |part: u64, total: u64| if total == 0 { 0.0 } else { 100.0 * part as f64 / total as f64 };
    let (human, inapp, machines) = (&evaluation.human, &evaluation.inapp, &evaluation.nonhuman);
    print::line(&format!(
        "people wrongly flagged: {} of {} ({:.3} %), in-app browsers {} of {} ({:.3} %)",
        human.flagged,
        human.total,
        share(human.flagged, human.total),
        inapp.flagged,
        inapp.total,
        share(inapp.flagged, inapp.total)
    ))?;
    print::line(&format!(
        "machines found: {} of {} ({:.2} %)",
        machines.found,
        machines.total,
        share(machines.found, machines.total)
    ))?;
    if arguments.verbose {
        for wrong in &evaluation.wrong {
            print::line(&format!(
                "line {}: {} judged {} by {}: {}",
                wrong.line, wrong.category, wrong.class, wrong.reason, wrong.user_agent
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::misnamed;

    #[test]
    fn a_label_that_may_mean_people_is_found() {
        assert_eq!(misnamed(&["crawler", "Human"]), Some("Human"));
        assert_eq!(misnamed(&["library", "in-app", "person"]), Some("in-app"));
        assert_eq!(misnamed(&["crawler", "library", "ai"]), None);
    }
}
