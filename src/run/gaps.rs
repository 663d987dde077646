//! Rows of table `gaps`: clicks known to be missing, named by every answer that they touch (promise P2).

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use processor::lake::{Change, TableHandle};
use schemas::tables::Table;
use schemas::{JournalId, UtcMicros};

/// Clicks that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The journal that lost them.
    pub(crate) journal: JournalId,
    /// None of them was before this.
    pub(crate) start: UtcMicros,
    /// Nor after this.
    pub(crate) end: UtcMicros,
    /// How many, when that is known.
    pub(crate) lost: Option<u64>,
    /// Why.
    pub(crate) reason: String,
}

/// A gap, and the application transactions that say in the same commit that it has been written down.
#[derive(Clone, Debug)]
pub(crate) struct Once {
    /// What is written down.
    pub(crate) gap: Gap,
    /// Each transaction's id and value.
    pub(crate) txns: Vec<(String, i64)>,
}

/// Adds rows to `gaps`, all or none. A transaction that another has set since the table was last looked at is a conflict.
///
/// # Errors
/// When it hasn't landed, or nobody knows; the table's transactions tell, once it can be looked at.
pub(crate) async fn add(table: &mut TableHandle, rows: &[Once]) -> anyhow::Result<()> {
    let gaps: Vec<&Gap> = rows.iter().map(|one| &one.gap).collect();
    let add = table.write(&batch(&gaps, UtcMicros::now())?).await?;
    let txns: Vec<(String, i64)> = rows.iter().flat_map(|one| one.txns.clone()).collect();
    let expect = txns.iter().map(|(id, _)| (id.clone(), table.txn(id))).collect();
    table.commit(Change { add, txns, expect, ..Change::default() }).await?;
    Ok(())
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
