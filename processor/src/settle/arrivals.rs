//! Arrivals into `clicks`: which files of `arrivals` to look at, and what to do with what they hold.
//!
//! Rows come into `clicks` in one commit and leave `arrivals` in the next (`leave`). Killed in between, the next pass
//! finds the ids in the lake, adds nothing, and takes the rows away then. A file is looked at once the first of its rows
//! may be ready, and not again before the next may be, or before its corrections are to be made; small files are taken
//! together, and what stays of them comes back as one file, so that neither rows in memory nor files in the table pile
//! up.

use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::tables::Table;
use schemas::{ClickId, Source, UtcMicros};

use super::desk::{Draft, Landing, TRIES, note_added};
use super::error::SettleError;
use super::guard::Held;
use super::leave::{Group, MANY_FILES};
use super::settler::{Settled, Settler};
use super::union::{Arrival, Decision, Fate};
use super::waits::{Kind, Waits};
use crate::lake::DataFile;

/// Rows taken into memory at once, unless one file holds more.
const GROUP_ROWS: u64 = 100_000;
/// Lines that are held are looked at again so much later, unless something else stands of their hour before.
const HELD: std::time::Duration = std::time::Duration::from_secs(600);
/// A file is not looked at again before `complete_through` has gone on by this.
const LOOK_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(5);

/// What holds for one pass.
struct Round {
    now: UtcMicros,
    complete_through: UtcMicros,
    /// Whether the corrections that wait are made in it.
    correct: bool,
}

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
        self.pending.retain(|path, _| files.iter().any(|file| file.path == *path));
        let correct = self.is_time_to_correct(now, complete_through);
        let round = Round { now, complete_through, correct };
        let is_due = |file: &DataFile| {
            let corrects = correct && self.pending.contains_key(&file.path);
            self.eager || corrects || self.is_due(file, complete_through)
        };
        for group in groups(files, is_due) {
            if self.stop.is_cancelled() {
                break;
            }
            self.settle_group(&group, &round, settled).await?;
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
        files: &[Arc<DataFile>],
        round: &Round,
        settled: &mut Settled,
    ) -> Result<(), SettleError> {
        let mut rows = Vec::new();
        for file in files {
            rows.extend(self.arrivals.read(file, &[]).await?);
        }
        let arrivals = described(&rows)?;
        let (mut decision, held) = self.bring_in(&rows, &arrivals, round.complete_through).await?;
        note_added(&self.metrics, &rows, &decision.fates);
        if round.correct {
            settled.corrected += self.correct(&rows, &arrivals, &mut decision).await?;
        }
        settled.added += decision.count(Fate::Add) as u64;
        settled.already_counted += decision.count(Fate::Counted) as u64;
        settled.waiting += decision.count(Fate::Wait) as u64;
        settled.sampled += decision.count(Fate::Sampled) as u64;
        let next = self.next_look(&arrivals, &decision, &held, round.complete_through);
        self.take_away(&Group { files, rows: &rows, arrivals: &arrivals }, &decision, next, round.now).await
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
            let mut decision = self.desk.decide(rows, arrivals, complete_through).await?;
            let held = self.hold(rows, arrivals, &mut decision, complete_through).await?;
            if decision.settled.is_empty() && held.txns.is_empty() {
                self.desk.record(rows, arrivals, &decision).await?;
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
        // without any, nothing is gained ever: corrections are made in their own time
        next.min().map_or(UtcMicros(i64::MAX), |next| next.max(complete_through.plus(LOOK_AGAIN_AFTER)))
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
