//! Taking an import back: its rows go, and lines of others that were counted because of them count again.
//!
//! ```text
//! rows out of clicks, records out of arrivals ──► who overlaps? ──► their `file/…` = 0, as if never brought
//!      (restatement first)                                           edge_files: reverted; the others queued
//!                                                                      └──► each is taken in again from its source
//! ```
//! A line that was found to be counted left nothing behind but a number, so an import whose lines may have been counted
//! by the rows that went is decided anew from its bytes; what it has brought itself is a row, and isn't added twice.
//!
//! Failure: every step is found done, or does again what it did, so a repeat goes on wherever a killed one stopped. The
//! last step that others see is the row of `edge_files`; what is still to be taken in again is `queued` there.

use std::collections::{HashMap, HashSet};

use schemas::UtcMicros;

use super::importer::{Importer, Tables};
use super::land::contained;
use super::run::ID_DIGITS;
use super::side::{room_for, told_anew};
use super::stored::{Stored, refreshed, row_of, rows};
use super::summary::{State, Summary};
use crate::lake::{Change, CommitError, TableHandle};
use crate::settle::SettleError;
use crate::settle::desk::{TRIES, fenced};
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
        let reverted = revert(&mut tables, id, self.shared.config.max_skew).await;
        self.shared.give_back(tables);
        reverted
    }
}

async fn revert(tables: &mut Tables, id: &str, max_skew: std::time::Duration) -> Result<Reverted, RevertError> {
    let Some(import) = row_of(&tables.side.edge_files, id).await? else {
        let begun = !id.is_empty() && brought(tables).iter().any(|txn| txn.starts_with(&txn_of(id)));
        return Err(if begun { RevertError::Unfinished(id.to_owned()) } else { RevertError::Unknown(id.to_owned()) });
    };
    let was_reverted = import.summary.state == State::Reverted;
    let (removed, removed_waiting) = match import.times() {
        Some(times) => {
            let removed = tables.settler.take_out_rows(&Leaving::Import(id), times).await?;
            (removed, tables.settler.take_out_waiting(id).await?)
        }
        None => (0, 0),
    };
    tables.settler.close_empty_hours(&import.provider).await?;
    tables.side.edge_files.refresh().await?;
    let is_done = was_reverted && removed + removed_waiting == 0;
    let again = overlapping(tables, &import, max_skew, is_done).await?;
    set_back(tables, &import, &again).await?;
    // what is posted later in the day goes on under the same id
    let import = if import.is_posts() { import } else { Stored { summary: import.summary.reverted(), ..import } };
    mark(tables, &import, &again).await?;
    // one that somebody has brought again in between has been marked nevertheless: it is decided anew once more
    set_back(tables, &import, &again).await?;
    forget_rejects(&mut tables.side.rejects, &import).await?;
    Ok(Reverted { import, removed, removed_waiting, again })
}

/// The transactions of imports that the lake holds anything of.
fn brought(tables: &Tables) -> HashSet<String> {
    let handles = [&tables.settler.desk.clicks, &tables.settler.arrivals];
    let all = handles.into_iter().flat_map(|table| table.txns_with_prefix("file/"));
    all.filter(|(_, chunks)| *chunks > 0).map(|(txn, _)| txn.to_owned()).collect()
}

/// The beginning of the transaction of the import `id`, which is the beginning of its key.
fn txn_of(id: &str) -> String {
    format!("file/{id}")
}

/// The imports that may have lines counted because of rows that have gone: of the same provider, near in time, with
/// lines counted by others; and those that are still queued. With `only_queued` (all else was done before) those alone.
async fn overlapping(
    tables: &Tables,
    gone: &Stored,
    max_skew: std::time::Duration,
    only_queued: bool,
) -> Result<Vec<Stored>, RevertError> {
    let Some((from, to)) = gone.times() else { return Ok(Vec::new()) };
    let (from, to) = (from.minus(max_skew), to.plus(max_skew));
    let near = |summary: &Summary| {
        let times: Option<(UtcMicros, UtcMicros)> = summary.first.zip(summary.last);
        times.is_some_and(|(first, last)| first <= to && last >= from)
    };
    let mut others = rows(&tables.side.edge_files).await?;
    others.retain(|other| {
        let may = other.summary.id != gone.summary.id && other.summary.state != State::Reverted;
        may && other.provider == gone.provider && near(&other.summary)
    });
    let mut others = refreshed(others, &tables.settler.desk.clicks, &tables.settler.arrivals).await?;
    others.retain(|other| {
        let queued = other.summary.state == State::Queued;
        queued || !only_queued && other.summary.already_counted > 0
    });
    others.sort_by_key(|other| other.imported_at);
    Ok(others)
}

/// Sets the transactions of these imports back, and those of imports that are under way or were never ended, as nobody
/// knows what they are of: their lines are decided anew then.
async fn set_back(tables: &mut Tables, gone: &Stored, again: &[Stored]) -> Result<(), RevertError> {
    tables.settler.desk.clicks.refresh().await.map_err(SettleError::from)?;
    tables.settler.arrivals.refresh().await.map_err(SettleError::from)?;
    tables.side.edge_files.refresh().await.map_err(SettleError::from)?;
    let ended: HashSet<String> =
        rows(&tables.side.edge_files).await?.into_iter().map(|import| import.summary.id).collect();
    let anew: HashSet<&str> = again.iter().chain([gone]).map(|import| import.summary.id.as_str()).collect();
    let mut back: Vec<String> = brought(tables).into_iter().collect();
    back.retain(|txn| {
        let id = txn.trim_start_matches("file/").get(..ID_DIGITS).unwrap_or_default();
        anew.contains(id) || !ended.contains(id)
    });
    back.retain(|txn| contained(&tables.settler, txn) > 0);
    let change = || Change { txns: back.iter().map(|txn| (txn.clone(), 0)).collect(), ..Change::default() };
    if !back.is_empty() {
        for table in [&mut tables.settler.desk.clicks, &mut tables.settler.arrivals] {
            land(table, async |_: &TableHandle| Ok(change())).await?;
        }
    }
    Ok(())
}

/// Says in `edge_files` what has become of the import, and what is to be taken in again.
async fn mark(tables: &mut Tables, gone: &Stored, again: &[Stored]) -> Result<(), RevertError> {
    let mut summaries = HashMap::from([(gone.summary.id.clone(), gone.summary.clone())]);
    for other in again {
        let mut summary = other.summary.clone();
        summary.state = State::Queued;
        summary.note = Some(format!(
            "to be taken in again, as import {} was taken back: lines of this one may count now",
            gone.summary.id
        ));
        summaries.insert(summary.id.clone(), summary);
    }
    let edge_files = &mut tables.side.edge_files;
    let txns: Vec<(String, i64)> = edge_files
        .txns_with_prefix("file/")
        .filter(|(txn, _)| {
            txn.trim_start_matches("file/").get(..ID_DIGITS).is_some_and(|id| summaries.contains_key(id))
        })
        .map(|(txn, _)| (txn.to_owned(), 0))
        .collect();
    land(edge_files, async |table: &TableHandle| {
        Ok(Change { txns: txns.clone(), ..told_anew(table, &summaries).await? })
    })
    .await
}

/// Lines that the import rejected go with it.
async fn forget_rejects(rejects: &mut TableHandle, gone: &Stored) -> Result<(), RevertError> {
    let id = gone.summary.id.as_str();
    let txns: Vec<(String, i64)> = rejects.txns_with_prefix(&txn_of(id)).map(|(txn, _)| (txn.to_owned(), 0)).collect();
    land(rejects, async |table: &TableHandle| {
        Ok(Change { txns: txns.clone(), ..room_for(table, "import_id", id).await? })
    })
    .await
}

/// Lands a change that is made anew whenever somebody else was faster.
async fn land(
    table: &mut TableHandle,
    change: impl AsyncFn(&TableHandle) -> Result<Change, SettleError>,
) -> Result<(), RevertError> {
    for _ in 0..TRIES {
        table.refresh().await?;
        let change = fenced(table, change(table).await?);
        match table.commit(change).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Failed(source)) => return Err(source.into()),
            Err(_) => {}
        }
    }
    Err(SettleError::Busy { tries: TRIES }.into())
}
