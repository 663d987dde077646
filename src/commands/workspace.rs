//! `highwater workspace …`.

use std::process::ExitCode;

use schemas::{Keep, UtcMicros};
use serde_json::json;

use super::{WrongUsage, open, print};
use crate::cli::Workspace;
use crate::config::Config;

/// Makes or lists workspaces, or says how long one keeps its rows.
pub(crate) async fn run(command: Workspace, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    match command {
        Workspace::Add { name } => {
            store.add_workspace(&name, UtcMicros::now()).await.map_err(WrongUsage::of)?;
            print::line(&format!("workspace {name} made"))?;
        }
        Workspace::List(flags) => {
            let workspaces = store.workspaces_kept().await?;
            if flags.json {
                let one = |(name, keep): &(String, Keep)| json!({"name": name, "keep": keep.to_string()});
                print::json(&workspaces.iter().map(one).collect::<Vec<_>>())?;
            } else {
                let rows = workspaces.into_iter().map(|(name, keep)| vec![name, shown(keep, config)]);
                print::line(&print::columns(&["workspace", "keeps"], &rows.collect::<Vec<_>>()))?;
            }
        }
        Workspace::Set { name, keep } => {
            store.set_keep(&name, keep).await?;
            print::line(&format!("workspace {name} keeps its rows: {}", shown(keep, config)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How long rows are kept; what the default comes to, too.
fn shown(keep: Keep, config: &Config) -> String {
    match keep {
        Keep::Default => {
            let default = config.retention.keep.0.map_or(Keep::Forever, Keep::Days);
            format!("{default} (default)")
        }
        other => other.to_string(),
    }
}
