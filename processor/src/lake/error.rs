//! What can go wrong with a table of the lake, by what the caller does next.

use std::time::Duration;

use schemas::tables::Table;

/// A table can't be opened, read or written. Trying again may help unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// The lake's address means nothing; trying again won't help.
    #[error("lake {root:?} is neither a path nor an address: {reason}")]
    Root {
        /// As given.
        root: String,
        /// Why.
        reason: String,
    },
    /// The lake's address asks for storage that this build can't use; trying again won't help.
    #[error("storage {scheme}:// of lake {root:?} is not built in (built in: {known})")]
    Scheme {
        /// The lake's address.
        root: String,
        /// The scheme asked for.
        scheme: String,
        /// What there is.
        known: String,
    },
    /// The lake's storage overwrites what it was told not to: two processes would lose each other's commits. Trying again
    /// won't help.
    #[error(
        "the storage of lake {root} can't hold one: {reason}, so that commits of two processes would overwrite each other; \
         expected one that honours If-None-Match and If-Match of a PUT"
    )]
    Careless {
        /// The lake's address.
        root: String,
        /// What it did.
        reason: &'static str,
    },
    /// Whether the lake's storage can hold one could not be found out.
    #[error("the storage of lake {root} can't be written: {reason}")]
    Unproven {
        /// The lake's address.
        root: String,
        /// What it said.
        reason: String,
    },
    /// The store failed.
    #[error("table {table}: {doing}: {source}")]
    Store {
        /// Which table.
        table: Table,
        /// What was being done.
        doing: &'static str,
        /// What failed.
        #[source]
        source: object_store::Error,
    },
    /// The store didn't answer in time.
    #[error("table {table}: {doing}: no answer within {after:?}")]
    Deadline {
        /// Which table.
        table: Table,
        /// What was being done.
        doing: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The log or a data file holds what must not be there; trying again won't help.
    #[error("table {table}: {file}: {reason}")]
    Corrupt {
        /// Which table.
        table: Table,
        /// The file within the table.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The log lacks an entry that must be there: its folder was taken away, replaced, or an entry was deleted. Nothing
    /// is written until the entry is back; trying again helps then.
    #[error("table {table}: {file} is missing, {reason}")]
    Gap {
        /// Which table.
        table: Table,
        /// The entry that is missing, within the table.
        file: String,
        /// What shows that it must be there.
        reason: String,
    },
    /// The library that keeps the log failed.
    #[error("table {table}: {doing}: {source}")]
    Delta {
        /// Which table.
        table: Table,
        /// What was being done.
        doing: &'static str,
        /// What failed.
        #[source]
        source: Box<deltalake::DeltaTableError>,
    },
    /// Rows don't fit the table; trying again won't help.
    #[error("table {table}: {doing}: {source}")]
    Rows {
        /// Which table.
        table: Table,
        /// What was being done.
        doing: &'static str,
        /// What failed.
        #[source]
        source: parquet::errors::ParquetError,
    },
}

/// A commit did not land, or is not known to have landed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A transaction that the caller counts on is another one: somebody else has gone on. Not landed.
    #[error("transaction {app_id:?} is at {stored:?} in the lake, {expected:?} was expected")]
    Moved {
        /// Which transaction.
        app_id: String,
        /// What the caller expected.
        expected: Option<i64>,
        /// What the lake holds.
        stored: Option<i64>,
    },
    /// Since the caller last looked, another commit has set a transaction that this one sets too, or removed a
    /// file that this one removes. Not landed: judge again on the handle as it stands now.
    #[error("another commit has changed {what}")]
    Conflict {
        /// The transaction or file.
        what: String,
    },
    /// A new file was written so long ago that a clean-up may have taken it. Not landed: write it again.
    #[error("file {path} was written {age:?} ago, too long to commit it")]
    Expired {
        /// The file.
        path: String,
        /// Its age.
        age: Duration,
    },
    /// It is unknown whether the commit landed or not, or it did not. Compare the transactions that the handle holds
    /// now, if it could be refreshed, with those wanted.
    #[error("commit failed: {0}")]
    Failed(#[source] LakeError),
}
