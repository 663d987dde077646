//! History judged anew: class, agent and what else follows from an agent, of rows that are there, by the rules in force.
//!
//! ```text
//! files of clicks in the span ──remake──► the same rows, in their order, judged anew ──► one commit
//!                                  └──► what moves: from class to class, agent to agent, reason to reason
//! ```
//! Which requests there are, and whose, doesn't change, so the sum over classes stays what it was; what waits in `arrivals`
//! is judged anew when it is settled. What was sampled away has left no agent, and stays in the classes that it was in.
//!
//! Failure: killed anywhere before the one commit, nothing has changed. A repeat finds nothing left to do.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::UtcMicros;
use schemas::restatement::Why;
use serde::Serialize;

use super::desk::TRIES;
use super::error::SettleError;
use super::remake::{Parts, Watch, Work, look, or_give_back, prepare, swap_in};
use super::restate::{Ledger, Several, Touch};
use super::settler::Settler;
use crate::enrich::Enricher;
use crate::enrich::rejudge::{TEXTS, columns, value, versions};
use crate::lake::DataFile;

/// Which rows are judged anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclassify {
    /// None before this.
    pub start: UtcMicros,
    /// None from this on.
    pub end: UtcMicros,
    /// Only those of this workspace.
    pub workspace: Option<String>,
    /// Whether to say what would come of it, and change nothing.
    pub dry_run: bool,
}

/// Rows that have moved from one word to another; none stands for none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// What they were.
    pub from: Option<String>,
    /// What they are.
    pub to: Option<String>,
    /// How many.
    pub rows: u64,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reclassified {
    /// The rules that were in force.
    pub rules_version: i32,
    /// Rows in the span.
    pub rows: u64,
    /// Of these, rows that say something else now.
    pub changed: u64,
    /// Rows that keep their verdict and get only the number of the rules: others had given it.
    pub same: u64,
    /// Rows that can't be judged anew, as nothing is left of the headers that judged them; they stay.
    pub left: u64,
    /// Files of `clicks` that hold rows of the span.
    pub files: usize,
    /// Of these, files made anew.
    pub rewritten: usize,
    /// Rows by class before.
    pub before: BTreeMap<String, u64>,
    /// Rows by class now: as many in all.
    pub after: BTreeMap<String, u64>,
    /// From class to class, the most rows first.
    pub classes: Vec<Moved>,
    /// From agent to agent.
    pub agents: Vec<Moved>,
    /// From reason to reason.
    pub reasons: Vec<Moved>,
    /// Whether clicks of the span were sampled away: those can't be judged anew.
    pub sampled_away: bool,
}

impl Settler {
    /// Judges rows anew, all in one commit.
    ///
    /// # Errors
    /// As [`SettleError`] says; nothing has changed then, unless the lake failed in the commit itself: a repeat is right in
    /// either case.
    pub async fn reclassify(&mut self, asked: &Reclassify, watch: Watch<'_>) -> Result<Reclassified, SettleError> {
        let work = Judging { enricher: &self.enricher, asked };
        let mut parts = Parts::default();
        let mut done = asked.dry_run;
        if done {
            look(&mut self.desk.clicks, &work, &mut parts, watch).await?;
        } else {
            for _ in 0..TRIES {
                prepare(&mut self.desk.clicks, &work, &mut parts, (watch, &self.stop)).await?;
                done = parts.changed().next().is_none();
                if !done {
                    let told = async {
                        let ledger = ledger(self.desk.final_through().await?, &parts);
                        self.desk.tell(&ledger).await
                    };
                    let told = told.await;
                    or_give_back(told, &self.desk.clicks, &mut parts).await?;
                    done = swap_in(&mut self.desk.clicks, &mut parts, &[]).await?;
                }
                if done {
                    break;
                }
            }
        }
        if !done {
            return or_give_back(Err(SettleError::Busy { tries: TRIES }), &self.desk.clicks, &mut parts).await;
        }
        let mut found = summary(&parts);
        found.rules_version = self.enricher.classifier().version();
        let last = UtcMicros(asked.end.0.saturating_sub(1));
        found.sampled_away = self.upkeep.was_sampled(asked.start, last).await?;
        Ok(found)
    }
}

/// Rows of a span judged anew.
struct Judging<'a> {
    enricher: &'a Enricher,
    asked: &'a Reclassify,
}

/// From one word to another.
type Ways = BTreeMap<(Option<String>, Option<String>), u64>;

/// What is noted of a file.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    rows: u64,
    changed: u64,
    same: u64,
    left: u64,
    /// Of all rows, whether they have moved or not.
    classes: Ways,
    agents: Ways,
    reasons: Ways,
    /// The rows that say something else, by workspace and hour.
    told: BTreeMap<(String, i64), Several>,
}

/// The columns that say what a row was and how it is to be judged.
const COLUMNS: [&str; 13] = [
    "event_time",
    "workspace",
    "user_agent",
    "method",
    "rules_version",
    "class",
    "agent",
    "class_reason",
    "device",
    "browser",
    "browser_version",
    "os",
    "os_version",
];
/// Where class, agent and reason are among [`TEXTS`].
const WAYS: [usize; 3] = [0, 1, 2];

impl Judging<'_> {
    /// Which rows of a batch are to be judged, and their times.
    fn chosen(&self, rows: &RecordBatch) -> Result<Vec<Option<UtcMicros>>, ArrowError> {
        let [workspaces] = columns(rows, ["workspace"])?;
        let times = rows.column_by_name("event_time").and_then(|column| column.as_primitive_opt());
        let times: &arrow::array::PrimitiveArray<TimestampMicrosecondType> =
            times.ok_or_else(|| ArrowError::SchemaError("rows lack their event_time".to_owned()))?;
        let chosen = times.values().iter().enumerate().map(|(row, &time)| {
            let is_in = (self.asked.start.0..self.asked.end.0).contains(&time);
            let is_theirs = || self.asked.workspace.as_deref().is_none_or(|one| one == workspaces.value(row));
            (is_in && is_theirs()).then_some(UtcMicros(time))
        });
        Ok(chosen.collect())
    }
}

impl Work for Judging<'_> {
    type Note = Moves;

    fn columns(&self) -> &'static [&'static str] {
        &COLUMNS
    }

    fn concerns(&self, file: &DataFile) -> bool {
        self.asked.start < self.asked.end && file.may_hold(self.asked.start, UtcMicros(self.asked.end.0 - 1))
    }

    fn look(&self, rows: &RecordBatch, note: &mut Moves) -> Result<bool, ArrowError> {
        let chosen = self.chosen(rows)?;
        if chosen.iter().all(Option::is_none) {
            return Ok(false);
        }
        let anew = self.enricher.rejudged(rows, |row| chosen[row].is_some())?;
        let (before, after, [workspaces]) = (columns(rows, TEXTS)?, &anew.texts, columns(rows, ["workspace"])?);
        let stamps = versions(rows)?;
        // counted with borrowed texts first: rows are many, words few
        let mut ways: [HashMap<_, u64>; 3] = Default::default();
        let mut told: HashMap<(&str, i64), Several> = HashMap::new();
        let mut changes = false;
        for (row, time) in chosen.iter().enumerate().filter_map(|(row, time)| Some((row, (*time)?))) {
            let (was, is) = (|text: usize| value(before[text], row), |text: usize| value(&after[text], row));
            let differs = (0..TEXTS.len()).any(|text| was(text) != is(text));
            let stamped = stamps.value(row) != anew.versions.value(row);
            for (ways, text) in ways.iter_mut().zip(WAYS) {
                // of classes, those that stay too
                if text == 0 || differs && was(text) != is(text) {
                    *ways.entry((was(text), is(text))).or_default() += 1;
                }
            }
            note.rows += 1;
            note.changed += u64::from(differs);
            note.same += u64::from(!differs && stamped);
            changes |= differs || stamped;
            if differs {
                let one = Several::one(time, time.0.unsigned_abs().rotate_left(11));
                let all = told.entry((workspaces.value(row), time.hour()));
                all.and_modify(|all| *all = all.and(one)).or_insert(one);
            }
        }
        note.left += anew.left;
        for (all, ways) in [&mut note.classes, &mut note.agents, &mut note.reasons].into_iter().zip(ways) {
            for ((from, to), rows) in ways {
                *all.entry((from.map(str::to_owned), to.map(str::to_owned))).or_default() += rows;
            }
        }
        for ((workspace, hour), these) in told {
            let all = note.told.entry((workspace.to_owned(), hour));
            all.and_modify(|all| *all = all.and(these)).or_insert(these);
        }
        Ok(changes)
    }

    fn made(&self, rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let chosen = self.chosen(&rows)?;
        if chosen.iter().all(Option::is_none) {
            return Ok(rows);
        }
        self.enricher.rejudged(&rows, |row| chosen[row].is_some())?.put_into(&rows)
    }
}

/// What of it is to be told.
fn ledger(final_through: Option<UtcMicros>, parts: &Parts<Moves>) -> Ledger {
    let mut ledger = Ledger::new(final_through);
    for ((workspace, _), rows) in parts.notes().flat_map(|note| &note.told) {
        ledger.touch_several(Touch::Changed, Why::Reclassify, workspace, None, *rows);
    }
    ledger
}

fn summary(parts: &Parts<Moves>) -> Reclassified {
    let mut found =
        Reclassified { files: parts.files(), rewritten: parts.changed().count(), ..Reclassified::default() };
    let mut ways: [Ways; 3] = Default::default();
    for note in parts.notes() {
        found.rows += note.rows;
        found.changed += note.changed;
        found.same += note.same;
        found.left += note.left;
        for (all, ways) in ways.iter_mut().zip([&note.classes, &note.agents, &note.reasons]) {
            for (way, rows) in ways {
                *all.entry(way.clone()).or_default() += rows;
            }
        }
    }
    let [classes, agents, reasons] = ways;
    for ((from, to), rows) in &classes {
        *found.before.entry(from.clone().unwrap_or_default()).or_default() += rows;
        *found.after.entry(to.clone().unwrap_or_default()).or_default() += rows;
    }
    (found.classes, found.agents, found.reasons) = (moved(classes), moved(agents), moved(reasons));
    found
}

/// The ways that lead elsewhere, the most rows first.
fn moved(ways: Ways) -> Vec<Moved> {
    let elsewhere = ways.into_iter().filter(|((from, to), _)| from != to);
    let mut moved: Vec<Moved> = elsewhere.map(|((from, to), rows)| Moved { from, to, rows }).collect();
    moved.sort_by(|a, b| b.rows.cmp(&a.rows).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to))));
    moved
}

#[cfg(test)]
mod tests;
