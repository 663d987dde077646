//! `highwater edge-logs list|show`: what logs came in, and what became of their lines.

use std::process::ExitCode;

use anyhow::Context;
use processor::import::{Stored, stored};

use super::{backfill, open, print};
use crate::cli::EdgeLogs;
use crate::config::Config;

/// Lists the logs, or shows one, as they stand now.
pub(crate) async fn run(command: EdgeLogs, config: &Config) -> anyhow::Result<ExitCode> {
    let lake = open::lake(config)?;
    match command {
        EdgeLogs::List(flags) => {
            let imports = stored(&lake, None).await?;
            if flags.json { print::json(&imports)? } else { print::line(&table(&imports))? }
        }
        EdgeLogs::Show { id, json } => {
            let found = stored(&lake, Some(&id)).await?.pop();
            let import = found.with_context(|| format!("there is no import {id}; `edge-logs list` names them"))?;
            if json { print::json(&import)? } else { print::line(&text(&import))? }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One import for people.
fn text(import: &Stored) -> String {
    let source = import.source_name.as_ref().map(|name| format!(", source {name}")).unwrap_or_default();
    let location = import.location.as_ref().map(|location| format!(", from {location}")).unwrap_or_default();
    format!(
        "{}\n  {} at {}, workspace {}{source}{location}",
        backfill::text(&import.summary),
        import.summary.state.as_str(),
        import.imported_at,
        import.workspace,
    )
}

/// All imports for people, one a line.
fn table(imports: &[Stored]) -> String {
    let head = [
        "id",
        "state",
        "name",
        "format",
        "source",
        "records",
        "added",
        "counted",
        "waiting",
        "ignored",
        "rejected",
        "imported_at",
    ];
    let cells = imports.iter().map(|import| {
        let summary = &import.summary;
        vec![
            summary.id.clone(),
            summary.state.as_str().to_owned(),
            summary.name.clone(),
            summary.format.clone(),
            import.source_name.clone().unwrap_or_else(|| "-".to_owned()),
            summary.records.to_string(),
            (summary.added.edge + summary.added.recovered).to_string(),
            summary.already_counted.to_string(),
            summary.waiting.to_string(),
            summary.ignored.total().to_string(),
            summary.rejected_total().to_string(),
            import.imported_at.to_string(),
        ]
    });
    print::columns(&head, &cells.collect::<Vec<_>>())
}
