//! Rows out of `clicks` and `arrivals` again: files rewritten without them, in the settler's fenced commits.
//!
//! Some files at a time, so that neither memory nor what a lost race costs grows with the import. What is left to do
//! follows from the lake alone, so a repeat goes on where a killed one stopped.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::restatement::Why;
use schemas::tables::Table;
use schemas::{Source, UtcMicros};

use super::desk::{TRIES, fenced};
use super::error::SettleError;
use super::ids::click_ids;
use super::leave::remark_txn;
use super::remake::made_anew;
use super::restate::{Ledger, Touch};
use super::sampled::sampled_txn;
use super::settler::Settler;
use super::union::Remark;
use crate::lake::{Change, CommitError, DataFile, NewFile, Span, TableHandle};

/// Bytes of files rewritten in one commit, unless one file is larger.
const GROUP_BYTES: u64 = 128 << 20;
/// Files rewritten in one commit.
const GROUP_FILES: usize = 64;

/// Which rows of `clicks` go.
#[derive(Clone, Debug)]
pub(crate) enum Leaving<'a> {
    /// Those of an import.
    Import(&'a str),
    /// Those recovered from lines of one hour.
    Recovered {
        /// The hour, since the epoch.
        hour: i64,
        /// Of which imports, by workspace.
        of: HashMap<String, HashSet<String>>,
        /// Whether rows without a link stay.
        only_linked: bool,
    },
}

impl Leaving<'_> {
    /// The columns that tell.
    fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Import(_) => &["import_id"],
            Self::Recovered { .. } => &["import_id", "event_time", "source", "link_id", "workspace"],
        }
    }

    fn why(&self) -> Why {
        match self {
            Self::Import(_) => Why::Revert,
            Self::Recovered { .. } => Why::Decision,
        }
    }

    /// Which rows of a batch go.
    fn marks(&self, batch: &RecordBatch) -> Result<Vec<bool>, ArrowError> {
        let column = |name: &str| batch.schema().index_of(name).map(|at| batch.column(at));
        let text = |name: &str| {
            let texts = column(name)?.as_string_opt::<i32>();
            texts.ok_or_else(|| ArrowError::SchemaError(format!("{name} is no text")))
        };
        let imports = text("import_id")?;
        let (hour, of, only_linked) = match self {
            Self::Import(id) => return Ok(imports.iter().map(|import| import == Some(*id)).collect()),
            Self::Recovered { hour, of, only_linked } => (*hour, of, *only_linked),
        };
        let (sources, workspaces, links) = (text("source")?, text("workspace")?, column("link_id")?);
        let times = column("event_time")?.as_primitive_opt::<TimestampMicrosecondType>();
        let times = times.ok_or_else(|| ArrowError::SchemaError("event_time is no time".to_owned()))?;
        let goes = |row: usize| {
            let is_of =
                || of.get(workspaces.value(row)).is_some_and(|imports_of| imports_of.contains(imports.value(row)));
            sources.value(row) == Source::Recovered.as_str()
                && UtcMicros(times.value(row)).hour() == hour
                && (links.is_valid(row) || !only_linked)
                && imports.is_valid(row)
                && is_of()
        };
        Ok((0..batch.num_rows()).map(goes).collect())
    }
}

impl Settler {
    /// Takes rows out of `clicks`, which are between `first` and `last`. Returns how many went.
    pub(crate) async fn take_out_rows(
        &mut self,
        leaving: &Leaving<'_>,
        (first, last): (UtcMicros, UtcMicros),
    ) -> Result<u64, SettleError> {
        let (mut gone, mut lost_races) = (0, 0);
        let mut clean: HashSet<String> = HashSet::new();
        loop {
            self.desk.clicks.refresh().await?;
            let group = next_group(&self.desk.clicks, leaving, (first, last), &mut clean).await?;
            if group.is_empty() {
                return Ok(gone);
            }
            let mut ledger = Ledger::new(self.desk.final_through().await?);
            let (mut add, mut removed) = (Vec::new(), 0);
            for file in &group {
                let (rest, rows) = self.rewritten(file, leaving, &mut ledger).await?;
                add.extend(rest);
                removed += rows;
            }
            self.desk.tell(&ledger).await?;
            let clicks = &mut self.desk.clicks;
            match clicks.commit(fenced(clicks, Change { add, remove: group, ..Change::default() })).await {
                Ok(_) => (gone, lost_races) = (gone + removed, 0),
                Err(CommitError::Failed(source)) => return Err(source.into()),
                Err(_) if lost_races < TRIES => lost_races += 1,
                Err(_) => return Err(SettleError::Busy { tries: TRIES }),
            }
        }
    }

    /// A file of `clicks` without the rows that go, if any others are in it; and how many those were.
    async fn rewritten(
        &self,
        file: &DataFile,
        leaving: &Leaving<'_>,
        ledger: &mut Ledger,
    ) -> Result<(Vec<NewFile>, u64), SettleError> {
        let mut removed = 0;
        let rest = made_anew(&self.desk.clicks, file, |batch| {
            let goes = leaving.marks(&batch)?;
            let stays: BooleanArray = goes.iter().map(|goes| Some(!goes)).collect();
            let rest = filter_record_batch(&batch, &stays)?;
            if rest.num_rows() < batch.num_rows() {
                removed += (batch.num_rows() - rest.num_rows()) as u64;
                note_removed(&batch, &goes, leaving.why(), ledger);
            }
            Ok(rest)
        });
        Ok((rest.await?, removed))
    }

    /// Takes the waiting records of `import_id` out of `arrivals`. Returns how many went. A commit lands in any case:
    /// a settler that has looked at `clicks` before rows went from there can't take records away afterwards.
    pub(crate) async fn take_out_waiting(&mut self, import_id: &str) -> Result<u64, SettleError> {
        let gone_ids = HashSet::from([import_id]);
        for _ in 0..TRIES {
            self.arrivals.refresh().await?;
            let (mut remove, mut rest, mut gone) = (Vec::new(), Vec::new(), 0);
            for file in self.arrivals.files() {
                if !holds(&self.arrivals, file, &Leaving::Import(import_id)).await? {
                    continue;
                }
                for batch in self.arrivals.read(file, &[]).await? {
                    let kept = without(&batch, "import_id", &gone_ids).map_err(|e| unfit(Table::Arrivals, e))?;
                    gone += (batch.num_rows() - kept.num_rows()) as u64;
                    rest.push(kept);
                }
                remove.push(Arc::clone(file));
            }
            let add = self.arrivals.write_spanning(&rest, Span::Day).await?;
            let txns = forgotten(&self.arrivals, import_id);
            let change = fenced(&self.arrivals, Change { add, remove, txns, ..Change::default() });
            match self.arrivals.commit(change).await {
                Ok(_) => return Ok(gone),
                Err(CommitError::Failed(source)) => return Err(source.into()),
                Err(_) => {}
            }
        }
        Err(SettleError::Busy { tries: TRIES })
    }
}

/// What was odd about an import's records, and what was sampled away of them, counted anew from nothing.
fn forgotten(arrivals: &TableHandle, import_id: &str) -> Vec<(String, i64)> {
    let counts = Remark::ALL.iter().map(|remark| remark_txn(*remark, import_id)).chain([sampled_txn(import_id)]);
    counts.filter(|txn| arrivals.txn(txn).is_some_and(|count| count > 0)).map(|txn| (txn, 0)).collect()
}

fn unfit(table: Table, source: ArrowError) -> SettleError {
    SettleError::Rows { table, source }
}

/// The next files that hold rows that go. Those found to hold none are remembered as clean: files never change.
async fn next_group(
    clicks: &TableHandle,
    leaving: &Leaving<'_>,
    (first, last): (UtcMicros, UtcMicros),
    clean: &mut HashSet<String>,
) -> Result<Vec<Arc<DataFile>>, SettleError> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    for file in clicks.files_between(first, last) {
        if clean.contains(&file.path) {
            continue;
        }
        if group.len() >= GROUP_FILES || bytes + file.size > GROUP_BYTES && !group.is_empty() {
            break;
        }
        if holds(clicks, file, leaving).await? {
            bytes += file.size;
            group.push(Arc::clone(file));
        } else {
            clean.insert(file.path.clone());
        }
    }
    let live: HashSet<&str> = clicks.files().iter().map(|file| file.path.as_str()).collect();
    clean.retain(|path| live.contains(path.as_str()));
    Ok(group)
}

/// Whether a file holds rows that go.
async fn holds(table: &TableHandle, file: &DataFile, leaving: &Leaving<'_>) -> Result<bool, SettleError> {
    for batch in table.read(file, leaving.columns()).await? {
        if leaving.marks(&batch).map_err(|e| unfit(table.table(), e))?.contains(&true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The rows of a batch whose text in `column` is none of `gone`.
pub(crate) fn without(batch: &RecordBatch, column: &str, gone: &HashSet<&str>) -> Result<RecordBatch, ArrowError> {
    let at = batch.schema().index_of(column)?;
    let texts = batch.column(at).as_string_opt::<i32>();
    let texts = texts.ok_or_else(|| ArrowError::SchemaError(format!("{column} is no text")))?;
    let keep: BooleanArray = texts.iter().map(|text| Some(text.is_none_or(|text| !gone.contains(text)))).collect();
    if keep.true_count() == keep.len() { Ok(batch.clone()) } else { filter_record_batch(batch, &keep) }
}

/// Takes the rows of a batch that go into the ledger.
fn note_removed(batch: &RecordBatch, goes: &[bool], why: Why, ledger: &mut Ledger) {
    let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let times =
        batch.column_by_name("event_time").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let (Some(imports), Some(workspaces), Some(times)) = (text("import_id"), text("workspace"), times) else { return };
    for (row, id) in click_ids(batch).enumerate().filter(|(row, _)| goes[*row]) {
        let import = imports.is_valid(row).then(|| imports.value(row));
        ledger.touch(Touch::Removed, why, workspaces.value(row), import, (id, UtcMicros(times.value(row))));
    }
}
