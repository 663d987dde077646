//! The guard: lines without an event are recovered only where ids meet (design §4.1).
//!
//! ```text
//! a provider's hour ──► policy: lost | undecided | mismatched
//!    lost: recovered          mismatched: held in `arrivals` until an operator says what they are,
//!                             or until lines or events come that show that they were lost
//! ```
//! * `policy`, `hours`: what makes an hour mismatched, and how often its lines came; pure
//! * `facts`: what the tables say of an hour; `hold`: what becomes of records; `decide`: the operator's word
//!
//! Invariants: what stands of an hour is a transaction of `clicks`, set by settlers' fenced commits, and every settler
//! keeps to it, whatever it is configured for. An operator's word is final.
//!
//! Failure: an hour is judged anew whenever its lines are looked at, so a killed settler leaves nothing behind.

mod decide;
mod facts;
mod hold;
pub(crate) mod hours;
mod policy;

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use ingest::edge::{IdMode, Ids};
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::HOUR;
use serde::{Deserialize, Serialize};

pub use decide::DecideError;
pub(super) use hold::Held;

use self::facts::{ClickFacts, ImportFacts};
use crate::lake::{Lake, LakeError, TableHandle};

/// What stands of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Ids don't meet: its lines without an event wait.
    Open,
    /// An operator has said that their events were lost.
    Recovered,
    /// An operator has said that they are counted, under other ids.
    Counted,
}

impl Standing {
    /// The word that is written and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Recovered => "recovered",
            Self::Counted => "counted",
        }
    }

    fn version(standing: Option<Self>) -> i64 {
        match standing {
            None => 0,
            Some(Self::Open) => 1,
            Some(Self::Recovered) => 2,
            Some(Self::Counted) => 3,
        }
    }

    fn of(version: i64) -> Option<Self> {
        [Self::Open, Self::Recovered, Self::Counted].into_iter().find(|one| Self::version(Some(*one)) == version)
    }
}

/// The beginning of the transactions that say what stands.
const PREFIX: &str = "mismatch/";

fn txn_of(provider: &str, hour: i64) -> String {
    format!("{PREFIX}{provider}/{hour}")
}

/// What stands of a provider's hour, if anything.
pub(super) fn standing(clicks: &TableHandle, provider: &str, hour: i64) -> Option<Standing> {
    clicks.txn(&txn_of(provider, hour)).and_then(Standing::of)
}

/// A provider's hour whose ids don't meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatched {
    /// Whose lines.
    pub provider: String,
    /// The hour's begin.
    pub hour: UtcMicros,
    /// How many requests wait for a decision.
    pub waiting: u64,
}

/// The open hours of a snapshot.
fn open_hours(clicks: &TableHandle) -> impl Iterator<Item = (&str, i64)> {
    let open = clicks.txns_with_prefix(PREFIX).filter(|(_, version)| Standing::of(*version) == Some(Standing::Open));
    open.filter_map(|(txn, _)| {
        let (provider, hour) = txn[PREFIX.len()..].rsplit_once('/')?;
        Some((provider, hour.parse().ok()?))
    })
}

/// Of `waiting` lines of `provider` by hour, those of open hours.
pub(crate) fn open_among(clicks: &TableHandle, provider: &str, waiting: &BTreeMap<i64, u64>) -> Vec<Mismatched> {
    let open = waiting.iter().filter(|(hour, _)| standing(clicks, provider, **hour) == Some(Standing::Open));
    open.map(|(hour, waiting)| Mismatched {
        provider: provider.to_owned(),
        hour: UtcMicros(hour * HOUR),
        waiting: *waiting,
    })
    .collect()
}

/// The hours whose ids don't meet, and how many lines of each wait.
///
/// # Errors
/// When the lake can't be read.
pub async fn mismatched(lake: &Lake) -> Result<Vec<Mismatched>, LakeError> {
    let clicks = lake.table(Table::Clicks).await?;
    let mut hours: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    open_hours(&clicks).for_each(|(provider, hour)| {
        hours.entry(provider).or_default().insert(hour);
    });
    if hours.is_empty() {
        return Ok(Vec::new());
    }
    let arrivals = lake.table(Table::Arrivals).await?;
    let mut found = Vec::new();
    for (provider, hours) in hours {
        let lines = facts::waiting(&arrivals, provider, &hours).await?;
        let lines: BTreeSet<_> = lines.into_iter().map(|line| (line.time.hour(), line.id)).collect();
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        lines.into_iter().for_each(|(hour, _)| *counts.entry(hour).or_default() += 1);
        found.extend(open_among(&clicks, provider, &counts));
    }
    Ok(found)
}

/// The edge in front of our own redirect, as far as it is told of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The provider whose ids name our events (`[edge] provider`); `none`: they all have ids of our own.
    pub provider: String,
    /// How its requests are known (`[edge] id`).
    pub ids: IdMode,
}

impl Default for Edge {
    fn default() -> Self {
        Self { provider: "none".to_owned(), ids: IdMode::Auto }
    }
}

impl Edge {
    /// How requests of a provider are known, be it this one or another.
    fn ids_of(&self, provider: &str) -> Ids {
        if provider == self.provider { self.ids.resolve(provider) } else { IdMode::Auto.resolve(provider) }
    }
}

/// Which lines of a provider's hour an event may exist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Our redirect's, of links of ours.
    Linked,
    /// Another redirect's too, which may know codes that we don't.
    All,
}

impl Scope {
    fn has(self, is_linked: bool) -> bool {
        self == Self::All || is_linked
    }
}

/// What a settler knows of hours.
#[derive(Debug)]
pub(super) struct Guard {
    lake: Lake,
    edge: Edge,
    edge_files: Option<TableHandle>,
    clicks: ClickFacts,
    imports: ImportFacts,
    /// What stood when records were last looked at.
    stood: Vec<(String, i64)>,
}

impl Guard {
    pub(super) fn new(lake: Lake, edge: Edge) -> Self {
        let (clicks, imports) = (ClickFacts::default(), ImportFacts::default());
        Self { lake, edge, edge_files: None, clicks, imports, stood: Vec::new() }
    }

    /// Whether lines of this provider are judged: where ids aren't trusted, none is missed.
    fn judges(&self, provider: &str) -> bool {
        self.edge.ids_of(provider) == Ids::Trusted
    }

    /// Whether something else stands of any hour than when this was last asked.
    pub(super) fn has_moved(&mut self, clicks: &TableHandle) -> bool {
        let stands: Vec<(String, i64)> = clicks.txns_with_prefix(PREFIX).map(|(id, v)| (id.to_owned(), v)).collect();
        let moved = stands != self.stood;
        self.stood = stands;
        moved
    }

    /// How many hours wait for an operator.
    pub(super) fn open_hours(&self, clicks: &TableHandle) -> usize {
        open_hours(clicks).count()
    }

    /// Reads what imports have said.
    async fn follow_imports(&mut self) -> Result<(), LakeError> {
        let mut table = match self.edge_files.take() {
            Some(table) => table,
            None => self.lake.table(Table::EdgeFiles).await?,
        };
        table.refresh().await?;
        self.imports.follow(&table).await?;
        self.edge_files = Some(table);
        Ok(())
    }
}

/// The providers of rows of `arrivals`, one a row.
fn providers(rows: &[RecordBatch]) -> Vec<Option<&str>> {
    let mut all = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
    for batch in rows {
        match batch.column_by_name("provider").and_then(|column| column.as_string_opt::<i32>()) {
            Some(providers) => all.extend(providers.iter()),
            None => all.resize(all.len() + batch.num_rows(), None),
        }
    }
    all
}

/// Which rows are of links of ours.
fn linked(rows: &[RecordBatch]) -> Vec<bool> {
    let mut all = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
    for batch in rows {
        match batch.column_by_name("link_id") {
            Some(links) => all.extend((0..batch.num_rows()).map(|row| links.is_valid(row))),
            None => all.resize(all.len() + batch.num_rows(), false),
        }
    }
    all
}
