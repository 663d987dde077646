//! One attempt at a group commit: look, judge, side tables, rows, commit, look again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use schemas::tables::Table;
use schemas::{ClickBuilder, ClickId, JournalId, UtcMicros};

use super::committer::Committer;
use super::decode::{Batch, Clicked};
use super::judge::{Fate, Judge, Lateness, questions};
use super::retire;
use super::side::{Unread, unfit};
use super::slot::{Slot, Tried};
use crate::lake::{Change, CommitError, LakeError, TableHandle};
use crate::metrics::Landed;

/// How often an attempt that others got in the way of is made anew without a pause.
const ATTEMPTS: u32 = 5;

/// A group, judged.
#[derive(Default)]
struct Plan {
    /// The batches of the group, and which of whose clicks become rows.
    batches: Vec<Arc<Batch>>,
    picks: Vec<(u32, u32)>,
    counts: Landed,
    /// Of each partition in the group, the ids that it judges.
    tried: Vec<(usize, Tried)>,
    change: Change,
}

impl Committer {
    /// Brings the handle to the newest version and compares all positions with it.
    pub(super) async fn look(&mut self) -> Result<(), LakeError> {
        match &mut self.clicks {
            Some(clicks) => {
                clicks.refresh().await?;
            }
            None => self.clicks = Some(self.lake.table(Table::Clicks).await?),
        }
        self.compare();
        Ok(())
    }

    /// Commits what is buffered. An error says why nothing, as far as known, has landed.
    pub(super) async fn attempt(&mut self) -> Result<(), String> {
        for attempt in 1.. {
            self.look().await.map_err(|e| e.to_string())?;
            if self.slots.values().all(|slot| slot.buffer.is_empty()) {
                return Ok(()); // it had landed, or was dropped
            }
            match self.try_once().await {
                Err(CommitError::Moved { .. } | CommitError::Conflict { .. } | CommitError::Expired { .. })
                    if attempt < ATTEMPTS => {}
                Err(failure) => return Err(failure.to_string()),
                Ok(()) => return Ok(()),
            }
        }
        Ok(())
    }

    async fn try_once(&mut self) -> Result<(), CommitError> {
        let started = Instant::now();
        let Some(clicks) = self.clicks.as_mut() else { return Ok(()) };
        let group: Vec<(usize, &Slot)> =
            self.slots.iter().filter(|(_, slot)| !slot.buffer.is_empty()).map(|(n, slot)| (*n, slot)).collect();
        let clicked = || group.iter().flat_map(|(_, slot)| clicks_of(slot));
        let (lateness, expect) = lateness_of(clicks, clicked());
        let asked = questions(clicked(), &lateness, &self.window);
        let known = self.known.ask(clicks, &self.window, &asked).await.map_err(CommitError::Failed)?;

        let mut judge = Judge::new(&lateness, &self.window, &known);
        let mut plan = Plan { change: Change { expect, ..Change::default() }, ..Plan::default() };
        let late = plan.judge(&group, &mut judge);
        let unread: Vec<Unread<'_>> = group
            .iter()
            .map(|(_, slot)| Unread {
                app_id: &slot.app_id,
                end: slot.buffered_to() as i64,
                refused: slot.buffer.iter().flat_map(|(batch, _)| &batch.refused).collect(),
                lost: slot.buffer.iter().flat_map(|(batch, _)| batch.lost()).collect(),
            })
            .collect();
        plan.counts.rejected = unread.iter().map(|one| one.refused.len() as u64).sum();
        plan.counts.gaps = unread.iter().map(|one| one.lost.len() as u64).sum();
        self.side.refused(&unread).await?;
        self.side.lost(&unread).await?;
        self.side.late(&late).await?;

        let rows = build_rows(std::mem::take(&mut plan.batches), std::mem::take(&mut plan.picks)).await?;
        plan.change.add = clicks.write(&rows).await.map_err(CommitError::Failed)?;
        let paths: Vec<String> = plan.change.add.iter().map(|file| file.path().to_owned()).collect();
        for (number, tried) in plan.tried.drain(..) {
            if let Some(slot) = self.slots.get_mut(&number) {
                slot.tried = Some(tried);
            }
        }
        let landed = clicks.commit(std::mem::take(&mut plan.change)).await;
        if landed.is_ok() {
            self.known.wrote(paths);
            self.side.landed();
            self.metrics.note_landed(&plan.counts, started.elapsed().as_secs_f64());
        }
        // Whatever the answer was, the handle shows what is known now: that decides.
        self.compare();
        landed.map(drop)
    }
}

impl Plan {
    /// Judges the group; returns what is late.
    fn judge<'a>(&mut self, group: &[(usize, &'a Slot)], judge: &mut Judge<'_>) -> Vec<&'a Clicked> {
        let mut late = Vec::new();
        for (number, slot) in group {
            let mut seen: Vec<(ClickId, UtcMicros)> = Vec::new();
            for (batch, _) in &slot.buffer {
                let number = self.batches.len() as u32;
                self.batches.push(Arc::clone(batch));
                for (one, row) in batch.clicks.iter().zip(0u32..) {
                    let click = &one.click;
                    match judge.judge(one) {
                        Fate::Late => {
                            late.push(one);
                            self.counts.late += 1;
                            continue;
                        }
                        Fate::Duplicate => self.counts.duplicates += 1,
                        Fate::Row => {
                            self.picks.push((number, row));
                            *self.counts.rows.entry((click.source, click.verdict.class)).or_default() += 1;
                        }
                    }
                    seen.push((click.click_id, click.event_time));
                }
            }
            let end = slot.buffered_to() as i64;
            self.change.txns.push((slot.app_id.clone(), end));
            self.change.expect.push((slot.app_id.clone(), slot.expected));
            self.tried.push((*number, Tried { end, seen }));
        }
        late
    }
}

/// The rows picked, built where that may take its time.
async fn build_rows(batches: Vec<Arc<Batch>>, picks: Vec<(u32, u32)>) -> Result<RecordBatch, CommitError> {
    let built = tokio::task::spawn_blocking(move || {
        let mut rows = ClickBuilder::new();
        for (batch, row) in picks {
            rows.push(&batches[batch as usize].clicks[row as usize].click);
        }
        rows.finish()
    });
    let built = built.await.unwrap_or_else(|panic| Err(ArrowError::ExternalError(Box::new(panic))));
    built.map_err(|e| unfit(Table::Clicks, e))
}

fn clicks_of(slot: &Slot) -> impl Iterator<Item = &Clicked> {
    slot.buffer.iter().flat_map(|(batch, _)| &batch.clicks)
}

/// What `clicks` says of the lateness of these events, and the same as what a commit must find unchanged.
fn lateness_of<'a>(
    clicks: &TableHandle,
    events: impl Iterator<Item = &'a Clicked>,
) -> (Lateness, Vec<(String, Option<i64>)>) {
    let (mut hours, mut journals): (BTreeSet<i64>, HashSet<JournalId>) = Default::default();
    for one in events {
        hours.insert(one.click.event_time.hour());
        journals.insert(one.journal);
    }
    let mut lateness = Lateness::default();
    let mut expect = Vec::new();
    for hour in hours {
        let app_id = format!("settled/{hour}");
        let through = clicks.txn(&app_id);
        lateness.settled.extend(through.map(|micros| (hour, UtcMicros(micros))));
        expect.push((app_id, through));
    }
    for journal in journals {
        let app_id = retire::app_id(journal);
        let at = clicks.txn(&app_id);
        if at.is_some() {
            lateness.retired.insert(journal);
        }
        expect.push((app_id, at));
    }
    (lateness, expect)
}
