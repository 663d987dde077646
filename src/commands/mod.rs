//! One file per command. A command reads its arguments, asks the crates, and prints; it decides nothing itself.

mod answered;
mod backfill;
mod classify;
mod compact;
mod config;
mod edge_hours;
mod edge_logs;
mod import;
mod journal;
mod link;
mod logs_again;
mod logs_failed;
mod logs_known;
mod networks;
mod reclassify;
mod report;
mod retention;
mod sql;
mod stream;
mod token;
mod verify;
mod workspace;

mod open;
mod place;
mod print;
mod summary;

pub(crate) use open::link_store;

use std::process::ExitCode;

use anyhow::Context;
use redirect::links::LinkError;

use crate::cli::{Cli, Command};
use crate::config::{Config, load};
use crate::run::{self, Roles};

/// The value of a flag or an argument that doesn't fit: the process ends with 2, as when it can't be read at all.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) String);

impl WrongUsage {
    /// Of a link store that finds fault with what it was given; other errors stay as they are.
    fn of(error: LinkError) -> anyhow::Error {
        match error {
            LinkError::Invalid(_) => Self(error.to_string()).into(),
            other => other.into(),
        }
    }
}

/// Does what the command line says.
///
/// # Errors
/// With what the user is told; the process then ends with 1.
pub(crate) fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let loaded = load(cli.global.config.as_deref(), cli.global.data.as_deref())?;
    let config = loaded.config.clone();
    match cli.command {
        Command::Config(command) => config::run(&command, &loaded),
        Command::Classify(arguments) => classify::run(&arguments, &config),
        Command::Networks(command) => on_runtime(networks::run(command, &config)),
        Command::Up(up) => run::run(config, Roles::ALL, up.demo).map(|()| ExitCode::SUCCESS),
        Command::Redirect => run::run(config, Roles::REDIRECT, false).map(|()| ExitCode::SUCCESS),
        Command::Manage => run::run(config, Roles::MANAGE, false).map(|()| ExitCode::SUCCESS),
        Command::Process(process) => {
            let mut config = config;
            if let Some(partitions) = process.partitions {
                config.process.partitions = partitions;
                let wrong = crate::config::problems(&config);
                // what was wrong without it was refused before
                anyhow::ensure!(wrong.is_empty(), WrongUsage(format!("--partitions: {}", wrong.join("\n"))));
            }
            run::run(config, Roles::PROCESS, false).map(|()| ExitCode::SUCCESS)
        }
        Command::Query => run::run(config, Roles::QUERY, false).map(|()| ExitCode::SUCCESS),
        command => {
            place::require(&command, &config)?;
            on_runtime(on_data(command, config))
        }
    }
}

/// Commands on the data folder; they work while `up` runs on it and while it doesn't.
async fn on_data(command: Command, config: Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Link(command) => link::run(command, &config).await,
        Command::Workspace(command) => workspace::run(command, &config).await,
        Command::Token(command) => token::run(command, &config).await,
        Command::Backfill(arguments) => backfill::run(arguments, &config).await,
        Command::Import(arguments) => import::run(arguments, &config).await,
        Command::EdgeLogs(command) => edge_logs::run(command, &config).await,
        Command::Journal(command) => journal::run(command, &config).await,
        Command::Report(arguments) => report::run(*arguments, &config).await,
        Command::Sql(arguments) => sql::run(arguments, &config).await,
        Command::Stream(command) => stream::run(command, &config).await,
        Command::Verify(json) => verify::run(json, &config).await,
        Command::Compact(json) => compact::run(json, &config).await,
        Command::Retention(arguments) => retention::run(arguments, &config).await,
        Command::Reclassify(arguments) => reclassify::run(arguments, &config).await,
        Command::Up(_)
        | Command::Redirect
        | Command::Manage
        | Command::Process(_)
        | Command::Query
        | Command::Classify(_)
        | Command::Networks(_)
        | Command::Config(_) => Ok(ExitCode::SUCCESS), // handled by `dispatch`
    }
}

fn on_runtime(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let result = runtime.block_on(work);
    // a blocking read of standard input must not hold the process
    runtime.shutdown_background();
    result
}
