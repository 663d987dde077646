//! `highwater config check|show`.

use std::process::ExitCode;

use serde_json::json;

use super::print;
use crate::cli::ConfigCommand;
use crate::config::Loaded;
use crate::rules::Source;
use crate::run::geo;

/// A configuration that could be loaded is right; showing it names where each value came from.
pub(crate) fn run(command: &ConfigCommand, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check => {
            let rules = Source::of(&loaded.config).load().map(drop).err();
            let wrong: Vec<String> =
                [rules, geo::open(&loaded.config).map(drop).err()].iter().flatten().map(crate::explain).collect();
            anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
            match loaded.file() {
                Some(file) => print::line(&format!("{}: the configuration is valid", file.display()))?,
                None => print::line("the configuration is valid: defaults and environment, no file")?,
            }
        }
        ConfigCommand::Show(flags) if flags.json => {
            let values: serde_json::Map<_, _> = loaded
                .origins()
                .into_iter()
                .map(|(key, value, origin)| (key, json!({"value": value, "from": origin})))
                .collect();
            print::json(&values)?;
        }
        ConfigCommand::Show(_) => {
            let rows: Vec<Vec<String>> =
                loaded.origins().into_iter().map(|(key, value, origin)| vec![key, value.to_string(), origin]).collect();
            print::line(&print::columns(&["key", "value", "from"], &rows))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
