//! Rows of a table by workspace and day, and the table without those that go.

use std::collections::{BTreeMap, HashSet};

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::UtcMicros;
use schemas::restatement::Why;
use schemas::tables::Table;

use super::policy::Cuts;
use crate::enrich::rejudge::{columns, value};
use crate::lake::DataFile;
use crate::settle::remake::Work;

/// The rows that go, by workspace and day.
#[derive(Debug, Default)]
pub(super) struct Rows(pub(super) BTreeMap<(String, i32), u64>);

/// A table without the rows that go.
pub(super) struct Expiring<'a> {
    pub(super) cuts: &'a Cuts,
    pub(super) table: Table,
    /// Of one day only, of a table whose files are of one day each.
    pub(super) day: Option<i32>,
    /// Files known to hold nothing that goes.
    pub(super) clean: &'a HashSet<String>,
}

impl Expiring<'_> {
    /// Which rows of a batch go, with workspace and day.
    fn go<'b>(&self, rows: &'b RecordBatch) -> Result<Vec<Option<(&'b str, i32)>>, ArrowError> {
        let [workspaces] = columns(rows, ["workspace"])?;
        if let Some(day) = self.day {
            let go = |workspace: Option<&'b str>| Some((workspace.filter(|name| self.cuts.go(name, day))?, day));
            return Ok(workspaces.iter().map(go).collect());
        }
        let time = self.columns()[1];
        let times = rows.column_by_name(time).and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
        let times = times.ok_or_else(|| ArrowError::SchemaError(format!("rows lack their {time}")))?;
        let go = times.values().iter().enumerate().map(|(row, &time)| {
            let (workspace, day) = (value(workspaces, row)?, UtcMicros(time).day());
            self.cuts.go(workspace, day).then_some((workspace, day))
        });
        Ok(go.collect())
    }
}

impl Work for Expiring<'_> {
    type Note = Rows;

    fn columns(&self) -> &'static [&'static str] {
        match self.table {
            _ if self.day.is_some() => &["workspace"],
            Table::ClicksHourly => &["workspace", "hour"],
            Table::Sampling => &["workspace", "second"],
            Table::Rejects => &["workspace", "at"],
            _ => &["workspace", "event_time"],
        }
    }

    fn concerns(&self, file: &DataFile) -> bool {
        let is_old = |latest: i32| file.min_time.is_none_or(|first| first.day() < latest);
        self.day.is_none_or(|day| file.date == Some(day))
            && self.cuts.latest().is_some_and(is_old)
            && !self.clean.contains(&file.path)
    }

    fn look(&self, rows: &RecordBatch, note: &mut Rows) -> Result<bool, ArrowError> {
        let mut count: BTreeMap<(&str, i32), u64> = BTreeMap::new();
        for of in self.go(rows)?.into_iter().flatten() {
            *count.entry(of).or_default() += 1;
        }
        let any = !count.is_empty();
        for ((workspace, day), rows) in count {
            *note.0.entry((workspace.to_owned(), day)).or_default() += rows;
        }
        Ok(any)
    }

    fn made(&self, rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let stay: BooleanArray = self.go(&rows)?.iter().map(|goes| Some(goes.is_none())).collect();
        filter_record_batch(&rows, &stay)
    }
}

/// `restatements` without what was said of earlier removals from the same workspaces: what was removed up to a day includes
/// what was removed up to an earlier one.
pub(super) struct Superseded<'a> {
    /// By workspace, up to when rows were removed now.
    pub(super) by: &'a BTreeMap<String, (UtcMicros, u64)>,
}

impl Superseded<'_> {
    fn stay(&self, rows: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let [reasons, workspaces] = columns(rows, ["why", "workspace"])?;
        let ends = rows.column_by_name("end").and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
        let ends = ends.ok_or_else(|| ArrowError::SchemaError("rows lack their end".to_owned()))?;
        let stays = |row: usize| {
            let later = value(workspaces, row).and_then(|workspace| self.by.get(workspace));
            let is_superseded = later.is_some_and(|(last, _)| ends.value(row) < last.0);
            !(is_superseded && value(reasons, row) == Some(Why::Retention.as_str()))
        };
        Ok((0..rows.num_rows()).map(|row| Some(stays(row))).collect())
    }
}

impl Work for Superseded<'_> {
    type Note = ();

    fn columns(&self) -> &'static [&'static str] {
        &["why", "workspace", "end"]
    }

    fn concerns(&self, _: &DataFile) -> bool {
        true
    }

    fn look(&self, rows: &RecordBatch, (): &mut ()) -> Result<bool, ArrowError> {
        Ok(self.stay(rows)?.false_count() > 0)
    }

    fn made(&self, rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let stay = self.stay(&rows)?;
        filter_record_batch(&rows, &stay)
    }
}
