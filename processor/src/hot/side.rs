//! The side tables of a commit, written before it: late events, and records that can't be read.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use schemas::batch::Cover;
use schemas::click::DATA_SCHEMA;
use schemas::tables::{Table, UNWEIGHED, arriving};
use schemas::{ClickId, UtcMicros};

use super::decode::{Batch, Clicked, Refused};
use super::picked::{Pick, picked};
use crate::gaps::{self, Gap};
use crate::lake::{Change, CommitError, Lake, LakeError, TableHandle};
use crate::sketch::{self, SampledAway};

/// How often a side table's commit that others got in the way of is tried.
const ATTEMPTS: usize = 5;

/// A partition's records that can't be read, and the positions that a commit of them stands for.
#[derive(Debug)]
pub(super) struct Unread<'a> {
    /// The partition's transaction.
    pub(super) app_id: &'a str,
    /// The position after the last record of the group.
    pub(super) end: i64,
    /// The records.
    pub(super) refused: Vec<&'a Refused>,
    /// What is lost, each with the offset of the record that says so.
    pub(super) lost: Vec<&'a (u64, Cover)>,
}

/// The side tables, opened when first needed.
#[derive(Debug)]
pub(super) struct SideTables {
    lake: Lake,
    arrivals: Option<TableHandle>,
    rejects: Option<TableHandle>,
    gaps: Option<TableHandle>,
    hourly: Option<TableHandle>,
    /// Late events that this process has brought into `arrivals` for a commit that has not landed yet.
    brought: HashSet<(ClickId, UtcMicros)>,
}

impl SideTables {
    pub(super) fn new(lake: Lake) -> Self {
        Self { lake, arrivals: None, rejects: None, gaps: None, hourly: None, brought: HashSet::new() }
    }

    /// Writes late events. Written again by a replay, and never skipped by any stored position: the settler's union by
    /// id makes repeats harmless, while what another attempt has judged late need not be what this one does. Only what
    /// this very process knows to have landed is left out when a commit is tried again.
    pub(super) async fn late(&mut self, batches: &[Arc<Batch>], late: &[(&Clicked, Pick)]) -> Result<(), CommitError> {
        let key = |(one, _): &(&Clicked, Pick)| (one.click_id, one.event_time);
        let late: Vec<(&Clicked, Pick)> =
            late.iter().copied().filter(|one| !self.brought.contains(&key(one))).collect();
        if late.is_empty() {
            return Ok(());
        }
        let rows = arrivals_rows(batches, &late, UtcMicros::now()).map_err(|e| unfit(Table::Arrivals, e))?;
        let table = opened(&mut self.arrivals, &self.lake, Table::Arrivals).await?;
        let add = table.write(&rows).await.map_err(CommitError::Failed)?;
        table.commit(Change { add, ..Change::default() }).await?;
        self.brought.extend(late.iter().map(key));
        Ok(())
    }

    /// Writes what clicks that are sampled away leave: their visitors. Again on a replay, and in every attempt: it is a
    /// union.
    pub(super) async fn sampled(&mut self, away: &[SampledAway<'_>]) -> Result<(), CommitError> {
        if away.is_empty() {
            return Ok(());
        }
        let table = opened(&mut self.hourly, &self.lake, Table::ClicksHourly).await?;
        sketch::write(table, away).await
    }

    /// The commit that the side tables were written for has landed.
    pub(super) fn landed(&mut self) {
        self.brought = HashSet::new();
    }

    /// Writes records that can't be read, with the positions in the same commit; what is there already is skipped.
    pub(super) async fn refused(&mut self, unread: &[Unread<'_>]) -> Result<(), CommitError> {
        if unread.iter().all(|one| one.refused.is_empty()) {
            return Ok(());
        }
        let table = opened(&mut self.rejects, &self.lake, Table::Rejects).await?;
        for attempt in 1.. {
            table.refresh().await.map_err(CommitError::Failed)?;
            match write_refused(table, unread).await {
                Err(CommitError::Moved { .. } | CommitError::Conflict { .. }) if attempt < ATTEMPTS => {}
                other => return other,
            }
        }
        Ok(())
    }
}

impl SideTables {
    /// Writes down what is lost, with the positions in the same commit; what is there already is skipped, and what was
    /// written down when its journal was given up.
    pub(super) async fn lost(&mut self, unread: &[Unread<'_>]) -> Result<(), CommitError> {
        if unread.iter().all(|one| one.lost.is_empty()) {
            return Ok(());
        }
        let table = opened(&mut self.gaps, &self.lake, Table::Gaps).await?;
        for attempt in 1.. {
            table.refresh().await.map_err(CommitError::Failed)?;
            match write_lost(table, unread).await {
                Err(CommitError::Moved { .. } | CommitError::Conflict { .. }) if attempt < ATTEMPTS => {}
                other => return other,
            }
        }
        Ok(())
    }
}

async fn write_lost(table: &mut TableHandle, unread: &[Unread<'_>]) -> Result<(), CommitError> {
    let (mut gaps, mut txns) = (Vec::new(), Vec::new());
    for one in unread.iter().filter(|one| !one.lost.is_empty()) {
        let stored = table.txn(one.app_id);
        let is_new = |offset: u64| stored.is_none_or(|has| offset as i64 >= has);
        for (_, cover) in one.lost.iter().filter(|(offset, _)| is_new(*offset)) {
            if table.txn(&gaps::given_up(cover.journal)).is_none() {
                gaps.push(Gap::of(cover));
            }
        }
        txns.push((one.app_id.to_owned(), one.end));
    }
    gaps::add(table, &gaps, txns).await
}

async fn opened<'a>(
    handle: &'a mut Option<TableHandle>,
    lake: &Lake,
    table: Table,
) -> Result<&'a mut TableHandle, CommitError> {
    if handle.is_none() {
        *handle = Some(lake.table(table).await.map_err(CommitError::Failed)?);
    }
    handle.as_mut().ok_or(CommitError::Conflict { what: "a table that was just opened".to_owned() })
}

async fn write_refused(table: &mut TableHandle, unread: &[Unread<'_>]) -> Result<(), CommitError> {
    let mut change = Change::default();
    let mut rows: Vec<&Refused> = Vec::new();
    for one in unread {
        let stored = table.txn(one.app_id);
        let before = rows.len();
        rows.extend(one.refused.iter().filter(|refused| stored.is_none_or(|has| refused.offset as i64 >= has)));
        if rows.len() > before {
            change.txns.push((one.app_id.to_owned(), one.end));
            change.expect.push((one.app_id.to_owned(), stored));
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let rows = reject_rows(&rows, UtcMicros::now()).map_err(|e| unfit(Table::Rejects, e))?;
    change.add = table.write(&rows).await.map_err(CommitError::Failed)?;
    table.commit(change).await.map(drop)
}

fn arrivals_rows(batches: &[Arc<Batch>], late: &[(&Clicked, Pick)], now: UtcMicros) -> Result<RecordBatch, ArrowError> {
    // of a click that may be sampled the settler finds out what it weighs
    let weight = |one: &Clicked| if one.is_internal { UNWEIGHED } else { 1.0 };
    let picks: Vec<Pick> = late.iter().map(|(one, pick)| Pick { weight: weight(one), ..*pick }).collect();
    let rows = concat_batches(&DATA_SCHEMA, &picked(batches, &picks)?)?;
    arriving(&rows, late.iter().map(|(one, _)| &*one.provider), now, false)
}

fn reject_rows(refused: &[&Refused], now: UtcMicros) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        instants(refused.iter().map(|_| now)),
        Arc::new(StringArray::from_iter_values(refused.iter().map(|_| ""))),
        Arc::new(StringArray::from_iter(refused.iter().map(|_| None::<&str>))),
        Arc::new(StringArray::from_iter_values(refused.iter().map(|one| one.journal.to_string()))),
        Arc::new(Int64Array::from_iter_values(refused.iter().map(|one| one.number as i64))),
        Arc::new(StringArray::from_iter_values(refused.iter().map(|one| one.reason))),
        Arc::new(BinaryArray::from_iter_values(refused.iter().map(|one| &one.bytes))),
    ];
    RecordBatch::try_new(Table::Rejects.schema(), columns)
}

fn instants(instants: impl Iterator<Item = UtcMicros>) -> ArrayRef {
    let array: TimestampMicrosecondArray = instants.map(|instant| Some(instant.0)).collect();
    Arc::new(array.with_timezone("UTC"))
}

/// Rows that don't fit their own table: a fault of this program.
pub(super) fn unfit(table: Table, error: ArrowError) -> CommitError {
    CommitError::Failed(LakeError::Rows { table, doing: "building rows", source: ParquetError::from(error) })
}
