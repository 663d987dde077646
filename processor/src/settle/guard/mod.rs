//! The guard: lines without an event are recovered only where ids meet (design §4.1).
//!
//! ```text
//! a party's hour ──► policy: lost | undecided | mismatched
//!    lost: recovered          mismatched: held in `arrivals` until an operator says what they are,
//!                             or until the rest of the hour's lines comes and meets the events that seemed to be theirs
//! ```
//! * `party`: whose lines of a provider are judged together; `stands`: what stands of an hour, and for whom
//! * `policy`, `hours`: what makes an hour mismatched, and how often its lines came; pure
//! * `facts`, `imports`: what the tables say of an hour; `look`: the verdict on it; `hold`: what becomes of records
//! * `decide`: the operator's word; `undo`: rows that it shows to be doubles
//!
//! Invariants: what stands of an hour is a transaction of `clicks`, set by settlers' fenced commits, and every settler
//! keeps to it, whatever it is configured for. An operator's word stands until the operator says otherwise.
//!
//! Failure: an hour is judged anew whenever its lines are looked at, so a killed settler leaves nothing behind. A word says
//! of itself that it is still being carried out, so whoever finds it goes on.

mod decide;
mod facts;
mod hold;
pub(crate) mod hours;
mod imports;
mod look;
pub(crate) mod party;
mod policy;
mod stands;
mod undo;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use ingest::edge::{IdMode, Ids};
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::HOUR;
use serde::{Deserialize, Serialize};

pub(crate) use decide::Spoken;
pub use decide::{DecideError, Word, words_under_way};
pub(super) use hold::Held;
pub use stands::Standing;

use self::facts::ClickFacts;
use self::imports::ImportFacts;
use self::party::Party;
use self::stands::{PREFIX, Said, Split, open_hours};
use crate::lake::{Lake, LakeError, TableHandle};

/// An hour whose ids don't meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatched {
    /// Whose lines: a provider's name, and where they are one tenant's matter, `/` and the workspace's.
    pub provider: String,
    /// The hour's begin.
    pub hour: UtcMicros,
    /// How many requests wait for a decision.
    pub waiting: u64,
}

/// Numbers of waiting lines: by how they were brought, the workspace of their links, and hour.
pub(crate) type WaitingLines = BTreeMap<(String, String, i64), u64>;

/// Of waiting lines, those of open hours.
pub(crate) fn open_among(clicks: &TableHandle, arrivals: &TableHandle, waiting: &WaitingLines) -> Vec<Mismatched> {
    let mut open: BTreeMap<(Party, i64), u64> = BTreeMap::new();
    let mut splits: HashMap<String, Split> = HashMap::new();
    for ((brought, workspace, hour), lines) in waiting {
        let brought = Party::named(brought);
        let read = || Split::read(&brought.provider, clicks, arrivals);
        let split = splits.entry(brought.provider.clone()).or_insert_with(read);
        let party = brought.of_lines(split, workspace, *hour);
        if Said::of(clicks, &party, *hour).standing == Some(Standing::Open) {
            *open.entry((party, *hour)).or_default() += lines;
        }
    }
    let told = open.into_iter().map(|((party, hour), waiting)| Mismatched {
        provider: party.name().into_owned(),
        hour: UtcMicros(hour * HOUR),
        waiting,
    });
    told.collect()
}

/// The hours whose ids don't meet, and how many lines of each wait.
///
/// # Errors
/// When the lake can't be read.
pub async fn mismatched(lake: &Lake) -> Result<Vec<Mismatched>, LakeError> {
    let clicks = lake.table(Table::Clicks).await?;
    let mut hours: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    open_hours(&clicks).for_each(|(party, hour)| {
        hours.entry(party.provider).or_default().insert(hour);
    });
    if hours.is_empty() {
        return Ok(Vec::new());
    }
    let arrivals = lake.table(Table::Arrivals).await?;
    let mut counts = WaitingLines::new();
    for (provider, hours) in hours {
        let mut seen = BTreeSet::new();
        for line in facts::waiting(&arrivals, &provider, &hours).await? {
            let hour = line.time.hour();
            if seen.insert((line.is_uploaded, hour, line.id)) {
                let brought = party::brought_by(&provider, line.is_uploaded.then_some(&*line.workspace)).into_owned();
                *counts.entry((brought, line.workspace, hour)).or_default() += 1;
            }
        }
    }
    Ok(open_among(&clicks, &arrivals, &counts))
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

/// Which lines of a party's hour an event may exist of.
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
    /// When it was last looked for open hours that are empty.
    closed_at: Option<UtcMicros>,
}

impl Guard {
    pub(super) fn new(lake: Lake, edge: Edge) -> Self {
        let (clicks, imports) = (ClickFacts::default(), ImportFacts::default());
        Self { lake, edge, edge_files: None, clicks, imports, stood: Vec::new(), closed_at: None }
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

    /// Whether an import may be of this provider, as far as was read; of one under way nobody knows.
    pub(super) fn may_be_of(&self, import: &str, provider: &str) -> bool {
        self.imports.get(import).is_none_or(|known| known.provider == provider)
    }

    /// Reads what imports have said.
    pub(super) async fn follow_imports(&mut self) -> Result<(), LakeError> {
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

/// A text of each row.
pub(crate) fn texts<'a>(rows: &'a [RecordBatch], column: &str) -> Vec<Option<&'a str>> {
    let mut all = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
    for batch in rows {
        match batch.column_by_name(column).and_then(|column| column.as_string_opt::<i32>()) {
            Some(texts) => all.extend(texts.iter()),
            None => all.resize(all.len() + batch.num_rows(), None),
        }
    }
    all
}

/// Which rows are of links of ours.
pub(crate) fn linked(rows: &[RecordBatch]) -> Vec<bool> {
    let mut all = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
    for batch in rows {
        match batch.column_by_name("link_id") {
            Some(links) => all.extend((0..batch.num_rows()).map(|row| links.is_valid(row))),
            None => all.resize(all.len() + batch.num_rows(), false),
        }
    }
    all
}
