//! One attempt at a group commit: look, judge, side tables, rows, commit, look again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::error::ArrowError;
use schemas::tables::Table;
use schemas::{ClickId, JournalId, LinkId, UtcMicros};

use super::committer::Committer;
use super::decode::{Batch, Clicked};
use super::judge::{Fate, Judge, Lateness, questions, rates_asked};
use super::picked::{Pick, picked};
use super::retire;
use super::shed::Shed;
use super::side::{Unread, unfit};
use super::slot::{Slot, Tried};
use crate::lake::{Change, CommitError, LakeError, Span, TableHandle};
use crate::metrics::Landed;
use crate::sample::{Rate, second_of};
use crate::sketch::SampledAway;

/// How often an attempt that others got in the way of is made anew without a pause.
const ATTEMPTS: u32 = 5;

/// A group, judged.
#[derive(Default)]
struct Plan {
    /// The batches of the group, and which of whose clicks become rows.
    batches: Vec<Arc<Batch>>,
    picks: Vec<Pick>,
    counts: Landed,
    /// The rates below 1 that clicks were judged by, each with the partition's place in the group and the workspace.
    rates: HashMap<(usize, LinkId, i64), (Arc<str>, f64)>,
    /// The oldest click.
    oldest: Option<UtcMicros>,
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
        if std::mem::take(&mut self.has_lost_one) {
            self.newest_rate = self.rates.newest().await?;
            self.lift_floor();
        }
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
        let asked = rates_asked(clicked(), &lateness, &self.window);
        let lowest = self.rates.lowest(&asked).await.map_err(CommitError::Failed)?;

        let mut judge = Judge::new(&lateness, &self.window, &known, &lowest);
        let mut plan = Plan { change: Change { expect, ..Change::default() }, ..Plan::default() };
        let judged = plan.judge(&group, &mut judge).map_err(|e| unfit(Table::Clicks, e))?;
        let rates = plan.rates(&group);
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
        let rows = picked(&plan.batches, &plan.picks).map_err(|e| unfit(Table::Clicks, e))?;
        // at once: each waits for the store, and nothing of it counts before the commit
        let (recorded, sampled, added) = tokio::join!(
            self.rates.record_new(rates),
            self.side.sampled(&judged.sampled),
            clicks.write_spanning(&rows, Span::Hour)
        );
        recorded?;
        sampled?;
        plan.change.add = added.map_err(CommitError::Failed)?;
        // the settler weighs late clicks by the rates that are recorded
        self.side.late(&plan.batches, &judged.late).await?;

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
            let age = plan.oldest.map_or(Duration::ZERO, |oldest| UtcMicros::now().since(oldest));
            self.steering.landed(age, &plan.counts);
        }
        // Whatever the answer was, the handle shows what is known now: that decides.
        self.compare();
        landed.map(drop)
    }
}

/// What of a group goes elsewhere than into `clicks`.
#[derive(Default)]
struct Judged<'a> {
    /// Each with where it is; not weighed yet.
    late: Vec<(&'a Clicked, Pick)>,
    sampled: Vec<SampledAway<'a>>,
}

impl Plan {
    /// Judges the group.
    fn judge<'a>(&mut self, group: &[(usize, &'a Slot)], judge: &mut Judge<'_>) -> Result<Judged<'a>, ArrowError> {
        let mut judged = Judged::default();
        for (place, (number, slot)) in group.iter().enumerate() {
            let mut seen: Vec<(ClickId, UtcMicros)> = Vec::new();
            for (batch, _) in &slot.buffer {
                let of = self.batches.len() as u32;
                self.batches.push(Arc::clone(batch));
                self.oldest = [self.oldest, batch.oldest].into_iter().flatten().min();
                let mut shed = batch.shed.iter().peekable();
                for click in 0..batch.clicks.len() as u32 {
                    while let Some(shed) = shed.next_if(|shed| shed.before <= click) {
                        self.judge_shed(place, shed, judge, &mut seen, &mut judged);
                    }
                    let pick = Pick { batch: of, click, weight: 1.0 };
                    self.judge_click(place, (batch, pick), judge, &mut seen, &mut judged)?;
                }
                shed.for_each(|shed| self.judge_shed(place, shed, judge, &mut seen, &mut judged));
            }
            let end = slot.buffered_to() as i64;
            self.change.txns.push((slot.app_id.clone(), end));
            self.change.expect.push((slot.app_id.clone(), slot.expected));
            self.tried.push((*number, Tried { end, seen }));
        }
        Ok(judged)
    }

    fn judge_click<'a>(
        &mut self,
        place: usize,
        (batch, pick): (&'a Batch, Pick),
        judge: &mut Judge<'_>,
        seen: &mut Vec<(ClickId, UtcMicros)>,
        judged: &mut Judged<'a>,
    ) -> Result<(), ArrowError> {
        let one = &batch.clicks[pick.click as usize];
        let mut rate = one.rate;
        match judge.judge(one) {
            Fate::Late => {
                judged.late.push((one, pick));
                self.counts.late += 1;
            }
            Fate::Duplicate => {
                self.counts.duplicates += 1;
                seen.push((one.click_id, one.event_time));
                return Ok(());
            }
            Fate::Row(at) => {
                rate = at;
                self.picks.push(Pick { weight: 1.0 / at, ..pick });
                *self.counts.rows.entry((one.source, one.class)).or_default() += 1;
                self.counts.internal += u64::from(one.is_internal);
                seen.push((one.click_id, one.event_time));
            }
            Fate::Sampled(at) => {
                rate = at;
                judged.sampled.extend(sampled_away(batch, pick.click, at)?);
                *self.counts.shed.entry(one.class).or_default() += 1;
                seen.push((one.click_id, one.event_time));
            }
        }
        if let Some(link) = one.link_id.filter(|_| rate < 1.0) {
            let [workspace, ..] = batch.link(pick.click)?;
            self.note_rate((place, link, second_of(one.event_time)), rate, || workspace.into());
        }
        Ok(())
    }

    fn judge_shed<'a>(
        &mut self,
        place: usize,
        shed: &'a Shed,
        judge: &mut Judge<'_>,
        seen: &mut Vec<(ClickId, UtcMicros)>,
        judged: &mut Judged<'a>,
    ) {
        let fate = judge.judge_shed(shed);
        // whoever judges what else comes of a late one's request goes by the rates alone
        if fate != Fate::Late {
            seen.push((shed.click_id, shed.event_time));
        }
        if fate == Fate::Duplicate {
            self.counts.duplicates += 1;
            return;
        }
        judged.sampled.push(shed.into());
        *self.counts.shed.entry(shed.class).or_default() += 1;
        if shed.rate < 1.0 {
            let key = (place, shed.link_id, second_of(shed.event_time));
            self.note_rate(key, shed.rate, || Arc::clone(&shed.names.workspace));
        }
    }

    /// Notes a rate below 1.
    fn note_rate(&mut self, key: (usize, LinkId, i64), rate: f64, workspace: impl FnOnce() -> Arc<str>) {
        let known = self.rates.entry(key).or_insert_with(|| (workspace(), rate));
        known.1 = known.1.min(rate);
    }

    /// The rates to be recorded, each with the name of its partition.
    fn rates(&mut self, group: &[(usize, &Slot)]) -> Vec<Rate> {
        let of = |((place, link, second), (workspace, rate)): ((usize, LinkId, i64), (Arc<str>, f64))| Rate {
            workspace,
            link,
            second,
            by: Arc::clone(&group[place].1.name),
            rate,
        };
        self.rates.drain().map(of).collect()
    }
}

/// A click that came to a row before it was sampled away; `None` without a link, of which none is.
fn sampled_away(batch: &Batch, click: u32, rate: f64) -> Result<Option<SampledAway<'_>>, ArrowError> {
    let one = &batch.clicks[click as usize];
    let Some(link_id) = one.link_id else { return Ok(None) };
    let [workspace, domain, code] = batch.link(click)?;
    let Clicked { event_time, class, visitor, .. } = *one;
    Ok(Some(SampledAway { event_time, workspace, link_id, domain, code, class, visitor, rate }))
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
    // neighbours are of one hour and one journal as a rule
    let mut last = None;
    for one in events {
        let here = (one.event_time.hour(), one.journal);
        if last.replace(here) != Some(here) {
            hours.insert(here.0);
            journals.insert(here.1);
        }
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
