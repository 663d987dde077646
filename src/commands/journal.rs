//! `highwater journal list|retire`.

use std::process::ExitCode;

use ingest::ports::Registry as _;
use schemas::UtcMicros;

use super::{open, print};
use crate::cli::Journal;
use crate::config::Config;

/// Lists journals, or gives one up.
pub(crate) async fn run(command: Journal, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let lake = open::lake(config)?;
    match command {
        Journal::List(flags) => {
            let registered = store.journals().await?;
            let journals = open::sources(config, &store, &lake).journals(&registered, UtcMicros::now());
            if flags.json {
                print::json(&journals)?;
            } else {
                let rows: Vec<Vec<String>> = journals
                    .iter()
                    .map(|journal| {
                        vec![
                            journal.id.clone(),
                            journal.node.clone(),
                            journal.state.clone(),
                            journal.through.to_string(),
                            journal.bytes.to_string(),
                        ]
                    })
                    .collect();
                print::line(&print::columns(&["journal", "node", "state", "through", "bytes"], &rows))?;
            }
        }
        Journal::Retire { id } => {
            processor::hot::retire(&lake, &store, id).await?;
            print::line(&format!("journal {id} is retired: what it still holds is late when it returns"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
