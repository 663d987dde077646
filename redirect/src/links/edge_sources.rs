//! Continuous sources of edge logs (design §4.5): watched prefixes, and uploads and backfills under a source's name; and
//! how far each has come. Shared by all processes: one watches, another publishes, a third shows.

use schemas::UtcMicros;

use super::LinkStore;
use super::error::{Doing, LinkError};

const READING: &str = "reading the sources of edge logs";
const WRITING: &str = "writing the sources of edge logs";

/// Sources of one tenant that are known; what more it names is not noted.
const MOST_OF_A_TENANT: i64 = 100;

/// A continuous source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeSource {
    /// Its name; of a watched prefix the prefix as configured.
    pub name: String,
    /// Whose it is; none: an operator's. A tenant's holds nobody else's numbers back.
    pub tenant: Option<String>,
    /// Whether it is a watched prefix.
    pub watched: bool,
    /// How far it has come; none while nothing has come of it.
    pub through: Option<UtcMicros>,
}

impl LinkStore {
    /// The continuous sources, by name; without prefixes that are no longer watched.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn edge_sources(&self) -> Result<Vec<EdgeSource>, LinkError> {
        let sql = "SELECT name, tenant, watched, through FROM edge_sources WHERE active ORDER BY name";
        let rows = self.pools.query(sql).rows().await.doing(READING)?;
        let one = |row: &super::db::Row| {
            let through: Option<i64> = row.get("through")?;
            Ok(EdgeSource {
                name: row.get("name")?,
                tenant: row.get("tenant")?,
                watched: row.get("watched")?,
                through: through.map(UtcMicros),
            })
        };
        rows.iter().map(one).collect::<Result<_, sqlx::Error>>().doing(READING)
    }

    /// Notes that a source has come as far as `through`; it never goes back. A source not known yet is one from now on,
    /// and so is one that was ended and has come farther. `tenant`: whose it is, unless an operator's.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn hear_source(&self, name: &str, tenant: Option<&str>, through: UtcMicros) -> Result<(), LinkError> {
        let known = "SELECT through FROM edge_sources WHERE name = $1";
        let known: Option<Option<i64>> = self.pools.query(known).bind(name).value().await.doing(READING)?;
        if known.flatten().is_some_and(|known| known >= through.0) {
            return Ok(());
        }
        let sql = "INSERT INTO edge_sources (name, tenant, watched, active, through) SELECT $1, $3, FALSE, TRUE, $2 \
                   WHERE $3 IS NULL OR EXISTS (SELECT 1 FROM edge_sources WHERE name = $1) \
                   OR (SELECT count(*) FROM edge_sources WHERE tenant = $3) < $4 \
                   ON CONFLICT (name) DO UPDATE SET \
                   through = CASE WHEN edge_sources.through > $2 THEN edge_sources.through ELSE $2 END, \
                   active = edge_sources.active OR NOT edge_sources.watched";
        let mut tx = self.pools.write().await.doing(WRITING)?;
        let hear = tx.query(sql).bind(name).bind(through.0).bind(tenant).bind(MOST_OF_A_TENANT);
        hear.run().await.doing(WRITING)?;
        tx.commit().await.doing(WRITING)
    }

    /// Ends a source of which no more is to come: it holds `final_through` back no longer. Says whether there was such a
    /// one; a watched prefix is none, it ends when it is no longer watched.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn end_source(&self, name: &str) -> Result<bool, LinkError> {
        let sql = "UPDATE edge_sources SET active = FALSE WHERE name = $1 AND active AND NOT watched";
        let mut tx = self.pools.write().await.doing(WRITING)?;
        let ended = tx.query(sql).bind(name).run().await.doing(WRITING)?;
        tx.commit().await.doing(WRITING)?;
        Ok(ended > 0)
    }

    /// Notes which prefixes are watched: those and no others hold `final_through` from now on.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn watch_sources(&self, prefixes: &[String]) -> Result<(), LinkError> {
        let add = "INSERT INTO edge_sources (name, watched, active) VALUES ($1, TRUE, TRUE) \
                   ON CONFLICT (name) DO UPDATE SET watched = TRUE, active = TRUE";
        let mut tx = self.pools.write().await.doing(WRITING)?;
        let none = tx.query("UPDATE edge_sources SET active = FALSE WHERE watched").run().await;
        none.doing(WRITING)?;
        for prefix in prefixes {
            tx.query(add).bind(prefix).run().await.doing(WRITING)?;
        }
        tx.commit().await.doing(WRITING)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database};
    use super::*;

    on_each_database!(
        a_source_never_goes_back_and_every_process_knows_it,
        a_source_that_is_ended_holds_nothing_back_until_it_goes_on,
        a_tenant_has_so_many_sources_and_no_more,
        a_prefix_counts_while_it_is_watched,
    );

    async fn named(store: &LinkStore) -> Vec<(String, Option<i64>)> {
        let sources = store.edge_sources().await.unwrap();
        sources.into_iter().map(|source| (source.name, source.through.map(|at| at.0))).collect()
    }

    async fn a_source_never_goes_back_and_every_process_knows_it(place: Place) {
        let store = place.store().await;
        for through in [5, 9, 7] {
            store.hear_source("cdn", None, UtcMicros(through)).await.unwrap();
        }
        assert_eq!(named(&place.store().await).await, [("cdn".to_owned(), Some(9))]);
    }

    async fn a_source_that_is_ended_holds_nothing_back_until_it_goes_on(place: Place) {
        let store = place.store().await;
        store.hear_source("cdn", None, UtcMicros(5)).await.unwrap();
        store.watch_sources(&["./a".into()]).await.unwrap();
        assert!(!store.end_source("./a").await.unwrap(), "it is watched");
        assert!(!store.end_source("another").await.unwrap());
        assert!(store.end_source("cdn").await.unwrap());
        assert!(!store.end_source("cdn").await.unwrap());
        store.hear_source("cdn", None, UtcMicros(5)).await.unwrap();
        assert_eq!(named(&store).await, [("./a".to_owned(), None)], "what was known of it doesn't bring it back");
        store.hear_source("cdn", None, UtcMicros(6)).await.unwrap();
        assert_eq!(named(&store).await[1], ("cdn".to_owned(), Some(6)));
    }

    async fn a_tenant_has_so_many_sources_and_no_more(place: Place) {
        let store = place.store().await;
        for number in 0..MOST_OF_A_TENANT + 5 {
            store.hear_source(&format!("acme/{number}"), Some("acme"), UtcMicros(1)).await.unwrap();
        }
        store.hear_source("acme/3", Some("acme"), UtcMicros(7)).await.unwrap();
        store.hear_source("other/3", Some("other"), UtcMicros(1)).await.unwrap();
        let sources = store.edge_sources().await.unwrap();
        assert_eq!(sources.iter().filter(|source| source.tenant.as_deref() == Some("acme")).count(), 100);
        let known = sources.iter().find(|source| source.name == "acme/3").unwrap();
        assert_eq!(known.through, Some(UtcMicros(7)));
        assert!(sources.iter().any(|source| source.name == "other/3"));
    }

    async fn a_prefix_counts_while_it_is_watched(place: Place) {
        let store = place.store().await;
        store.watch_sources(&["./a".into(), "./b".into()]).await.unwrap();
        store.hear_source("./a", None, UtcMicros(5)).await.unwrap();
        store.hear_source("uploads", None, UtcMicros(1)).await.unwrap();
        let (a, b, uploads) = (("./a".to_owned(), Some(5)), ("./b".to_owned(), None), ("uploads".to_owned(), Some(1)));
        assert_eq!(named(&store).await, [a.clone(), b.clone(), uploads.clone()]);
        store.watch_sources(&["./b".into()]).await.unwrap();
        store.hear_source("./a", None, UtcMicros(6)).await.unwrap();
        assert_eq!(named(&store).await, [b, uploads], "what came of it before doesn't bring it back");
        store.watch_sources(&["./a".into()]).await.unwrap();
        assert_eq!(named(&store).await[0], ("./a".to_owned(), Some(6)));
    }
}
