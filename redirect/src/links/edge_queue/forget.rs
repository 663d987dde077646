//! The end of what the queue remembers. A log that has ended is remembered so that it is known when it comes again, and so that
//! somebody can see what became of it. Long after, that is of no more use: an upload's identity follows from its bytes,
//! and the lake knows what it has taken in, so the same bytes get the same id and add nothing; a watched log that is
//! gone, or is another by now, can't be found again as it was.

use schemas::UtcMicros;

use super::super::LinkStore;
use super::super::db::Row;
use super::super::error::{Doing, LinkError};
use super::{READING, WRITING};

/// So many rows go in one transaction: whoever else writes waits no longer than for that.
const AT_ONCE: usize = 500;

/// A version of a watched log that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedLog {
    /// Its identity.
    pub id: String,
    /// Its path or URL.
    pub object: String,
    /// How many bytes it had.
    pub size: u64,
    /// Its tag.
    pub tag: String,
}

impl LinkStore {
    /// Forgets uploads that ended before `cut` and of which nothing is staged any more. Returns how many.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn forget_uploads(&self, cut: UtcMicros) -> Result<u64, LinkError> {
        let sql = "DELETE FROM edge_queue WHERE way = 'upload' AND stage IN ('done', 'failed') AND parts = 0 \
                   AND ended_at <= $1";
        self.write_queue(sql, |query| query.bind(cut.0)).await
    }

    /// The versions of logs below a watched prefix that ended before `cut`.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn ended_watched(&self, prefix: &str, cut: UtcMicros) -> Result<Vec<EndedLog>, LinkError> {
        let sql = "SELECT id, object, size, tag FROM edge_queue WHERE way = 'watched' AND source = $1 \
                   AND stage IN ('done', 'failed') AND ended_at <= $2";
        let rows = self.pools.query(sql).bind(prefix).bind(cut.0).rows().await.doing(READING)?;
        let one = |row: &Row| {
            let size = row.get::<i64>("size")?.max(0) as u64;
            Ok(EndedLog { id: row.get("id")?, object: row.get("object")?, size, tag: row.get("tag")? })
        };
        rows.iter().map(one).collect::<Result<_, sqlx::Error>>().doing(READING)
    }

    /// Forgets these logs, unless one of them is to come once more by now.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails; some may be forgotten then.
    pub async fn forget_watched(&self, logs: &[EndedLog]) -> Result<(), LinkError> {
        const SQL: &str = "DELETE FROM edge_queue WHERE id = $1 AND stage IN ('done', 'failed')";
        for some in logs.chunks(AT_ONCE) {
            let mut tx = self.pools.write().await.doing(WRITING)?;
            for log in some {
                tx.query(SQL).bind(&log.id).run().await.doing(WRITING)?;
            }
            tx.commit().await.doing(WRITING)?;
        }
        Ok(())
    }
}
