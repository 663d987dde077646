//! `highwater token …`.

use std::process::ExitCode;

use schemas::UtcMicros;

use super::{open, print};
use crate::cli::Token;
use crate::config::Config;

/// Makes a token and shows it, once: only its hash is kept.
pub(crate) async fn run(command: Token, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let Token::Add { workspace, scope, operator: _ } = command;
    let now = UtcMicros::now();
    let token = match workspace {
        Some(workspace) => store.add_token(&workspace, scope, now).await?,
        None => store.add_operator_token(now).await?,
    };
    print::line(token.reveal())?;
    Ok(ExitCode::SUCCESS)
}
