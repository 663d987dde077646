//! Arrivals into `clicks`: which files of `arrivals` to look at, and what to do with what they hold.
//!
//! Rows come into `clicks` in one commit and leave `arrivals` in the next. Killed in between, the next pass finds
//! the ids in the lake, adds nothing, and takes the rows away then. A file is looked at once the first of its rows
//! may be ready, and not again before the next may be; small files are taken together, and what waits of them comes
//! back as one file, so that neither rows in memory nor files in the table pile up.

use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::tables::Table;
use schemas::{ClickId, Source, UtcMicros};

use super::desk::{Draft, Landing, TRIES, chosen, fenced, note_added};
use super::error::SettleError;
use super::guard::Held;
use super::settler::{Settled, Settler};
use super::union::{Arrival, Decision, Fate};
use super::waits::{Kind, Waits};
use crate::lake::{Change, CommitError, DataFile};

/// Rows taken into memory at once, unless one file holds more.
const GROUP_ROWS: u64 = 100_000;
/// So many files that nothing can be done with yet are merged.
const MANY_FILES: usize = 16;
/// Lines that are held are looked at again so much later, unless something else stands of their hour before.
const HELD: std::time::Duration = std::time::Duration::from_secs(600);
/// A file is not looked at again before `complete_through` has gone on by this.
const LOOK_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(5);

impl Settler {
    /// Settles every arrival that can be settled. Returns the `complete_through` that was gone by.
    pub(super) async fn settle_arrivals(
        &mut self,
        now: UtcMicros,
        settled: &mut Settled,
    ) -> Result<UtcMicros, SettleError> {
        self.arrivals.refresh().await?;
        let complete_through = self.desk.look(now).await?;
        let files = self.arrivals.files();
        if self.guard.has_moved(&self.desk.clicks) {
            self.looked.clear();
        }
        self.looked.retain(|path, _| files.iter().any(|file| file.path == *path));
        for group in groups(files, |file| self.is_due(file, complete_through)) {
            if self.stop.is_cancelled() {
                break;
            }
            self.settle_group(&group, complete_through, settled).await?;
        }
        Ok(complete_through)
    }

    fn is_due(&self, file: &DataFile, complete_through: UtcMicros) -> bool {
        match self.looked.get(&file.path) {
            Some(next) => complete_through > *next,
            None => file.min_time.is_none_or(|first| could_be_ready(first, complete_through, self.desk.waits())),
        }
    }

    async fn settle_group(
        &mut self,
        group: &[Arc<DataFile>],
        complete_through: UtcMicros,
        settled: &mut Settled,
    ) -> Result<(), SettleError> {
        let mut rows = Vec::new();
        for file in group {
            rows.extend(self.arrivals.read(file, &[]).await?);
        }
        let arrivals = described(&rows)?;
        let (decision, held) = self.bring_in(&rows, &arrivals, complete_through).await?;
        note_added(&self.metrics, &rows, &decision.fates);
        settled.added += decision.count(Fate::Add) as u64;
        settled.already_counted += decision.count(Fate::Counted) as u64;
        settled.waiting += decision.count(Fate::Wait) as u64;
        let next = self.next_look(&arrivals, &decision, &held, complete_through);
        self.take_away(group, &rows, &decision, next).await
    }

    /// Brings what is ready into `clicks`, looking again as often as another settler was faster.
    async fn bring_in(
        &mut self,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        complete_through: UtcMicros,
    ) -> Result<(Decision, Held), SettleError> {
        let mut draft = Draft::default();
        for _ in 0..TRIES {
            let mut decision = self.desk.decide(arrivals, complete_through).await?;
            let held = self.hold(rows, arrivals, &mut decision, complete_through).await?;
            if decision.settled.is_empty() && held.txns.is_empty() {
                return Ok((decision, held));
            }
            if self.desk.land(rows, arrivals, &decision, &held.txns, &mut draft).await? == Landing::Landed {
                return Ok((decision, held));
            }
            self.desk.clicks.refresh().await?;
        }
        Err(SettleError::Busy { tries: TRIES })
    }

    /// Until `complete_through` is later than this, looking at what waits of a group again gains nothing.
    fn next_look(
        &self,
        arrivals: &[Arrival],
        decision: &Decision,
        held: &Held,
        complete_through: UtcMicros,
    ) -> UtcMicros {
        let waiting = arrivals.iter().zip(&decision.fates).enumerate().filter(|(_, (_, fate))| **fate == Fate::Wait);
        let next = waiting.map(|(record, (arrival, _))| {
            let is_held = held.records.contains(&record);
            if is_held { complete_through.plus(HELD) } else { arrival.time.plus(self.desk.waits().of(arrival.kind)) }
        });
        next.min().unwrap_or(complete_through).max(complete_through.plus(LOOK_AGAIN_AFTER))
    }

    /// Takes the rows that are settled out of `arrivals`, once their commit has landed; the rest stays, in one file.
    async fn take_away(
        &mut self,
        group: &[Arc<DataFile>],
        rows: &[RecordBatch],
        decision: &Decision,
        next: UtcMicros,
    ) -> Result<(), SettleError> {
        let unchanged = decision.count(Fate::Wait) == decision.fates.len();
        if unchanged && group.len() < MANY_FILES {
            self.looked.extend(group.iter().map(|file| (file.path.clone(), next)));
            return Ok(());
        }
        let rest = chosen(Table::Arrivals, rows, &decision.fates, Fate::Wait)?;
        let add = self.arrivals.write_spanning(&rest, crate::lake::Span::Day).await?;
        let kept: Vec<String> = add.iter().map(|file| file.path().to_owned()).collect();
        let change = Change { add, remove: group.to_vec(), rewrite_only: unchanged, ..Change::default() };
        match self.arrivals.commit(fenced(&self.arrivals, change)).await {
            Ok(_) => self.looked.extend(kept.into_iter().map(|path| (path, next))),
            // Another settler takes them away, or has; the next pass sees.
            Err(CommitError::Moved { .. } | CommitError::Conflict { .. } | CommitError::Expired { .. }) => {}
            Err(CommitError::Failed(source)) => return Err(source.into()),
        }
        Ok(())
    }
}

/// Whether any record of this time could be settled: those that wait least.
fn could_be_ready(first: UtcMicros, complete_through: UtcMicros, waits: &Waits) -> bool {
    waits.ready(complete_through, Kind::Edge, first)
}

/// The files that are due, in groups of bounded size; those that are not, if there are too many of them.
fn groups(files: &[Arc<DataFile>], is_due: impl Fn(&DataFile) -> bool) -> Vec<Vec<Arc<DataFile>>> {
    let (due, not_due): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| is_due(file));
    let mut groups = packed(due);
    let small = not_due.into_iter().filter(|file| file.rows < GROUP_ROWS / 4).collect();
    groups.extend(packed(small).into_iter().filter(|group| group.len() >= MANY_FILES));
    groups
}

fn packed(files: Vec<Arc<DataFile>>) -> Vec<Vec<Arc<DataFile>>> {
    let mut groups: Vec<(u64, Vec<Arc<DataFile>>)> = Vec::new();
    for file in files {
        match groups.last_mut() {
            Some((rows, group)) if *rows + file.rows <= GROUP_ROWS => {
                *rows += file.rows;
                group.push(file);
            }
            _ => groups.push((file.rows, vec![file])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// What the union needs to know of rows of `arrivals`.
fn described(rows: &[RecordBatch]) -> Result<Vec<Arrival>, SettleError> {
    let mut arrivals = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
    for batch in rows {
        let described = describe(batch, &mut arrivals);
        described.ok_or_else(|| SettleError::Rows {
            table: Table::Arrivals,
            source: ArrowError::SchemaError("click_id, event_time or source is missing or of another type".to_owned()),
        })?;
    }
    Ok(arrivals)
}

fn describe(batch: &RecordBatch, arrivals: &mut Vec<Arrival>) -> Option<()> {
    let ids = batch.column_by_name("click_id")?.as_binary_opt::<i32>()?;
    let times = batch.column_by_name("event_time")?.as_primitive_opt::<TimestampMicrosecondType>()?;
    let sources = batch.column_by_name("source")?.as_string_opt::<i32>()?;
    for row in 0..batch.num_rows() {
        arrivals.push(Arrival {
            id: ClickId(ids.value(row).try_into().ok()?),
            time: UtcMicros(times.value(row)),
            kind: Kind::of(sources.value(row).parse::<Source>().ok()?),
        });
    }
    Some(())
}
