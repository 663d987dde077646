//! What an operator has put in place that processes don't take because it is wrong, told to those that are asked: a query node
//! has no rules.
//!
//! A word that isn't repeated ends by itself, by the database's clock: who was killed says nothing any more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LinkStore;
use super::error::{Doing, LinkError};

/// How long a word is believed.
const BELIEVED: Duration = Duration::from_secs(15);

/// Something that a process doesn't take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who says so.
    pub process: String,
    /// What: a key of the configuration, or a file.
    pub what: String,
    /// Why.
    pub why: String,
}

impl LinkStore {
    /// Says what `process` refuses now, each with why, to be said again well within 15 s.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn tell_refusals(&self, process: &str, refused: &BTreeMap<String, String>) -> Result<(), LinkError> {
        const DOING: &str = "telling what is refused";
        let mut tx = self.pools.write().await.doing(DOING)?;
        let now = tx.now().await.doing(DOING)?;
        let sql = "DELETE FROM refusals WHERE process = $1 OR at <= $2";
        let cut = now.minus(BELIEVED).0;
        tx.query(sql).bind(process).bind(cut).run().await.doing(DOING)?;
        for (what, why) in refused {
            let sql = "INSERT INTO refusals (process, what, why, at) VALUES ($1, $2, $3, $4)";
            let told = tx.query(sql).bind(process).bind(what.as_str()).bind(why.as_str()).bind(now.0);
            told.run().await.doing(DOING)?;
        }
        tx.commit().await.doing(DOING)
    }

    /// What is refused anywhere, by process.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn refusals(&self) -> Result<Vec<Refusal>, LinkError> {
        const DOING: &str = "reading what is refused";
        let now = self.pools.now().await.doing(DOING)?;
        let sql = "SELECT process, what, why FROM refusals WHERE at > $1 ORDER BY process, what";
        let rows = self.pools.query(sql).bind(now.minus(BELIEVED).0).rows().await.doing(DOING)?;
        let refusal = |row: &super::db::Row| {
            Ok(Refusal { process: row.get("process")?, what: row.get("what")?, why: row.get("why")? })
        };
        rows.iter().map(refusal).collect::<Result<_, sqlx::Error>>().doing(DOING)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database};

    on_each_database!(what_is_refused_is_told_until_it_is_taken_or_nobody_says_so_any_more);

    async fn what_is_refused_is_told_until_it_is_taken_or_nobody_says_so_any_more(place: Place) {
        let (teller, asked) = (place.store().await, place.store().await);
        let tell = async |process: &str, what: &[(&str, &str)]| {
            let what = what.iter().map(|(what, why)| ((*what).to_owned(), (*why).to_owned())).collect();
            teller.tell_refusals(process, &what).await.unwrap();
        };
        let heard = async || {
            let told = asked.refusals().await.unwrap();
            told.into_iter().map(|one| format!("{} {} {}", one.process, one.what, one.why)).collect::<Vec<_>>()
        };
        tell("b", &[("rules", "y"), ("geo", "z")]).await;
        tell("a", &[("rules", "x")]).await;
        assert_eq!(heard().await, ["a rules x", "b geo z", "b rules y"]);
        tell("b", &[("geo", "still")]).await;
        tell("a", &[]).await;
        assert_eq!(heard().await, ["b geo still"]);
        let mut tx = teller.pools.write().await.unwrap();
        tx.query("UPDATE refusals SET at = at - 15000000").run().await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(heard().await, [""; 0]);
        tell("other", &[]).await;
        let left: Option<i64> = teller.pools.query("SELECT COUNT(*) FROM refusals").value().await.unwrap();
        assert_eq!(left, Some(0), "and is forgotten");
    }
}
