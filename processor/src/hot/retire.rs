//! Giving a journal up, so that what it still holds no longer holds back everybody's numbers.

use ingest::ports::{JournalState, PortError, Registry};
use schemas::tables::Table;
use schemas::{JournalId, UtcMicros};

use super::slot;
use crate::lake::{Change, CommitError, Lake, LakeError, TableHandle};

/// How often a retirement that commits get in the way of is tried.
const ATTEMPTS: u32 = 50;

/// A journal could not be retired; trying again is safe.
#[derive(Debug, thiserror::Error)]
pub enum RetireError {
    /// The lake can't be read.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// The retirement did not land.
    #[error("journal {journal} is not retired: {source}")]
    Commit {
        /// Which journal.
        journal: JournalId,
        /// Why.
        #[source]
        source: CommitError,
    },
    /// The retirement has landed in the lake, and the registry doesn't know yet.
    #[error("journal {journal} is retired in the lake, but not in the registry: {source}")]
    Registry {
        /// Which journal.
        journal: JournalId,
        /// Why.
        #[source]
        source: PortError,
    },
}

/// The application transaction that says a journal was given up; its value is when, in microseconds.
pub(super) fn app_id(journal: JournalId) -> String {
    format!("retired/{journal}")
}

/// Whether `clicks` says that a journal was given up.
pub fn is_retired(clicks: &TableHandle, journal: JournalId) -> bool {
    clicks.txn(&app_id(journal)).is_some()
}

/// The first position of a journal, or of another partition of its name, that `clicks` lacks.
pub fn position(clicks: &TableHandle, journal: JournalId) -> u64 {
    slot::position(clicks.txn(&slot::app_id(&journal.to_string())))
}

/// The first offset of a partition of a topic that `clicks` lacks.
pub fn offset(clicks: &TableHandle, partition: &str) -> u64 {
    slot::position(clicks.txn(&slot::app_id(partition)))
}

/// Retires `journal`: from now on its events, should it return, are late. Recorded in `clicks` first, in a commit that
/// repeats every partition's position, so that a commit under way conflicts and is judged again; only then may
/// the registry leave the journal out of `complete_through`.
///
/// `left` is the first position that is left of it: what it held before that, and the lake lacks, is nowhere any more, so
/// that it is read on from there. 0 when nothing is known to be gone.
///
/// # Errors
/// As [`RetireError`] says.
pub async fn retire(lake: &Lake, registry: &dyn Registry, journal: JournalId, left: u64) -> Result<(), RetireError> {
    let mut clicks = lake.table(Table::Clicks).await?;
    let retired = app_id(journal);
    for attempt in 1.. {
        clicks.refresh().await?;
        if clicks.txn(&retired).is_some() {
            break;
        }
        let positions: Vec<(String, i64)> =
            clicks.txns_with_prefix("stream/").map(|(id, position)| (id.to_owned(), position)).collect();
        let expect = positions.iter().map(|(id, position)| (id.clone(), Some(*position))).collect();
        let mut txns = positions;
        let own = slot::app_id(&journal.to_string());
        if let Some((_, position)) = txns.iter_mut().find(|(id, _)| *id == own) {
            *position = (*position).max(left as i64);
        } else if left > 0 {
            txns.push((own, left as i64));
        }
        txns.push((retired.clone(), UtcMicros::now().0));
        match clicks.commit(Change { txns, expect, ..Change::default() }).await {
            Ok(_) => break,
            Err(CommitError::Moved { .. } | CommitError::Conflict { .. }) if attempt < ATTEMPTS => {
                tokio::task::yield_now().await;
            }
            Err(source) => return Err(RetireError::Commit { journal, source }),
        }
    }
    let stored = registry.set_state(journal, JournalState::Retired).await;
    stored.map_err(|source| RetireError::Registry { journal, source })
}
