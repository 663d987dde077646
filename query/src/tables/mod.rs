//! The lake's tables as queries see them.
//!
//! ```text
//! _delta_log ──► TableSource (one per table, single-flight) ──► TableSnapshot (immutable, shared)
//!                                                                     │ files, their bounds
//!                        LakeTable (files skipped by bounds) ◄────────┘
//!                             └── TenantTable (rows of one workspace, enforced)
//! ```
//!
//! Invariants: a snapshot never changes; `freshness` was asked for before its version was looked up, so that what is
//! claimed is in the rows; a table that doesn't exist yet reads as empty. The cleaner may remove a file after a
//! snapshot was taken: the reader gets [`crate::QueryError::Stale`], takes a fresh one, and tries once more.

mod file;
mod provider;
mod prune;
mod snapshot;
mod tenant;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use datafusion::catalog::TableProvider;
use deltalake::logstore::object_store_factories;
use object_store::ObjectStore;
use schemas::Principal;
use schemas::tables::Table;
use url::Url;

pub(crate) use provider::{LakeTable, store_url};
pub(crate) use snapshot::{TableSnapshot, TableSource};
pub(crate) use tenant::TenantTable;

use crate::config::QueryConfig;
use crate::error::QueryError;
use crate::ports::StatusSource;

/// All tables of one lake.
#[derive(Debug)]
pub(crate) struct Tables {
    sources: HashMap<Table, TableSource>,
    metadata: provider::Footers,
}

impl Tables {
    /// The tables under the configured lake; nothing is read yet.
    pub(crate) fn open(
        config: &QueryConfig,
        status: &Arc<dyn StatusSource>,
        metadata: provider::Footers,
    ) -> Result<Self, QueryError> {
        let root = root_url(&config.lake)?;
        let mut sources = HashMap::new();
        for &table in Table::ALL {
            let committed = config.committed.clone().filter(|_| table == Table::Clicks);
            sources.insert(table, TableSource::open(table, &root, config.refresh, committed, Arc::clone(status))?);
        }
        Ok(Self { sources, metadata })
    }

    /// The newest snapshot of `table`; one looked at after `not_before` if that is given.
    pub(crate) async fn snapshot(
        &self,
        table: Table,
        not_before: Option<Instant>,
    ) -> Result<Arc<TableSnapshot>, QueryError> {
        let Some(source) = self.sources.get(&table) else {
            return Err(QueryError::lake("finding a table", table));
        };
        source.snapshot(not_before).await
    }

    /// What `principal` may see of a snapshot.
    pub(crate) fn provider(&self, snapshot: &Arc<TableSnapshot>, principal: &Principal) -> Arc<dyn TableProvider> {
        let table = LakeTable::new(Arc::clone(snapshot), Arc::clone(&self.metadata));
        match principal.workspace.as_deref() {
            None => Arc::new(table),
            Some(workspace) => Arc::new(TenantTable::new(table, workspace)),
        }
    }

    /// The stores of all tables, each under its own URL.
    pub(crate) fn stores(&self) -> impl Iterator<Item = (Table, Arc<dyn ObjectStore>)> + '_ {
        self.sources.iter().map(|(&table, source)| (table, source.store()))
    }
}

/// The lake's root as a URL that ends in a slash.
fn root_url(location: &str) -> Result<Url, QueryError> {
    let refused = |reason: String| QueryError::Location { location: location.to_owned(), reason };
    let url = match Url::parse(location) {
        // a Windows drive letter is no scheme
        Ok(url) if url.scheme().len() > 1 => url,
        _ => {
            let path = std::path::absolute(location).map_err(|error| refused(error.to_string()))?;
            Url::from_directory_path(&path).map_err(|()| refused("not a path that can be a URL".to_owned()))?
        }
    };
    // the library knows what whoever opened the lake has made known to it
    let scheme = Url::parse(&format!("{}://", url.scheme())).map_err(|error| refused(error.to_string()))?;
    if !object_store_factories().contains_key(&scheme) {
        return Err(refused(format!("storage {scheme} is not known; expected a path, or an address such as s3://…")));
    }
    let mut url = url;
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
