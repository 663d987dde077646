//! The link store in a file. SQLite in WAL mode: readers never wait for a writer, so a redirect's lookup doesn't either.
//! Several processes may use one file. Every commit is synced (`synchronous = FULL`).

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Pool, Sqlite, SqliteConnection, Transaction};

use super::super::ballast::Ballast;
use super::super::error::{Doing, LinkError};
use super::fault::{Fault, fault_of, sqlite_code};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// How long a statement waits for another process's transaction.
const BUSY: Duration = Duration::from_secs(5);
/// How long a caller waits for a connection of ours.
const ACQUIRE: Duration = Duration::from_secs(10);
/// Connections for reading; each is a thread.
const READERS: u32 = 4;
/// How often opening is tried while other processes open the same new file.
const OPEN_TRIES: u32 = 50;

/// Connections to the file.
#[derive(Debug)]
pub(in crate::links) struct Pools {
    /// For statements that only read.
    pub(super) reads: Pool<Sqlite>,
    /// For transactions that write. One connection: within a process writers queue instead of polling for a lock.
    pub(super) writes: Pool<Sqlite>,
    /// Space held for takedowns.
    pub(super) ballast: Arc<Ballast>,
}

impl Pools {
    /// Opens the store at `location`, a path or `sqlite:` and a path; creates it, readable by its owner only, when it
    /// doesn't exist, and brings its tables up to date.
    pub(super) async fn open(location: &str) -> Result<Self, LinkError> {
        let path = path_of(location)?;
        create(&path).map_err(|error| LinkError::Location { location: location.to_owned(), why: error.to_string() })?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .busy_timeout(BUSY)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            // What is deleted is overwritten: a destroyed visitor key must not be left in a free page.
            .pragma("secure_delete", "on");
        let ballast = Arc::new(Ballast::beside(&path));
        // even opening takes some space, and a takedown from the shell opens
        while let Err(error) = migrate(location, &options).await {
            if !(error.is_disk_full() && ballast.release()) {
                return Err(error);
            }
        }
        let pool = || {
            PoolOptions::<Sqlite>::new()
                .acquire_timeout(ACQUIRE)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
        };
        let reading = options.clone().pragma("query_only", "on");
        let reads = pool().max_connections(READERS).connect_lazy_with(reading);
        let writes = pool()
            .max_connections(1)
            .after_release(|connection, _| Box::pin(is_over(connection)))
            .connect_lazy_with(options);
        let pools = Self { reads, writes, ballast };
        pools.tend().await;
        Ok(pools)
    }

    /// Begins a transaction that holds the file's write lock from here on.
    pub(super) async fn write(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.tend().await;
        self.writes.begin_with("BEGIN IMMEDIATE").await
    }

    /// Gives some of the space back that is held for takedowns. Returns whether there was any.
    pub(super) async fn make_room(&self) -> bool {
        let ballast = Arc::clone(&self.ballast);
        tokio::task::spawn_blocking(move || ballast.release()).await.unwrap_or(false)
    }

    /// Takes that space again when there is room; every few seconds at most.
    async fn tend(&self) {
        if self.ballast.is_due(Instant::now()) {
            let ballast = Arc::clone(&self.ballast);
            // a panic in there would be logged by itself, and costs no write
            let _ended = tokio::task::spawn_blocking(move || ballast.tend()).await;
        }
    }

    /// Makes sure that what has been deleted is left in no file of the database, unless a reader is in the way for
    /// longer than [`BUSY`]: then the next call does it.
    pub(super) async fn forget(&self) -> Result<(), sqlx::Error> {
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writes).await.map(drop)
    }
}

/// Whether a connection's last transaction is over, so that another can begin. When the disk is full or fails, SQLite
/// may roll back by itself; rolling back again then fails, and sqlx goes on counting the transaction as open for as
/// long as the connection lives. Such a connection is closed, and the next writer opens another.
async fn is_over(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // rollbacks are queued when a transaction is dropped; what is queued is done before this is answered
    connection.ping().await?;
    let over = !connection.is_in_transaction();
    if !over {
        tracing::warn!("a transaction of the link store broke off; its connection is opened anew");
    }
    Ok(over)
}

pub(super) fn path_of(location: &str) -> Result<PathBuf, LinkError> {
    let wrong = |why: &str| Err(LinkError::Location { location: location.to_owned(), why: why.to_owned() });
    let path = location.strip_prefix("sqlite://").or_else(|| location.strip_prefix("sqlite:")).unwrap_or(location);
    if path.contains("://") || path.is_empty() || path == ":memory:" {
        return wrong("expected the path of a file, \"sqlite:\" and a path, or postgres://user@host/database");
    }
    Ok(PathBuf::from(path))
}

/// Creates the file when it is missing. An empty file is an empty database, and SQLite gives its other files the
/// permissions of this one.
fn create(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Runs what is missing of the migrations, in one transaction, so that of several processes one does it and none
/// sees half of it.
async fn migrate(location: &str, options: &SqliteConnectOptions) -> Result<(), LinkError> {
    let mut tries = 0;
    let mut connection = loop {
        match options.connect().await {
            // Two processes turning one new file to WAL mode: SQLite answers "busy" at once, whatever the timeout.
            Err(sqlx::Error::Database(error)) if tries < OPEN_TRIES && is_busy(error.as_ref()) => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) if is_disk_full(&error) => return Err(error).doing("opening the link store"),
            Err(error) => return Err(LinkError::Location { location: location.to_owned(), why: error.to_string() }),
            Ok(connection) => break connection,
        }
    };
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.doing("preparing the link store")?;
    // `run` does the same, but its future can't be sent to another thread when it is given a connection.
    MIGRATIONS.run_direct(None, &mut *tx, false).await.or_else(|error| match error {
        MigrateError::Execute(source) if is_disk_full(&source) => Err(source).doing("preparing the link store"),
        source => Err(LinkError::Schema { location: location.to_owned(), source }),
    })?;
    tx.commit().await.doing("preparing the link store")?;
    connection.close().await.doing("preparing the link store")
}

fn is_busy(error: &dyn sqlx::error::DatabaseError) -> bool {
    const BUSY: i32 = 5;
    sqlite_code(error) == Some(BUSY)
}

fn is_disk_full(error: &sqlx::Error) -> bool {
    fault_of(error) == Fault::Disk
}

#[cfg(test)]
mod tests;
