//! The database behind the link store: the only place that knows which one it is. The statements elsewhere are common
//! SQL; each database has its folder of migrations, and a module that opens it and knows its ways.
//!
//! ```text
//! statements ──► Query (common SQL, $1) ──► Pools ──► sqlite: a file, its ballast, files that forget
//!                                             └─────► postgres: a server, its lock, its limits
//! ```
//! Not `sqlx::Any`: it takes no options beside an address (SQLite's pragmas, PostgreSQL's limits), and copies every row
//! once more on the way of a redirect.
//!
//! Invariants, with either:
//! * A transaction that writes holds the one write lock from its beginning, so that what it reads stays true until it
//!   commits ([`Pools::write`]).
//! * Readers never wait for writers.
//! * A commit is on disk before it is told of: a power cut must neither bring a disabled link back nor take the
//!   registration of a journal that has already answered.
//! * Every statement ends within a time, and a connection on which one was broken off is not used again unasked.

mod fault;
mod postgres;
mod query;
mod sqlite;

use std::io::ErrorKind;
use std::time::Duration;

use schemas::UtcMicros;
use sqlx::{Postgres, Sqlite, Transaction};

use self::query::{At, within};
use super::error::LinkError;

pub(super) use self::fault::{Fault, fault_of};
pub use self::postgres::shown;
pub(super) use self::query::{Bind, Query, Row};

/// What the database's clock says, in microseconds.
const SQLITE_NOW: &str = "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)";
const POSTGRES_NOW: &str = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)";

/// Connections to the database.
#[derive(Debug)]
pub(super) enum Pools {
    /// A file.
    Sqlite(sqlite::Pools),
    /// A server.
    Postgres(postgres::Pools),
}

/// A transaction that writes; rolled back unless it is committed.
#[derive(Debug)]
pub(super) enum Tx {
    /// SQLite's.
    Sqlite(Transaction<'static, Sqlite>),
    /// PostgreSQL's.
    Postgres(Transaction<'static, Postgres>),
}

impl Pools {
    /// Opens the store at `location`: a path, `sqlite:` and a path, or `postgres://…`; brings its tables up to date.
    pub(super) async fn open(location: &str) -> Result<Self, LinkError> {
        match postgres::is_address(location) {
            true => Ok(Self::Postgres(postgres::Pools::open(location).await?)),
            false => Ok(Self::Sqlite(sqlite::Pools::open(location).await?)),
        }
    }

    /// A statement that only reads, by itself.
    pub(super) fn query(&self, text: &'static str) -> Query<'_> {
        match self {
            Self::Sqlite(pools) => Query::sqlite(At::Pool(&pools.reads), text),
            Self::Postgres(pools) => Query::postgres(At::Pool(&pools.reads), text),
        }
    }

    /// Whether it is a server, with a clock of its own.
    pub(super) fn is_server(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// The database's clock: the same for all who share it, whatever their own say.
    pub(super) async fn now(&self) -> Result<UtcMicros, sqlx::Error> {
        let sql = match self {
            Self::Sqlite(_) => SQLITE_NOW,
            Self::Postgres(_) => POSTGRES_NOW,
        };
        self.query(sql).one().await.map(UtcMicros)
    }

    /// Begins a transaction that holds the write lock from its first statement on, so that what it reads stays
    /// true until it commits.
    pub(super) async fn write(&self) -> Result<Tx, sqlx::Error> {
        match self {
            Self::Sqlite(pools) => within(pools.write()).await.map(Tx::Sqlite),
            Self::Postgres(pools) => within(pools.write()).await.map(Tx::Postgres),
        }
    }

    /// Writes a small row, if it can `within` this time.
    pub(super) async fn check_writable(&self, within: Duration) -> Result<(), sqlx::Error> {
        const SQL: &str = "INSERT INTO published (name, at) VALUES ('checked', 1)
                           ON CONFLICT (name) DO UPDATE SET at = published.at + 1";
        let write = async {
            let mut tx = self.write().await?;
            tx.query(SQL).run().await?;
            tx.commit().await
        };
        tokio::time::timeout(within, write).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
        match self {
            Self::Sqlite(pools) if !pools.ballast.is_whole() => Err(sqlx::Error::Io(ErrorKind::StorageFull.into())),
            _ => Ok(()),
        }
    }

    /// Gives some of the space back that is held for takedowns. Returns whether there was any: a server's disk is not
    /// ours to hold space on.
    pub(super) async fn make_room(&self) -> bool {
        match self {
            Self::Sqlite(pools) => pools.make_room().await,
            Self::Postgres(_) => false,
        }
    }

    /// Makes sure, as far as the database can, that what has been deleted is left nowhere.
    pub(super) async fn forget(&self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(pools) => pools.forget().await,
            Self::Postgres(pools) => within(pools.forget()).await,
        }
    }
}

impl Tx {
    /// Whether it is a server's, with a clock of its own.
    pub(super) fn is_server(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// A statement in this transaction.
    pub(super) fn query(&mut self, text: &'static str) -> Query<'_> {
        match self {
            Self::Sqlite(tx) => Query::sqlite(At::Connection(&mut **tx), text),
            Self::Postgres(tx) => Query::postgres(At::Connection(&mut **tx), text),
        }
    }

    /// The database's clock: the same for all who share it, whatever their own say.
    pub(super) async fn now(&mut self) -> Result<UtcMicros, sqlx::Error> {
        let sql = match self {
            Self::Sqlite(_) => SQLITE_NOW,
            Self::Postgres(_) => POSTGRES_NOW,
        };
        self.query(sql).one().await.map(UtcMicros)
    }

    /// Makes what it has written true, durably. After an error that is of the connection nobody knows whether it did.
    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(tx) => within(tx.commit()).await,
            Self::Postgres(tx) => within(tx.commit()).await,
        }
    }
}

/// Whatever a statement can run on: in a transaction or out of one.
pub(super) trait Run<'c> {
    /// A statement there.
    fn statement(self, text: &'static str) -> Query<'c>;
}

impl<'c> Run<'c> for &'c Pools {
    fn statement(self, text: &'static str) -> Query<'c> {
        Pools::query(self, text)
    }
}

impl<'c> Run<'c> for &'c mut Tx {
    fn statement(self, text: &'static str) -> Query<'c> {
        Tx::query(self, text)
    }
}
