//! One statement, whichever database it goes to: common SQL, `$1` for its values, and nothing in its text that was not
//! written in this program.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, ColumnIndex, Database, Decode, Encode, Executor, IntoArguments, Pool, Postgres,
    Row as _, SqlSafeStr as _, SqlStr, Sqlite, Type,
};

/// How long one statement may take, with all that it waits for: longer than the databases' own limits, which say better
/// what was in the way, and short enough that a connection that hears nothing any more is soon given up.
pub(in crate::links) const WITHIN: Duration = Duration::from_secs(15);

/// Where a statement runs.
#[derive(Debug)]
pub(super) enum At<'c, DB: Database> {
    /// By itself, on one of these connections.
    Pool(&'c Pool<DB>),
    /// In the transaction of this connection.
    Connection(&'c mut DB::Connection),
}

/// A statement and its values.
#[must_use = "a statement does nothing before it is run"]
pub(in crate::links) struct Query<'c> {
    text: Cow<'static, str>,
    on: On<'c>,
    wrong: Option<BoxDynError>,
}

enum On<'c> {
    Sqlite(At<'c, Sqlite>, SqliteArguments),
    Postgres(At<'c, Postgres>, PgArguments),
}

impl<'c> Query<'c> {
    pub(super) fn sqlite(at: At<'c, Sqlite>, text: &'static str) -> Self {
        Self { text: text.into(), on: On::Sqlite(at, SqliteArguments::default()), wrong: None }
    }

    pub(super) fn postgres(at: At<'c, Postgres>, text: &'static str) -> Self {
        Self { text: text.into(), on: On::Postgres(at, PgArguments::default()), wrong: None }
    }

    /// More of its text.
    pub(in crate::links) fn push(mut self, text: &'static str) -> Self {
        self.text.to_mut().push_str(text);
        self
    }

    /// The value of the next `$n`.
    pub(in crate::links) fn bind(mut self, value: impl Bind) -> Self {
        if let Err(wrong) = value.bind(&mut self) {
            self.wrong = Some(wrong);
        }
        self
    }

    /// A place for a value in the text, and the value. Not beside places that have numbers.
    pub(in crate::links) fn push_bind(mut self, value: impl Bind) -> Self {
        self = self.bind(value);
        match &self.on {
            // of a place with a name SQLite looks through all names, for each value: that would be most of a long list
            On::Sqlite(..) => self.text.to_mut().push('?'),
            On::Postgres(_, arguments) => {
                // writing to a string doesn't fail
                let _ = write!(self.text.to_mut(), "${}", arguments.len());
            }
        }
        self
    }

    fn add<'v, T>(&mut self, value: T) -> Result<(), BoxDynError>
    where
        T: Encode<'v, Sqlite> + Type<Sqlite> + Encode<'v, Postgres> + Type<Postgres>,
    {
        match &mut self.on {
            On::Sqlite(_, arguments) => arguments.add(value),
            On::Postgres(_, arguments) => arguments.add(value),
        }
    }

    /// Its rows.
    pub(in crate::links) async fn rows(self) -> Result<Vec<Row>, sqlx::Error> {
        let text = ready(self.text, self.wrong)?;
        match self.on {
            On::Sqlite(at, arguments) => {
                let rows = within(rows(at, text, arguments)).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            On::Postgres(at, arguments) => {
                let rows = within(rows(at, text, arguments)).await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    /// Its first row.
    pub(in crate::links) async fn row(self) -> Result<Option<Row>, sqlx::Error> {
        Ok(self.rows().await?.into_iter().next())
    }

    /// The first column of its first row.
    pub(in crate::links) async fn value<T: for<'r> Column<'r>>(self) -> Result<Option<T>, sqlx::Error> {
        self.row().await?.map(|row| row.at(0)).transpose()
    }

    /// The first column of the one row that it has.
    pub(in crate::links) async fn one<T: for<'r> Column<'r>>(self) -> Result<T, sqlx::Error> {
        self.value().await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// The first column of all its rows.
    pub(in crate::links) async fn values<T: for<'r> Column<'r>>(self) -> Result<Vec<T>, sqlx::Error> {
        self.rows().await?.iter().map(|row| row.at(0)).collect()
    }

    /// Runs it for what it does; returns how many rows that were.
    pub(in crate::links) async fn run(self) -> Result<u64, sqlx::Error> {
        let text = ready(self.text, self.wrong)?;
        match self.on {
            On::Sqlite(at, arguments) => Ok(within(execute(at, text, arguments)).await?.rows_affected()),
            On::Postgres(at, arguments) => Ok(within(execute(at, text, arguments)).await?.rows_affected()),
        }
    }
}

fn ready(text: Cow<'static, str>, wrong: Option<BoxDynError>) -> Result<SqlStr, sqlx::Error> {
    wrong.map_or(Ok(AssertSqlSafe(text).into_sql_str()), |wrong| Err(sqlx::Error::Encode(wrong)))
}

async fn rows<DB>(at: At<'_, DB>, text: SqlStr, arguments: DB::Arguments) -> Result<Vec<DB::Row>, sqlx::Error>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let query = sqlx::query_with::<DB, _>(text, arguments);
    match at {
        At::Pool(pool) => query.fetch_all(&mut *connection(pool).await?).await,
        At::Connection(connection) => query.fetch_all(connection).await,
    }
}

async fn execute<DB>(at: At<'_, DB>, text: SqlStr, arguments: DB::Arguments) -> Result<DB::QueryResult, sqlx::Error>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let query = sqlx::query_with::<DB, _>(text, arguments);
    match at {
        At::Pool(pool) => query.execute(&mut *connection(pool).await?).await,
        At::Connection(connection) => query.execute(connection).await,
    }
}

async fn connection<DB: Database>(pool: &Pool<DB>) -> Result<PoolConnection<DB>, sqlx::Error> {
    pool.acquire().await.map_err(|error| unreached(pool, error))
}

/// The error of a pool in words for who knows nothing of pools.
pub(super) fn unreached<DB: Database>(pool: &Pool<DB>, error: sqlx::Error) -> sqlx::Error {
    let within = pool.options().get_acquire_timeout();
    match error {
        sqlx::Error::PoolTimedOut => sqlx::Error::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection to it within {within:?}: it can't be reached, or all are in use"),
        )),
        other => other,
    }
}

/// Waits until the deadline. On the heap: what waits for either of two databases would be large in every future above.
pub(super) async fn within<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {WITHIN:?}"));
    tokio::time::timeout(WITHIN, Box::pin(work)).await.unwrap_or_else(|_| Err(sqlx::Error::Io(late())))
}

/// A value that a statement takes.
pub(in crate::links) trait Bind {
    /// Adds it to the statement's values.
    fn bind(self, query: &mut Query<'_>) -> Result<(), BoxDynError>;
}

macro_rules! binds {
    ($($type:ty),+) => { $(
        impl Bind for $type {
            fn bind(self, query: &mut Query<'_>) -> Result<(), BoxDynError> {
                query.add(self)
            }
        }
    )+ };
}

binds!(bool, i32, i64, Option<i64>, &[u8], Vec<u8>);

/// As a column of 64 bits: PostgreSQL has no unsigned integers.
impl Bind for u32 {
    fn bind(self, query: &mut Query<'_>) -> Result<(), BoxDynError> {
        query.add(i64::from(self))
    }
}

macro_rules! binds_text {
    ($($type:ty: $this:ident => $text:expr),+) => { $(
        impl Bind for $type {
            fn bind(self, query: &mut Query<'_>) -> Result<(), BoxDynError> {
                let $this = self;
                let text: Option<Cow<'_, str>> = $text;
                query.add(text.map(|text| match text.contains('\0') {
                    // PostgreSQL's texts can't hold it. What is looked for, then, is what nothing is named.
                    true => text.replace('\0', "\u{fffd}"),
                    false => text.into_owned(),
                }))
            }
        }
    )+ };
}

binds_text!(
    &str: text => Some(text.into()),
    &String: text => Some(text.into()),
    String: text => Some(text.into()),
    Option<&str>: text => text.map(Cow::Borrowed),
    Option<String>: text => text.map(Cow::Owned),
    &Option<String>: text => text.as_deref().map(Cow::Borrowed)
);

/// What a column can be read as.
pub(in crate::links) trait Column<'r>:
    Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>
{
}

impl<'r, T> Column<'r> for T where T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres> {}

/// A row of an answer.
#[derive(Debug)]
pub(in crate::links) enum Row {
    /// SQLite's.
    Sqlite(SqliteRow),
    /// PostgreSQL's.
    Postgres(PgRow),
}

impl Row {
    /// The column of this name.
    pub(in crate::links) fn get<'r, T: Column<'r>>(&'r self, name: &str) -> Result<T, sqlx::Error> {
        self.at(name)
    }

    /// The column of this name, which counts something.
    pub(in crate::links) fn count(&self, name: &str) -> Result<u32, sqlx::Error> {
        let count: i64 = self.get(name)?;
        u32::try_from(count).map_err(|error| sqlx::Error::Decode(error.into()))
    }

    fn at<'r, T, I>(&'r self, index: I) -> Result<T, sqlx::Error>
    where
        T: Column<'r>,
        I: ColumnIndex<SqliteRow> + ColumnIndex<PgRow>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(index),
            Self::Postgres(row) => row.try_get(index),
        }
    }
}
