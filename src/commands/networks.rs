//! `highwater networks update|list|remove`: published lists of networks.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Context;
use ipnet::IpNet;
use processor::classify::Classifier;
use processor::networks::{List, Meaning, check_name, prefixes};
use schemas::UtcMicros;
use serde_json::json;

use super::{WrongUsage, print};
use crate::cli::{Meaning as MeaningFlag, NetworkUpdate, Networks};
use crate::config::{Config, near};
use crate::rules::{Lists, Looked, Source, fetch};

/// The state of a list that can't be used.
const WRONG: &str = "wrong";

/// Does what the command says.
pub(crate) async fn run(command: Networks, config: &Config) -> anyhow::Result<ExitCode> {
    let lists = Lists::of(config);
    match command {
        Networks::Update(update) => {
            let list = made(&update, &lists, &Source::of(config).classifier()?).await?;
            lists.put(&list)?;
            let count = list.prefixes.len();
            match update.json {
                true => print::json(&json!({"name": list.name, "as": list.meaning, "prefixes": count}))?,
                false => print::line(&format!("{}: {count} prefixes, as {}", list.name, list.meaning.as_str()))?,
            }
        }
        Networks::List(flags) => list(&lists, flags.json, config)?,
        Networks::Remove { name } => {
            lists.remove(&name)?;
            print::line(&format!("{name}: removed"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows all lists, those that are wrong too, each with why.
fn list(lists: &Lists, json: bool, config: &Config) -> anyhow::Result<()> {
    let Looked { lists: all, wrong } = lists.look()?;
    let wrong: Vec<(String, String)> = wrong.into_iter().map(|(name, error)| (name, crate::explain(&error))).collect();
    if json {
        let wrong = wrong.iter().map(|(name, error)| json!({"name": name, "state": WRONG, "error": error}));
        return print::json(&all.iter().map(|list| shown(list, config)).chain(wrong).collect::<Vec<_>>());
    }
    for (_, error) in &wrong {
        eprintln!("highwater: {error}");
    }
    if all.is_empty() && wrong.is_empty() {
        return print::line(&format!("there are no lists in {}", lists.folder().display()));
    }
    let nothing = String::new;
    let wrong = wrong
        .into_iter()
        .map(|(name, _)| vec![name, nothing(), nothing(), nothing(), nothing(), WRONG.to_owned(), nothing()]);
    let rows: Vec<Vec<String>> = all.iter().map(|list| row(list, config)).chain(wrong).collect();
    print::line(&print::columns(&["name", "as", "agents", "prefixes", "updated", "state", "source"], &rows))
}

/// The new list. What is not said of one that is there already stays as it is.
async fn made(update: &NetworkUpdate, lists: &Lists, rules: &Classifier) -> anyhow::Result<List> {
    check_name(&update.name)?;
    // a list that is damaged is replaced, but then all of it has to be said
    let (before, is_damaged) = match lists.get(&update.name) {
        Ok(before) => (before, false),
        Err(_) => (None, true),
    };
    let meaning = match (update.meaning, &before) {
        (Some(MeaningFlag::Confirm), _) => Meaning::Confirm,
        (Some(MeaningFlag::Scanner), _) => Meaning::Scanner,
        (Some(MeaningFlag::Hosting), _) => Meaning::Hosting,
        (Some(MeaningFlag::People), _) => Meaning::People,
        (None, Some(before)) => before.meaning,
        (None, None) => {
            let why = if is_damaged { "as it is damaged, this list" } else { "a new list" };
            anyhow::bail!("{}: {why} needs --as: confirm, scanner, hosting or people", update.name)
        }
    };
    let agents = match &before {
        Some(before) if update.agents.is_empty() && meaning == before.meaning => before.agents.clone(),
        _ => update.agents.clone(),
    };
    for agent in &agents {
        let is_known = rules.agents().any(|known| known.eq_ignore_ascii_case(agent));
        let wrong = || WrongUsage(format!("--agent {agent:?}: no rule gives that name; {}", hint(agent, rules)));
        anyhow::ensure!(is_known, wrong());
    }
    let source = update.source.clone();
    let prefixes = prefixes(&fetch(&source).await?).with_context(|| source.clone())?;
    let list = List { name: update.name.clone(), meaning, agents, source, updated_at: UtcMicros::now(), prefixes };
    list.check().with_context(|| list.name.clone())?;
    for doubt in doubts(&list, before.map(|before| (before.meaning, before.prefixes.len()))) {
        eprintln!("highwater: {}: {doubt}", list.name);
    }
    Ok(list)
}

/// What to try in place of an agent's name that no rule gives.
fn hint(agent: &str, rules: &Classifier) -> String {
    near(agent, rules.agents()).map_or_else(
        || {
            "expected one as rules (processor/rules.toml, or your own) and column `agent` have it, such as Googlebot, \
             Bingbot or GPTBot; `highwater classify --ua` shows that of a request"
                .to_owned()
        },
        |near| format!("did you mean {near}?"),
    )
}

/// What is odd about a list that is right, or about what it replaces: its meaning and how many prefixes there were.
fn doubts(list: &List, before: Option<(Meaning, usize)>) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(inner) = list.prefixes.iter().find(|net| is_inner(net)) {
        doubts.push(format!("{inner} is of no public network: whoever comes from within your own is in the list"));
    }
    let Some((meaning, many)) = before else { return doubts };
    if meaning != list.meaning {
        doubts.push(format!("it was {} and is {} now", meaning.as_str(), list.meaning.as_str()));
    }
    if list.prefixes.len() * 2 < many {
        doubts.push(format!("it had {many} prefixes and has {} now: was all of it published?", list.prefixes.len()));
    }
    doubts
}

/// Whether a network is private, of this machine or of one link.
fn is_inner(net: &IpNet) -> bool {
    match net.network() {
        IpAddr::V4(address) => address.is_private() || address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => address.is_unique_local() || address.is_loopback() || address.is_unicast_link_local(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_near_are_proposed() {
        let rules = Classifier::builtin().unwrap();
        assert_eq!(hint("Googel", &rules), "did you mean Google?");
        assert_eq!(hint("googelbot", &rules), "did you mean Googlebot?");
        assert!(hint("Nonesuch", &rules).contains("processor/rules.toml"), "{}", hint("Nonesuch", &rules));
    }

    #[tokio::test]
    async fn what_a_damaged_list_meant_has_to_be_said_again() {
        let folder = tempfile::tempdir().unwrap();
        let lists = Lists::of(&Config { data_dir: folder.path().into(), ..Config::default() });
        std::fs::create_dir_all(lists.folder()).unwrap();
        std::fs::write(lists.folder().join("a.json"), "{").unwrap();
        let rules = Classifier::builtin().unwrap();
        for (name, said) in [("a", "a: as it is damaged, this list needs --as"), ("b", "b: a new list needs --as")] {
            let (source, name) = ("-".to_owned(), name.to_owned());
            let update = NetworkUpdate { source, name, meaning: None, agents: vec![], json: false };
            let error = made(&update, &lists, &rules).await.unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn an_odd_list_is_doubted() {
        let list = |meaning, prefixes: &[&str]| List {
            name: "a".into(),
            meaning,
            agents: vec![],
            source: "test".into(),
            updated_at: UtcMicros(1),
            prefixes: prefixes.iter().map(|net| net.parse().unwrap()).collect(),
        };
        let public = list(Meaning::Scanner, &["198.51.100.0/24"]);
        assert_eq!(doubts(&public, None), Vec::<String>::new());
        assert_eq!(doubts(&public, Some((Meaning::Scanner, 2))), Vec::<String>::new());
        assert!(doubts(&public, Some((Meaning::Scanner, 3)))[0].contains("it had 3 prefixes and has 1 now"));
        assert!(doubts(&public, Some((Meaning::People, 1)))[0].contains("it was people and is scanner now"));
        for inner in ["10.1.0.0/16", "127.0.0.0/8", "169.254.0.0/16", "fd00::/16", "::1/128", "fe80::/64"] {
            assert!(doubts(&list(Meaning::Hosting, &[inner]), None)[0].contains("no public network"), "{inner}");
        }
    }
}
