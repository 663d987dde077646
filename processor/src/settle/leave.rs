//! Rows leave `arrivals` once what became of them has landed in `clicks`; what stays comes back as one file.
//!
//! Records that only correct stay too, marked, until their row's file is rewritten. What is odd about a record is
//! counted by import in the commit with which it ceases to wait, so that it is counted once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use schemas::UtcMicros;
use schemas::tables::Table;

use super::correct::policy::Pending;
use super::desk::fenced;
use super::error::SettleError;
use super::sampled::{by_import, sampled_txn};
use super::settler::Settler;
use super::union::{Arrival, Decision, Fate, Remark};
use super::waiting::corrects;
use crate::lake::{Change, CommitError, DataFile, Span, TableHandle};

/// So many files that nothing can be done with yet are merged.
pub(super) const MANY_FILES: usize = 16;

/// Files of `arrivals` that were looked at together.
pub(super) struct Group<'a> {
    pub(super) files: &'a [Arc<DataFile>],
    /// All their rows, in their order.
    pub(super) rows: &'a [RecordBatch],
    /// What they say, row by row.
    pub(super) arrivals: &'a [Arrival],
}

/// The transaction of `arrivals` that counts what is odd about an import's records.
pub(crate) fn remark_txn(remark: Remark, import_id: &str) -> String {
    let word = match remark {
        Remark::Surprise => "surprise",
        Remark::ReusedId => "reused_id",
    };
    format!("{word}/{import_id}")
}

impl Settler {
    /// Takes the rows that are settled out of `arrivals`, once their commit has landed. Until `complete_through` is
    /// later than `next`, looking at what waits of them again gains nothing.
    pub(super) async fn take_away(
        &mut self,
        group: &Group<'_>,
        decision: &Decision,
        next: UtcMicros,
        now: UtcMicros,
    ) -> Result<(), SettleError> {
        let marked: Vec<bool> = marks(group.rows);
        let stays = |fate: &Fate| matches!(fate, Fate::Wait | Fate::Correct);
        let as_it_is = |(fate, marked): (&Fate, &bool)| stays(fate) && (*fate == Fate::Correct) == *marked;
        let unchanged = decision.fates.iter().zip(&marked).all(as_it_is);
        if unchanged && group.files.len() < MANY_FILES {
            self.note_looked(group, decision, next, now);
            return Ok(());
        }
        let rest = staying(group.rows, &decision.fates).map_err(unfit)?;
        let add = self.arrivals.write_spanning(&rest, Span::Day).await?;
        let kept: Vec<String> = add.iter().map(|file| file.path().to_owned()).collect();
        let since = group.files.iter().filter_map(|file| self.pending.get(&file.path)).map(|file| file.since).min();
        let mut txns = remarked(&self.arrivals, group.rows, &marked, decision);
        txns.extend(sampled(&self.arrivals, group.rows, &marked, decision));
        let change = Change { add, remove: group.files.to_vec(), txns, rewrite_only: unchanged, ..Change::default() };
        match self.arrivals.commit(fenced(&self.arrivals, change)).await {
            Ok(_) => {
                for path in kept {
                    let pending = pending(group.arrivals, &decision.fates, since.unwrap_or(now));
                    self.pending.extend(pending.map(|pending| (path.clone(), pending)));
                    self.looked.insert(path, next);
                }
            }
            // Another settler takes them away, or has; the next pass sees.
            Err(CommitError::Moved { .. } | CommitError::Conflict { .. } | CommitError::Expired { .. }) => {}
            Err(CommitError::Failed(source)) => return Err(source.into()),
        }
        Ok(())
    }

    /// Remembers files of which nothing leaves.
    fn note_looked(&mut self, group: &Group<'_>, decision: &Decision, next: UtcMicros, now: UtcMicros) {
        let mut from = 0;
        for file in group.files {
            let to = (from + file.rows as usize).min(decision.fates.len());
            let known = self.pending.get(&file.path).map(|pending| pending.since);
            let since = known.unwrap_or(UtcMicros(file.written_ms.saturating_mul(1_000)).min(now));
            let pending = pending(&group.arrivals[from..to], &decision.fates[from..to], since);
            self.pending.extend(pending.map(|pending| (file.path.clone(), pending)));
            self.looked.insert(file.path.clone(), next);
            from = to;
        }
    }
}

fn unfit(source: ArrowError) -> SettleError {
    SettleError::Rows { table: Table::Arrivals, source }
}

/// The corrections among records, if there are any.
fn pending(arrivals: &[Arrival], fates: &[Fate], since: UtcMicros) -> Option<Pending> {
    let corrections = || arrivals.iter().zip(fates).filter(|(_, fate)| **fate == Fate::Correct);
    let days: BTreeSet<i32> = corrections().map(|(arrival, _)| arrival.time.day()).collect();
    (!days.is_empty()).then(|| Pending { since, rows: corrections().count() as u64, days })
}

/// Which rows were marked as corrections when they were read.
fn marks(rows: &[RecordBatch]) -> Vec<bool> {
    rows.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| corrects(batch, row))).collect()
}

/// The rows that stay, those marked that correct.
fn staying(rows: &[RecordBatch], fates: &[Fate]) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut at = 0;
    let mut rest = Vec::with_capacity(rows.len());
    for batch in rows {
        let these = &fates[at..at + batch.num_rows()];
        at += batch.num_rows();
        let mask: BooleanArray = these.iter().map(|fate| Some(matches!(fate, Fate::Wait | Fate::Correct))).collect();
        if mask.true_count() == 0 {
            continue;
        }
        let mut columns = batch.columns().to_vec();
        let marks: BooleanArray = these.iter().map(|fate| Some(*fate == Fate::Correct)).collect();
        columns[batch.schema().index_of("corrects")?] = Arc::new(marks);
        let marked = RecordBatch::try_new(batch.schema(), columns)?;
        rest.push(if mask.true_count() == these.len() { marked } else { filter_record_batch(&marked, &mask)? });
    }
    Ok(rest)
}

/// The counts of what is odd, each with what was counted before: of records that have waited until now.
fn remarked(arrivals: &TableHandle, rows: &[RecordBatch], marked: &[bool], decision: &Decision) -> Vec<(String, i64)> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let mut remarks = decision.remarks.iter().peekable();
    let mut at = 0;
    for batch in rows {
        let imports = batch.column_by_name("import_id").and_then(|column| column.as_string_opt::<i32>());
        while let Some((record, remark)) = remarks.next_if(|(record, _)| *record < at + batch.num_rows()) {
            let import = imports.filter(|ids| ids.is_valid(record - at)).map(|ids| ids.value(record - at));
            if let Some(import) = import.filter(|_| !marked[*record] && decision.fates[*record] != Fate::Wait) {
                let txn = remark_txn(*remark, import);
                let before = arrivals.txn(&txn).unwrap_or(0);
                *counts.entry(txn).or_insert(before) += 1;
            }
        }
        at += batch.num_rows();
    }
    counts.into_iter().collect()
}

/// The counts of what was sampled away, each with what was counted before: of records that have waited until now.
fn sampled(arrivals: &TableHandle, rows: &[RecordBatch], marked: &[bool], decision: &Decision) -> Vec<(String, i64)> {
    let counts = by_import(rows, |record| decision.fates[record] == Fate::Sampled && !marked[record]);
    let with_before = |(import, count): (String, i64)| {
        let txn = sampled_txn(&import);
        let before = arrivals.txn(&txn).unwrap_or(0);
        (txn, before + count)
    };
    counts.into_iter().map(with_before).collect()
}
