//! The directory of links for records that name them by domain and code: edge log lines, imported events.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use ingest::ports::{LinkDirectory, PortError};
use schemas::{LinkHistory, LinkId, Revision, UtcMicros};

use super::LinkStore;
use super::db::{Bind, Query, Row};
use super::error::{Doing, LinkError, port_error};
use super::read::{parsed, stored_domain};

/// Keys per statement, well below what a database takes as parameters.
const CHUNK: usize = 500;
const DOING: &str = "reading the directory of links";

/// A link without its revisions.
#[derive(Clone)]
struct Found {
    id: LinkId,
    workspace: String,
    domain: String,
    code: String,
}

#[async_trait]
impl LinkDirectory for LinkStore {
    async fn histories(&self, keys: &[(String, String)]) -> Result<Vec<Option<LinkHistory>>, PortError> {
        self.read_histories(keys).await.map_err(port_error(DOING))
    }
}

impl LinkStore {
    async fn read_histories(&self, keys: &[(String, String)]) -> Result<Vec<Option<LinkHistory>>, LinkError> {
        let wanted: Vec<(String, &str)> = keys
            .iter()
            .map(|(domain, code)| match domain.as_str() {
                "" => (self.domains.first().to_owned(), code.as_str()),
                domain => (stored_domain(domain, &self.domains), code.as_str()),
            })
            .collect();
        let exact = self.by_domain_and_code(&wanted).await?;
        let homeless =
            keys.iter().zip(&wanted).filter(|((domain, _), key)| domain.is_empty() && !exact.contains_key(*key));
        let anywhere = self.by_code(&homeless.map(|(_, (_, code))| *code).collect()).await?;

        let found: Vec<Option<Found>> = keys
            .iter()
            .zip(&wanted)
            .map(|((domain, code), key)| {
                let elsewhere = || anywhere.get(code.as_str()).filter(|_| domain.is_empty());
                exact.get(key).or_else(elsewhere).cloned()
            })
            .collect();
        let revisions = self.revisions(&found.iter().flatten().map(|link| link.id).collect()).await?;
        let history = |link: Found| {
            let revisions = revisions.get(&link.id)?.clone();
            let Found { id: link_id, workspace, domain, code } = link;
            Some(LinkHistory { link_id, workspace, domain, code, revisions })
        };
        Ok(found.into_iter().map(|link| link.and_then(history)).collect())
    }

    async fn by_domain_and_code<'k>(
        &self,
        keys: &[(String, &'k str)],
    ) -> Result<HashMap<(String, &'k str), Found>, LinkError> {
        let distinct: Vec<&(String, &str)> = keys.iter().collect::<HashSet<_>>().into_iter().collect();
        let mut found = HashMap::new();
        for chunk in distinct.chunks(CHUNK) {
            let query = self.pools.query("SELECT id, workspace, domain, code FROM links WHERE ");
            for row in push_keys(query, chunk).rows().await.doing(DOING)? {
                let link = read_found(&row).doing(DOING)?;
                // The key's own text, so that the map borrows from the caller.
                if let Some(key) = chunk.iter().find(|(domain, code)| *domain == link.domain && *code == link.code) {
                    found.insert((key.0.clone(), key.1), link);
                }
            }
        }
        Ok(found)
    }

    /// For each code the oldest link that has it, whatever its domain.
    async fn by_code(&self, codes: &HashSet<&str>) -> Result<HashMap<String, Found>, LinkError> {
        let distinct: Vec<&&str> = codes.iter().collect();
        let mut found = HashMap::new();
        for chunk in distinct.chunks(CHUNK) {
            let query = self.pools.query("SELECT id, workspace, domain, code FROM links WHERE code IN (");
            let query = push_list(query, padded(chunk).map(|code| **code)).push(") ORDER BY created_at, id");
            for row in query.rows().await.doing(DOING)? {
                let link = read_found(&row).doing(DOING)?;
                found.entry(link.code.clone()).or_insert(link);
            }
        }
        Ok(found)
    }

    async fn revisions(&self, links: &HashSet<LinkId>) -> Result<HashMap<LinkId, Vec<Revision>>, LinkError> {
        let distinct: Vec<&LinkId> = links.iter().collect();
        let mut found: HashMap<LinkId, Vec<Revision>> = HashMap::with_capacity(distinct.len());
        for chunk in distinct.chunks(CHUNK) {
            let query = self.pools.query(
                "SELECT link_id, revision, effective_at, destination, analytics, status FROM link_revisions \
                 WHERE link_id IN (",
            );
            let query = push_list(query, padded(chunk).map(ToString::to_string)).push(") ORDER BY link_id, revision");
            for row in query.rows().await.doing(DOING)? {
                let (id, revision) = read_revision(&row).doing(DOING)?;
                found.entry(id).or_default().push(revision);
            }
        }
        Ok(found)
    }
}

/// Keys, the last of them again and again up to a power of two. So there are few different statements, and each is
/// prepared once.
fn padded<T>(keys: &[T]) -> impl Iterator<Item = &T> {
    keys.iter().chain(keys.last().into_iter().cycle()).take(keys.len().next_power_of_two())
}

fn push_keys<'c>(mut query: Query<'c>, keys: &[&(String, &str)]) -> Query<'c> {
    query = query.push("(domain, code) IN (VALUES ");
    for (at, (domain, code)) in padded(keys).enumerate() {
        query = query.push(if at == 0 { "(" } else { ", (" });
        query = query.push_bind(domain).push(", ").push_bind(*code).push(")");
    }
    query.push(")")
}

fn push_list<'c>(mut query: Query<'c>, values: impl Iterator<Item = impl Bind>) -> Query<'c> {
    for (at, value) in values.enumerate() {
        query = query.push(if at == 0 { "" } else { ", " }).push_bind(value);
    }
    query
}

fn read_found(row: &Row) -> Result<Found, sqlx::Error> {
    Ok(Found {
        id: parsed(row, "id")?,
        workspace: row.get("workspace")?,
        domain: row.get("domain")?,
        code: row.get("code")?,
    })
}

fn read_revision(row: &Row) -> Result<(LinkId, Revision), sqlx::Error> {
    let revision = Revision {
        revision: row.get("revision")?,
        effective_at: UtcMicros(row.get("effective_at")?),
        destination: row.get("destination")?,
        analytics: parsed(row, "analytics")?,
        status: parsed(row, "status")?,
    };
    Ok((parsed(row, "link_id")?, revision))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database, store};
    use super::super::{Change, NewLink, Which};
    use super::*;

    const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

    on_each_database!(
        keys_meet_their_links_in_order,
        without_a_domain_the_first_is_meant_else_the_oldest_link,
        a_tombstone_keeps_its_history,
        more_keys_than_a_statement_takes,
    );

    async fn add(store: &LinkStore, domain: &str, code: &str, now: UtcMicros) -> LinkId {
        let new =
            NewLink { domain: Some(domain.into()), code: Some(code.into()), ..NewLink::to("https://example.com/") };
        store.create(new, now).await.unwrap().id
    }

    async fn ids(store: &LinkStore, keys: &[(&str, &str)]) -> Vec<Option<LinkId>> {
        let keys: Vec<_> = keys.iter().map(|(domain, code)| ((*domain).to_owned(), (*code).to_owned())).collect();
        let found = store.histories(&keys).await.unwrap();
        found.iter().map(|history| history.as_ref().map(|history| history.link_id)).collect()
    }

    async fn keys_meet_their_links_in_order(place: Place) {
        let store = place.store().await;
        let a = add(&store, "sho.rt", "a", NOW).await;
        let other = add(&store, "second.example", "a", NOW).await;
        let keys = [
            ("sho.rt", "b"),
            ("second.example", "a"),
            ("sho.rt", "a"),
            ("SHO.rt:443", "a"),
            ("sho.rt", "A"),
            ("x", "a"),
        ];
        assert_eq!(ids(&store, &keys).await, [None, Some(other), Some(a), Some(a), None, None]);
        assert!(ids(&store, &[]).await.is_empty());
    }

    async fn without_a_domain_the_first_is_meant_else_the_oldest_link(place: Place) {
        let store = place.store().await;
        let second = add(&store, "second.example", "a", NOW).await;
        assert_eq!(ids(&store, &[("", "a"), ("", "b")]).await, [Some(second), None]);
        let first = add(&store, "sho.rt", "a", UtcMicros(NOW.0 + 1)).await;
        assert_eq!(ids(&store, &[("", "a"), ("second.example", "a")]).await, [Some(first), Some(second)]);
    }

    async fn a_tombstone_keeps_its_history(place: Place) {
        let store = place.store().await;
        add(&store, "sho.rt", "a", NOW).await;
        let which = Which { workspace: None, domain: None, code: "a".into() };
        store.change(&which, &Change::Delete, UtcMicros(NOW.0 + 5)).await.unwrap();
        let history = store.histories(&[(String::new(), "a".into())]).await.unwrap().remove(0).unwrap();
        assert_eq!((history.workspace.as_str(), history.revisions.len()), ("default", 2));
        assert_eq!(history.at(UtcMicros(NOW.0 - 1)), None);
        assert_eq!(history.at(UtcMicros(NOW.0 + 4)).map(|r| r.revision), Some(1));
        assert_eq!(history.at(UtcMicros(NOW.0 + 5)).map(|r| r.revision), Some(2));
    }

    async fn more_keys_than_a_statement_takes(place: Place) {
        let store = place.store().await;
        let mut known = HashMap::new();
        for n in (0..3 * CHUNK).step_by(100) {
            known.insert(
                n.to_string(),
                add(&store, if n % 200 == 0 { "sho.rt" } else { "second.example" }, &n.to_string(), NOW).await,
            );
        }
        let codes: Vec<String> = (0..3 * CHUNK).chain(0..CHUNK).map(|n| n.to_string()).collect();
        let keys: Vec<_> = codes.iter().map(|code| ("", code.as_str())).collect();
        let expected: Vec<_> = codes.iter().map(|code| known.get(code).copied()).collect();
        assert_eq!(ids(&store, &keys).await, expected);
    }

    #[tokio::test]
    async fn keys_are_found_by_index() {
        let (_dir, store) = store().await;
        let query = store.pools.query("EXPLAIN QUERY PLAN SELECT id FROM links WHERE ");
        let rows = push_keys(query, &[&("a".into(), "b"), &("c".into(), "d")]).rows().await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail").unwrap()).collect();
        assert!(plan.iter().any(|step| step.starts_with("SEARCH links USING INDEX")), "{plan:?}");
    }
}
