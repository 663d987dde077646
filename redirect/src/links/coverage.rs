//! What the lake holds of journals that go through a topic: rows of (journal, partition), and what follows from them for
//! the journal as a whole.
//!
//! A journal's `committed`, `through` and end are the least of its rows, taken in the transaction that moves a row. So
//! trimming, `complete_through` and closing need not know of partitions.

use std::time::Duration;

use async_trait::async_trait;
use ingest::ports::{Coverage, Covered, Generation, JournalState, Landed, Missing, PortError, Reached, Reading};
use schemas::{JournalId, UtcMicros};
use uuid::Uuid;

use super::LinkStore;
use super::db::{Row, Run, Tx};
use super::error::{Doing, LinkError, port_error};
use super::read::parsed;
use super::registry::{advance, publish_complete, read_journal};

const BEGINNING: &str = "beginning a generation of the topic";
const ENTERING: &str = "having a journal go through the topic";
const READING: &str = "reading what the lake holds of the topic";
const PUBLISHING: &str = "publishing what the lake holds of the topic";

/// How long it is believed that a process reads a partition: three of its words.
const BELIEVED: Duration = Duration::from_secs(30);

/// Characters of a generation's name: enough that no topic has the same twice.
const NAME: usize = 12;

#[async_trait]
impl Coverage for LinkStore {
    async fn generation(&self, topic: &str) -> Result<Option<Generation>, PortError> {
        read_generation(&*self.pools, topic).await.map_err(port_error(READING))
    }

    async fn begin_generation(
        &self,
        topic: &str,
        partitions: u32,
        seen: Option<&Generation>,
        now: UtcMicros,
    ) -> Result<Generation, PortError> {
        self.begin(topic, partitions, seen, now).await.map_err(port_error(BEGINNING))
    }

    async fn enter(&self, journal: JournalId, generation: &Generation) -> Result<Vec<Covered>, PortError> {
        self.enter_journal(journal, generation).await.map_err(port_error(ENTERING))
    }

    async fn covered(&self, generation: &Generation) -> Result<Vec<Covered>, PortError> {
        self.read_covered(generation).await.map_err(port_error(READING))
    }

    async fn cover(
        &self,
        generation: &Generation,
        covered: &[Covered],
        reached: &[Reached],
        now: UtcMicros,
    ) -> Result<UtcMicros, PortError> {
        self.publish_covered(generation, covered, reached, now).await.map_err(port_error(PUBLISHING))
    }

    async fn reached(&self, generation: &Generation) -> Result<Vec<Reached>, PortError> {
        self.read_reached(generation).await.map_err(port_error(READING))
    }
}

impl LinkStore {
    /// How far the lake was with each partition of the present generation of each topic, as last published: its name, and the
    /// first offset that the lake lacked.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn published_offsets(&self) -> Result<Vec<(String, u64)>, LinkError> {
        const SQL: &str = "SELECT topics.topic, topics.generation, topics.partitions, part, next_at FROM topic_reached
             JOIN topics ON topics.generation = topic_reached.generation ORDER BY topics.topic, part";
        let offset = |row: &Row| {
            let (topic, id, partitions) = (row.get("topic")?, row.get("generation")?, row.count("partitions")?);
            let name = Generation { topic, id, partitions }.partition(row.count("part")?);
            Ok::<_, sqlx::Error>((name, row.get::<i64>("next_at")?.unsigned_abs()))
        };
        let rows = self.pools.query(SQL).rows().await.doing(READING)?;
        rows.iter().map(offset).collect::<Result<_, _>>().doing(READING)
    }

    async fn begin(
        &self,
        topic: &str,
        partitions: u32,
        seen: Option<&Generation>,
        now: UtcMicros,
    ) -> Result<Generation, LinkError> {
        const SQL: &str = "INSERT INTO topics (topic, generation, partitions, begun_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (topic) DO UPDATE SET generation = $2, partitions = $3, begun_at = $4";
        let mut tx = self.pools.write().await.doing(BEGINNING)?;
        let present = read_generation(&mut tx, topic).await?;
        if let Some(present) = present
            && Some(&present) != seen
        {
            return Ok(present);
        }
        let mut id = Uuid::new_v4().simple().to_string();
        id.truncate(NAME);
        tx.query(SQL).bind(topic).bind(&id).bind(partitions).bind(now.0).run().await.doing(BEGINNING)?;
        tx.commit().await.doing(BEGINNING)?;
        Ok(Generation { topic: topic.to_owned(), id, partitions })
    }

    async fn enter_journal(&self, journal: JournalId, generation: &Generation) -> Result<Vec<Covered>, LinkError> {
        const DELETE: &str = "DELETE FROM coverage WHERE journal = $1";
        const INSERT: &str =
            "INSERT INTO coverage (journal, part, generation, covered, through, ended, missing_to, asked)
             VALUES ($1, $2, $3, $4, $5, 0, 0, 0)";
        let mut tx = self.pools.write().await.doing(ENTERING)?;
        let known = read_journal(&mut tx, journal).await?.ok_or(LinkError::UnknownJournal(journal))?;
        if read_generation(&mut tx, &generation.topic).await?.as_ref() != Some(generation) {
            return Err(LinkError::GenerationOver { topic: generation.topic.clone(), id: generation.id.clone() });
        }
        let rows = read_rows(&mut tx, journal, generation).await?;
        if rows.len() == generation.partitions as usize {
            return Ok(rows);
        }
        tx.query(DELETE).bind(journal.to_string()).run().await.doing(ENTERING)?;
        for part in 0..generation.partitions {
            let row = tx.query(INSERT).bind(journal.to_string()).bind(part).bind(&generation.id);
            row.bind(number(known.committed)).bind(known.through.0).run().await.doing(ENTERING)?;
        }
        let rows = read_rows(&mut tx, journal, generation).await?;
        tx.commit().await.doing(ENTERING)?;
        Ok(rows)
    }

    async fn read_covered(&self, generation: &Generation) -> Result<Vec<Covered>, LinkError> {
        const SQL: &str = "SELECT journal, part, covered, through, ended, missing_to, asked FROM coverage
                           WHERE generation = $1 ORDER BY journal, part";
        let rows = self.pools.query(SQL).bind(&generation.id).rows().await.doing(READING)?;
        rows.iter().map(covered).collect::<Result<_, _>>().doing(READING)
    }

    async fn read_reached(&self, generation: &Generation) -> Result<Vec<Reached>, LinkError> {
        const SQL: &str = "SELECT part, next_at, end_at, told_at, near FROM topic_reached
                           WHERE generation = $1 ORDER BY part";
        let told_after = self.pools.now().await.doing(READING)?.minus(BELIEVED);
        let rows = self.pools.query(SQL).bind(&generation.id).rows().await.doing(READING)?;
        rows.iter().map(|row| reached(row, told_after)).collect::<Result<_, _>>().doing(READING)
    }

    async fn publish_covered(
        &self,
        generation: &Generation,
        covered: &[Covered],
        reached: &[Reached],
        now: UtcMicros,
    ) -> Result<UtcMicros, LinkError> {
        let mut tx = self.pools.write().await.doing(PUBLISHING)?;
        let mut journals: Vec<JournalId> = Vec::new();
        for row in covered {
            if raise_row(&mut tx, generation, row).await? && !journals.contains(&row.journal) {
                journals.push(row.journal);
            }
        }
        for journal in journals {
            follow(&mut tx, journal).await?;
        }
        if !reached.is_empty() {
            let now = tx.now().await.doing(PUBLISHING)?;
            for one in reached {
                reach(&mut tx, generation, one, now).await?;
            }
        }
        let published = publish_complete(&mut tx, now).await?;
        tx.commit().await.doing(PUBLISHING)?;
        Ok(published)
    }
}

/// Moves a row forward, each part by itself. Returns whether there is such a row.
async fn raise_row(tx: &mut Tx, generation: &Generation, row: &Covered) -> Result<bool, LinkError> {
    const SQL: &str = "UPDATE coverage SET
             covered = CASE WHEN covered < $4 THEN $4 ELSE covered END,
             through = CASE WHEN through < $5 THEN $5 ELSE through END,
             ended = CASE WHEN ended < $6 THEN $6 ELSE ended END,
             missing_to = $7, asked = $8
         WHERE journal = $1 AND part = $2 AND generation = $3";
    let update = tx
        .query(SQL)
        .bind(row.journal.to_string())
        .bind(row.partition)
        .bind(&generation.id)
        .bind(number(row.covered))
        .bind(row.through.0)
        .bind(i64::from(row.ended))
        .bind(row.missing.map_or(0, |missing| number(missing.to)))
        .bind(row.missing.map_or(0, |missing| missing.asked));
    Ok(update.run().await.doing(PUBLISHING)? > 0)
}

/// Brings a journal as far as the least of its rows.
async fn follow(tx: &mut Tx, journal: JournalId) -> Result<(), LinkError> {
    const LEAST: &str =
        "SELECT MIN(covered) AS covered, MIN(through) AS through, MIN(ended) AS ended FROM coverage WHERE journal = $1";
    const CLOSE: &str = "UPDATE journals SET state = $2 WHERE id = $1 AND state <> $2";
    let Some(least) = tx.query(LEAST).bind(journal.to_string()).row().await.doing(PUBLISHING)? else { return Ok(()) };
    let read = |name: &str| least.get::<i64>(name).doing(PUBLISHING);
    let (committed, through) = (read("covered")?.unsigned_abs(), UtcMicros(read("through")?));
    advance(tx, &Landed { id: journal, through, committed }).await?;
    if read("ended")? > 0 {
        let close = tx.query(CLOSE).bind(journal.to_string()).bind(JournalState::Closed.as_str());
        close.run().await.doing(PUBLISHING)?;
    }
    Ok(())
}

/// Notes how far the lake is with a partition, and that it is read `now`. One that was paused may say late what was true once: it moves nothing back.
async fn reach(tx: &mut Tx, generation: &Generation, one: &Reached, now: UtcMicros) -> Result<(), LinkError> {
    const SQL: &str = "INSERT INTO topic_reached (generation, part, next_at, end_at, told_at, near)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (generation, part) DO UPDATE SET next_at = $3, end_at = $4, told_at = $5, near = $6
         WHERE topic_reached.next_at <= $3";
    let insert = tx.query(SQL).bind(&generation.id).bind(one.partition);
    let insert = insert.bind(number(one.next)).bind(number(one.end));
    insert.bind(now.0).bind(i64::from(one.reading == Reading::Near)).run().await.doing(PUBLISHING)?;
    Ok(())
}

/// As databases keep it.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

async fn read_generation(on: impl Run<'_>, topic: &str) -> Result<Option<Generation>, LinkError> {
    const SQL: &str = "SELECT generation, partitions FROM topics WHERE topic = $1";
    let row = on.statement(SQL).bind(topic).row().await.doing(READING)?;
    let read = |row: &Row| {
        let (id, partitions) = (row.get("generation")?, row.count("partitions")?);
        Ok::<_, sqlx::Error>(Generation { topic: topic.to_owned(), id, partitions })
    };
    row.as_ref().map(read).transpose().doing(READING)
}

async fn read_rows(tx: &mut Tx, journal: JournalId, generation: &Generation) -> Result<Vec<Covered>, LinkError> {
    const SQL: &str = "SELECT journal, part, covered, through, ended, missing_to, asked FROM coverage
                       WHERE journal = $1 AND generation = $2 ORDER BY part";
    let rows = tx.query(SQL).bind(journal.to_string()).bind(&generation.id).rows().await.doing(READING)?;
    rows.iter().map(covered).collect::<Result<_, _>>().doing(READING)
}

fn covered(row: &Row) -> Result<Covered, sqlx::Error> {
    let missing = Missing { to: row.get::<i64>("missing_to")?.unsigned_abs(), asked: row.count("asked")? };
    Ok(Covered {
        journal: parsed(row, "journal")?,
        partition: row.count("part")?,
        covered: row.get::<i64>("covered")?.unsigned_abs(),
        through: UtcMicros(row.get("through")?),
        ended: row.get::<i64>("ended")? > 0,
        missing: (missing.to > 0).then_some(missing),
    })
}

fn reached(row: &Row, told_after: UtcMicros) -> Result<Reached, sqlx::Error> {
    let number = |name: &str| row.get::<i64>(name).map(i64::unsigned_abs);
    let reading = match (UtcMicros(row.get("told_at")?) > told_after, row.get::<i64>("near")? > 0) {
        (false, _) => Reading::Nobody,
        (true, false) => Reading::Behind,
        (true, true) => Reading::Near,
    };
    Ok(Reached { partition: row.count("part")?, next: number("next_at")?, end: number("end_at")?, reading })
}

#[cfg(test)]
mod tests;
