//! `highwater sql`: one read-only statement on the lake, as the operator.

use std::process::ExitCode;

use futures::StreamExt;
use query::{Format, SqlAnswer};

use super::{open, print};
use crate::cli::{ResultFormat, Sql};
use crate::config::Config;

/// Asks, and prints as it comes.
pub(crate) async fn run(arguments: Sql, config: &Config) -> anyhow::Result<ExitCode> {
    let service = open::query_service(config).await?;
    let format = match arguments.format {
        ResultFormat::Table => Format::Table,
        ResultFormat::Json => Format::Json,
        ResultFormat::Csv => Format::Csv,
        ResultFormat::Arrow => Format::Arrow,
        ResultFormat::Parquet => Format::Parquet,
    };
    match service.sql(&open::operator(), &arguments.sql, format).await? {
        SqlAnswer::Whole(bytes) => print::bytes(&bytes)?,
        SqlAnswer::Stream(mut stream) => {
            while let Some(piece) = stream.next().await {
                print::bytes(&piece?)?;
            }
        }
    }
    if format == Format::Json {
        print::line("")?; // the body of an answer has no newline at its end, a terminal's line does
    }
    Ok(ExitCode::SUCCESS)
}
