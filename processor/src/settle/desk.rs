//! Where arrivals are decided on and their rows brought into `clicks`: what the settler and a backfill share.
//!
//! ```text
//! look: complete_through, then the newest snapshot ──► decide: ids near, union ──► land: rows, `settler`, hours
//!                        ▲                                                             │
//!                        └──────────── somebody else settled meanwhile ◄───────────────┘
//! ```
//! Every commit made here expects the transaction `settler` as the snapshot showed it and counts it up, so of two
//! that decided on the same snapshot one lands and the other looks again. Commits of the hot path in between don't
//! matter: `complete_through` was read before the snapshot, so what they add is either later than anything decided
//! here, or late, and then not in `clicks`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use ingest::ports::Registry;
use schemas::tables::Table;
use schemas::{Class, ClickId, Source, UtcMicros};

use super::error::SettleError;
use super::ids::{Found, IdIndex, IdSet, Spans};
use super::restate::{Ledger, Restatements};
use super::said::Said;
use super::sampled::weighed;
use super::thin::{Apart, apart};
use super::union::{Arrival, Decision, Fate, compare, union};
use super::waits::Waits;
use crate::enrich::Enricher;
use crate::lake::{Change, CommitError, DataFile, LakeError, NewFile, Span, TableHandle};
use crate::metrics::Metrics;
use crate::sample::RateBook;

/// The application transaction that fences settlers.
pub(crate) const SETTLER: &str = "settler";

/// How often a race may be lost before giving up for now.
pub(crate) const TRIES: u32 = 20;

/// The transaction that says how far an hour is settled.
fn settled_txn(hour: i64) -> String {
    format!("settled/{hour}")
}

/// A change that only one settler can land on the snapshot it was decided on.
pub(crate) fn fenced(table: &TableHandle, mut change: Change) -> Change {
    let stored = table.txn(SETTLER);
    change.expect.push((SETTLER.to_owned(), stored));
    change.txns.push((SETTLER.to_owned(), stored.unwrap_or(0) + 1));
    change
}

/// Files written for a decision, to be used again if the next look comes to the same one.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    fates: Vec<Fate>,
    rates: BTreeMap<usize, f64>,
    files: Vec<NewFile>,
    /// Of drafts put together, where in the two each but the first begins.
    joints: Vec<(usize, usize)>,
}

impl Draft {
    /// Whether these are the fates that it was written for.
    pub(crate) fn is_for(&self, fates: &[Fate]) -> bool {
        self.fates == fates
    }

    /// This one and that of the records that come next, which is made of no others.
    pub(crate) fn with(mut self, next: Self) -> Self {
        self.joints.push((self.fates.len(), self.files.len()));
        self.fates.extend(next.fates);
        self.files.extend(next.files);
        self
    }
}

/// Whether a commit landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// It is in the lake.
    Landed,
    /// It is not, or not known to be: look again, the snapshot has moved.
    LookAgain,
}

/// One settler's view of `clicks`.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) clicks: TableHandle,
    registry: Arc<dyn Registry>,
    index: IdIndex,
    waits: Waits,
    restatements: Restatements,
    pub(super) rates: RateBook,
    /// The visitors of what is sampled away, once there are any.
    pub(super) hourly: Option<TableHandle>,
    /// How long after its end a day may still change; none: for ever.
    settle: Option<Duration>,
    /// Days (since the epoch) before this one are final, as far as the last look showed.
    final_before: i64,
    /// Judges what waited by the rules that are in force when it is settled.
    enricher: Arc<Enricher>,
}

impl Desk {
    pub(crate) fn new(
        clicks: TableHandle,
        registry: Arc<dyn Registry>,
        enricher: Arc<Enricher>,
        waits: Waits,
        (max_skew, id_bytes): (Duration, usize),
    ) -> Self {
        let restatements = Restatements::new(clicks.lake().clone());
        let rates = RateBook::new(clicks.lake().clone(), waits.skew, waits.repeat);
        Self {
            clicks,
            registry,
            index: IdIndex::new(max_skew, id_bytes),
            waits,
            restatements,
            rates,
            hourly: None,
            settle: None,
            final_before: i64::MIN,
            enricher,
        }
    }

    /// With days that are final so long after their end; else none ever is.
    pub(crate) fn with_settle(self, settle: Duration) -> Self {
        Self { settle: Some(settle), ..self }
    }

    /// How long records wait.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Reads `complete_through`, and takes the snapshot afterwards. The other way round an event could come into the
    /// lake between the two, counted in `complete_through` and missing in the snapshot.
    pub(crate) async fn look(&mut self, now: UtcMicros) -> Result<UtcMicros, SettleError> {
        let complete_through = self.registry.publish(&[], now).await?;
        if let Some(settle) = self.settle {
            self.final_before = i64::from(complete_through.min(now).minus(settle).day());
        }
        self.clicks.refresh().await?;
        Ok(complete_through)
    }

    /// As [`Desk::look`], but publishes nothing.
    pub(crate) async fn peek(&mut self, now: UtcMicros) -> Result<UtcMicros, SettleError> {
        let complete_through = self.registry.complete_through(now).await?;
        self.clicks.refresh().await?;
        Ok(complete_through)
    }

    /// From when on events of our own redirect are possible; none where it never ran.
    pub(crate) async fn events_since(&self, max_skew: Duration) -> Result<Option<UtcMicros>, SettleError> {
        let journals = self.registry.journals().await?;
        Ok(journals.iter().map(|journal| journal.registered_at).min().map(|first| first.minus(max_skew)))
    }

    /// Those of some records that the snapshot holds.
    pub(crate) async fn known(
        &mut self,
        records: impl Iterator<Item = (ClickId, UtcMicros)> + Clone,
    ) -> Result<IdSet, SettleError> {
        Ok(ids_of(&self.find(records).await?))
    }

    /// Those of some records that the snapshot holds, by the file that holds them.
    pub(crate) async fn find(
        &mut self,
        records: impl Iterator<Item = (ClickId, UtcMicros)> + Clone,
    ) -> Result<Found, SettleError> {
        let spans: Spans = records.clone().map(|(_, time)| time).collect();
        Ok(self.index.find(&self.clicks, &spans, records.map(|(id, _)| id)).await?)
    }

    /// The union of `arrivals` with the snapshot, and which of those that are counted already know better. `rows` are
    /// the batches that `arrivals` describe, row by row.
    pub(crate) async fn decide(
        &mut self,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        complete_through: UtcMicros,
    ) -> Result<Decision, SettleError> {
        let (mut decision, found) = self.decide_by_ids(arrivals, complete_through).await?;
        self.sample(rows, arrivals, &mut decision).await?;
        if decision.fates.contains(&Fate::Counted) {
            let in_lake = self.index.facts(&self.clicks, &found).await?;
            let said = Said::of(rows)?;
            compare(arrivals, &mut decision, &in_lake, |at| said.row(at));
        }
        Ok(decision)
    }

    /// The union of `arrivals` with the snapshot, whatever the records say; and which of them that holds. Of records none of
    /// which may be sampled.
    pub(crate) async fn decide_by_ids(
        &mut self,
        arrivals: &[Arrival],
        complete_through: UtcMicros,
    ) -> Result<(Decision, Found), SettleError> {
        let found = self.find(arrivals.iter().map(|arrival| (arrival.id, arrival.time))).await?;
        Ok((union(arrivals, &ids_of(&found), &self.waits, complete_through), found))
    }

    /// Writes the rows that are to be added: nothing lands.
    pub(crate) async fn draft(&self, rows: &[RecordBatch], decision: &Decision) -> Result<Draft, SettleError> {
        let unfit = |source| SettleError::Rows { table: Table::Clicks, source };
        let adds = weighed(chosen(Table::Clicks, rows, &decision.fates, Fate::Add)?, decision)?;
        let adds: Result<Vec<RecordBatch>, _> = adds.into_iter().map(|rows| self.enricher.up_to_date(rows)).collect();
        let Apart { hours, days } = apart(adds.map_err(unfit)?, self.final_before).map_err(unfit)?;
        let mut files = self.clicks.write_spanning(&hours, Span::Hour).await?;
        files.extend(self.clicks.write_spanning(&days, Span::Day).await?);
        Ok(Draft { fates: decision.fates.clone(), rates: decision.rates.clone(), files, joints: Vec::new() })
    }

    /// Commits what was decided: the rows to add, the hours settled, `txns` and the fence, all at once.
    ///
    /// `rows` are the batches that `arrivals` describe, row by row; columns beyond those of `clicks` are left out.
    pub(crate) async fn land(
        &mut self,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        decision: &Decision,
        txns: &[(String, i64)],
        draft: &mut Draft,
    ) -> Result<Landing, SettleError> {
        self.record(rows, arrivals, decision).await?;
        if !draft.is_for(&decision.fates) || draft.rates != decision.rates {
            *draft = self.draft(rows, decision).await?;
        }
        let mut change = Change { add: draft.files.clone(), ..Change::default() };
        change.expect = txns.iter().map(|(id, _)| (id.clone(), self.clicks.txn(id))).collect();
        change.txns = txns.to_vec();
        change.txns.extend(self.raised(&decision.settled));
        if change.add.is_empty() && change.txns.is_empty() {
            return Ok(Landing::Landed);
        }
        let ledger = Ledger::of_added(self.final_through().await?, rows, arrivals, &decision.fates);
        self.tell(&ledger).await?;
        let change = fenced(&self.clicks, change);
        match self.clicks.commit(change).await {
            Ok(_) => {
                self.remember(arrivals, draft);
                Ok(Landing::Landed)
            }
            Err(CommitError::Moved { .. } | CommitError::Conflict { .. }) => Ok(Landing::LookAgain),
            Err(CommitError::Expired { .. }) => {
                *draft = Draft::default();
                Ok(Landing::LookAgain)
            }
            Err(CommitError::Failed(source)) => self.did_it_land(source, &draft.files).await,
        }
    }

    /// Up to where numbers are final, to be asked for right before a commit.
    pub(crate) async fn final_through(&self) -> Result<Option<UtcMicros>, SettleError> {
        Ok(self.registry.final_through().await?)
    }

    /// Writes down what a commit is about to do to final numbers.
    pub(crate) async fn tell(&mut self, ledger: &Ledger) -> Result<(), SettleError> {
        self.restatements.tell(ledger).await
    }

    /// The hours that go on from what the snapshot says of them.
    fn raised(&self, settled: &BTreeMap<i64, UtcMicros>) -> Vec<(String, i64)> {
        let txns = settled.iter().map(|(hour, through)| (settled_txn(*hour), through.0));
        txns.filter(|(id, through)| self.clicks.txn(id).is_none_or(|stored| stored < *through)).collect()
    }

    /// After a failure: files have names that nobody else uses, so a live one means that it landed. Without files it
    /// doesn't matter: deciding again changes nothing that has landed.
    async fn did_it_land(&mut self, failure: LakeError, files: &[NewFile]) -> Result<Landing, SettleError> {
        if self.clicks.refresh().await.is_err() {
            return Err(failure.into());
        }
        let landed = files.first().is_some_and(|file| self.clicks.files().iter().any(|live| live.path == file.path()));
        Ok(if landed { Landing::Landed } else { Landing::LookAgain })
    }

    /// Leaves the ids of files just committed in the index, so that they need not be read back.
    fn remember(&mut self, arrivals: &[Arrival], draft: &Draft) {
        let live: HashMap<&str, &Arc<DataFile>> =
            self.clicks.files().iter().rev().take(draft.files.len() + 16).map(|file| (&*file.path, file)).collect();
        let begins = [(0, 0)].into_iter().chain(draft.joints.iter().copied());
        let ends = draft.joints.iter().copied().chain([(draft.fates.len(), draft.files.len())]);
        for ((record, file), (record_end, file_end)) in begins.zip(ends) {
            let mut by_hour: BTreeMap<i64, Vec<ClickId>> = BTreeMap::new();
            let records = arrivals[record..record_end].iter().zip(&draft.fates[record..record_end]);
            for (arrival, _) in records.filter(|(_, fate)| **fate == Fate::Add) {
                by_hour.entry(arrival.time.hour()).or_default().push(arrival.id);
            }
            for file in draft.files[file..file_end].iter().filter_map(|file| live.get(file.path())) {
                let hour = file.min_time.filter(|_| file.is_one_hour()).map(UtcMicros::hour);
                if let Some(ids) = hour.and_then(|hour| by_hour.get(&hour)) {
                    self.index.insert(&file.path, ids.iter().copied());
                }
            }
        }
    }
}

/// All ids that were found.
fn ids_of(found: &Found) -> IdSet {
    found.iter().flat_map(|(_, ids)| ids).copied().collect()
}

/// The rows whose fate is `fate`, with the columns of `table`.
pub(crate) fn chosen(
    table: Table,
    rows: &[RecordBatch],
    fates: &[Fate],
    fate: Fate,
) -> Result<Vec<RecordBatch>, SettleError> {
    let failed = |source| SettleError::Rows { table, source };
    let schema = if table == Table::Clicks { Arc::clone(&schemas::click::DATA_SCHEMA) } else { table.schema() };
    let mut at = 0;
    let mut out = Vec::with_capacity(rows.len());
    for batch in rows {
        let these = &fates[at..at + batch.num_rows()];
        at += batch.num_rows();
        let count = these.iter().filter(|f| **f == fate).count();
        if count == 0 {
            continue;
        }
        let columns: Result<Vec<usize>, _> =
            schema.fields().iter().map(|field| batch.schema().index_of(field.name())).collect();
        let batch = batch.project(&columns.map_err(failed)?).map_err(failed)?;
        if count == these.len() {
            out.push(batch);
        } else {
            let mask: BooleanArray = these.iter().map(|f| Some(*f == fate)).collect();
            out.push(filter_record_batch(&batch, &mask).map_err(failed)?);
        }
    }
    Ok(out)
}

/// Counts the rows added, by source and class.
pub(crate) fn note_added(metrics: &Metrics, rows: &[RecordBatch], fates: &[Fate]) {
    let mut added: Vec<((&str, &str), u64)> = Vec::new();
    let mut fates = fates.iter();
    for batch in rows {
        let text = |name| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        let (Some(sources), Some(classes)) = (text("source"), text("class")) else { continue };
        for (row, _) in (0..batch.num_rows()).zip(&mut fates).filter(|(_, fate)| **fate == Fate::Add) {
            let words = (sources.value(row), classes.value(row));
            // a handful, the commonest first as a rule
            match added.iter_mut().find(|(known, _)| *known == words) {
                Some((_, count)) => *count += 1,
                None => added.push((words, 1)),
            }
        }
    }
    for ((source, class), count) in added {
        if let (Ok(source), Ok(class)) = (source.parse::<Source>(), class.parse::<Class>()) {
            metrics.note_rows(source, class, count);
        }
    }
}
