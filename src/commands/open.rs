//! Opening the parts of a data folder.

use std::sync::Arc;

use anyhow::{Context, bail};
use processor::lake::{Lake, LakeOptions};
use query::{QueryConfig, QueryService};
use redirect::links::{Domains, LinkStore};
use schemas::{Principal, Scope};

use crate::config::Config;
use crate::run::{Changes, HeldUp, OwnJournals, Sources, Tokens, TopicSource, ids_in, make_folder};

/// The link store, made when there is none.
///
/// # Errors
/// Names the key that is at fault.
pub(crate) async fn link_store(config: &Config) -> anyhow::Result<LinkStore> {
    let domains = Domains::new(&config.redirect.domains).context("redirect.domains")?;
    if config.links.url.is_empty() {
        let folder = config.data_dir.display().to_string();
        make_folder(&config.data_dir)?;
        refuse_a_lost_store(config)?;
        if !std::path::Path::new(&config.link_store()).exists() {
            eprintln!("highwater: {folder} is new and empty (data_dir; --data names another)");
        }
        return LinkStore::open(&config.link_store(), domains).await.with_context(|| format!("data_dir = {folder:?}"));
    }
    let opened = LinkStore::open(&config.links.url, domains).await;
    opened.with_context(|| format!("links.url = {:?}", redirect::links::shown(&config.links.url)))
}

/// A new link store would be made where one was lost: its links would be unknown, and what the lake holds be counted for
/// nobody. So what depends on it is looked for first.
fn refuse_a_lost_store(config: &Config) -> anyhow::Result<()> {
    let path = config.link_store();
    match std::fs::metadata(&path) {
        Ok(file) if file.len() > 0 => return Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("data_dir: the link store {path} can't be looked at"));
        }
        _ => {}
    }
    let journals = ids_in(&config.journal_dir()).context("looking for journals")?.len();
    let clicks = has_clicks(&config.lake_root());
    let there = match (journals, clicks) {
        (0, false) => return Ok(()),
        (0, true) => format!("a lake with clicks ({})", config.lake_root()),
        (n, false) => format!("{n} journals ({})", config.journal_dir().display()),
        (n, true) => {
            format!("{n} journals ({}) and a lake with clicks ({})", config.journal_dir().display(), config.lake_root())
        }
    };
    bail!(
        "data_dir = {:?}: the link store {path} is missing, but {there} are there: put it back, or move them away to begin \
         anew",
        config.data_dir.display().to_string()
    );
}

/// Whether a lake in a local folder has clicks: their table is partitioned by date.
fn has_clicks(root: &str) -> bool {
    let folder = std::path::Path::new(root.strip_prefix("file://").unwrap_or(root)).join("clicks");
    let Ok(mut entries) = std::fs::read_dir(folder) else { return false };
    entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("date=")))
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
        changes: Changes::default(),
        store: store.clone(),
        lake: lake.clone(),
        own: OwnJournals::default(),
        directory: config.journal_dir(),
        provider: config.edge.provider.clone(),
        settle: config.edge.settle.0,
        standing: None,
        held_up: HeldUp::default(),
        topic: TopicSource::of(config),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_link_store_is_made_where_one_was_lost() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        link_store(&config).await.unwrap();
        let journal = config.journal_dir().join(schemas::JournalId::new().to_string());
        std::fs::create_dir_all(&journal).unwrap();
        link_store(&config).await.unwrap();
        for name in ["links.sqlite", "links.sqlite-wal", "links.sqlite-shm"] {
            let _gone = std::fs::remove_file(config.data_dir.join(name));
        }
        let refused = link_store(&config).await.unwrap_err().to_string();
        assert!(refused.contains("links.sqlite is missing") && refused.contains("1 journals"), "{refused}");
        std::fs::write(config.link_store(), "").unwrap();
        assert!(link_store(&config).await.is_err(), "an empty file is no store either");
        std::fs::remove_dir_all(&journal).unwrap();
        std::fs::create_dir_all(config.data_dir.join("lake/clicks/date=2026-03-14")).unwrap();
        let refused = link_store(&config).await.unwrap_err().to_string();
        assert!(refused.contains("a lake with clicks"), "{refused}");
        std::fs::rename(config.data_dir.join("lake"), folder.path().join("elsewhere")).unwrap();
        link_store(&config).await.unwrap();
    }
}
