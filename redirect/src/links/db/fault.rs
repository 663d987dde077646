//! What is wrong with a database, told apart by what can be done about it.

use std::io::ErrorKind;

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::links) enum Fault {
    /// The disk is full, or fails: somebody has to make room.
    Disk,
    /// The database can't be reached, or doesn't answer: it may come back by itself.
    Away,
    /// It is another one.
    Other,
}

/// What is wrong, of the error that tells.
pub(in crate::links) fn fault_of(error: &sqlx::Error) -> Fault {
    match error {
        sqlx::Error::Database(error) => match error.try_downcast_ref::<PgDatabaseError>() {
            Some(error) => of_postgres(error.code()),
            None => of_sqlite(error.as_ref()),
        },
        sqlx::Error::Io(error) if error.kind() == ErrorKind::StorageFull => Fault::Disk,
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => {
            Fault::Away
        }
        _ => Fault::Other,
    }
}

/// By PostgreSQL's error codes (its manual, appendix A).
fn of_postgres(code: &str) -> Fault {
    match code {
        // disk_full, io_error
        "53100" | "58030" => Fault::Disk,
        // read_only_sql_transaction: a standby, or a primary that has become one; too_many_connections;
        // idle_in_transaction_session_timeout: this process was paused, and its transaction ended without it
        "25006" | "53300" | "25P03" => Fault::Away,
        // connection exceptions; admin_shutdown, crash_shutdown, cannot_connect_now
        code if code.starts_with("08") || code.starts_with("57P") => Fault::Away,
        _ => Fault::Other,
    }
}

/// SQLite says that the disk is full by one code of its own, and, where it is a file beside the database that can't grow,
/// by that of a disk that fails.
fn of_sqlite(error: &dyn DatabaseError) -> Fault {
    const IO_ERROR: i32 = 10;
    const FULL: i32 = 13;
    match sqlite_code(error) {
        Some(FULL | IO_ERROR) => Fault::Disk,
        _ => Fault::Other,
    }
}

/// SQLite's result code, without what an extended one adds to it beyond the low byte.
pub(super) fn sqlite_code(error: &dyn DatabaseError) -> Option<i32> {
    Some(error.code()?.parse::<i32>().ok()? & 0xff)
}
