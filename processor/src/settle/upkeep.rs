//! The settler's other half: files merged, checkpoints made, what is dead removed.
//!
//! A merge reads files of `clicks`, writes their rows as one, and swaps them in a commit that says that no row has
//! changed. It carries the fence, so it can't land beside another settler's commit on the same snapshot; when only
//! appends came in between, the same files are swapped on the newer version. Tables that only grow by small files
//! (rejected lines, imports, gaps, rates) are put together as they are; of those of `clicks_hourly` the rows are united.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::HOUR;
use tokio_util::sync::CancellationToken;

use super::compact::{CompactConfig, Horizon, Piece, choose};
use super::desk::{TRIES, fenced};
use super::error::SettleError;
use super::merge::merged;
use super::settler::SettleConfig;
use crate::lake::{Change, CommitError, DataFile, Lake, NewFile, Span, TableHandle};
use crate::sketch;

/// So many merges in one pass: arrivals must not wait for a whole day's tidying.
const MERGES_A_PASS: u64 = 8;
/// A hot path that is so many seconds behind works off a backlog.
pub(super) const BACKLOG: f64 = 10.0;
/// With more files than that readers wait for merges sooner than for the hot path.
const MANY_FILES: usize = 400;
/// A rejected line goes within this time of its days, though its file holds later ones.
const EXPIRE_WITHIN: Duration = Duration::from_secs(3_600);
/// Small tables are put together when they have this many files.
const MANY_SMALL_FILES: usize = 16;
/// A file of a small table is left alone from this size on.
const LARGE_BYTES: u64 = 8 << 20;

/// What merges are chosen by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) complete_through: UtcMicros,
    pub(super) now: UtcMicros,
    /// How many seconds the hot path beside is behind.
    pub(super) lag: f64,
}

/// Whether files of `clicks`, of which there are so many, are merged while the hot path is so far behind: to merge rows
/// costs a quarter of what it costs to bring them in, and is of little use while hundreds of files more are coming.
fn merges_now(lag: f64, files: usize) -> bool {
    lag < BACKLOG || files > MANY_FILES
}

/// What the upkeep of tables remembers from pass to pass.
#[derive(Debug)]
pub(super) struct Upkeep {
    compact: CompactConfig,
    settle: Duration,
    close_after: Duration,
    every: Duration,
    keep_rejects: Duration,
    small: Vec<TableHandle>,
    hourly: TableHandle,
    last: Option<UtcMicros>,
}

impl Upkeep {
    pub(super) async fn new(lake: &Lake, config: &SettleConfig) -> Result<Self, SettleError> {
        let mut small = Vec::new();
        for table in [Table::Rejects, Table::EdgeFiles, Table::Gaps, Table::Restatements, Table::Sampling] {
            small.push(lake.table(table).await?);
        }
        Ok(Self {
            compact: config.compact,
            settle: config.settle,
            close_after: config.close_after,
            every: config.maintain_every,
            keep_rejects: config.keep_rejects,
            small,
            hourly: lake.table(Table::ClicksHourly).await?,
            last: None,
        })
    }

    /// Merges files of `clicks` while it is worth it, a bounded number of times. Returns how many merges landed.
    pub(super) async fn compact(
        &mut self,
        clicks: &mut TableHandle,
        seen: Seen,
        stop: &CancellationToken,
    ) -> Result<u64, SettleError> {
        // An hour whose events are still on their way isn't over, whatever the clock says.
        let through = seen.complete_through.min(seen.now);
        let horizon = Horizon {
            closed_before_hour: through.minus(self.close_after).hour(),
            final_before_day: i64::from(through.minus(self.settle).day()),
        };
        for merges in 0..MERGES_A_PASS {
            clicks.refresh().await?;
            let live: Vec<Arc<DataFile>> = clicks.files().to_vec();
            if !merges_now(seen.lag, live.len()) {
                return Ok(merges);
            }
            let pieces: Vec<Piece> = live.iter().map(|file| piece(file)).collect();
            let Some(chosen) = choose(&pieces, &horizon, &self.compact) else { return Ok(merges) };
            let parts: Vec<Arc<DataFile>> = chosen.iter().map(|&file| Arc::clone(&live[file])).collect();
            if stop.is_cancelled() || !merge(clicks, parts).await? {
                return Ok(merges);
            }
        }
        Ok(MERGES_A_PASS)
    }

    /// Checkpoints, log entries, dead files and small tables, when it is time. Returns how many things were done.
    pub(super) async fn clean(
        &mut self,
        clicks: &mut TableHandle,
        arrivals: &mut TableHandle,
        now: UtcMicros,
    ) -> Result<u64, SettleError> {
        if self.last.is_some_and(|last| now.since(last) < self.every) {
            return Ok(0);
        }
        self.last = Some(now);
        let mut done = 0;
        let keep_from = now.minus(self.keep_rejects);
        for table in &mut self.small {
            table.refresh().await?;
            if table.table() == Table::Rejects {
                done += expire(table, keep_from).await?;
            }
            done += put_together(table).await?;
        }
        done += sketch::tidy(&mut self.hourly, now.minus(self.close_after).day()).await?;
        for table in [clicks, arrivals, &mut self.hourly].into_iter().chain(&mut self.small) {
            let maintained = table.maintain(now).await?;
            done += u64::from(maintained.checkpoint.is_some());
            done += (maintained.log_entries + maintained.files) as u64;
        }
        Ok(done)
    }
}

impl Upkeep {
    /// Whether anything was sampled away between two instants, both included, as far as files tell.
    pub(super) async fn was_sampled(&mut self, first: UtcMicros, last: UtcMicros) -> Result<bool, SettleError> {
        self.hourly.refresh().await?;
        let hour_of = |instant: UtcMicros| UtcMicros(instant.hour().saturating_mul(HOUR));
        Ok(self.hourly.files_between(hour_of(first), last).next().is_some())
    }

    /// The tables whose rows are of a workspace and a time, beside `clicks` and `arrivals`.
    pub(super) fn by_time(&mut self) -> impl Iterator<Item = &mut TableHandle> {
        let small = self.small.iter_mut().filter(|table| matches!(table.table(), Table::Rejects | Table::Sampling));
        std::iter::once(&mut self.hourly).chain(small)
    }

    /// Table `restatements`.
    pub(super) fn restatements(&mut self) -> Option<&mut TableHandle> {
        self.small.iter_mut().find(|table| table.table() == Table::Restatements)
    }
}

fn piece(file: &DataFile) -> Piece {
    let hour = |time: Option<UtcMicros>| time.map_or(0, UtcMicros::hour);
    Piece { bytes: file.size, rows: file.rows, first_hour: hour(file.min_time), last_hour: hour(file.max_time) }
}

/// Swaps `parts` for one file with their rows. Returns whether it landed; if not, somebody else has removed one.
async fn merge(clicks: &mut TableHandle, parts: Vec<Arc<DataFile>>) -> Result<bool, SettleError> {
    let hour = parts.iter().map(|part| part.min_time.map(UtcMicros::hour)).next().flatten();
    let one_hour = parts.iter().all(|part| part.is_one_hour() && part.min_time.map(UtcMicros::hour) == hour);
    let span = if one_hour { Span::Hour } else { Span::Day };
    let Some(merged) = merged(clicks, &parts, span).await? else { return Ok(false) };
    swap(clicks, parts, vec![merged], true).await
}

/// As [`exchange`], of files with as many rows. `rewrite_only`: no row has changed.
pub(super) async fn swap(
    table: &mut TableHandle,
    parts: Vec<Arc<DataFile>>,
    add: Vec<NewFile>,
    rewrite_only: bool,
) -> Result<bool, SettleError> {
    let (before, after): (u64, u64) = (parts.iter().map(|part| part.rows).sum(), add.iter().map(NewFile::rows).sum());
    if before != after {
        tracing::error!(table = %table.table(), before, after, "a merge would change the number of rows; left alone");
        return Ok(false);
    }
    exchange(table, Change { add, remove: parts, rewrite_only, ..Change::default() }).await
}

/// Lands what a change adds in place of what it removes on whatever version is the newest, as long as the latter is live:
/// files never change, so what was read of them holds there too. Returns whether it landed; if not, somebody else has removed
/// one.
pub(crate) async fn exchange(table: &mut TableHandle, change: Change) -> Result<bool, SettleError> {
    for _ in 0..TRIES {
        match table.commit(fenced(table, change.clone())).await {
            Ok(_) => return Ok(true),
            Err(CommitError::Moved { .. } | CommitError::Conflict { .. }) => {
                table.refresh().await?;
                let live: HashSet<&str> = table.files().iter().map(|file| file.path.as_str()).collect();
                if !change.remove.iter().all(|part| live.contains(part.path.as_str())) {
                    return Ok(false);
                }
            }
            Err(CommitError::Expired { .. }) => return Ok(false),
            Err(CommitError::Failed(source)) => return Err(source.into()),
        }
    }
    Err(SettleError::Busy { tries: TRIES })
}

/// Puts the small files of a table that only grows together, in order.
async fn put_together(table: &mut TableHandle) -> Result<u64, SettleError> {
    let mut bytes = 0;
    let small = table.files().iter().filter(|file| file.size < LARGE_BYTES).cloned().take_while(|file| {
        bytes += file.size;
        bytes <= LARGE_BYTES * 2
    });
    let small: Vec<Arc<DataFile>> = small.collect();
    if small.len() < MANY_SMALL_FILES {
        return Ok(0);
    }
    let mut rows = Vec::new();
    for file in &small {
        rows.extend(table.read(file, &[]).await?);
    }
    let add = table.write_spanning(&rows, Span::Day).await?;
    Ok(u64::from(swap(table, small, add, true).await?))
}

/// Removes the rejected lines from before `keep_from`: at once where a file holds no others, else within
/// [`EXPIRE_WITHIN`].
async fn expire(rejects: &mut TableHandle, keep_from: UtcMicros) -> Result<u64, SettleError> {
    let overdue = keep_from.minus(EXPIRE_WITHIN);
    let is_over = |file: &DataFile| file.max_time.is_some_and(|max| max < keep_from);
    let is_mixed = |file: &DataFile| !is_over(file) && file.min_time.is_some_and(|min| min < overdue);
    let old = rejects.files().iter().filter(|file| is_over(file) || is_mixed(file));
    let remove: Vec<Arc<DataFile>> = old.cloned().collect();
    if remove.is_empty() {
        return Ok(0);
    }
    let mut rows = Vec::new();
    for file in remove.iter().filter(|file| is_mixed(file)) {
        for batch in rejects.read(file, &[]).await? {
            rows.extend(
                since(&batch, keep_from).map_err(|source| SettleError::Rows { table: Table::Rejects, source })?,
            );
        }
    }
    let add = if rows.is_empty() { Vec::new() } else { rejects.write_spanning(&rows, Span::Day).await? };
    let count = remove.len() as u64;
    let change = Change { add, remove, ..Change::default() };
    match rejects.commit(fenced(rejects, change)).await {
        Ok(_) => Ok(count),
        Err(CommitError::Failed(source)) => Err(source.into()),
        Err(_) => Ok(0),
    }
}

/// The rejected lines from `keep_from` on, if there are any.
fn since(batch: &RecordBatch, keep_from: UtcMicros) -> Result<Option<RecordBatch>, ArrowError> {
    let at = batch.column_by_name("at").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let at = at.ok_or_else(|| ArrowError::SchemaError("rejected lines lack their time".to_owned()))?;
    let kept: BooleanArray = at.values().iter().map(|at| Some(*at >= keep_from.0)).collect();
    let rows = filter_record_batch(batch, &kept)?;
    Ok((rows.num_rows() > 0).then_some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::{Lake, LakeOptions};
    use arrow::array::{BinaryArray, Int64Array, StringArray, TimestampMicrosecondArray};
    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use schemas::time::DAY;

    /// A table with lines rejected at these times, in one file.
    async fn rejected(at: &[UtcMicros]) -> (TableHandle, Arc<InMemory>) {
        let url = url::Url::parse("memory:///lake").unwrap();
        let store = Arc::new(InMemory::new());
        let options = LakeOptions { keep: Duration::from_secs(3_600), ..LakeOptions::default() };
        let lake = Lake::with_store(Arc::clone(&store) as _, url, options).unwrap();
        let mut table = lake.table(Table::Rejects).await.unwrap();
        let count = at.len();
        let times = TimestampMicrosecondArray::from_iter_values(at.iter().map(|at| at.0)).with_timezone("UTC");
        let rows = RecordBatch::try_new(
            Table::Rejects.schema(),
            vec![
                Arc::new(times),
                Arc::new(StringArray::from(vec!["default"; count])),
                Arc::new(StringArray::from(vec![None::<&str>; count])),
                Arc::new(StringArray::from(vec!["log"; count])),
                Arc::new(Int64Array::from_iter_values(0..count as i64)),
                Arc::new(StringArray::from(vec!["bad_line"; count])),
                Arc::new(BinaryArray::from_iter_values(std::iter::repeat_n(b"198.51.100.7", count))),
            ],
        );
        let add = table.write_spanning(&[rows.unwrap()], Span::Day).await.unwrap();
        table.commit(Change { add, ..Change::default() }).await.unwrap();
        (table, store)
    }

    async fn times(table: &TableHandle) -> Vec<i64> {
        let mut found = Vec::new();
        for file in table.files() {
            for batch in table.read(file, &["at"]).await.unwrap() {
                found.extend(batch.column(0).as_primitive::<TimestampMicrosecondType>().values());
            }
        }
        found
    }

    #[tokio::test]
    async fn rejected_lines_expire_each_by_its_own_time() {
        let day = UtcMicros(20_526 * DAY);
        let at = |hour: u64| day.plus(Duration::from_secs(hour * 3_600));
        let (mut table, store) = rejected(&[at(1), at(2), at(20)]).await;
        assert_eq!(table.files().len(), 1);
        let paths = |table: &TableHandle| table.files().iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        let whole = paths(&table);
        let first = object_store::path::Path::from(format!("lake/rejects/{}", whole[0]));
        assert!(store.get(&first).await.is_ok());
        for (keep_from, left) in [
            (at(1), vec![at(1), at(2), at(20)]),
            (at(2), vec![at(1), at(2), at(20)]), // its hour isn't over
            (at(3), vec![at(20)]),
            (at(20), vec![at(20)]),
            (at(21), vec![]),
        ] {
            expire(&mut table, keep_from).await.unwrap();
            assert_eq!(times(&table).await, left.iter().map(|at| at.0).collect::<Vec<_>>(), "{keep_from}");
        }
        // what has left the table leaves the storage too
        table.maintain(UtcMicros::now().plus(Duration::from_secs(3 * 3_600))).await.unwrap();
        for path in whole {
            let path = object_store::path::Path::from(format!("lake/rejects/{path}"));
            assert!(store.get(&path).await.is_err(), "{path}");
        }
    }

    #[test]
    fn merges_wait_for_a_backlog_unless_files_are_many() {
        let (little, much) = (1.0, 3_600.0);
        assert!(merges_now(little, 10) && merges_now(little, MANY_FILES + 1) && merges_now(much, MANY_FILES + 1));
        assert!(!merges_now(much, MANY_FILES) && !merges_now(BACKLOG, 10));
    }
}
