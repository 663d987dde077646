//! `highwater workspace …`.

use std::process::ExitCode;

use schemas::UtcMicros;

use super::{open, print};
use crate::cli::Workspace;
use crate::config::Config;

/// Makes or lists workspaces.
pub(crate) async fn run(command: Workspace, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    match command {
        Workspace::Add { name } => {
            store.add_workspace(&name, UtcMicros::now()).await?;
            print::line(&format!("workspace {name} made"))?;
        }
        Workspace::List(flags) => {
            let names = store.workspaces().await?;
            if flags.json {
                print::json(&names)?;
            } else {
                for name in names {
                    print::line(&name)?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
