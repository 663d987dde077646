//! What holds up processes that bring clicks on their way, told to those that have nothing to do with it but are asked: a
//! query node uses no broker and commits nothing.
//!
//! A word that isn't repeated ends by itself, by the database's clock: who was killed says nothing any more.

use std::time::Duration;

use super::LinkStore;
use super::error::{Doing, LinkError};

/// How long a word is believed.
const BELIEVED: Duration = Duration::from_secs(15);

impl LinkStore {
    /// Says what holds `process` up now, to be said again well within 15 s; `None`: nothing any more.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn tell_trouble(&self, process: &str, why: Option<&str>) -> Result<(), LinkError> {
        const DOING: &str = "telling what holds clicks up";
        let mut tx = self.pools.write().await.doing(DOING)?;
        let now = tx.now().await.doing(DOING)?;
        let sql = "DELETE FROM troubles WHERE process = $1 OR at <= $2";
        let cut = now.minus(BELIEVED).0;
        tx.query(sql).bind(process).bind(cut).run().await.doing(DOING)?;
        if let Some(why) = why {
            let sql = "INSERT INTO troubles (process, why, at) VALUES ($1, $2, $3)";
            tx.query(sql).bind(process).bind(why).bind(now.0).run().await.doing(DOING)?;
        }
        tx.commit().await.doing(DOING)
    }

    /// What holds clicks up anywhere, if anything does; what holds up a source of logs, if nothing does more than that.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn trouble(&self) -> Result<Option<String>, LinkError> {
        const DOING: &str = "reading what holds clicks up";
        let now = self.pools.now().await.doing(DOING)?;
        let sql = "SELECT why FROM troubles WHERE at > $1 \
                   ORDER BY CASE WHEN why LIKE 'source %' THEN 1 ELSE 0 END, why LIMIT 1";
        self.pools.query(sql).bind(now.minus(BELIEVED).0).value().await.doing(DOING)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database};

    on_each_database!(what_is_told_is_heard_until_it_is_taken_back, what_is_not_repeated_ends);

    async fn what_is_told_is_heard_until_it_is_taken_back(place: Place) {
        let (teller, other, asked) = (place.store().await, place.store().await, place.store().await);
        let heard = async || asked.trouble().await.unwrap();
        assert_eq!(heard().await, None);
        teller.tell_trouble("a", Some("stream: no answer")).await.unwrap();
        other.tell_trouble("b", Some("lake: no room")).await.unwrap();
        other.tell_trouble("b", Some("lake: still no room")).await.unwrap();
        assert_eq!(heard().await.as_deref(), Some("lake: still no room"));
        other.tell_trouble("b", None).await.unwrap();
        assert_eq!(heard().await.as_deref(), Some("stream: no answer"));
        other.tell_trouble("b", Some("source ./logs: no such folder")).await.unwrap();
        assert_eq!(heard().await.as_deref(), Some("stream: no answer"), "it holds up more than a source's logs");
        teller.tell_trouble("a", None).await.unwrap();
        assert_eq!(heard().await.as_deref(), Some("source ./logs: no such folder"));
        other.tell_trouble("b", None).await.unwrap();
        assert_eq!(heard().await, None);
    }

    async fn what_is_not_repeated_ends(place: Place) {
        let store = place.store().await;
        store.tell_trouble("killed", Some("stream: no answer")).await.unwrap();
        let mut tx = store.pools.write().await.unwrap();
        tx.query("UPDATE troubles SET at = at - 15000000").run().await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(store.trouble().await.unwrap(), None);
        store.tell_trouble("other", None).await.unwrap();
        let left: Option<i64> = store.pools.query("SELECT COUNT(*) FROM troubles").value().await.unwrap();
        assert_eq!(left, Some(0), "and is forgotten");
    }
}
