//! How long workspaces keep their rows: what is set for each, beside the configuration's default.

use async_trait::async_trait;
use ingest::ports::{Keeping, PortError};
use schemas::Keep;

use super::LinkStore;
use super::db::Row;
use super::error::{Doing, LinkError, port_error};

const READING: &str = "reading how long workspaces keep their rows";
const SETTING: &str = "setting how long a workspace keeps its rows";
/// Stands for ever; no number at all stands for the default.
const FOREVER: i64 = 0;

#[async_trait]
impl Keeping for LinkStore {
    async fn keeps(&self) -> Result<Vec<(String, Keep)>, PortError> {
        self.workspaces_kept().await.map_err(port_error(READING))
    }
}

impl LinkStore {
    /// The workspaces, in order of their names, and how long each keeps its rows.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn workspaces_kept(&self) -> Result<Vec<(String, Keep)>, LinkError> {
        let rows = self.pools.query("SELECT name, keep_days FROM workspaces ORDER BY name").rows().await;
        rows.doing(READING)?.iter().map(kept).collect::<Result<_, _>>().doing(READING)
    }

    /// Sets how long a workspace keeps its rows.
    ///
    /// # Errors
    /// [`LinkError::UnknownWorkspace`] when there is none of this name, [`LinkError::Away`], [`LinkError::Database`],
    /// [`LinkError::DiskFull`].
    pub async fn set_keep(&self, workspace: &str, keep: Keep) -> Result<(), LinkError> {
        const SQL: &str = "UPDATE workspaces SET keep_days = $2 WHERE name = $1";
        let days = match keep {
            Keep::Default => None,
            Keep::Forever => Some(FOREVER),
            Keep::Days(days) => Some(i64::from(days)),
        };
        let mut tx = self.pools.write().await.doing(SETTING)?;
        let set = tx.query(SQL).bind(workspace).bind(days).run().await.doing(SETTING)?;
        if set == 0 {
            return Err(LinkError::UnknownWorkspace(workspace.to_owned()));
        }
        tx.commit().await.doing(SETTING)
    }
}

fn kept(row: &Row) -> Result<(String, Keep), sqlx::Error> {
    let keep = match row.get::<Option<i64>>("keep_days")? {
        None => Keep::Default,
        Some(FOREVER) => Keep::Forever,
        Some(days) => Keep::Days(u32::try_from(days).map_err(|error| sqlx::Error::Decode(error.into()))?),
    };
    Ok((row.get("name")?, keep))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database};
    use super::*;
    use schemas::UtcMicros;
    use schemas::link::DEFAULT_WORKSPACE;

    on_each_database!(each_workspace_keeps_as_long_as_is_set,);

    async fn each_workspace_keeps_as_long_as_is_set(place: Place) {
        let store = place.store().await;
        store.add_workspace("acme", UtcMicros(1)).await.unwrap();
        let of = async |name: &str| {
            let all = place.store().await.keeps().await.unwrap();
            all.into_iter().find(|(workspace, _)| workspace == name).map(|(_, keep)| keep)
        };
        assert_eq!(of("acme").await, Some(Keep::Default));
        for keep in [Keep::Days(400), Keep::Forever, Keep::Default, Keep::Days(1)] {
            store.set_keep("acme", keep).await.unwrap();
            assert_eq!(of("acme").await, Some(keep));
            store.set_keep(DEFAULT_WORKSPACE, keep).await.unwrap();
            assert_eq!(of(DEFAULT_WORKSPACE).await, Some(keep));
        }
        let unknown = store.set_keep("nobody", Keep::Forever).await;
        assert!(matches!(unknown, Err(LinkError::UnknownWorkspace(name)) if name == "nobody"));
        assert_eq!(of("nobody").await, None);
    }
}
