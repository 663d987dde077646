//! Lost clicks on their way into table `gaps`: whoever has a journal need not have the lake.
//!
//! ```text
//! file of losses in the journal's folder ──tell──► here: lost 7, recorded 5 ──► gaps: a row of 2 ──record──► recorded 7
//! ```
//! A journal's count only grows, and so do both numbers here; told again, or recorded again, they stay as they are.

use ingest::journal::{Losses, Refusal};
use schemas::{JournalId, UtcMicros};

use super::LinkStore;
use super::db::Row;
use super::error::{Doing, LinkError};
use super::read::parsed;

const TELLING: &str = "telling of lost clicks";
const READING: &str = "reading of lost clicks";

/// What a journal has lost, as its node has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldLosses {
    /// The journal.
    pub journal: JournalId,
    /// All that it has lost.
    pub losses: Losses,
    /// How many of them are in rows of `gaps`.
    pub recorded: u64,
}

impl LinkStore {
    /// Tells what a journal has lost so far. Less than what is known already changes nothing.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`], [`LinkError::DiskFull`].
    pub async fn tell_losses(&self, journal: JournalId, losses: &Losses) -> Result<(), LinkError> {
        const SQL: &str = "INSERT INTO losses (journal, lost, at_least, first_at, last_at, why, recorded)
             VALUES ($1, $2, $3, $4, $5, $6, 0)
             ON CONFLICT (journal) DO UPDATE SET lost = $2, at_least = $3, first_at = $4, last_at = $5, why = $6
             WHERE losses.lost <= $2";
        let mut tx = self.pools.write().await.doing(TELLING)?;
        let told = tx.query(SQL).bind(journal.to_string()).bind(number(losses.count)).bind(number(losses.at_least));
        let told = told.bind(losses.first.unwrap_or_default().0).bind(losses.last.unwrap_or_default().0);
        told.bind(losses.why.map_or("", Refusal::as_str)).run().await.doing(TELLING)?;
        tx.commit().await.doing(TELLING)
    }

    /// What all journals have lost, ever, as far as it was told.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn told_losses(&self) -> Result<Vec<ToldLosses>, LinkError> {
        const SQL: &str =
            "SELECT journal, lost, at_least, first_at, last_at, why, recorded FROM losses ORDER BY journal";
        let rows = self.pools.query(SQL).rows().await.doing(READING)?;
        rows.iter().map(told).collect::<Result<_, _>>().doing(READING)
    }

    /// Notes that so many of what a journal has lost are in rows of `gaps`.
    ///
    /// # Errors
    /// As [`LinkStore::tell_losses`].
    pub async fn record_losses(&self, journal: JournalId, recorded: u64) -> Result<(), LinkError> {
        const SQL: &str = "UPDATE losses SET recorded = $2 WHERE journal = $1 AND recorded < $2";
        let mut tx = self.pools.write().await.doing(TELLING)?;
        tx.query(SQL).bind(journal.to_string()).bind(number(recorded)).run().await.doing(TELLING)?;
        tx.commit().await.doing(TELLING)
    }
}

/// As databases keep it.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn told(row: &Row) -> Result<ToldLosses, sqlx::Error> {
    let number = |name: &str| row.get::<i64>(name).map(i64::unsigned_abs);
    let time = |name: &str| row.get::<i64>(name).map(|at| Some(UtcMicros(at)));
    let losses = Losses {
        count: number("lost")?,
        at_least: number("at_least")?,
        first: time("first_at")?,
        last: time("last_at")?,
        why: Refusal::of_word(row.get("why")?),
    };
    Ok(ToldLosses { journal: parsed(row, "journal")?, losses, recorded: number("recorded")? })
}

#[cfg(test)]
mod tests;
