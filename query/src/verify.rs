//! Recounting the lake: is every click there once, and does every row say what it must?
//!
//! Ids are compared in passes, each over those whose last bits fall into its share, so that memory stays bounded however
//! many rows there are: a pass holds at most [`IDS_AT_A_TIME`] ids, and reads only ids and times.

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
    answered: HashSet<ClickId>,
) -> Result<VerifyReport, QueryError> {
    let (asked, mut missing) = (answered.len() as u64, answered);
    let snapshot = engine.tables.snapshot(Table::Clicks, None).await?;
    let operator = Principal { workspace: None, scope: Scope::Admin };
    let session = engine.session();
    let clicks = session.read_table(engine.tables.provider(&snapshot, &operator)).map_err(|error| classify(&error))?;
    let by_class = by_class(&clicks).await?;
    let rows = by_class.values().sum();
    let broken = broken(&clicks).await?;
    let found = ids(&clicks, rows, max_skew, &mut missing).await?;
    let Ids { duplicates, reused: reused_ids, examples: duplicate_ids } = found;
    let mut wrong = broken;
    let snapshot_of_hours = engine.tables.snapshot(Table::ClicksHourly, None).await?;
    let hourly = session.read_table(engine.tables.provider(&snapshot_of_hours, &operator));
    wrong.extend(hours::broken(hourly.map_err(|error| classify(&error))?).await?);
    if let Some(logged) = snapshot.rows()
        && logged != rows
    {
        wrong.insert("rows_differ_from_log".to_owned(), logged.abs_diff(rows));
    }
    let ok = duplicates == 0 && missing.is_empty() && wrong.is_empty();
    Ok(VerifyReport {
        ok,
        version: snapshot.version,
        rows,
        by_class,
        duplicates,
        reused_ids,
        duplicate_ids,
        answered: asked,
        missing: missing.len() as u64,
        missing_ids: missing.iter().take(EXAMPLES).map(ClickId::to_string).collect(),
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

/// What was found of ids that come more than once.
#[derive(Debug, Default)]
struct Ids {
    duplicates: u64,
    reused: u64,
    /// Some of the duplicates.
    examples: Vec<String>,
}

/// Looks for ids that come more than once, and takes those that come out of `missing`.
async fn ids(
    clicks: &DataFrame,
    rows: u64,
    max_skew: Duration,
    missing: &mut HashSet<ClickId>,
) -> Result<Ids, QueryError> {
    let passes = u128::from(rows.div_ceil(IDS_AT_A_TIME).max(1));
    let apart = i64::try_from(max_skew.as_micros()).unwrap_or(i64::MAX);
    let mut found = Ids::default();
    for pass in 0..passes {
        let ids = clicks.clone().select_columns(&["click_id", "event_time"]).map_err(|error| classify(&error))?;
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
                if others.all().any(|other| other.abs_diff(*time) <= apart.unsigned_abs()) {
                    found.duplicates += 1;
                    if found.examples.len() < EXAMPLES {
                        found.examples.push(id.to_string());
                    }
                } else {
                    found.reused += 1;
                }
                others.more.push(*time);
            }
        }
    }
    Ok(found)
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
