//! The upkeep of this node's journals while it runs: trimmed behind what the lake holds, replaced when others have given
//! them up, watched for a clock that goes back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ingest::journal::{Journals, WorkerJournal};
use ingest::ports::{JournalState, RegisteredJournal, Registry as _};
use redirect::links::LinkStore;
use schemas::{JournalId, UtcMicros};
use tokio_util::sync::CancellationToken;

use super::journals::{NodeJournals, open_new};
use super::own::OwnJournals;

/// How often journals are looked after.
const EVERY: Duration = Duration::from_secs(2);

/// What the lake holds of each journal: its first position that isn't there, as last heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committed(Arc<Mutex<HashMap<JournalId, u64>>>);

impl Committed {
    /// Of one journal; 0 when nothing was heard of it.
    pub(crate) fn of(&self, id: JournalId) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied().unwrap_or_default()
    }

    fn hear(&self, id: JournalId, committed: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, committed);
    }
}

/// Whether the newest event is so far ahead of the clock that records of one click may not meet any more; and by how
/// much. Pure.
fn ahead(newest: UtcMicros, now: UtcMicros, max_skew: Duration) -> Option<Duration> {
    let ahead = newest.since(now);
    (ahead > max_skew).then_some(ahead)
}

/// Looks after a node's journals.
#[derive(Debug)]
pub(crate) struct Tending {
    journals: Arc<Journals>,
    workers: Vec<WorkerJournal>,
    own: OwnJournals,
    store: LinkStore,
    heard: Committed,
    max_skew: Duration,
    /// Set while the clock is behind: that is logged once.
    is_behind: bool,
}

impl Tending {
    /// Of the journals of `node`; what is heard of the lake goes into `heard`.
    pub(crate) fn new(node: NodeJournals, store: LinkStore, heard: Committed, max_skew: Duration) -> Self {
        let NodeJournals { journals, workers, own } = node;
        Self { journals, workers, own, store, heard, max_skew, is_behind: false }
    }

    /// Until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.watch_clock(UtcMicros::now());
            match self.store.journals().await {
                Ok(registered) => {
                    self.replace(&registered).await;
                    self.trim(&registered).await;
                }
                Err(error) => tracing::warn!(%error, "journals can't be trimmed now"),
            }
        }
    }

    /// Event times never go back within a journal: with a clock that did they stand still, at a time to come.
    fn watch_clock(&mut self, now: UtcMicros) {
        let newest = self.workers.iter().map(|worker| worker.journal().stats().last_event_time).max();
        let ahead = newest.and_then(|newest| ahead(newest, now, self.max_skew));
        if let (Some(by), false) = (ahead, self.is_behind) {
            tracing::warn!(
                ?by,
                "the journals' newest event is ahead of the clock: clicks are counted at its time until the clock has \
                 caught up; set the clock right if it is wrong"
            );
        }
        self.is_behind = ahead.is_some();
    }

    /// A worker whose journal was given up, as while this process was suspended, goes on in a new one; the old one is
    /// drained. What it took since is late, and counted once like all that is late.
    async fn replace(&self, registered: &[RegisteredJournal]) {
        for worker in &self.workers {
            let id = worker.journal().id();
            let is_retired = |known: &RegisteredJournal| known.id == id && known.state == JournalState::Retired;
            if !registered.iter().any(is_retired) {
                continue;
            }
            let next = match open_new(&self.journals, &self.store).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(journal = %id, error = format!("{error:#}"), "given up by others, and no new one can be made yet");
                    continue;
                }
            };
            // known to all that look after journals before the first event is in it
            self.own.add(next.clone());
            let old = worker.succeed(next.clone());
            tracing::error!(journal = %id, next = %next.id(), "given up while this process was silent: what it took since is late, and clicks go on in a new one");
            match tokio::task::spawn_blocking(move || old.seal()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(journal = %id, %error, "can't be sealed; the next start drains it"),
                Err(error) => tracing::error!(journal = %id, %error, "sealing ended early"),
            }
        }
    }

    /// Deletes segments whose frames the lake holds.
    async fn trim(&self, registered: &[RegisteredJournal]) {
        for journal in self.own.all() {
            let Some(known) = registered.iter().find(|known| known.id == journal.id()) else { continue };
            let committed = known.committed;
            self.heard.hear(known.id, committed);
            // deleting files blocks
            if let Err(error) = tokio::task::spawn_blocking(move || journal.trim(committed)).await {
                tracing::error!(%error, "trimming ended early");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::journal::{Appended, JournalConfig};
    use redirect::links::Domains;
    use schemas::Analytics;

    #[test]
    fn a_clock_may_be_behind_by_the_skew_and_no_more() {
        let (now, skew) = (UtcMicros(100_000_000), Duration::from_secs(10));
        assert_eq!(ahead(UtcMicros(50_000_000), now, skew), None);
        assert_eq!(ahead(UtcMicros(110_000_000), now, skew), None);
        assert_eq!(ahead(UtcMicros(110_000_001), now, skew), Some(Duration::from_micros(10_000_001)));
    }

    #[tokio::test]
    async fn a_worker_whose_journal_was_given_up_goes_on_in_a_registered_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let store = LinkStore::open(path.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
        let config = JournalConfig { max_bytes: 1 << 20, reserve: 0, ..JournalConfig::default() };
        let journals = Arc::new(Journals::open(&folder.path().join("journals"), config).unwrap());
        let (kept, given_up) = (open_new(&journals, &store).await.unwrap(), open_new(&journals, &store).await.unwrap());
        let own = OwnJournals::default();
        let workers: Vec<WorkerJournal> = [&kept, &given_up].map(|journal| WorkerJournal::new(journal.clone())).into();
        own.add(kept.clone());
        own.add(given_up.clone());
        let node = NodeJournals { journals, workers: workers.clone(), own: own.clone() };
        let tending = Tending::new(node, store.clone(), Committed::default(), Duration::from_secs(600));
        store.set_state(given_up.id(), JournalState::Retired).await.unwrap();
        for _ in 0..2 {
            tending.replace(&store.journals().await.unwrap()).await;
        }
        assert_eq!(workers[0].journal().id(), kept.id());
        let next = workers[1].journal();
        assert!(given_up.is_sealed() && !next.is_sealed());
        let known = store.journals().await.unwrap().into_iter().find(|known| known.id == next.id()).unwrap();
        assert_eq!((known.state, own.all().len()), (JournalState::Open, 3));
        let appended = workers[1].append(Analytics::Billed, |_, out| out.push(1));
        assert!(matches!(appended, Appended::Written { .. }) && next.stats().end == 1);
    }
}
