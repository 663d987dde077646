//! Restatements: what a commit changes of numbers that were final is written down before it lands (promise P5).
//!
//! ```text
//! final_through, rows a commit adds, removes or changes ──► Ledger: by why, workspace and import
//!                                                             └──► table `restatements`, then the commit
//! ```
//! Written first, so that nobody sees a number move without a word. A commit that then fails, and is made again as it
//! was, is not told twice; one that is decided anew may be told as it was first meant to be: too much is said then,
//! never too little.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use schemas::restatement::Why;
use schemas::tables::Table;
use schemas::{ClickId, UtcMicros};

use super::desk::TRIES;
use super::error::SettleError;
use super::union::{Arrival, Fate};
use crate::lake::{Change, CommitError, Lake, TableHandle};

/// The transaction that knows the commit told last.
const TOLD: &str = "told";

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It comes.
    Added,
    /// It goes.
    Removed,
    /// It says something else.
    Changed,
}

/// The rows of one reason, workspace and import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touched {
    start: UtcMicros,
    end: UtcMicros,
    added: i64,
    removed: i64,
    changed: i64,
}

/// Rows of about one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Several {
    pub(crate) first: UtcMicros,
    pub(crate) last: UtcMicros,
    pub(crate) rows: u64,
    /// Knows the same rows again.
    pub(crate) mark: u64,
}

impl Several {
    /// One row.
    pub(crate) fn one(time: UtcMicros, mark: u64) -> Self {
        Self { first: time, last: time, rows: 1, mark }
    }

    /// These rows and others.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            rows: self.rows + other.rows,
            mark: self.mark.wrapping_add(other.mark),
        }
    }
}

/// What a commit does to final numbers. Pure.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    final_through: Option<UtcMicros>,
    touched: BTreeMap<(Why, String, Option<String>), Touched>,
    /// Knows the same commit again.
    mark: u64,
}

impl Ledger {
    /// Of a commit that lands while numbers up to `final_through` are final; none: nothing is final yet.
    pub(crate) fn new(final_through: Option<UtcMicros>) -> Self {
        Self { final_through, ..Self::default() }
    }

    /// Whether rows of that time are final.
    pub(crate) fn is_final(&self, time: UtcMicros) -> bool {
        self.final_through.is_some_and(|through| time <= through)
    }

    /// Takes in a row; one that isn't final is left out.
    pub(crate) fn touch(
        &mut self,
        touch: Touch,
        why: Why,
        workspace: &str,
        import_id: Option<&str>,
        (id, time): (ClickId, UtcMicros),
    ) {
        if !self.is_final(time) {
            return;
        }
        let number = id.as_u128();
        let row = Several::one(time, (number ^ (number >> 64)) as u64);
        self.touch_several(touch, why, workspace, import_id, row);
    }

    /// Takes in rows of about one time, all of which count as final as soon as the first is.
    pub(crate) fn touch_several(
        &mut self,
        touch: Touch,
        why: Why,
        workspace: &str,
        import_id: Option<&str>,
        these: Several,
    ) {
        if !self.is_final(these.first) {
            return;
        }
        let key = (why, workspace.to_owned(), import_id.map(str::to_owned));
        let none = Touched { start: these.first, end: these.last, added: 0, removed: 0, changed: 0 };
        let touched = self.touched.entry(key).or_insert(none);
        touched.start = touched.start.min(these.first);
        touched.end = touched.end.max(these.last);
        *match touch {
            Touch::Added => &mut touched.added,
            Touch::Removed => &mut touched.removed,
            Touch::Changed => &mut touched.changed,
        } += these.rows as i64;
        // a sum, as the order of rows doesn't matter; the same rows that go and come again are two commits
        let what = 2 * (why as u64 + 8 * touch as u64) + 1;
        self.mark = self.mark.wrapping_add((these.mark | 1).wrapping_mul(what));
    }

    /// The rows that `fates` add, of `rows`, which `arrivals` describe row by row.
    pub(crate) fn of_added(
        final_through: Option<UtcMicros>,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        fates: &[Fate],
    ) -> Self {
        let mut ledger = Self::new(final_through);
        let mut records = arrivals.iter().zip(fates);
        for batch in rows {
            let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
            let (Some(workspaces), Some(imports)) = (text("workspace"), text("import_id")) else { continue };
            for ((workspace, import), (arrival, fate)) in workspaces.iter().zip(imports).zip(&mut records) {
                if *fate == Fate::Add && ledger.is_final(arrival.time) {
                    let why = if import.is_some() { Why::Backfill } else { Why::Late };
                    let row = (arrival.id, arrival.time);
                    ledger.touch(Touch::Added, why, workspace.unwrap_or_default(), import, row);
                }
            }
        }
        ledger
    }

    /// Rows of `restatements`.
    fn rows(&self, at: UtcMicros) -> Result<RecordBatch, ArrowError> {
        let entries = || self.touched.iter();
        let instants = |of: &dyn Fn(&Touched) -> i64| {
            let values = TimestampMicrosecondArray::from_iter_values(entries().map(|(_, touched)| of(touched)));
            Arc::new(values.with_timezone("UTC")) as ArrayRef
        };
        let counts = |of: &dyn Fn(&Touched) -> i64| {
            Arc::new(Int64Array::from_iter_values(entries().map(|(_, touched)| of(touched)))) as ArrayRef
        };
        let columns: Vec<ArrayRef> = vec![
            instants(&|_| at.0),
            Arc::new(StringArray::from_iter_values(entries().map(|(key, _)| key.0.as_str()))),
            Arc::new(StringArray::from_iter_values(entries().map(|(key, _)| &key.1))),
            instants(&|touched| touched.start.0),
            instants(&|touched| touched.end.0),
            counts(&|touched| touched.added),
            counts(&|touched| touched.removed),
            counts(&|touched| touched.changed),
            Arc::new(StringArray::from_iter(entries().map(|(key, _)| key.2.as_ref()))),
        ];
        RecordBatch::try_new(Table::Restatements.schema(), columns)
    }
}

/// Writes restatements down; the table is opened when first needed.
#[derive(Debug)]
pub(crate) struct Restatements {
    lake: Lake,
    table: Option<TableHandle>,
}

impl Restatements {
    pub(crate) fn new(lake: Lake) -> Self {
        Self { lake, table: None }
    }

    /// Writes down what a commit is about to do, unless the very same was written down last. Nothing when it touches
    /// no final number.
    ///
    /// # Errors
    /// When the table can't be written; the commit must not be made then.
    pub(crate) async fn tell(&mut self, ledger: &Ledger) -> Result<(), SettleError> {
        if ledger.touched.is_empty() {
            return Ok(());
        }
        let mark = (ledger.mark & i64::MAX as u64) as i64;
        let failed = |source| SettleError::Rows { table: Table::Restatements, source };
        let mut table = match self.table.take() {
            Some(table) => table,
            None => self.lake.table(Table::Restatements).await?,
        };
        for _ in 0..TRIES {
            table.refresh().await?;
            if table.txn(TOLD) == Some(mark) {
                self.table = Some(table);
                return Ok(());
            }
            let add = table.write(&ledger.rows(UtcMicros::now()).map_err(failed)?).await?;
            let change = Change { add, txns: vec![(TOLD.to_owned(), mark)], ..Change::default() };
            match table.commit(change).await {
                Ok(_) => {
                    self.table = Some(table);
                    return Ok(());
                }
                // somebody else told of another commit
                Err(CommitError::Moved { .. } | CommitError::Conflict { .. } | CommitError::Expired { .. }) => {}
                Err(CommitError::Failed(source)) => return Err(source.into()),
            }
        }
        Err(SettleError::Busy { tries: TRIES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimestampMicrosecondType;

    fn row(id: u128, time: i64) -> (ClickId, UtcMicros) {
        (ClickId::from(id), UtcMicros(time))
    }

    #[test]
    fn rows_are_told_by_reason_workspace_and_import_with_the_span_of_what_is_final() {
        let mut ledger = Ledger::new(Some(UtcMicros(100)));
        ledger.touch(Touch::Added, Why::Backfill, "a", Some("i"), row(1, 100));
        ledger.touch(Touch::Added, Why::Backfill, "a", Some("i"), row(2, 40));
        ledger.touch(Touch::Added, Why::Backfill, "a", Some("i"), row(3, 101));
        ledger.touch(Touch::Removed, Why::Revert, "b", Some("i"), row(4, 7));
        ledger.touch(Touch::Changed, Why::Correction, "b", None, row(6, 8));
        ledger.touch(Touch::Added, Why::Late, "a", None, row(5, 50));
        let batch = ledger.rows(UtcMicros(999)).unwrap();
        let text =
            |name: &str, row: usize| batch.column_by_name(name).unwrap().as_string::<i32>().value(row).to_owned();
        let number = |name: &str, row: usize| {
            let column = batch.column_by_name(name).unwrap();
            match column.as_primitive_opt::<TimestampMicrosecondType>() {
                Some(times) => times.value(row),
                None => column.as_primitive::<arrow::datatypes::Int64Type>().value(row),
            }
        };
        let told: Vec<_> = (0..batch.num_rows())
            .map(|row| {
                let counts = (number("added", row), number("removed", row), number("changed", row));
                (text("why", row), text("workspace", row), number("start", row), number("end", row), counts)
            })
            .collect();
        let entry = |why: &str, workspace: &str, start, end, counts| (why.into(), workspace.into(), start, end, counts);
        let expected = [
            entry("backfill", "a", 40, 100, (2, 0, 0)),
            entry("late", "a", 50, 50, (1, 0, 0)),
            entry("revert", "b", 7, 7, (0, 1, 0)),
            entry("correction", "b", 8, 8, (0, 0, 1)),
        ];
        assert_eq!(told, expected);
        assert!(batch.column_by_name("import_id").unwrap().is_null(1));
    }

    #[test]
    fn nothing_is_told_while_nothing_is_final() {
        let mut ledger = Ledger::new(None);
        ledger.touch(Touch::Added, Why::Late, "a", None, row(1, i64::MIN));
        assert!(ledger.touched.is_empty());
    }
}
