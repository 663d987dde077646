//! `highwater networks update|list|remove`: published lists of networks.

use std::process::ExitCode;

use anyhow::Context;
use processor::classify::Classifier;
use processor::networks::{List, Meaning, prefixes};
use schemas::UtcMicros;
use serde_json::json;

use super::print;
use crate::cli::{Meaning as MeaningFlag, NetworkUpdate, Networks};
use crate::config::{Config, nearest};
use crate::rules::{Lists, Source, fetch};

/// Does what the command says.
pub(crate) async fn run(command: Networks, config: &Config) -> anyhow::Result<ExitCode> {
    let lists = Lists::of(config);
    match command {
        Networks::Update(update) => {
            let list = made(&update, &lists, &Source::of(config).load()?.classifier).await?;
            lists.put(&list)?;
            let count = list.prefixes.len();
            match update.json {
                true => print::json(&json!({"name": list.name, "as": list.meaning, "prefixes": count}))?,
                false => print::line(&format!("{}: {count} prefixes, as {}", list.name, list.meaning.as_str()))?,
            }
        }
        Networks::List(flags) if flags.json => {
            print::json(&lists.read()?.iter().map(|list| shown(list, config)).collect::<Vec<_>>())?
        }
        Networks::List(_) => {
            let all = lists.read()?;
            if all.is_empty() {
                print::line(&format!("there are no lists in {}", lists.folder().display()))?;
            } else {
                let rows: Vec<Vec<String>> = all.iter().map(|list| row(list, config)).collect();
                print::line(&print::columns(
                    &["name", "as", "agents", "prefixes", "updated", "state", "source"],
                    &rows,
                ))?;
            }
        }
        Networks::Remove { name } => {
            lists.remove(&name)?;
            print::line(&format!("{name}: removed"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The new list. What is not said of one that is there already stays as it is.
async fn made(update: &NetworkUpdate, lists: &Lists, rules: &Classifier) -> anyhow::Result<List> {
    // a list that is damaged is replaced, but then all of it has to be said
    let before = lists.get(&update.name).ok().flatten();
    let meaning = match (update.meaning, &before) {
        (Some(MeaningFlag::Confirm), _) => Meaning::Confirm,
        (Some(MeaningFlag::Scanner), _) => Meaning::Scanner,
        (Some(MeaningFlag::Hosting), _) => Meaning::Hosting,
        (Some(MeaningFlag::People), _) => Meaning::People,
        (None, Some(before)) => before.meaning,
        (None, None) => anyhow::bail!("{}: a new list needs --as: confirm, scanner, hosting or people", update.name),
    };
    let agents = match before {
        Some(before) if update.agents.is_empty() && meaning == before.meaning => before.agents,
        _ => update.agents.clone(),
    };
    for agent in &agents {
        anyhow::ensure!(
            rules.agents().any(|known| known.eq_ignore_ascii_case(agent)),
            "--agent {agent:?}: no rule gives that name; did you mean {}?",
            nearest(agent, rules.agents())
        );
    }
    let source = update.source.clone();
    let prefixes = prefixes(&fetch(&source).await?).with_context(|| source.clone())?;
    let list = List { name: update.name.clone(), meaning, agents, source, updated_at: UtcMicros::now(), prefixes };
    list.check().with_context(|| list.name.clone())?;
    Ok(list)
}

fn state(list: &List, config: &Config) -> &'static str {
    if list.is_expired(UtcMicros::now(), config.classify.networks_expire.0) { "expired" } else { "in force" }
}

fn row(list: &List, config: &Config) -> Vec<String> {
    vec![
        list.name.clone(),
        list.meaning.as_str().to_owned(),
        list.agents.join(", "),
        list.prefixes.len().to_string(),
        list.updated_at.to_datetime().format("%Y-%m-%d").to_string(),
        state(list, config).to_owned(),
        list.source.clone(),
    ]
}

fn shown(list: &List, config: &Config) -> serde_json::Value {
    json!({
        "name": list.name, "as": list.meaning, "agents": list.agents, "prefixes": list.prefixes.len(),
        "updated_at": list.updated_at, "expires_at": list.expires_at(config.classify.networks_expire.0),
        "state": state(list, config), "source": list.source,
    })
}
