//! The queue of edge logs: uploads and objects of watched prefixes, each taken in once, whoever does it.
//!
//! ```text
//! queued ──claim──► running ──finish──► done | failed
//!    ▲                 │ its owner's word is older than the lease, its owner is known to be gone, or it will try later
//!    └─────────────────┘
//! ```
//! A lease only saves work: a log that two processes take in at once comes into the lake once all the same.

mod forget;

use std::time::Duration;

use super::LinkStore;
use super::db::{Query, Row};
use super::error::{Doing, LinkError};
use super::read::parsed;
use ingest::queue::{QueuedLog, Stage, Terms, Way};
use schemas::UtcMicros;
use sha2::{Digest as _, Sha256};

pub use forget::EndedLog;

const SELECT: &str = "SELECT id, way, name, workspace, format, id_mode, keep_unknown, source, object, parts, size, tag, \
                      stage, tries, summary, error, queued_at FROM edge_queue ";
const READING: &str = "reading the queue of edge logs";
const WRITING: &str = "writing the queue of edge logs";

/// What became of a log that was to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits for its turn now.
    New,
    /// It came before and failed, or was to be taken in again; the object and parts that were kept of it then are of
    /// no more use.
    Again {
        /// The staged object's name.
        object: String,
        /// How many parts of it are staged.
        parts: u32,
    },
    /// It is there already.
    Known(Stage),
}

/// A staged object that has been kept long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The log it is of.
    pub id: String,
    /// Its name.
    pub object: String,
    /// Its parts.
    pub parts: u32,
}

impl LinkStore {
    /// Queues a log, unless one of its identity is there that hasn't failed; with `again` also one that is done.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails, or the workspace is not there.
    pub async fn enqueue(&self, log: &QueuedLog, again: bool) -> Result<Enqueued, LinkError> {
        const SQL: &str = "INSERT INTO edge_queue (id, way, name, workspace, format, id_mode, keep_unknown, source, \
                           object, parts, size, tag, stage, tries, queued_at, until) \
                           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'queued', 0, $13, 0) \
                           ON CONFLICT (id) DO UPDATE SET name = $3, format = $5, source = $8, object = $9, \
                           parts = $10, size = $11, tag = $12, stage = 'queued', tries = 0, summary = NULL, \
                           error = NULL, queued_at = $13, ended_at = NULL, owner = NULL, until = 0";
        let mut tx = self.pools.write().await.doing(WRITING)?;
        let known = tx.query("SELECT stage, object, parts FROM edge_queue WHERE id = $1").bind(&log.id);
        let known = known.row().await.doing(WRITING)?;
        let known = known.as_ref().map(read_kept).transpose().doing(READING)?;
        match &known {
            Some((Stage::Failed, ..)) | None => {}
            Some((Stage::Done, ..)) if again => {}
            Some((stage, ..)) => return Ok(Enqueued::Known(*stage)),
        }
        let terms = &log.terms;
        tx.query(SQL)
            .bind(&log.id)
            .bind(log.way.as_str())
            .bind(&log.name)
            .bind(&terms.workspace)
            .bind(terms.format.map(|format| format.to_string()))
            .bind(terms.id.to_string())
            .bind(terms.keep_unknown)
            .bind(&terms.source)
            .bind(&log.object)
            .bind(log.parts)
            .bind(i64::try_from(log.size).unwrap_or(i64::MAX))
            .bind(&log.tag)
            .bind(log.queued_at.0)
            .run()
            .await
            .doing(WRITING)?;
        tx.commit().await.doing(WRITING)?;
        Ok(known.map_or(Enqueued::New, |(_, object, parts)| Enqueued::Again { object, parts }))
    }

    /// The log of this identity.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn queued_log(&self, id: &str) -> Result<Option<QueuedLog>, LinkError> {
        let row = self.pools.query(SELECT).push("WHERE id = $1").bind(id).row().await;
        row.doing(READING)?.as_ref().map(read).transpose().doing(READING)
    }

    /// The logs that are not taken in: those that wait, are under way or failed, the oldest first.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn logs_outside(&self) -> Result<Vec<QueuedLog>, LinkError> {
        let query = self.pools.query(SELECT).push("WHERE stage <> 'done' ORDER BY queued_at, id");
        let rows = query.rows().await.doing(READING)?;
        rows.iter().map(read).collect::<Result<_, sqlx::Error>>().doing(READING)
    }

    /// How many logs are not taken in yet.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn queued_logs(&self) -> Result<u64, LinkError> {
        let sql = "SELECT count(*) FROM edge_queue WHERE stage IN ('queued', 'running')";
        let count: i64 = self.pools.query(sql).one().await.doing(READING)?;
        Ok(count.max(0) as u64)
    }

    /// How many logs could not be taken in, and still are where they come from or wait to be sent again.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn failed_logs(&self) -> Result<u64, LinkError> {
        let sql = "SELECT count(*) FROM edge_queue WHERE stage = 'failed'";
        let count: i64 = self.pools.query(sql).one().await.doing(READING)?;
        Ok(count.max(0) as u64)
    }

    /// Takes the log that has waited longest, or whose owner has not been heard of since its lease ended. It is
    /// `owner`'s for `lease`.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn claim_log(
        &self,
        way: Way,
        owner: &str,
        now: UtcMicros,
        lease: Duration,
    ) -> Result<Option<QueuedLog>, LinkError> {
        const FIND: &str = "SELECT id FROM edge_queue WHERE way = $1 AND stage IN ('queued', 'running') \
                            AND until <= $2 ORDER BY queued_at, id LIMIT 1";
        const TAKE: &str = "UPDATE edge_queue SET stage = 'running', owner = $2, until = $3, tries = tries + 1 \
                            WHERE id = $1";
        // looked for first by a reader: an idle look costs no write lock
        let found: Option<String> =
            self.pools.query(FIND).bind(way.as_str()).bind(now.0).value().await.doing(READING)?;
        if found.is_none() {
            return Ok(None);
        }
        let mut tx = self.pools.write().await.doing(WRITING)?;
        let found = tx.query(FIND).bind(way.as_str()).bind(now.0).value().await;
        let Some(id): Option<String> = found.doing(WRITING)? else { return Ok(None) };
        let until = now.plus(lease).0;
        tx.query(TAKE).bind(&id).bind(owner).bind(until).run().await.doing(WRITING)?;
        tx.commit().await.doing(WRITING)?;
        self.queued_log(&id).await
    }

    /// Lengthens `owner`'s lease; false when the log is not its any more.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn keep_log(&self, id: &str, owner: &str, until: UtcMicros) -> Result<bool, LinkError> {
        let sql = "UPDATE edge_queue SET until = $3 WHERE id = $1 AND owner = $2 AND stage = 'running'";
        let done = self.write_queue(sql, |query| query.bind(id).bind(owner).bind(until.0)).await?;
        Ok(done > 0)
    }

    /// Puts `owner`'s log back into the queue, not to be begun before `at`. Nothing is said of it when it is another's.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn postpone_log(&self, id: &str, owner: &str, at: UtcMicros, why: Option<&str>) -> Result<(), LinkError> {
        let sql = "UPDATE edge_queue SET stage = 'queued', owner = NULL, until = $3, error = $4 \
                   WHERE id = $1 AND owner = $2 AND stage = 'running'";
        self.write_queue(sql, |query| query.bind(id).bind(owner).bind(at.0).bind(why)).await.map(drop)
    }

    /// Gives back all that `owner` holds, at its start: what it held before, it no longer takes in.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn release_logs(&self, owner: &str) -> Result<u64, LinkError> {
        let sql = "UPDATE edge_queue SET stage = 'queued', owner = NULL, until = 0 \
                   WHERE owner = $1 AND stage = 'running'";
        self.write_queue(sql, |query| query.bind(owner)).await
    }

    /// Ends `owner`'s log: with its summary it is done, else it failed, and `error` says why.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn finish_log(
        &self,
        id: &str,
        owner: &str,
        result: Result<&str, &str>,
        now: UtcMicros,
    ) -> Result<(), LinkError> {
        let sql = "UPDATE edge_queue SET stage = $3, summary = $4, error = $5, ended_at = $6, owner = NULL \
                   WHERE id = $1 AND owner = $2 AND stage = 'running'";
        let stage = if result.is_ok() { Stage::Done } else { Stage::Failed };
        self.write_queue(sql, |query| {
            query.bind(id).bind(owner).bind(stage.as_str()).bind(result.ok()).bind(result.err()).bind(now.0)
        })
        .await
        .map(drop)
    }

    /// Staged objects of uploads that ended before `cut`.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn staged_before(&self, cut: UtcMicros) -> Result<Vec<Staged>, LinkError> {
        let sql = "SELECT id, object, parts FROM edge_queue WHERE parts > 0 AND stage IN ('done', 'failed') \
                   AND ended_at <= $1 LIMIT 1000";
        let rows = self.pools.query(sql).bind(cut.0).rows().await.doing(READING)?;
        let staged =
            |row: &Row| Ok(Staged { id: row.get("id")?, object: row.get("object")?, parts: row.count("parts")? });
        rows.iter().map(staged).collect::<Result<_, sqlx::Error>>().doing(READING)
    }

    /// Notes that an ended log's staged object is gone.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn forget_staged(&self, staged: &Staged) -> Result<(), LinkError> {
        let sql = "UPDATE edge_queue SET parts = 0 WHERE id = $1 AND object = $2 AND stage IN ('done', 'failed')";
        self.write_queue(sql, |query| query.bind(&staged.id).bind(&staged.object)).await.map(drop)
    }

    /// The versions of logs found below a watched prefix so far: path or URL, size, tag; the newest of each last.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn watched_logs(&self, prefix: &str) -> Result<Vec<(String, u64, String)>, LinkError> {
        let sql = "SELECT object, size, tag FROM edge_queue WHERE way = 'watched' AND source = $1 \
                   ORDER BY queued_at, id";
        let rows = self.pools.query(sql).bind(prefix).rows().await.doing(READING)?;
        let one = |row: &Row| {
            let size = row.get::<i64>("size")?.max(0) as u64;
            Ok((row.get("object")?, size, row.get("tag")?))
        };
        rows.iter().map(one).collect::<Result<_, sqlx::Error>>().doing(READING)
    }

    /// Whether logs of a watched prefix still wait or are under way.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn is_behind(&self, prefix: &str) -> Result<bool, LinkError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM edge_queue WHERE way = 'watched' AND source = $1 \
                   AND stage IN ('queued', 'running'))";
        self.pools.query(sql).bind(prefix).one().await.doing(READING)
    }

    /// The names of all staged objects that a log of the queue has.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn staged_objects(&self) -> Result<Vec<String>, LinkError> {
        let sql = "SELECT object FROM edge_queue WHERE parts > 0";
        self.pools.query(sql).values().await.doing(READING)
    }

    /// Takes a log that failed off the list. An upload is forgotten, so that it may come again, and its staged bytes, which
    /// are nobody's then, go by themselves; of a watched log it is remembered, with `summary`, that this version is not
    /// wanted. Returns whether one of this identity had failed.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn dismiss_failed(&self, id: &str, summary: &str) -> Result<bool, LinkError> {
        const UPLOAD: &str = "DELETE FROM edge_queue WHERE id = $1 AND stage = 'failed' AND way = 'upload'";
        const WATCHED: &str = "UPDATE edge_queue SET stage = 'done', summary = $2, error = NULL \
                               WHERE id = $1 AND stage = 'failed' AND way = 'watched'";
        let mut tx = self.pools.write().await.doing(WRITING)?;
        let uploads = tx.query(UPLOAD).bind(id).run().await.doing(WRITING)?;
        let watched = tx.query(WATCHED).bind(id).bind(summary).run().await.doing(WRITING)?;
        tx.commit().await.doing(WRITING)?;
        Ok(uploads + watched > 0)
    }

    async fn write_queue(
        &self,
        sql: &'static str,
        with: impl for<'c> FnOnce(Query<'c>) -> Query<'c>,
    ) -> Result<u64, LinkError> {
        let mut tx = self.pools.write().await.doing(WRITING)?;
        let done = with(tx.query(sql)).run().await.doing(WRITING)?;
        tx.commit().await.doing(WRITING)?;
        Ok(done)
    }
}

/// The identity of one version of a watched log.
pub fn watched_id(prefix: &str, object: &str, size: u64, tag: &str) -> String {
    let mut hash = Sha256::new();
    for part in ["watched", prefix, object, tag] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(size.to_le_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn read_kept(row: &Row) -> Result<(Stage, String, u32), sqlx::Error> {
    Ok((parsed(row, "stage")?, row.get("object")?, row.count("parts")?))
}

fn read(row: &Row) -> Result<QueuedLog, sqlx::Error> {
    let format: Option<String> = row.get("format")?;
    let terms = Terms {
        workspace: row.get("workspace")?,
        format: format.map(|_| parsed(row, "format")).transpose()?,
        id: row.get::<&str>("id_mode")?.parse().map_err(|why: String| sqlx::Error::Decode(why.into()))?,
        keep_unknown: row.get("keep_unknown")?,
        source: row.get("source")?,
    };
    Ok(QueuedLog {
        id: row.get("id")?,
        way: parsed(row, "way")?,
        name: row.get("name")?,
        terms,
        object: row.get("object")?,
        parts: row.count("parts")?,
        size: row.get::<i64>("size")?.max(0) as u64,
        tag: row.get("tag")?,
        stage: parsed(row, "stage")?,
        tries: row.count("tries")?,
        summary: row.get("summary")?,
        error: row.get("error")?,
        queued_at: UtcMicros(row.get("queued_at")?),
    })
}

#[cfg(test)]
mod tests;
