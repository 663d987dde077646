//! Taking an import back: its rows go, and lines of others that were counted because of them count again.
//!
//! ```text
//! who overlaps? ──► `file/…` of it and them = 0 ──► edge_files: it is reverting, they are queued    (named, all rows there)
//!   ──► rows out of clicks (restatement first), records out of arrivals; what events have told is withdrawn
//!   ──► who overlaps now? ──► `file/…` = 0 ──► edge_files: it is reverted, they are queued
//!                                                └──► each is taken in again from its source
//! ```
//! A line that was found to be counted left nothing behind but a number, so an import whose lines may have been counted
//! by the rows that went is decided anew from its bytes; what it has brought itself is a row, and isn't added twice.
//! What a line has told of another's row stays there: nobody remembers what that said before.
//!
//! Failure: before the first row leaves, `edge_files` says what is under way and what is to be taken in again, and no
//! transaction says any more that it is there. So killed anywhere a repeat goes on, by whoever finds the import
//! `reverting`; so does bringing the file again, which ends the revert. An import that comes in while rows leave may
//! count lines by them still: it is found afterwards, ended or under way.

use std::collections::HashSet;
use std::time::Duration;

use schemas::UtcMicros;

use super::again::{as_of_now, found_again, mark, names, overlapping};
use super::importer::{Importer, Tables};
use super::options::ImportConfig;
use super::recount::held_of;
use super::set_back::{UnderWay, brought, land, set_back, txn_of};
use super::side::room_for;
use super::stored::{Stored, row_of};
use super::summary::{State, Summary};
use crate::lake::{Change, TableHandle};
use crate::settle::SettleError;
use crate::settle::elsewhere::reach;
use crate::settle::take_out::Leaving;

/// Why an import was not taken back.
#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    /// There is no such import.
    #[error("there is no import {0}; `edge-logs list` names them")]
    Unknown(String),
    /// The import was begun and not ended, so nobody knows yet what it is of.
    #[error("import {0} was begun and not ended; import its file again first, then take it back")]
    Unfinished(String),
    /// The lake or the link store failed; a repeat goes on.
    #[error(transparent)]
    Settle(#[from] SettleError),
}

impl From<crate::lake::LakeError> for RevertError {
    fn from(error: crate::lake::LakeError) -> Self {
        Self::Settle(error.into())
    }
}

/// What a revert has done.
#[derive(Clone, Debug)]
pub struct Reverted {
    /// The import as it stands now.
    pub import: Stored,
    /// Rows that have left `clicks`.
    pub removed: u64,
    /// Records that have left `arrivals`.
    pub removed_waiting: u64,
    /// Whether it had been taken back before, and nothing of it was left.
    pub was_gone: bool,
    /// Lines of it that were rows of others: what they have told of those stays.
    pub counted_elsewhere: u64,
    /// Imports to be taken in again: until then, lines of theirs may be missing from the counts.
    pub again: Vec<Stored>,
}

impl Importer {
    /// Takes the import `id` back. What is to be taken in again is up to the caller, by [`Importer::import`] with the
    /// options that each was told.
    ///
    /// # Errors
    /// As [`RevertError`] says.
    pub async fn revert(&self, id: &str) -> Result<Reverted, RevertError> {
        let mut tables = self.shared.tables().await?;
        let reverted = revert(&mut tables, id, &Reach::of(&self.shared.config)).await;
        self.shared.give_back(tables);
        reverted
    }
}

/// How far from an import others may have been decided by it.
struct Reach {
    /// By ids.
    max_skew: Duration,
    /// By what events tell.
    told: Duration,
}

impl Reach {
    fn of(config: &ImportConfig) -> Self {
        Self { max_skew: config.max_skew, told: reach(config.settle) }
    }
}

async fn revert(tables: &mut Tables, id: &str, reach: &Reach) -> Result<Reverted, RevertError> {
    let Some(import) = row_of(&tables.side.edge_files, id).await? else {
        let begun = !id.is_empty() && brought(&tables.settler).iter().any(|txn| txn.starts_with(&txn_of(id)));
        return Err(if begun { RevertError::Unfinished(id.to_owned()) } else { RevertError::Unknown(id.to_owned()) });
    };
    let was_reverted = import.summary.state == State::Reverted;
    // of one that was broken off the lake tells no longer what it held
    let was_begun = import.summary.state == State::Reverting;
    let before = if was_begun { import.summary.clone() } else { as_of_now(tables, &import).await?.summary };
    if !was_reverted || holds_rows(tables, &import).await? {
        announce(tables, &import, before.clone(), reach).await?;
    }
    let (removed, removed_waiting) = match import.times() {
        Some(times) => {
            let removed = tables.settler.take_out_rows(&Leaving::Import(id), times).await?;
            (removed, tables.settler.take_out_waiting(id).await?)
        }
        None => (0, 0),
    };
    if let Some(times) = import.times().filter(|_| import.is_of_events()) {
        tables.settler.withdraw(&import.provider, times).await?;
    }
    tables.settler.close_empty_hours(&import.provider).await?;
    let was_gone = was_reverted && removed + removed_waiting == 0;
    forget_rejects(&mut tables.side.rejects, &import).await?;
    let again = found_again(tables, id, was_gone, |other| is_near(other, &import, reach)).await?;
    let summary = if was_gone { import.summary.clone() } else { taken_back(&import, &before, UtcMicros::now()) };
    let import = Stored { summary, ..import };
    mark(tables, Some(&import.summary), id, &again).await?;
    // one that somebody has brought again in between has been marked nevertheless: it is decided anew once more
    set_back(tables, &names(id, &again), UnderWay::Too).await?;
    let counted_elsewhere = if was_gone { 0 } else { before.already_counted };
    Ok(Reverted { import, removed, removed_waiting, was_gone, counted_elsewhere, again })
}

/// Whether the lake holds rows of the import, whatever is said of it: somebody may have begun to bring it again.
async fn holds_rows(tables: &Tables, import: &Stored) -> Result<bool, RevertError> {
    let Some((from, to)) = import.times() else { return Ok(false) };
    let near = |min: Option<UtcMicros>, max: Option<UtcMicros>| {
        min.is_none_or(|min| min <= to) && max.is_none_or(|max| max >= from)
    };
    let ids = HashSet::from([import.summary.id.as_str()]);
    let held = held_of(&tables.settler.desk.clicks, &tables.settler.arrivals, &ids, near).await?;
    Ok(!held.is_empty())
}

/// Names what is about to be done, before the first row leaves.
async fn announce(
    tables: &mut Tables,
    import: &Stored,
    mut summary: Summary,
    reach: &Reach,
) -> Result<(), RevertError> {
    let again = overlapping(tables, false, |other| is_near(other, import, reach)).await?;
    summary.state = State::Reverting;
    summary.note = Some(format!("is being taken back; `highwater edge-logs revert {}` goes on with it", summary.id));
    set_back(tables, &names(&summary.id, &again), UnderWay::Not).await?;
    mark(tables, Some(&summary), &summary.id, &again).await?;
    set_back(tables, &names(&summary.id, &again), UnderWay::Not).await?;
    Ok(())
}

/// The import once it is taken back. What posts came to the lake alone knew before; what is posted later in the day goes on
/// under the same id.
fn taken_back(import: &Stored, before: &Summary, now: UtcMicros) -> Summary {
    let was = if import.is_posts() { before.clone() } else { import.summary.clone() };
    Summary { note: Some(format!("taken back at {now}")), ..was.reverted() }
}

/// Whether lines of another import may be counted because of rows that go: those of the same provider, near in time, or
/// taken by what events tell.
fn is_near(other: &Stored, gone: &Stored, reach: &Reach) -> bool {
    let Some((from, to)) = gone.times() else { return false };
    let by_told = gone.is_of_events() && other.summary.noted.by_status > 0;
    let far = if by_told { reach.told } else { reach.max_skew };
    let is_other = other.summary.id != gone.summary.id && other.provider == gone.provider;
    is_other && other.meets(from.minus(far), to.plus(far))
}

/// Lines that the import rejected go with it.
async fn forget_rejects(rejects: &mut TableHandle, gone: &Stored) -> Result<(), RevertError> {
    let id = gone.summary.id.as_str();
    let txns: Vec<(String, i64)> = rejects.txns_with_prefix(&txn_of(id)).map(|(txn, _)| (txn.to_owned(), 0)).collect();
    land(rejects, async |table: &TableHandle| {
        Ok(Change { txns: txns.clone(), ..room_for(table, "import_id", id).await? })
    })
    .await?;
    Ok(())
}
