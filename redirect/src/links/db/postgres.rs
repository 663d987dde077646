//! The link store on a PostgreSQL server, shared by all nodes.
//!
//! **One writer at a time**, as with a file: a transaction that writes begins by taking an advisory lock that is held
//! until it ends. At `READ COMMITTED` each of its statements then sees all that was committed before, and nobody else
//! commits in between, so what it reads stays true until it commits. `SERIALIZABLE` would promise the same, but any
//! statement and any commit could then fail for no fault of its own, and everything would have to be written twice over
//! as a retry. Writes are few (changes of links, a publication a second), so that they take turns costs nothing; a writer
//! that is paused or cut off loses its turn after [`IDLE`]. The lock is named by a table, so that stores in several
//! schemas of one database don't wait for each other.
//!
//! **What it can't promise**: a visitor key that was destroyed is gone from the table's files, but what the server keeps
//! beside them (its write-ahead log until that is recycled, archives of it, standbys' files, backups) is the operator's
//! to expire; and no space can be held on a server's disk for takedowns.
//!
//! Failure: a server that is away fails each call within seconds, and the first call after it is back connects anew. A
//! connection that was broken off is asked before it is used again, with a deadline, or a network that swallows
//! everything would hold all of them.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::pool::{PoolConnectionMetadata, PoolOptions};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Executor as _, Pool, Postgres, Transaction};
use url::Url;

use super::super::error::{Doing, LinkError};
use super::fault::{Fault, fault_of};
use super::query::unreached;

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// How long a caller waits for a connection, and connecting may take.
const ACQUIRE: Duration = Duration::from_secs(3);
/// How long opening the store may take to connect, and its tables to be brought up to date.
const OPEN: Duration = Duration::from_secs(60);
/// How long the server works on a statement, waiting for locks included.
const STATEMENT: Duration = Duration::from_secs(5);
/// How long a transaction may do nothing: its process was paused, or is cut off.
const IDLE: Duration = Duration::from_secs(10);
/// A connection that was used this lately is taken to be alive.
const TRUSTED: Duration = Duration::from_secs(1);
/// How long a connection may take to say that it is alive.
const PING: Duration = Duration::from_secs(2);
/// Connections for reading, at most.
const READERS: u32 = 8;

/// The oldest server that is known to do.
const OLDEST: i32 = 13;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const LOCK: &str = "SELECT pg_advisory_xact_lock('published'::regclass::oid::bigint)";
/// Ends a transaction whose beginning was broken off, too: of that one sqlx knows nothing. Where there is none, a `ROLLBACK`
/// by itself would make the server log a warning at every write. In one that has failed the first word is an error, by which
/// the connection is closed.
const AT_REST: &str = "BEGIN; ROLLBACK";
/// Of migrations, which may find no table yet.
const LOCK_ALL: &str = "SELECT pg_advisory_xact_lock(7526756)";

/// Connections to the server.
#[derive(Debug)]
pub(in crate::links) struct Pools {
    /// For statements that only read.
    pub(super) reads: Pool<Postgres>,
    /// For transactions that write. One connection: within a process writers queue here instead of on the server.
    pub(super) writes: Pool<Postgres>,
}

/// Whether a location is a server's.
pub(super) fn is_address(location: &str) -> bool {
    location.starts_with("postgres://") || location.starts_with("postgresql://")
}

impl Pools {
    /// Opens the store of the database at this address, and brings its tables up to date.
    pub(super) async fn open(location: &str) -> Result<Self, LinkError> {
        let options = parse(location)?;
        let prepared = tokio::time::timeout(OPEN, prepare(location, &options)).await;
        prepared.unwrap_or(Err(sqlx::Error::PoolTimedOut)).doing("opening the link store")??;
        let pool = || {
            PoolOptions::<Postgres>::new()
                .acquire_timeout(ACQUIRE)
                .test_before_acquire(false)
                .before_acquire(|connection, before| Box::pin(is_alive(connection, before)))
        };
        let limited = limited(options);
        let reads = pool()
            .max_connections(READERS)
            .after_release(|connection, _| Box::pin(answers(connection.ping())))
            .connect_lazy_with(limited.clone().options([("default_transaction_read_only", "on")]));
        let writes = pool()
            .max_connections(1)
            .after_connect(|connection, _| Box::pin(commit_durably(connection)))
            .after_release(|connection, _| Box::pin(answers(async { connection.execute(AT_REST).await.map(drop) })))
            .connect_lazy_with(limited);
        Ok(Self { reads, writes })
    }

    /// Begins a transaction that holds the write lock from here on.
    pub(super) async fn write(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        let mut tx = self.writes.begin_with(BEGIN).await.map_err(|error| unreached(&self.writes, error))?;
        tx.execute(LOCK).await?;
        Ok(tx)
    }

    /// Writes the table of visitor keys anew, without those that were deleted, unless somebody reads it for longer than
    /// [`STATEMENT`]: then the next call does it.
    pub(super) async fn forget(&self) -> Result<(), sqlx::Error> {
        const LOCK_NOT_AVAILABLE: &str = "55P03";
        let mut connection = self.writes.acquire().await.map_err(|error| unreached(&self.writes, error))?;
        match sqlx::raw_sql("VACUUM (FULL) visitor_keys").execute(&mut *connection).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(LOCK_NOT_AVAILABLE) => Ok(()),
            done => done.map(drop),
        }
    }
}

/// The location of a link store as it may be shown, in messages and in the log: without a password.
pub fn shown(location: &str) -> String {
    if !is_address(location) {
        return location.to_owned();
    }
    let Ok(mut url) = Url::parse(location) else { return "postgres://…".to_owned() };
    let _ = url.password().is_some().then(|| url.set_password(Some("***")));
    if url.query().is_some() {
        let shown: Vec<(String, String)> = url
            .query_pairs()
            .map(|(key, value)| (key.to_string(), if key == "password" { "***".to_owned() } else { value.to_string() }))
            .collect();
        url.query_pairs_mut().clear().extend_pairs(shown);
    }
    url.to_string()
}

fn wrong(location: &str, why: impl Into<String>) -> LinkError {
    LinkError::Location { location: shown(location), why: why.into() }
}

fn parse(location: &str) -> Result<PgConnectOptions, LinkError> {
    /// Those that crate `sqlx` knows; it would ignore any other, and write its value into the log.
    const KEYS: [&str; 16] = [
        "sslmode",
        "ssl-mode",
        "sslrootcert",
        "ssl-root-cert",
        "ssl-ca",
        "sslcert",
        "ssl-cert",
        "sslkey",
        "ssl-key",
        "statement-cache-capacity",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
    ];
    const MORE_KEYS: [&str; 2] = ["application_name", "options"];
    let url = Url::parse(location).map_err(|error| wrong(location, format!("is no address: {error}")))?;
    for (key, _) in url.query_pairs() {
        let known = KEYS.contains(&&*key) || MORE_KEYS.contains(&&*key) || key.starts_with("options[");
        if !known {
            return Err(wrong(
                location,
                format!("{key:?} is no parameter of a connection, such as sslmode or options"),
            ));
        }
    }
    let options: PgConnectOptions =
        location.parse().map_err(|error: sqlx::Error| wrong(location, error.to_string()))?;
    Ok(match options.get_application_name() {
        Some(_) => options,
        None => options.application_name("highwater"),
    })
}

/// With the server's limits on what a connection may wait for.
fn limited(options: PgConnectOptions) -> PgConnectOptions {
    let ms = |limit: Duration| limit.as_millis().to_string();
    options.options([
        ("statement_timeout", ms(STATEMENT)),
        ("lock_timeout", ms(STATEMENT)),
        ("idle_in_transaction_session_timeout", ms(IDLE)),
        // that a transaction which was broken off is ended is no news
        ("client_min_messages", "error".to_owned()),
    ])
}

/// Checks the server, and runs what is missing of the migrations, in one transaction, so that of several processes one
/// does it and none sees half of it. The outer error is one of the connection.
async fn prepare(location: &str, options: &PgConnectOptions) -> Result<Result<(), LinkError>, sqlx::Error> {
    let mut connection = match options.connect().await {
        Ok(connection) => connection,
        Err(error) if fault_of(&error) == Fault::Away => return Err(error),
        Err(error) => return Ok(Err(wrong(location, error.to_string()))),
    };
    let (version, encoding): (i32, String) =
        sqlx::query_as("SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding')")
            .fetch_one(&mut connection)
            .await?;
    if version < OLDEST {
        return Ok(Err(wrong(location, format!("is PostgreSQL {version}; expected {OLDEST} or newer"))));
    }
    if encoding != "UTF8" {
        return Ok(Err(wrong(location, format!("the database's encoding is {encoding}; expected UTF8"))));
    }
    let mut tx = connection.begin_with(BEGIN).await?;
    tx.execute(LOCK_ALL).await?;
    match MIGRATIONS.run_direct(None, &mut *tx, false).await {
        Ok(()) => {}
        Err(MigrateError::Execute(error)) => return Err(error),
        Err(source) => return Ok(Err(LinkError::Schema { location: shown(location), source })),
    }
    tx.commit().await?;
    connection.close().await?;
    Ok(Ok(()))
}

/// A server may be set up to tell of commits before they are on its disk; ours are not to be lost.
async fn commit_durably(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    const SQL: &str = "SELECT set_config('synchronous_commit', 'on', false)
                       WHERE current_setting('synchronous_commit') = 'off'";
    connection.execute(SQL).await.map(drop)
}

async fn is_alive(connection: &mut PgConnection, before: PoolConnectionMetadata) -> Result<bool, sqlx::Error> {
    if before.idle_for < TRUSTED { Ok(true) } else { answers(connection.ping()).await }
}

/// Whether a connection says so in time; an error closes it.
async fn answers(asking: impl Future<Output = Result<(), sqlx::Error>>) -> Result<bool, sqlx::Error> {
    tokio::time::timeout(PING, asking).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
}

#[cfg(test)]
mod tests;
