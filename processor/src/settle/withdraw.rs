//! What events have told is withdrawn when they are taken back.
//!
//! ```text
//! rows are gone ──► runs that meet their time, without it ∪ what the rows left there tell ──► one commit a table
//! ```
//! Each table's marks are made anew from its own rows, first those of `arrivals`: an event that moves on in between is in
//! `clicks` by then. Rows that come in between are of commits that set the same marks, so one of the two looks again.
//!
//! Failure: killed in between, a repeat of the revert does it anew.

use std::collections::HashMap;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use schemas::tables::Table;
use schemas::{Source, UtcMicros};

use super::desk::{TRIES, fenced};
use super::elsewhere::{Marks, Run, Told};
use super::error::SettleError;
use super::settler::Settler;
use crate::lake::{Change, CommitError, TableHandle};

impl Settler {
    /// Withdraws what is told of a provider's requests of that time, unless rows that are there still tell it.
    ///
    /// # Errors
    /// As [`SettleError`] says; a repeat goes on.
    pub(crate) async fn withdraw(
        &mut self,
        provider: &str,
        (first, last): (UtcMicros, UtcMicros),
    ) -> Result<(), SettleError> {
        let span = Run::of(first, last).with_around();
        'tables: for of in [Table::Arrivals, Table::Clicks] {
            for _ in 0..TRIES {
                self.guard.follow_imports().await?;
                let table = if of == Table::Arrivals { &mut self.arrivals } else { &mut self.desk.clicks };
                table.refresh().await?;
                let tells = |import: &str| self.guard.may_be_of(import, provider);
                let txns = withdrawn(table, provider, span, tells).await?;
                if txns.is_empty() {
                    continue 'tables;
                }
                let change = fenced(table, Change { txns, ..Change::default() });
                match table.commit(change).await {
                    Ok(_) => continue 'tables,
                    Err(CommitError::Failed(source)) => return Err(source.into()),
                    Err(_) => {}
                }
            }
            return Err(SettleError::Busy { tries: TRIES });
        }
        Ok(())
    }
}

/// The marks of a table as its rows have them in this time; `tells` says of an import whether it may be of the provider.
async fn withdrawn(
    table: &TableHandle,
    provider: &str,
    span: Run,
    tells: impl Fn(&str) -> bool,
) -> Result<Vec<(String, i64)>, SettleError> {
    let mut marks = Marks::all(table, provider);
    marks.retain(|_, marks| marks.runs().meets(span));
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    let (from, to) = span.times();
    let mut batches: Vec<RecordBatch> = Vec::new();
    let met = |marks: &Marks, min: Option<UtcMicros>, max: Option<UtcMicros>| {
        min.zip(max).is_none_or(|(min, max)| marks.runs().meets(Run::of(min, max)))
    };
    for file in table.files_between(from, to) {
        if marks.values().any(|marks| met(marks, file.min_time, file.max_time)) {
            batches.extend(table.read(file, &["event_time", "source", "import_id", "workspace"]).await?);
        }
    }
    let (mut told, mut known) = (Told::default(), HashMap::new());
    for batch in &batches {
        let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        let times =
            batch.column_by_name("event_time").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
        let (Some(sources), Some(imports), Some(workspaces), Some(times)) =
            (text("source"), text("import_id"), text("workspace"), times)
        else {
            continue;
        };
        for row in (0..batch.num_rows()).filter(|row| imports.is_valid(*row)) {
            let time = UtcMicros(times.value(row));
            let is_event = sources.value(row) == Source::Origin.as_str() && from <= time && time <= to;
            if is_event && *known.entry(imports.value(row)).or_insert_with_key(|import| tells(import)) {
                told.add(workspaces.value(row), time);
            }
        }
    }
    let now = |(workspace, marks): (&String, &Marks)| {
        let told = told.of(workspace);
        marks.changed(&marks.runs().without(span).with(&told), &told)
    };
    Ok(marks.iter().flat_map(now).collect())
}
