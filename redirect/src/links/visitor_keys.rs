//! The keys of visitors (design §4.9): random, one a UTC day, the same for all nodes, destroyed when no longer needed.

use async_trait::async_trait;
use ingest::ports::{PortError, VisitorKeys};
use rand::TryRngCore;
use rand::rngs::OsRng;
use schemas::UtcMicros;
use schemas::visitor::VisitorKey;

use super::LinkStore;
use super::db::Run;
use super::error::{Doing, LinkError, port_error};

const DOING: &str = "reading a visitor key";

#[async_trait]
impl VisitorKeys for LinkStore {
    async fn key_of(&self, day: i32) -> Result<VisitorKey, PortError> {
        self.visitor_key(day, UtcMicros::now().day()).await.map_err(port_error(DOING))
    }
}

impl LinkStore {
    /// Destroys the keys of days before `before_day` (days since 1970, UTC) that were also made before it, and
    /// returns how many. The visitors of those days can't be computed again; should a record of such a day come in
    /// later, the day gets one new key, which is kept as long as if it were that of the day it was made on: so an
    /// import of old logs keeps one key to its end.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn destroy_visitor_keys(&self, before_day: i32) -> Result<u64, LinkError> {
        const SQL: &str = "DELETE FROM visitor_keys WHERE day < $1 AND made_on < $1";
        const DOING: &str = "destroying visitor keys";
        let mut tx = self.pools.write().await.doing(DOING)?;
        let destroyed = tx.query(SQL).bind(before_day).run().await.doing(DOING)?;
        tx.commit().await.doing(DOING)?;
        // Also when there was nothing to destroy: a reader may have been in the way the last time.
        self.pools.forget().await.doing(DOING)?;
        Ok(destroyed)
    }

    async fn visitor_key(&self, day: i32, today: i32) -> Result<VisitorKey, LinkError> {
        const SQL: &str = "INSERT INTO visitor_keys (day, secret, made_on) VALUES ($1, $2, $3)";
        if let Some(key) = read(&*self.pools, day).await? {
            return Ok(key);
        }
        let mut tx = self.pools.write().await.doing(DOING)?;
        // Another node may have made it meanwhile: whoever comes first decides.
        if let Some(key) = read(&mut tx, day).await? {
            return Ok(key);
        }
        let mut secret = [0; 16];
        OsRng.try_fill_bytes(&mut secret)?;
        tx.query(SQL).bind(day).bind(&secret[..]).bind(today).run().await.doing(DOING)?;
        tx.commit().await.doing(DOING)?;
        Ok(VisitorKey(secret))
    }
}

async fn read(on: impl Run<'_>, day: i32) -> Result<Option<VisitorKey>, LinkError> {
    let secret: Option<Vec<u8>> =
        on.statement("SELECT secret FROM visitor_keys WHERE day = $1").bind(day).value().await.doing(DOING)?;
    let key = |secret: Vec<u8>| secret.try_into().map(VisitorKey).map_err(|_| wrong_length());
    secret.map(key).transpose().doing(DOING)
}

fn wrong_length() -> sqlx::Error {
    sqlx::Error::Decode("a visitor key has 16 bytes".into())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database, store};
    use super::*;

    on_each_database!(every_node_has_the_same_key_of_a_day, a_past_day_whose_key_is_gone_gets_one_new_key,);

    async fn every_node_has_the_same_key_of_a_day(place: Place) {
        let store = place.store().await;
        let other = place.store().await;
        let (a, b) = tokio::join!(store.key_of(20_000), other.key_of(20_000));
        let key = a.unwrap();
        assert_eq!(key, b.unwrap());
        assert_eq!(key, store.key_of(20_000).await.unwrap());
        assert_ne!(key, store.key_of(20_001).await.unwrap());
        assert_ne!(key, store.key_of(-1).await.unwrap());
    }

    async fn a_past_day_whose_key_is_gone_gets_one_new_key(place: Place) {
        let store = place.store().await;
        let (day, today) = (100, 110);
        let first = store.visitor_key(day, day).await.unwrap();
        let kept = store.visitor_key(today, today).await.unwrap();
        assert_eq!(store.destroy_visitor_keys(day).await.unwrap(), 0);
        assert_eq!(store.destroy_visitor_keys(today).await.unwrap(), 1);
        let second = store.visitor_key(day, today).await.unwrap();
        assert_ne!(first, second);
        // Destroying by the same rule goes on, and leaves the new one alone while it may be in use.
        assert_eq!(store.destroy_visitor_keys(today).await.unwrap(), 0);
        assert_eq!(store.visitor_key(day, today + 1).await.unwrap(), second);
        assert_eq!(store.visitor_key(today, today).await.unwrap(), kept);
        assert_eq!(store.destroy_visitor_keys(today + 1).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_destroyed_key_is_in_no_file() {
        let (dir, store) = store().await;
        let key = store.visitor_key(1, 1).await.unwrap();
        let holds = || {
            std::fs::read_dir(dir.path()).unwrap().any(|entry| {
                let bytes = std::fs::read(entry.unwrap().path()).unwrap();
                bytes.windows(16).any(|window| window == key.0)
            })
        };
        assert!(holds());
        assert_eq!(store.destroy_visitor_keys(2).await.unwrap(), 1);
        assert!(!holds());
    }
}
