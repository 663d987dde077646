//! Rows of table `gaps`: clicks known to be missing, named by every answer that they touch (promise P2).

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use schemas::batch::Cover;
use schemas::tables::Table;
use schemas::{JournalId, UtcMicros};

use crate::lake::{Change, CommitError, LakeError, TableHandle};

/// Clicks that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The journal that lost them.
    pub journal: JournalId,
    /// None of them was before this.
    pub start: UtcMicros,
    /// Nor after this.
    pub end: UtcMicros,
    /// How many, when that is known.
    pub lost: Option<u64>,
    /// Why.
    pub reason: String,
}

impl Gap {
    /// What a batch of a topic says is lost: its journal no longer holds it.
    pub fn of(cover: &Cover) -> Self {
        let start = cover.lost.unwrap_or(UtcMicros(0));
        let end = cover.mark.unwrap_or(start).max(start);
        Self { journal: cover.journal, start, end, lost: None, reason: "journal trimmed or damaged".to_owned() }
    }
}

/// The transaction that says that what was lost with a journal has been written down when it was given up.
pub fn given_up(journal: JournalId) -> String {
    format!("retired/{journal}")
}

/// Adds rows to `gaps`, all or none, and with them the application transactions that say that they have been written down.
/// One that another has set since the table was last looked at is a conflict.
///
/// # Errors
/// When it hasn't landed, or nobody knows; the table's transactions tell, once it can be looked at.
pub async fn add(table: &mut TableHandle, gaps: &[Gap], txns: Vec<(String, i64)>) -> Result<(), CommitError> {
    let gaps: Vec<&Gap> = gaps.iter().collect();
    let add = match gaps.is_empty() {
        true => Vec::new(),
        false => {
            let rows = batch(&gaps, UtcMicros::now()).map_err(|error| {
                let source = ParquetError::from(error);
                CommitError::Failed(LakeError::Rows { table: Table::Gaps, doing: "building rows", source })
            })?;
            table.write(&rows).await.map_err(CommitError::Failed)?
        }
    };
    let expect = txns.iter().map(|(id, _)| (id.clone(), table.txn(id))).collect();
    table.commit(Change { add, txns, expect, ..Change::default() }).await.map(drop)
}

/// Rows of no workspace: what was lost can be any tenant's.
fn batch(gaps: &[&Gap], now: UtcMicros) -> Result<RecordBatch, ArrowError> {
    let texts = |of: fn(&Gap) -> String| Arc::new(StringArray::from_iter_values(gaps.iter().map(|gap| of(gap))));
    let instants = |of: &dyn Fn(&Gap) -> i64| {
        let values = TimestampMicrosecondArray::from_iter_values(gaps.iter().map(|gap| of(gap)));
        Arc::new(values.with_timezone("UTC")) as ArrayRef
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::new_null(gaps.len())),
        texts(|gap| gap.journal.to_string()),
        instants(&|gap| gap.start.0),
        instants(&|gap| gap.end.0),
        Arc::new(gaps.iter().map(|gap| gap.lost.map(|lost| lost as i64)).collect::<Int64Array>()),
        texts(|gap| gap.reason.clone()),
        instants(&|_| now.0),
    ];
    RecordBatch::try_new(Table::Gaps.schema(), columns)
}
