//! Transactions of imports set back: what is brought again afterwards is decided anew, from its first line.

use std::collections::HashSet;

use super::importer::Tables;
use super::land::contained;
use super::run::ID_DIGITS;
use super::stored::rows;
use crate::lake::{Change, CommitError, TableHandle};
use crate::settle::desk::{TRIES, fenced};
use crate::settle::sampled::sampled_txn;
use crate::settle::{SettleError, Settler};

/// Whether imports that are under way are set back too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnderWay {
    /// They are: nobody knows what they are of, and which rows their lines were counted by.
    Too,
    /// They aren't: all rows are there still.
    Not,
}

/// The transactions of imports that the lake holds anything of.
pub(super) fn brought(settler: &Settler) -> HashSet<String> {
    let handles = [&settler.desk.clicks, &settler.arrivals];
    let all = handles.into_iter().flat_map(|table| table.txns_with_prefix("file/"));
    all.filter(|(_, chunks)| *chunks > 0).map(|(txn, _)| txn.to_owned()).collect()
}

/// The beginning of the transaction of the import `id`, which is the beginning of its key.
pub(super) fn txn_of(id: &str) -> String {
    format!("file/{id}")
}

/// The import that a transaction is of.
fn id_of(txn: &str) -> &str {
    txn.trim_start_matches("file/").get(..ID_DIGITS).unwrap_or_default()
}

/// Sets the transactions of the imports `anew` back, and those of imports that are under way or were never ended.
pub(super) async fn set_back(
    tables: &mut Tables,
    anew: &HashSet<&str>,
    under_way: UnderWay,
) -> Result<(), SettleError> {
    let (settler, edge_files) = (&mut tables.settler, &mut tables.side.edge_files);
    settler.desk.clicks.refresh().await?;
    settler.arrivals.refresh().await?;
    edge_files.refresh().await?;
    let ended: HashSet<String> = rows(edge_files).await?.into_iter().map(|import| import.summary.id).collect();
    let mut back = brought(settler);
    back.retain(|txn| {
        // told of with its last chunk alone; one that was set back and is brought again has its row from before
        let is_over = ended.contains(id_of(txn)) && edge_files.txn(txn).unwrap_or(0) == contained(settler, txn);
        anew.contains(id_of(txn)) || under_way == UnderWay::Too && !is_over
    });
    // a last chunk that was told of and lands right now was decided before: it expects its transaction to be as it was
    let lands = |(txn, chunks): &(&str, i64)| anew.contains(id_of(txn)) && *chunks > contained(settler, txn);
    back.extend(edge_files.txns_with_prefix("file/").filter(lands).map(|(txn, _)| txn.to_owned()));
    let sampled = back.iter().map(|txn| sampled_txn(id_of(txn)));
    let txns: Vec<(String, i64)> = back.iter().cloned().chain(sampled).map(|txn| (txn, 0)).collect();
    let change = || Change { txns: txns.clone(), ..Change::default() };
    if !back.is_empty() {
        for table in [&mut settler.desk.clicks, &mut settler.arrivals] {
            land(table, async |_: &TableHandle| Ok(change())).await?;
        }
    }
    Ok(())
}

/// Lands a change that is made anew whenever somebody else was faster.
pub(super) async fn land(
    table: &mut TableHandle,
    change: impl AsyncFn(&TableHandle) -> Result<Change, SettleError>,
) -> Result<(), SettleError> {
    for _ in 0..TRIES {
        table.refresh().await?;
        let change = fenced(table, change(table).await?);
        match table.commit(change).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Failed(source)) => return Err(source.into()),
            Err(_) => {}
        }
    }
    Err(SettleError::Busy { tries: TRIES })
}
