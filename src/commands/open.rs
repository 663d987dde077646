//! Opening the parts of a data folder.

use std::sync::Arc;

use anyhow::Context;
use processor::lake::{Lake, LakeOptions};
use query::{QueryConfig, QueryService};
use redirect::links::{Domains, LinkStore};
use schemas::{Principal, Scope};

use crate::config::Config;
use crate::run::{Sources, Tokens, make_folder};

/// The link store, made when there is none.
///
/// # Errors
/// Names the key that is at fault.
pub(crate) async fn link_store(config: &Config) -> anyhow::Result<LinkStore> {
    let domains = Domains::new(&config.redirect.domains).context("redirect.domains")?;
    if config.links.url.is_empty() {
        let folder = config.data_dir.display().to_string();
        make_folder(&config.data_dir)?;
        if !std::path::Path::new(&config.link_store()).exists() {
            eprintln!("highwater: {folder} is new and empty (data_dir; --data names another)");
        }
        return LinkStore::open(&config.link_store(), domains).await.with_context(|| format!("data_dir = {folder:?}"));
    }
    LinkStore::open(&config.link_store(), domains).await.with_context(|| format!("links.url = {:?}", config.links.url))
}

/// The lake.
///
/// # Errors
/// Names the key that is at fault.
pub(crate) fn lake(config: &Config) -> anyhow::Result<Lake> {
    Lake::open(&config.lake_root(), LakeOptions::default()).with_context(|| format!("lake = {:?}", config.lake_root()))
}

/// What status, reports and `verify` ask about the pipeline.
pub(crate) fn sources(config: &Config, store: &LinkStore, lake: &Lake) -> Sources {
    Sources {
        store: store.clone(),
        lake: lake.clone(),
        own: Vec::new(),
        directory: config.journal_dir(),
        has_edge: config.edge.provider != "none",
        settle: config.edge.settle.0,
    }
}

/// The query service, as the operator's commands use it in their own process.
///
/// # Errors
/// When the lake's place can't be one.
pub(crate) async fn query_service(config: &Config) -> anyhow::Result<QueryService> {
    let store = link_store(config).await?;
    let lake = lake(config)?;
    // a folder of its own: the service empties it at its start
    let temp = std::env::temp_dir().join(format!("highwater-{}", std::process::id()));
    let settings = QueryConfig::new(config.lake_root(), temp);
    let sources = sources(config, &store, &lake);
    Ok(QueryService::new(settings, Arc::new(Tokens(store)), Arc::new(sources))?)
}

/// Who runs commands on the data folder: whoever can read it is its operator.
pub(crate) fn operator() -> Principal {
    Principal { workspace: None, scope: Scope::Admin }
}
