//! `highwater journal list|retire`.

use std::process::ExitCode;

use ingest::ports::Registry as _;
use schemas::{JournalId, UtcMicros};

use super::{open, print};
use crate::cli::Journal;
use crate::config::{Backend, Config};
use crate::run::{GivenUp, How, give_up, lost_journals};

/// Lists journals, or gives one up.
pub(crate) async fn run(command: Journal, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let lake = open::lake(config)?;
    match command {
        Journal::List(flags) => {
            let registered = store.journals().await?;
            let sources = open::sources(config, &store, &lake);
            let here = sources.look(&registered).await;
            let journals = sources.journals(&registered, &here, UtcMicros::now());
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
                            // another machine's can't be looked into from here
                            journal.unsent.map_or_else(|| "?".to_owned(), |unsent| unsent.to_string()),
                        ]
                    })
                    .collect();
                print::line(&print::columns(
                    &["journal", "node", "state", "through", "bytes", "not in the lake"],
                    &rows,
                ))?;
            }
        }
        Journal::Retire { id, lost, force } => {
            let topic = (config.stream.backend == Backend::Fluvio).then_some(config.stream.fluvio.topic.as_str());
            let how = How { topic, by_force: force };
            let directory = config.journal_dir();
            let all = if lost { lost_journals(&lake, &store, &directory).await? } else { id.into_iter().collect() };
            for id in &all {
                print::line(&told(*id, &give_up(&lake, &store, &directory, *id, how).await?))?;
            }
            if all.is_empty() {
                print::line("the lake has lost nothing that the registry knows of")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What became of a journal, for people.
fn told(id: JournalId, given_up: &GivenUp) -> String {
    match given_up {
        GivenUp::Closed => format!("journal {id} is closed: the lake holds all of it"),
        GivenUp::Whole => format!("journal {id} is retired: what it still holds is late when it returns"),
        GivenUp::Lost(gap) => format!(
            "journal {id} is retired ({}): clicks from {} to {} may be missing, and every answer that this touches says so",
            gap.reason, gap.start, gap.end
        ),
    }
}
