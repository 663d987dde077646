//! Leases of a stream's partitions: processes that share a topic agree here on who reads which part of it.
//!
//! ```text
//! claim: I am here ─► members ─┐                          ┌─► leases: mine, longer
//!                              ├─► fair share (`policy`) ─┼─► leases: free ones, mine now
//!                    leases  ──┘                          └─► told: those to stop reading, and to give back next time
//! ```
//! Invariants
//! * A partition has one lease, and nobody takes it over before its end by **this database's clock**: nodes' clocks may
//!   be apart. A holder counts its end from before it asked, by a clock that never jumps; so it stops first.
//! * A claim is one transaction under the write lock: of two, the second sees what the first has done.
//! * A lease says who should read. What makes a second reader harmless is the position in the lake, which every commit
//!   compares: an owner that was paused and wakes finds it moved.

mod policy;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemas::UtcMicros;

use super::LinkStore;
use super::db::{Row, Tx};
use super::error::{Doing, LinkError};
use policy::{Decision, Held, decide};

const CLAIMING: &str = "claiming partitions";

/// How long what ended is kept, to be looked at.
const KEPT: Duration = Duration::from_secs(86_400);

/// What a process that shares a stream asks for.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The stream: a topic's generation.
    pub stream: &'a str,
    /// How many partitions it has.
    pub partitions: u32,
    /// Who asks: a name that no other process has or has had.
    pub member: &'a str,
    /// How long its word holds.
    pub lasts: Duration,
    /// Partitions that it had, and has stopped reading.
    pub gives_back: &'a [u32],
}

/// What it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The partitions that it may read until its word ends.
    pub held: BTreeSet<u32>,
    /// Of those, the ones that it is to stop reading and give back, because others have less.
    pub surplus: BTreeSet<u32>,
    /// How many share the stream.
    pub members: usize,
}

/// Who holds a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process, by the name it claims under.
    pub owner: String,
    /// Until when nobody else may, by the database's clock.
    pub until: UtcMicros,
}

impl LinkStore {
    /// Says that a process is here, gives back what it has stopped reading, and gives it its fair share of what is free.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn claim_partitions(&self, claim: &Claim<'_>) -> Result<Claimed, LinkError> {
        let mut tx = self.pools.write().await.doing(CLAIMING)?;
        let now = tx.now().await.doing(CLAIMING)?;
        tidy(&mut tx, now).await.doing(CLAIMING)?;
        let until = now.plus(claim.lasts);
        for part in claim.gives_back {
            let sql = "UPDATE leases SET until = $4 WHERE stream = $1 AND part = $2 AND owner = $3 AND until > $4";
            let given = tx.query(sql).bind(claim.stream).bind(*part).bind(claim.member).bind(now.0);
            given.run().await.doing(CLAIMING)?;
        }
        let here = "INSERT INTO members (stream, name, until) VALUES ($1, $2, $3) \
                    ON CONFLICT (stream, name) DO UPDATE SET until = $3";
        tx.query(here).bind(claim.stream).bind(claim.member).bind(until.0).run().await.doing(CLAIMING)?;
        let sql = "SELECT name FROM members WHERE stream = $1 AND until > $2";
        let members: Vec<String> = tx.query(sql).bind(claim.stream).bind(now.0).values().await.doing(CLAIMING)?;
        let members: BTreeSet<String> = members.into_iter().collect();
        let sql = "SELECT part, owner FROM leases WHERE stream = $1 AND until > $2";
        let rows = tx.query(sql).bind(claim.stream).bind(now.0).rows().await.doing(CLAIMING)?;
        let held = rows.iter().map(held).collect::<Result<Vec<_>, _>>().doing(CLAIMING)?;
        let decision = decide(claim.partitions, claim.member, &members, &held);
        write(&mut tx, claim, &decision, until).await.doing(CLAIMING)?;
        tx.commit().await.doing(CLAIMING)?;
        let Decision { keep, take, give_up } = decision;
        Ok(Claimed {
            held: keep.into_iter().chain(take).collect(),
            surplus: give_up.into_iter().collect(),
            members: members.len(),
        })
    }

    /// Gives all back that a process has, of every stream, and takes its word away: it reads no more. Returns how many
    /// partitions that were.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn leave_partitions(&self, member: &str) -> Result<u64, LinkError> {
        const DOING: &str = "giving partitions back";
        let mut tx = self.pools.write().await.doing(DOING)?;
        let now = tx.now().await.doing(DOING)?;
        let sql = "UPDATE leases SET until = $2 WHERE owner = $1 AND until > $2";
        let left = tx.query(sql).bind(member).bind(now.0).run().await.doing(DOING)?;
        let sql = "DELETE FROM members WHERE name = $1";
        tx.query(sql).bind(member).run().await.doing(DOING)?;
        tx.commit().await.doing(DOING)?;
        Ok(left)
    }

    /// Who holds which partition of a stream now: those that nobody holds are left out.
    ///
    /// # Errors
    /// [`LinkError::Away`], [`LinkError::Database`].
    pub async fn holders(&self, stream: &str) -> Result<BTreeMap<u32, Holder>, LinkError> {
        const DOING: &str = "reading who holds partitions";
        let now = self.pools.now().await.doing(DOING)?;
        let sql = "SELECT part, owner, until FROM leases WHERE stream = $1 AND until > $2";
        let rows = self.pools.query(sql).bind(stream).bind(now.0).rows().await.doing(DOING)?;
        let one = |row: &Row| {
            Ok((row.count("part")?, Holder { owner: row.get("owner")?, until: UtcMicros(row.get("until")?) }))
        };
        rows.iter().map(one).collect::<Result<_, sqlx::Error>>().doing(DOING)
    }
}

async fn write(tx: &mut Tx, claim: &Claim<'_>, decision: &Decision, until: UtcMicros) -> Result<(), sqlx::Error> {
    for part in &decision.keep {
        let sql = "UPDATE leases SET until = $3 WHERE stream = $1 AND part = $2";
        tx.query(sql).bind(claim.stream).bind(*part).bind(until.0).run().await?;
    }
    for part in &decision.take {
        let sql = "INSERT INTO leases (stream, part, owner, until, generation) VALUES ($1, $2, $3, $4, 1) \
                   ON CONFLICT (stream, part) DO UPDATE SET owner = $3, until = $4, \
                   generation = leases.generation + 1";
        tx.query(sql).bind(claim.stream).bind(*part).bind(claim.member).bind(until.0).run().await?;
    }
    Ok(())
}

/// Forgets what has ended long ago: streams that are over, processes that are gone.
async fn tidy(tx: &mut Tx, now: UtcMicros) -> Result<(), sqlx::Error> {
    let cut = now.minus(KEPT).0;
    tx.query("DELETE FROM members WHERE until < $1").bind(cut).run().await?;
    tx.query("DELETE FROM leases WHERE until < $1").bind(cut).run().await.map(drop)
}

fn held(row: &Row) -> Result<Held, sqlx::Error> {
    Ok(Held { part: row.count("part")?, owner: row.get("owner")? })
}

#[cfg(test)]
mod tests;
