//! Why settling failed.

use ingest::ports::PortError;

use crate::lake::LakeError;

/// Settling stopped before its end. What has landed stays, and nothing is lost or doubled by trying again later.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// A table can't be read or written.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// The link store doesn't answer.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Other settlers were faster every time.
    #[error("other settlers got ahead {tries} times in a row")]
    Busy {
        /// How often it was tried.
        tries: u32,
    },
    /// A change that is to land at once takes longer than files are kept which no commit names.
    #[error(
        "this is more than can be done in {} minutes, after which files that aren't committed yet may be cleaned up: \
         nothing has changed; take a shorter time at once",
        limit.as_secs() / 60
    )]
    TooLong {
        /// How long it may take.
        limit: std::time::Duration,
    },
    /// It was told to stop, and has changed nothing.
    #[error("stopped before the commit: nothing has changed")]
    Stopped,
    /// Rows don't have the columns of their table.
    #[error("rows of table {table}: {source}")]
    Rows {
        /// Which table.
        table: schemas::tables::Table,
        /// What doesn't fit.
        #[source]
        source: arrow::error::ArrowError,
    },
}
