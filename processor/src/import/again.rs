//! Imports to be decided anew, from their bytes: because another was taken back, or an operator's word is another.
//!
//! A line that was found to be counted left nothing behind but a number, so an import whose lines may count now is taken in
//! again from where it came. `edge_files` says so of it, and why, until that is done.

use std::collections::{HashMap, HashSet};

use schemas::UtcMicros;

use super::importer::{Importer, Tables};
use super::set_back::{UnderWay, land, set_back, txn_of};
use super::side::told_anew;
use super::stored::{Stored, refreshed, row_of, rows};
use super::summary::{State, Summary};
use crate::lake::{Change, TableHandle};
use crate::settle::SettleError;

impl Importer {
    /// Says of an import that was to be taken in again that it can't be, and why, unless somebody has done it since.
    ///
    /// # Errors
    /// When the lake fails.
    pub async fn give_up(&self, id: &str, why: &str) -> Result<(), SettleError> {
        let mut tables = self.shared.tables().await?;
        let given_up = give_up(&mut tables, id, why).await;
        self.shared.give_back(tables);
        given_up
    }
}

impl Stored {
    /// Whether it may have lines between two instants.
    pub(super) fn meets(&self, from: UtcMicros, to: UtcMicros) -> bool {
        let times = self.summary.first.zip(self.summary.last);
        times.is_some_and(|(first, last)| first <= to && last >= from)
    }
}

/// The import with what the lake holds of it.
pub(super) async fn as_of_now(tables: &Tables, import: &Stored) -> Result<Stored, SettleError> {
    let (clicks, arrivals) = (&tables.settler.desk.clicks, &tables.settler.arrivals);
    let mut now = refreshed(vec![import.clone()], &tables.side.edge_files, clicks, arrivals).await?;
    Ok(now.pop().unwrap_or_else(|| import.clone()))
}

/// Of the imports that are near, those that have lines counted by others; and those that are to be taken in again in any
/// case. With `only_queued` (all else was done before) those alone.
pub(super) async fn overlapping(
    tables: &mut Tables,
    only_queued: bool,
    is_near: impl Fn(&Stored) -> bool,
) -> Result<Vec<Stored>, SettleError> {
    let (edge_files, settler) = (&mut tables.side.edge_files, &mut tables.settler);
    edge_files.refresh().await?;
    settler.arrivals.refresh().await?;
    settler.desk.clicks.refresh().await?;
    let mut others = rows(edge_files).await?;
    others.retain(|other| !other.summary.is_going() && is_near(other));
    let mut others = refreshed(others, edge_files, &settler.desk.clicks, &settler.arrivals).await?;
    others.retain(|other| {
        let is_open = other.summary.state != State::Done;
        is_open || !only_queued && other.summary.already_counted > 0
    });
    others.sort_by_key(|other| other.imported_at);
    Ok(others)
}

/// Finds the imports that overlap once all is as it shall be, and sets them and those under way back; and the one named
/// `id`, if any. One that has ended between the two may be neither, and is found by a second look; one that ends later
/// began anew.
pub(super) async fn found_again(
    tables: &mut Tables,
    id: &str,
    only_queued: bool,
    is_near: impl Fn(&Stored) -> bool,
) -> Result<Vec<Stored>, SettleError> {
    let mut again = overlapping(tables, only_queued, &is_near).await?;
    let seen = tables.side.edge_files.version();
    set_back(tables, &names(id, &again), UnderWay::Too).await?;
    if tables.side.edge_files.version() > seen {
        let known: HashSet<String> = again.iter().map(|other| other.summary.id.clone()).collect();
        let mut late = overlapping(tables, only_queued, is_near).await?;
        late.retain(|other| !known.contains(&other.summary.id));
        set_back(tables, &names(id, &late), UnderWay::Not).await?;
        again.extend(late);
    }
    Ok(again)
}

/// The ids of imports that are decided anew; with one more, if it is any.
pub(super) fn names<'a>(id: &'a str, again: &'a [Stored]) -> HashSet<&'a str> {
    let ids = again.iter().map(|import| import.summary.id.as_str());
    ids.chain(Some(id).filter(|id| !id.is_empty())).collect()
}

/// Why an import is decided anew: for the one named, which was taken back, or for an hour of a provider's.
fn because(whose: &str) -> String {
    match whose.split_once(' ') {
        Some((provider, hour)) => format!("as misses of {provider} in the hour {hour} are recovered now"),
        None => format!("as import {whose} was taken back"),
    }
}

/// Says in `edge_files` what has become of an import, if of any, and what is to be taken in again, for `whose` sake.
pub(super) async fn mark(
    tables: &mut Tables,
    gone: Option<&Summary>,
    whose: &str,
    again: &[Stored],
) -> Result<(), SettleError> {
    let mut summaries: HashMap<String, Summary> =
        gone.map(|gone| (gone.id.clone(), gone.clone())).into_iter().collect();
    for other in again {
        let mut summary = other.summary.clone();
        let because = because(summary.again_for.get_or_insert_with(|| whose.to_owned()));
        summary.note = Some(format!("to be taken in again, {because}: lines of this one may count now"));
        summary.state = State::Queued;
        summaries.insert(summary.id.clone(), summary);
    }
    tell(&mut tables.side.edge_files, &summaries).await
}

/// The imports that are still to be taken in again for `whose` sake, also those that could not be.
pub(super) async fn marked(tables: &mut Tables, whose: &str) -> Result<Vec<Stored>, SettleError> {
    tables.side.edge_files.refresh().await?;
    let mut marked = rows(&tables.side.edge_files).await?;
    marked.retain(|import| {
        let is_open = matches!(import.summary.state, State::Queued | State::Running | State::Failed);
        is_open && import.summary.again_for.as_deref() == Some(whose)
    });
    Ok(marked)
}

/// Gives rows of `edge_files` these summaries; none of them is told of any more as taken in.
async fn tell(edge_files: &mut TableHandle, summaries: &HashMap<String, Summary>) -> Result<(), SettleError> {
    if summaries.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = summaries.keys().map(|id| txn_of(id)).collect();
    land(edge_files, async |table: &TableHandle| {
        let txns = told.iter().flat_map(|txn| table.txns_with_prefix(txn)).map(|(txn, _)| (txn.to_owned(), 0));
        let txns = txns.collect();
        Ok(Change { txns, ..told_anew(table, summaries).await? })
    })
    .await
}

async fn give_up(tables: &mut Tables, id: &str, why: &str) -> Result<(), SettleError> {
    let Some(import) = row_of(&tables.side.edge_files, id).await? else { return Ok(()) };
    let mut summary = as_of_now(tables, &import).await?.summary;
    if !matches!(summary.state, State::Queued | State::Running) {
        return Ok(());
    }
    summary.state = State::Failed;
    let because = summary.again_for.as_deref().map(|whose| format!(", {}", because(whose))).unwrap_or_default();
    summary.note = Some(format!(
        "should have been taken in again{because}, but {why}; deliver it again, else lines of it may be missing"
    ));
    tell(&mut tables.side.edge_files, &HashMap::from([(id.to_owned(), summary)])).await
}
