//! `highwater import`: click events made elsewhere, into the lake.

use std::process::ExitCode;

use processor::import::ImportOptions;
use redirect::manage::naming_of;

use super::{WrongUsage, backfill};
use crate::cli::Import;
use crate::config::Config;

/// Takes each path in, as `backfill` does with logs.
pub(crate) async fn run(arguments: Import, config: &Config) -> anyhow::Result<ExitCode> {
    let naming = naming_of(arguments.stand, arguments.provider.as_deref(), &config.edge.provider);
    let options = ImportOptions {
        events: Some(naming.map_err(|why| WrongUsage(format!("--provider {why}")))?),
        unknown_codes: backfill::unknown_codes(arguments.unknown_codes),
        dry_run: arguments.dry_run,
        ..ImportOptions::default()
    };
    backfill::take_all(config, &arguments.paths, &options, arguments.json).await
}
