//! Retention: rows older than their workspace keeps any are taken out of the lake, for real.
//!
//! ```text
//! limits (link store, configuration) ──policy──► cuts ──► clicks, oldest day first, a commit a day: restatement first
//!                                                    └──► arrivals, clicks_hourly, sampling, rejects: a commit each
//! ```
//! Files whose rows all go are removed, those of several workspaces made anew without the rows that go. The bytes leave the
//! store with the upkeep's clean-up, once no query can be reading them.
//!
//! * [`policy`]: which rows
//! * `work`: rows of a table by workspace and day, without those that go
//!
//! Invariants
//! * A day of a workspace is there whole or not at all, and never goes before it is final.
//! * Before rows go, `restatements` says so (`retention`): until when a workspace's rows were removed, so that answers say
//!   from when on there are any.
//! * What logs came in is not forgotten (`edge_files`, and the transactions that know a file again): a file that is brought
//!   again adds nothing.
//!
//! Failure: killed anywhere, the next run goes on with the days that are left.

pub(crate) mod policy;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ingest::ports::Keeping;
use schemas::restatement::Why;
use schemas::tables::Table;
use schemas::time::DAY;
use schemas::{Keep, UtcMicros};
use serde::Serialize;

use self::policy::Cuts;
use self::work::{Expiring, Superseded};
use super::desk::TRIES;
use super::error::SettleError;
use super::remake::{Parts, look, or_give_back, prepare, remake, swap_in};
use super::restate::{Ledger, Several, Touch};
use super::settler::Settler;
use crate::lake::{DataFile, TableHandle};

/// Days of `clicks` that a pass of the settler takes rows out of: arrivals must not wait for years of them.
const DAYS_A_PASS: usize = 8;

/// The transaction of `clicks` that says up to when rows of any workspace were removed, in microseconds.
pub(crate) const RETAINED: &str = "retained";

/// After a failure it is tried again so much later: arrivals and the clean-up don't wait for it.
const TRY_AGAIN: Duration = Duration::from_secs(600);

/// What a settler knows of its last run.
#[derive(Debug, Default)]
pub(super) struct LastRun {
    /// Not before this is the next.
    next: Option<UtcMicros>,
    /// By what rows were taken out.
    cuts: Cuts,
    /// Files of `clicks` that held nothing that goes.
    clean: HashSet<String>,
}

/// Who says how long rows are kept.
#[derive(Clone, Debug)]
pub struct Limits {
    /// What is set for workspaces.
    pub keeping: Arc<dyn Keeping>,
    /// For how many days rows are kept where nothing is set; none: for ever.
    pub default: Option<u32>,
}

/// What goes, or has gone, of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its name.
    pub workspace: String,
    /// How long it keeps its rows, as it is set.
    pub keep: String,
    /// Rows before this go; none: none do.
    pub from: Option<UtcMicros>,
    /// Rows of `clicks` that went.
    pub clicks: u64,
}

/// What a run has done, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retained {
    /// Every workspace that says how long it keeps its rows, or of which rows went.
    pub workspaces: Vec<Kept>,
    /// Rows that went, by table.
    pub removed: BTreeMap<&'static str, u64>,
    /// Files that went, or were made anew without the rows that went.
    pub files: usize,
    /// Days that a run without bounds would go on with.
    pub days_left: usize,
    /// Days from this one on aren't final, so nothing of them went.
    pub final_before: UtcMicros,
}

impl Retained {
    /// Rows that went, of all tables.
    pub fn rows(&self) -> u64 {
        self.removed.values().sum()
    }
}

impl Settler {
    /// Takes rows out that are older than `limits` say, in every pass that finds a new day.
    #[must_use]
    pub fn keeping(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Takes rows out that are older than the settler's limits say, all of them. A dry run says what would go.
    ///
    /// # Errors
    /// As [`SettleError`] says: what has gone is gone, and a repeat goes on with the rest.
    pub async fn retain(&mut self, dry_run: bool) -> Result<Retained, SettleError> {
        self.retain_at(UtcMicros::now(), dry_run, usize::MAX).await
    }

    /// The settler's part of each pass: once a UTC day, some days at a time. A failure is for a later pass.
    pub(super) async fn retain_when_due(&mut self, now: UtcMicros) {
        if self.limits.is_none() || self.last_run.next.is_some_and(|next| now < next) {
            return;
        }
        self.last_run.next = match self.retain_at(now, false, DAYS_A_PASS).await {
            Ok(retained) => {
                if retained.rows() > 0 {
                    let (rows, files) = (retained.rows(), retained.files);
                    tracing::info!(rows, files, "rows older than their workspace keeps any are removed");
                }
                (retained.days_left == 0).then(|| midnight(now.day() + 1))
            }
            Err(SettleError::Stopped) => None,
            Err(error) => {
                tracing::error!(%error, "rows older than their workspace keeps any can't be removed now");
                Some(now.plus(TRY_AGAIN))
            }
        };
    }

    pub(crate) async fn retain_at(
        &mut self,
        now: UtcMicros,
        dry_run: bool,
        most_days: usize,
    ) -> Result<Retained, SettleError> {
        let Some(Limits { keeping, default }) = self.limits.clone() else { return Ok(Retained::default()) };
        let keeps = keeping.keeps().await?;
        let (now, final_through) = self.desk.horizon(now, self.config.settle).await?;
        let cuts = Cuts::new(now, final_through, default, &keeps);
        self.remember(&cuts);
        let mut run = Run { cuts, dry_run, gone: BTreeMap::new(), retained: Retained::default() };
        run.retained.final_before = midnight(final_through.day());
        if let Some(latest) = run.cuts.latest() {
            self.take_out_days(&mut run, latest, most_days).await?;
            self.take_out_elsewhere(&mut run).await?;
        }
        Ok(run.summary(&keeps, default))
    }

    /// Keeps of what is known of files what still holds by other cuts.
    fn remember(&mut self, cuts: &Cuts) {
        let LastRun { cuts: before, clean, .. } = &mut self.last_run;
        let still = |file: &&Arc<DataFile>| file.date.is_some_and(|day| cuts.agree_on(day, before));
        let live: HashSet<&str> =
            self.desk.clicks.files().iter().filter(still).map(|file| file.path.as_str()).collect();
        clean.retain(|path| live.contains(path.as_str()));
        *before = cuts.clone();
    }

    /// Rows of `clicks`, oldest day first.
    async fn take_out_days(&mut self, run: &mut Run, latest: i32, most: usize) -> Result<(), SettleError> {
        self.desk.clicks.refresh().await?;
        let days: BTreeSet<i32> = self.desk.clicks.files().iter().filter_map(|file| file.date).collect();
        let mut left = most;
        for day in days.into_iter().filter(|day| *day < latest) {
            if left == 0 {
                run.retained.days_left += 1;
                continue;
            }
            if self.stop.is_cancelled() {
                run.retained.days_left += 1;
            } else if self.take_out_day(run, day).await? {
                left -= 1;
            }
        }
        Ok(())
    }

    /// Rows of `clicks` of one day, in one commit. Returns whether there were any.
    async fn take_out_day(&mut self, run: &mut Run, day: i32) -> Result<bool, SettleError> {
        let (clicks, clean) = (&mut self.desk.clicks, &mut self.last_run.clean);
        let mut parts = Parts::default();
        let work = Expiring { cuts: &run.cuts, table: Table::Clicks, day: Some(day), clean };
        if run.dry_run {
            look(clicks, &work, &mut parts, &mut |_| {}).await?;
            return Ok(run.note(Table::Clicks, &parts));
        }
        let end = midnight(day + 1);
        for _ in 0..TRIES {
            let clicks = &mut self.desk.clicks;
            prepare(clicks, &work, &mut parts, (&mut |_| {}, &self.stop)).await?;
            if parts.changed().next().is_none() {
                self.last_run.clean.extend(parts.paths().map(str::to_owned));
                return Ok(false);
            }
            let told = self.desk.tell(&ledger(&parts)).await;
            or_give_back(told, &self.desk.clicks, &mut parts).await?;
            let clicks = &mut self.desk.clicks;
            let until = clicks.txn(RETAINED).unwrap_or(i64::MIN).max(end.0);
            if swap_in(clicks, &mut parts, &[(RETAINED.to_owned(), until)]).await? {
                run.note(Table::Clicks, &parts);
                return Ok(true);
            }
        }
        or_give_back(Err(SettleError::Busy { tries: TRIES }), &self.desk.clicks, &mut parts).await
    }

    /// Rows of the tables beside `clicks`; and what was said of earlier runs, which this one says too.
    async fn take_out_elsewhere(&mut self, run: &mut Run) -> Result<(), SettleError> {
        take_out_of(&mut self.arrivals, run).await?;
        for table in self.upkeep.by_time() {
            take_out_of(table, run).await?;
        }
        if let Some(restatements) = self.upkeep.restatements()
            && !run.dry_run
            && !run.gone.is_empty()
        {
            remake(restatements, &Superseded { by: &run.gone }).await?;
        }
        Ok(())
    }
}

/// A run under way.
struct Run {
    cuts: Cuts,
    dry_run: bool,
    /// By workspace, the last instant of the last day that has gone of `clicks`, and how many rows.
    gone: BTreeMap<String, (UtcMicros, u64)>,
    retained: Retained,
}

impl Run {
    /// Notes what goes of a table. Returns whether anything does.
    fn note(&mut self, table: Table, parts: &Parts<work::Rows>) -> bool {
        let changed = parts.changed().count();
        self.retained.files += changed;
        for ((workspace, day), rows) in parts.notes().flat_map(|note| &note.0) {
            *self.retained.removed.entry(table.as_str()).or_default() += rows;
            if table == Table::Clicks {
                let last = UtcMicros(midnight(day + 1).0 - 1);
                let gone = self.gone.entry(workspace.clone()).or_insert((last, 0));
                *gone = (gone.0.max(last), gone.1 + rows);
            }
        }
        changed > 0
    }

    fn summary(mut self, keeps: &[(String, Keep)], default: Option<u32>) -> Retained {
        let said: BTreeMap<&str, Keep> = keeps.iter().map(|(name, keep)| (name.as_str(), *keep)).collect();
        let all: BTreeSet<&str> = said.keys().copied().chain(self.gone.keys().map(String::as_str)).collect();
        let kept = all.into_iter().map(|workspace| {
            let keep = said.get(workspace).copied().unwrap_or_default();
            let of_default = || default.map_or(Keep::Forever, Keep::Days).to_string();
            let keep = if keep == Keep::Default { format!("default ({})", of_default()) } else { keep.to_string() };
            let (from, clicks) =
                (self.cuts.of(workspace).map(midnight), self.gone.get(workspace).map_or(0, |gone| gone.1));
            Kept { workspace: workspace.to_owned(), keep, from, clicks }
        });
        self.retained.workspaces = kept.collect();
        self.retained
    }
}

async fn take_out_of(table: &mut TableHandle, run: &mut Run) -> Result<(), SettleError> {
    let name = table.table();
    let work = Expiring { cuts: &run.cuts, table: name, day: None, clean: &HashSet::new() };
    let parts = if run.dry_run {
        let mut parts = Parts::default();
        look(table, &work, &mut parts, &mut |_| {}).await?;
        parts
    } else {
        remake(table, &work).await?
    };
    run.note(name, &parts);
    Ok(())
}

/// When a day (since the epoch) begins.
fn midnight(day: i32) -> UtcMicros {
    UtcMicros(i64::from(day) * DAY)
}

/// What is to be told before a day's rows go. Said in any case: whoever asks for that time must learn it.
fn ledger(parts: &Parts<work::Rows>) -> Ledger {
    let mut ledger = Ledger::new(Some(UtcMicros(i64::MAX)));
    for ((workspace, day), rows) in parts.notes().flat_map(|note| &note.0) {
        let (first, last) = (midnight(*day), UtcMicros(midnight(day + 1).0 - 1));
        let these = Several { first, last, rows: *rows, mark: first.0.unsigned_abs().wrapping_mul(*rows | 1) };
        ledger.touch_several(Touch::Removed, Why::Retention, workspace, None, these);
    }
    ledger
}

impl super::desk::Desk {
    /// By which clock rows are old, and up to where they are final; the former never later than what all nodes agree on.
    /// Where no source of logs says how far it is, what is older than logs may take counts as final.
    async fn horizon(&mut self, now: UtcMicros, settle: Duration) -> Result<(UtcMicros, UtcMicros), SettleError> {
        let complete = self.peek(now).await?.min(now);
        let final_through = self.final_through().await?;
        Ok((complete, final_through.unwrap_or(complete.minus(settle)).min(complete)))
    }
}
