//! Publishes how far the lake is: to the registry of journals, which derives `complete_through`. A task of its own, so
//! that a slow link store never holds a commit back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ingest::ports::{JournalState, Landed, PortError, Registry};
use schemas::{JournalId, UtcMicros};
use tokio::sync::watch;
use tracing::{debug, warn};

/// How often `complete_through` is published when nothing lands: without journals it follows the clock.
const IDLE: Duration = Duration::from_secs(1);
/// How long the registry may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// How far the lake is, as the committer knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Of each journal, the last mark that has landed and the first frame that the lake lacks.
    pub(super) landed: BTreeMap<JournalId, Landed>,
    /// Sealed journals of which the lake holds all.
    pub(super) finished: BTreeSet<JournalId>,
}

/// Publishes until the committer is gone, and a last time then.
pub(super) async fn run(registry: Arc<dyn Registry>, mut progress: watch::Receiver<Progress>) {
    let mut closed: BTreeSet<JournalId> = BTreeSet::new();
    let mut is_last = false;
    loop {
        let now = progress.borrow_and_update().clone();
        if let Err(failure) = publish(registry.as_ref(), &now, &mut closed).await {
            warn!(%failure, "progress is not published; trying again");
        }
        if is_last {
            return;
        }
        tokio::select! {
            changed = progress.changed() => is_last = changed.is_err(),
            () = tokio::time::sleep(IDLE) => {}
        }
    }
}

/// Why progress wasn't published.
#[derive(Debug, thiserror::Error)]
enum Unpublished {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("the registry did not answer within {DEADLINE:?}")]
    Deadline,
}

async fn publish(
    registry: &dyn Registry,
    progress: &Progress,
    closed: &mut BTreeSet<JournalId>,
) -> Result<(), Unpublished> {
    let landed: Vec<Landed> = progress.landed.values().filter(|landed| !closed.contains(&landed.id)).copied().collect();
    let through = within(registry.publish(&landed, UtcMicros::now())).await?;
    debug!(%through, "published");
    for id in &progress.finished {
        if !closed.contains(id) {
            within(registry.set_state(*id, JournalState::Closed)).await?;
            closed.insert(*id);
        }
    }
    Ok(())
}

async fn within<T>(work: impl Future<Output = Result<T, PortError>>) -> Result<T, Unpublished> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Unpublished::Deadline),
    }
}
