//! Recounting the lake: is every click there once, and does every row say what it must?
//!
//! Ids are compared in passes, each over those whose last bits fall into its share, so that memory stays bounded however
//! many rows there are: a pass holds at most [`IDS_AT_A_TIME`] ids, and reads only ids and times. So are those that were
//! answered, in pieces that each serve several passes, as there are far fewer of them.

mod hours;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::TimestampMicrosecondType;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::{Expr, cast, col, lit};
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use schemas::tables::Table;
use schemas::{Class, ClickId, Principal, Scope, Source};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::QueryError;
use crate::failure::classify;
use crate::ports::Answered;
use crate::reports::{integers, texts};

/// Ids in memory at a time: about 64 MiB.
const IDS_AT_A_TIME: u64 = 1 << 20;
/// Ids named in a report.
const EXAMPLES: usize = 20;

/// What a recount found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// The version of `clicks` that was read; null when there is none.
    pub version: Option<i64>,
    /// Its rows.
    pub rows: u64,
    /// Rows by class; they add up to `rows` unless a row's class is none.
    pub by_class: BTreeMap<String, u64>,
    /// Rows whose id another row of about the same time has already: one request counted twice.
    pub duplicates: u64,
    /// Rows whose id another row has that is farther away than two records of one request can be: an id used again, and
    /// another request.
    pub reused_ids: u64,
    /// Some of those ids.
    pub duplicate_ids: Vec<String>,
    /// Clicks that are known to have been answered and brought in, each of which was looked for.
    pub answered: u64,
    /// Those of them that have no row.
    pub missing: u64,
    /// Some of their ids.
    pub missing_ids: Vec<String>,
    /// Rows that break a rule, by rule; only rules that are broken.
    pub broken: BTreeMap<String, u64>,
}

/// Recounts table `clicks`, in which each of `answered` must have a row. Two rows of one id that are at most `max_skew` apart
/// are one request.
pub(crate) async fn verify(
    engine: Arc<Engine>,
    max_skew: Duration,
    answered: Arc<dyn Answered>,
) -> Result<VerifyReport, QueryError> {
    let snapshot = engine.tables.snapshot(Table::Clicks, None).await?;
    let operator = Principal { workspace: None, scope: Scope::Admin };
    let session = engine.session();
    let clicks = session.read_table(engine.tables.provider(&snapshot, &operator)).map_err(|error| classify(&error))?;
    let by_class = by_class(&clicks).await?;
    let rows = by_class.values().sum();
    let broken = broken(&clicks).await?;
    let recount = Recount { clicks, apart: i64::try_from(max_skew.as_micros()).unwrap_or(i64::MAX) };
    let found = recount.all(rows, &*answered, IDS_AT_A_TIME).await?;
    let mut wrong = broken;
    let snapshot_of_hours = engine.tables.snapshot(Table::ClicksHourly, None).await?;
    let hourly = session.read_table(engine.tables.provider(&snapshot_of_hours, &operator));
    wrong.extend(hours::broken(hourly.map_err(|error| classify(&error))?).await?);
    if let Some(logged) = snapshot.rows()
        && logged != rows
    {
        wrong.insert("rows_differ_from_log".to_owned(), logged.abs_diff(rows));
    }
    let ok = found.duplicates == 0 && found.missing == 0 && wrong.is_empty();
    Ok(VerifyReport {
        ok,
        version: snapshot.version,
        rows,
        by_class,
        duplicates: found.duplicates,
        reused_ids: found.reused,
        duplicate_ids: found.duplicate_ids,
        answered: found.answered,
        missing: found.missing,
        missing_ids: found.missing_ids,
        broken: wrong,
    })
}

async fn by_class(clicks: &DataFrame) -> Result<BTreeMap<String, u64>, QueryError> {
    let frame = clicks.clone().aggregate(vec![col("class")], vec![count(lit(1)).alias("rows")]);
    let batches = frame.map_err(|error| classify(&error))?.collect().await.map_err(|error| classify(&error))?;
    let mut classes = BTreeMap::new();
    for batch in batches {
        let rows = integers(&batch, "rows")?.into_iter().map(|rows| rows.unwrap_or_default() as u64);
        classes.extend(texts(&batch, "class")?.into_iter().zip(rows));
    }
    Ok(classes)
}

/// The rules, each as what a row that breaks it is like.
fn rules() -> Vec<(&'static str, Expr)> {
    let words = |words: Vec<&'static str>| words.into_iter().map(lit).collect::<Vec<_>>();
    let classes = words(Class::ALL.iter().map(|class| class.as_str()).collect());
    let sources = words(Source::ALL.iter().map(|source| source.as_str()).collect());
    let day = cast(col("event_time"), arrow::datatypes::DataType::Date32);
    vec![
        ("unknown_class", col("class").in_list(classes, true)),
        ("unknown_source", col("source").in_list(sources, true)),
        ("weight_below_one", col("weight").lt(lit(1.0))),
        ("date_is_not_the_times", col("date").not_eq(day)),
        ("human_head", col("method").eq(lit("HEAD")).and(col("class").eq(lit("human")))),
        ("empty_code", col("code").eq(lit(""))),
        ("empty_workspace", col("workspace").eq(lit(""))),
    ]
}

async fn broken(clicks: &DataFrame) -> Result<BTreeMap<String, u64>, QueryError> {
    let rules = rules();
    let sums = rules.iter().map(|(name, rule)| sum(cast(rule.clone(), arrow::datatypes::DataType::Int64)).alias(*name));
    let frame = clicks.clone().aggregate(vec![], sums.collect()).map_err(|error| classify(&error))?;
    let mut broken = BTreeMap::new();
    for batch in frame.collect().await.map_err(|error| classify(&error))? {
        for (name, _) in &rules {
            let rows = integers(&batch, name)?.first().copied().flatten().unwrap_or_default();
            if rows > 0 {
                broken.insert((*name).to_owned(), rows.unsigned_abs());
            }
        }
    }
    Ok(broken)
}

/// What was found of ids.
#[derive(Debug, Default)]
struct Found {
    /// Those that come more than once.
    duplicates: u64,
    /// The same, of other requests.
    reused: u64,
    /// Some of the duplicates.
    duplicate_ids: Vec<String>,
    /// Those that were looked for.
    answered: u64,
    /// Those of them that have no row.
    missing: u64,
    /// Some of these.
    missing_ids: Vec<String>,
}

impl Found {
    /// Nothing that is looked at later can be any of these.
    fn lacks(&mut self, missing: &HashSet<ClickId>) {
        self.missing += missing.len() as u64;
        let room = EXAMPLES.saturating_sub(self.missing_ids.len());
        self.missing_ids.extend(missing.iter().take(room).map(ClickId::to_string));
    }
}

/// Looks at the ids of rows.
struct Recount {
    clicks: DataFrame,
    /// Two rows of one id that are at most so many microseconds apart are one request.
    apart: i64,
}

impl Recount {
    /// Looks for ids that come more than once in so many `rows`, and for those that were answered, of either about
    /// `at_a_time`.
    async fn all(&self, rows: u64, answered: &dyn Answered, at_a_time: u64) -> Result<Found, QueryError> {
        let pieces = answered.most().div_ceil(at_a_time).max(1);
        // a multiple, so that all ids of a pass are of one piece
        let passes = rows.div_ceil(at_a_time).max(1).next_multiple_of(pieces);
        let mut found = Found::default();
        for piece in 0..pieces {
            let piece_of = answered.piece(piece, pieces).await;
            let mut missing = piece_of.map_err(|error| QueryError::lake("looking for clicks answered", error))?;
            found.answered += missing.len() as u64;
            for pass in (piece..passes).step_by(usize::try_from(pieces).unwrap_or(usize::MAX)) {
                self.pass(u128::from(pass), u128::from(passes), &mut missing, &mut found).await?;
            }
            found.lacks(&missing);
        }
        Ok(found)
    }

    /// Looks at the ids of a share, and takes them out of `missing`.
    async fn pass(
        &self,
        pass: u128,
        passes: u128,
        missing: &mut HashSet<ClickId>,
        found: &mut Found,
    ) -> Result<(), QueryError> {
        let ids = self.clicks.clone().select_columns(&["click_id", "event_time"]).map_err(|error| classify(&error))?;
        let mut stream = ids.execute_stream().await.map_err(|error| classify(&error))?;
        let mut seen: HashMap<u128, Times> = HashMap::new();
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| classify(&error))?;
            let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
            for (bytes, time) in batch.column(0).as_binary::<i32>().iter().flatten().zip(times.values()) {
                let id = <[u8; 16]>::try_from(bytes)
                    .map_err(|_| QueryError::lake("recounting", format!("an id of {} bytes", bytes.len())))?;
                let id = ClickId(id);
                // the last bits are random in ids of every kind
                if id.as_u128() % passes != pass {
                    continue;
                }
                if !missing.is_empty() {
                    missing.remove(&id);
                }
                let Some(others) = seen.get_mut(&id.as_u128()) else {
                    seen.insert(id.as_u128(), Times { first: *time, more: Vec::new() });
                    continue;
                };
                if others.all().any(|other| other.abs_diff(*time) <= self.apart.unsigned_abs()) {
                    found.duplicates += 1;
                    if found.duplicate_ids.len() < EXAMPLES {
                        found.duplicate_ids.push(id.to_string());
                    }
                } else {
                    found.reused += 1;
                }
                others.more.push(*time);
            }
        }
        Ok(())
    }
}

/// When the rows of an id are.
#[derive(Debug)]
struct Times {
    first: i64,
    more: Vec<i64>,
}

impl Times {
    fn all(&self) -> impl Iterator<Item = i64> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

#[cfg(test)]
mod tests;
