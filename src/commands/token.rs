//! `highwater token …`.

use std::process::ExitCode;

use redirect::links::TokenInfo;
use schemas::UtcMicros;
use serde_json::json;

use super::{open, print};
use crate::cli::Token;
use crate::config::Config;

/// Makes a token and shows it, once, as only its hash is kept; lists tokens; takes one back.
pub(crate) async fn run(command: Token, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    match command {
        Token::Add { workspace, scope, operator: _ } => {
            let now = UtcMicros::now();
            let token = match workspace {
                Some(workspace) => store.add_token(&workspace, scope, now).await?,
                None => store.add_operator_token(now).await?,
            };
            print::line(token.reveal())?;
        }
        Token::List(flags) => list(&store.tokens().await?, flags.json)?,
        Token::Revoke { id } => {
            anyhow::ensure!(store.revoke_token(&id).await?, "there is no token with id {id}; `token list` shows them");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(tokens: &[TokenInfo], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let shown: Vec<_> = tokens
            .iter()
            .map(|token| {
                json!({"id": token.id, "workspace": token.workspace, "scope": token.scope.as_str(),
                       "created_at": token.created_at})
            })
            .collect();
        return print::json(&shown);
    }
    let of = |token: &TokenInfo| token.workspace.clone().unwrap_or_else(|| "(operator)".to_owned());
    let rows: Vec<Vec<String>> = tokens
        .iter()
        .map(|token| vec![token.id.clone(), of(token), token.scope.as_str().to_owned(), token.created_at.to_string()])
        .collect();
    print::line(&print::columns(&["id", "workspace", "scope", "created"], &rows))
}
