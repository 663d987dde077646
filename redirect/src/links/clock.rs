//! The database's clock: the one that all nodes share. What is published is never later than it says, and nodes whose own
//! is another say so here, for status to name them.
//!
//! Of a server the clock is a second opinion. Of a file it is this machine's own, so that only what was published before can
//! contradict it.

use std::time::Duration;

use schemas::UtcMicros;

use super::LinkStore;
use super::db::{Row, Tx};
use super::error::{Doing, LinkError};

const READING: &str = "reading the link store's clock";
const TELLING: &str = "telling of a clock";

/// What is published later than a server's clock says, by more than servers' clocks are set back or differ at a failover, was
/// published when a clock was wrong.
const IMPOSSIBLE: Duration = Duration::from_secs(600);
/// What a process has said of its clock holds for so long.
const HOLDS: Duration = Duration::from_secs(60);
/// And is kept for so long.
const KEPT: Duration = Duration::from_secs(86_400);

/// What the link store says of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreClock {
    /// Its clock.
    pub now: UtcMicros,
    /// The published `complete_through`, when there is one.
    pub published: Option<UtcMicros>,
    /// No event of a journal registered now is before this, whatever its node's clock says.
    pub floor: Option<UtcMicros>,
}

impl StoreClock {
    /// What was published later than it can be true, if it was.
    pub fn impossible(&self) -> Option<UtcMicros> {
        self.published.filter(|published| published.since(self.now) > IMPOSSIBLE)
    }
}

impl LinkStore {
    /// What the database's clock says, and what was published by it.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn clock(&self) -> Result<StoreClock, LinkError> {
        let published = super::registry::read_complete(&*self.pools).await?;
        let now = self.pools.now().await.doing(READING)?;
        Ok(StoreClock { now, published, floor: floor(published, now, self.pools.is_server()) })
    }

    /// Says what is wrong with the clock of `process`, `None` when nothing is any more.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`], [`LinkError::DiskFull`].
    pub async fn tell_clock(&self, process: &str, says: Option<&str>) -> Result<(), LinkError> {
        const SQL: &str = "INSERT INTO wrong_clocks (process, says, at) VALUES ($1, $2, $3)
             ON CONFLICT (process) DO UPDATE SET says = $2, at = $3";
        let mut tx = self.pools.write().await.doing(TELLING)?;
        let now = tx.now().await.doing(TELLING)?;
        tx.query("DELETE FROM wrong_clocks WHERE process = $1 OR at < $2")
            .bind(process)
            .bind(now.minus(KEPT).0)
            .run()
            .await
            .doing(TELLING)?;
        if let Some(says) = says {
            tx.query(SQL).bind(process).bind(says).bind(now.0).run().await.doing(TELLING)?;
        }
        tx.commit().await.doing(TELLING)
    }

    /// The processes that say that their clock is wrong, and what they say, by name.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn wrong_clocks(&self) -> Result<Vec<(String, String)>, LinkError> {
        const SQL: &str = "SELECT process, says FROM wrong_clocks WHERE at > $1 ORDER BY process";
        let now = self.pools.now().await.doing(READING)?;
        let rows = self.pools.query(SQL).bind(now.minus(HOLDS).0).rows().await.doing(READING)?;
        let one = |row: &Row| Ok((row.get("process")?, row.get("says")?));
        rows.iter().map(one).collect::<Result<_, sqlx::Error>>().doing(READING)
    }
}

/// What was published binds whoever registers a journal, unless a server's clock says that it can't be true. A file's clock
/// is the machine's own: it may as well be that one which is behind.
pub(super) fn floor(published: Option<UtcMicros>, now: UtcMicros, is_server: bool) -> Option<UtcMicros> {
    published.filter(|published| !is_server || published.since(now) <= IMPOSSIBLE)
}

/// The database's clock, or `at` if that is earlier.
pub(super) async fn not_later(tx: &mut Tx, at: UtcMicros) -> Result<UtcMicros, LinkError> {
    Ok(tx.now().await.doing(READING)?.min(at))
}

#[cfg(test)]
mod tests;
