//! The registry of journals, and the two instants published from it (design §4.2, §4.4).
//!
//! A journal joins, and `complete_through` is published, each in one transaction that holds the write lock from its
//! first read. So a journal is either counted by a publication or begins after what was published; with `through`
//! never going back, no open journal's mark is ever before `complete_through`, and that never goes back either.
//!
//! Neither is ever later than the database's clock, whatever nodes and their events say (`clock.rs`).
//!
//! While no journal is open, `complete_through` is the clock: asking for it publishes what is answered, since a
//! journal registered later by a node whose clock is behind must still begin after what has been promised.

use async_trait::async_trait;
use ingest::ports::{JournalState, Landed, PortError, RegisteredJournal, Registry};
use schemas::{JournalId, UtcMicros};

use super::LinkStore;
use super::clock::{floor, not_later};
use super::db::{Row, Run, Tx};
use super::error::{Doing, LinkError, port_error};
use super::read::parsed;

const COMPLETE: &str = "complete_through";
const FINAL: &str = "final_through";

const REGISTERING: &str = "registering a journal";
const READING: &str = "reading the registry";
const PUBLISHING: &str = "publishing progress";

#[async_trait]
impl Registry for LinkStore {
    async fn register(&self, id: JournalId, node: &str, now: UtcMicros) -> Result<UtcMicros, PortError> {
        self.register_journal(id, node, now).await.map_err(port_error(REGISTERING))
    }

    async fn journals(&self) -> Result<Vec<RegisteredJournal>, PortError> {
        read_journals(&*self.pools).await.map_err(port_error(READING))
    }

    async fn publish(&self, landed: &[Landed], now: UtcMicros) -> Result<UtcMicros, PortError> {
        self.publish_landed(landed, now).await.map_err(port_error(PUBLISHING))
    }

    async fn set_state(&self, id: JournalId, state: JournalState) -> Result<(), PortError> {
        self.set_journal_state(id, state).await.map_err(port_error("closing a journal"))
    }

    async fn complete_through(&self, now: UtcMicros) -> Result<UtcMicros, PortError> {
        self.read_complete_through(now).await.map_err(port_error(READING))
    }

    async fn final_through(&self) -> Result<Option<UtcMicros>, PortError> {
        read_published(&*self.pools, FINAL).await.map_err(port_error(READING))
    }
}

impl LinkStore {
    /// Publishes that edge logs are settled up to `at`. Never goes back; returns what is published then.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn publish_final_through(&self, at: UtcMicros) -> Result<UtcMicros, LinkError> {
        let mut tx = self.pools.write().await.doing(PUBLISHING)?;
        let at = not_later(&mut tx, at).await?;
        let published = raise(&mut tx, FINAL, at).await?;
        tx.commit().await.doing(PUBLISHING)?;
        Ok(published)
    }

    /// Up to where edge logs are settled; `None` when nothing has been published.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn final_through(&self) -> Result<Option<UtcMicros>, LinkError> {
        read_published(&*self.pools, FINAL).await
    }

    async fn register_journal(&self, id: JournalId, node: &str, now: UtcMicros) -> Result<UtcMicros, LinkError> {
        const SQL: &str = "INSERT INTO journals (id, node, registered_at, state, through, committed)
                           VALUES ($1, $2, $3, 'open', $3, 0)";
        let mut tx = self.pools.write().await.doing(REGISTERING)?;
        if let Some(known) = read_journal(&mut tx, id).await? {
            return match known.state {
                JournalState::Open => Ok(known.registered_at),
                state => Err(LinkError::JournalOver { id, state }),
            };
        }
        let published = read_published(&mut tx, COMPLETE).await?;
        // what clocks may differ by, a mark needn't
        let now = not_later(&mut tx, now).await?;
        let mark = floor(published, now, tx.is_server()).map_or(now, |published| published.max(now));
        tx.query(SQL).bind(id.to_string()).bind(node).bind(mark.0).run().await.doing(REGISTERING)?;
        tx.commit().await.doing(REGISTERING)?;
        Ok(mark)
    }

    async fn publish_landed(&self, landed: &[Landed], now: UtcMicros) -> Result<UtcMicros, LinkError> {
        let mut tx = self.pools.write().await.doing(PUBLISHING)?;
        for landed in landed {
            advance(&mut tx, landed).await?;
        }
        let published = publish_complete(&mut tx, now).await?;
        tx.commit().await.doing(PUBLISHING)?;
        Ok(published)
    }

    async fn read_complete_through(&self, now: UtcMicros) -> Result<UtcMicros, LinkError> {
        if lowest_open(&*self.pools).await?.is_some()
            && let Some(published) = read_published(&*self.pools, COMPLETE).await?
        {
            return Ok(published);
        }
        // No journal is open, or none has been published of yet.
        self.publish_landed(&[], now).await
    }

    async fn set_journal_state(&self, id: JournalId, state: JournalState) -> Result<(), LinkError> {
        const DOING: &str = "closing a journal";
        let mut tx = self.pools.write().await.doing(DOING)?;
        let known = read_journal(&mut tx, id).await?.ok_or(LinkError::UnknownJournal(id))?;
        match (known.state, state) {
            (before, after) if before == after => return Ok(()),
            // All of it is in the lake: there is nothing left to give up.
            (JournalState::Closed, JournalState::Retired) => return Ok(()),
            // Its mark may be far behind what has been published since.
            (state, JournalState::Open) => return Err(LinkError::JournalOver { id, state }),
            _ => {}
        }
        tx.query("UPDATE journals SET state = $2 WHERE id = $1")
            .bind(id.to_string())
            .bind(state.as_str())
            .run()
            .await
            .doing(DOING)?;
        tx.commit().await.doing(DOING)
    }
}

/// Publishes what all open journals have passed, `now` when none is open; no later than the database's clock.
pub(super) async fn publish_complete(tx: &mut Tx, now: UtcMicros) -> Result<UtcMicros, LinkError> {
    let through = lowest_open(&mut *tx).await?.unwrap_or(now);
    let through = not_later(tx, through).await?;
    raise(tx, COMPLETE, through).await
}

/// Moves a journal's progress forward, each part by itself; neither ever goes back.
pub(super) async fn advance(tx: &mut Tx, landed: &Landed) -> Result<(), LinkError> {
    const THROUGH: &str = "UPDATE journals SET through = $2 WHERE id = $1 AND through < $2";
    const COMMITTED: &str = "UPDATE journals SET committed = $2 WHERE id = $1 AND committed < $2";
    let known = read_journal(&mut *tx, landed.id).await?.ok_or(LinkError::UnknownJournal(landed.id))?;
    // Written only when they move: an idle publication then costs no sync of the disk.
    if known.through < landed.through {
        let update = tx.query(THROUGH).bind(landed.id.to_string()).bind(landed.through.0);
        update.run().await.doing(PUBLISHING)?;
    }
    if known.committed < landed.committed {
        let committed = i64::try_from(landed.committed).unwrap_or(i64::MAX);
        let update = tx.query(COMMITTED).bind(landed.id.to_string()).bind(committed);
        update.run().await.doing(PUBLISHING)?;
    }
    Ok(())
}

/// Raises a published instant to `at`, or leaves it where it is when it is there or later already. Returns it.
async fn raise(tx: &mut Tx, name: &str, at: UtcMicros) -> Result<UtcMicros, LinkError> {
    const SQL: &str = "INSERT INTO published (name, at) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET at = $2";
    match read_published(&mut *tx, name).await? {
        Some(published) if published >= at => Ok(published),
        _ => {
            tx.query(SQL).bind(name).bind(at.0).run().await.doing(PUBLISHING)?;
            Ok(at)
        }
    }
}

async fn lowest_open(on: impl Run<'_>) -> Result<Option<UtcMicros>, LinkError> {
    let lowest = on.statement("SELECT MIN(through) FROM journals WHERE state = 'open'").one().await;
    lowest.map(|through: Option<i64>| through.map(UtcMicros)).doing(READING)
}

/// The published `complete_through`, `None` before the first.
pub(super) async fn read_complete(on: impl Run<'_>) -> Result<Option<UtcMicros>, LinkError> {
    read_published(on, COMPLETE).await
}

async fn read_published(on: impl Run<'_>, name: &str) -> Result<Option<UtcMicros>, LinkError> {
    let at = on.statement("SELECT at FROM published WHERE name = $1").bind(name).value().await;
    at.map(|at: Option<i64>| at.map(UtcMicros)).doing(READING)
}

async fn read_journals(on: impl Run<'_>) -> Result<Vec<RegisteredJournal>, LinkError> {
    const SQL: &str = "SELECT id, node, registered_at, state, through, committed,
                           EXISTS (SELECT 1 FROM coverage WHERE journal = id) AS forwarded
                       FROM journals ORDER BY registered_at, id";
    let rows = on.statement(SQL).rows().await.doing(READING)?;
    rows.iter().map(journal).collect::<Result<_, _>>().doing(READING)
}

pub(super) async fn read_journal(on: impl Run<'_>, id: JournalId) -> Result<Option<RegisteredJournal>, LinkError> {
    const SQL: &str = "SELECT id, node, registered_at, state, through, committed,
                           EXISTS (SELECT 1 FROM coverage WHERE journal = id) AS forwarded
                       FROM journals WHERE id = $1";
    let row = on.statement(SQL).bind(id.to_string()).row().await.doing(READING)?;
    row.as_ref().map(journal).transpose().doing(READING)
}

fn journal(row: &Row) -> Result<RegisteredJournal, sqlx::Error> {
    let state = match row.get("state")? {
        "open" => JournalState::Open,
        "closed" => JournalState::Closed,
        "retired" => JournalState::Retired,
        other => return Err(sqlx::Error::Decode(format!("{other:?} is no state of a journal").into())),
    };
    Ok(RegisteredJournal {
        id: parsed(row, "id")?,
        node: row.get("node")?,
        registered_at: UtcMicros(row.get("registered_at")?),
        state,
        through: UtcMicros(row.get("through")?),
        committed: row.get::<i64>("committed")?.unsigned_abs(),
        forwarded: row.get("forwarded")?,
    })
}

#[cfg(test)]
mod tests;
