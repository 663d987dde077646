//! The upkeep of this node's journals while it runs: trimmed behind what the lake holds, replaced when others have given
//! them up, or when their times are ahead because the clock went back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ingest::journal::{Journals, WorkerJournal};
use ingest::ports::{JournalState, RegisteredJournal, Registry as _};
use redirect::links::LinkStore;
use schemas::{JournalId, UtcMicros};
use tokio_util::sync::CancellationToken;

use super::clock;
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

/// Whether a journal's next event would get a time that is so far ahead of the clock. Pure.
fn is_ahead(newest: UtcMicros, now: UtcMicros, skew: Duration) -> bool {
    newest.since(now) > skew
}

/// Looks after a node's journals.
#[derive(Debug)]
pub(crate) struct Tending {
    journals: Arc<Journals>,
    workers: Vec<WorkerJournal>,
    own: OwnJournals,
    store: LinkStore,
    heard: Committed,
    /// `edge.skew`
    skew: Duration,
}

impl Tending {
    /// Of the journals of `node`; what is heard of the lake goes into `heard`.
    pub(crate) fn new(node: NodeJournals, store: LinkStore, heard: Committed, skew: Duration) -> Self {
        let NodeJournals { journals, workers, own } = node;
        Self { journals, workers, own, store, heard, skew }
    }

    /// Until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            // first, or what comes while this is paused would look ahead
            let newest = self.newest();
            if let Err(error) = self.leave_ahead(&newest, UtcMicros::now()).await {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "journals whose times are ahead of the clock are gone on with"
                );
            }
            match self.store.journals().await {
                Ok(registered) => {
                    self.replace(&registered).await;
                    self.trim(&registered).await;
                }
                Err(error) => tracing::warn!(%error, "journals can't be trimmed now"),
            }
        }
    }

    /// The times that the workers' journals have come to.
    fn newest(&self) -> Vec<UtcMicros> {
        self.workers.iter().map(|worker| worker.journal().stats().last_event_time).collect()
    }

    /// Event times never go back within a journal: after a clock that was ahead they would stand still, at a time to come.
    /// So clicks go on in a new one, once the clock is right; unless what was published binds that to the same times.
    async fn leave_ahead(&self, newest: &[UtcMicros], now: UtcMicros) -> anyhow::Result<()> {
        let is_ahead = |at: UtcMicros| is_ahead(at, now, self.skew);
        let ahead: Vec<_> = self.workers.iter().zip(newest).filter(|(_, newest)| is_ahead(**newest)).collect();
        if ahead.is_empty() {
            return Ok(());
        }
        let (clock, off) = clock::compare(&self.store, self.skew).await?;
        if off.is_some() || clock.floor.is_some_and(is_ahead) {
            return Ok(());
        }
        for (worker, newest) in ahead {
            let journal = worker.journal().id();
            let next = self.succeed(worker).await?;
            tracing::error!(%journal, %newest, %next, "its newest event is ahead of the clock: clicks go on in a new one");
        }
        Ok(())
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
            match self.succeed(worker).await {
                Ok(next) => {
                    tracing::error!(journal = %id, %next, "given up while this process was silent: what it took since is late, and clicks go on in a new one");
                }
                Err(error) => {
                    tracing::error!(journal = %id, error = format!("{error:#}"), "given up by others, and no new one can be made yet");
                }
            }
        }
    }

    /// Gives a worker a new journal, and ends the one that it had. Returns the new one.
    async fn succeed(&self, worker: &WorkerJournal) -> anyhow::Result<JournalId> {
        let next = open_new(&self.journals, &self.store, self.skew).await?;
        // known to all that look after journals before the first event is in it
        self.own.add(next.clone());
        let old = worker.succeed(next.clone());
        let journal = old.id();
        match tokio::task::spawn_blocking(move || old.seal()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%journal, %error, "can't be sealed; the next start drains it"),
            Err(error) => tracing::error!(%journal, %error, "sealing ended early"),
        }
        Ok(next.id())
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

    const SKEW: Duration = Duration::from_secs(10);

    #[test]
    fn times_may_be_ahead_by_the_skew_and_no_more() {
        let now = UtcMicros(100_000_000);
        assert!(!is_ahead(UtcMicros(50_000_000), now, SKEW) && !is_ahead(UtcMicros(110_000_000), now, SKEW));
        assert!(is_ahead(UtcMicros(110_000_001), now, SKEW));
    }

    #[tokio::test]
    async fn a_worker_whose_journal_was_given_up_goes_on_in_a_registered_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let store = LinkStore::open(path.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
        let config = JournalConfig { max_bytes: 1 << 20, reserve: 0, ..JournalConfig::default() };
        let journals = Arc::new(Journals::open(&folder.path().join("journals"), config).unwrap());
        let open = async || open_new(&journals, &store, SKEW).await.unwrap();
        let (kept, given_up) = (open().await, open().await);
        let own = OwnJournals::default();
        let workers: Vec<WorkerJournal> = [&kept, &given_up].map(|journal| WorkerJournal::new(journal.clone())).into();
        own.add(kept.clone());
        own.add(given_up.clone());
        let node = NodeJournals { journals: Arc::clone(&journals), workers: workers.clone(), own: own.clone() };
        let tending = Tending::new(node, store.clone(), Committed::default(), SKEW);
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

    #[tokio::test]
    async fn a_journal_whose_times_are_ahead_is_left_for_one_with_the_right_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let store = LinkStore::open(path.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
        let journals = Arc::new(Journals::open(&folder.path().join("journals"), JournalConfig::default()).unwrap());
        let right = open_new(&journals, &store, SKEW).await.unwrap();
        // as a clock that was three hours ahead has left it
        let hours = UtcMicros::now().plus(Duration::from_secs(3 * 3_600));
        let id = JournalId::new();
        store.register(id, "n", UtcMicros::now()).await.unwrap();
        let wrong = journals.open_journal(id, hours, 0).unwrap();
        let own = OwnJournals::default();
        let workers: Vec<WorkerJournal> = [&right, &wrong].map(|journal| WorkerJournal::new(journal.clone())).into();
        let node = NodeJournals { journals, workers: workers.clone(), own };
        let tending = Tending::new(node, store.clone(), Committed::default(), SKEW);
        for _ in 0..2 {
            tending.leave_ahead(&tending.newest(), UtcMicros::now()).await.unwrap();
        }
        let next = workers[1].journal();
        assert!(wrong.is_sealed() && workers[0].journal().id() == right.id() && next.id() != id);
        assert!(!is_ahead(next.stats().last_event_time, UtcMicros::now(), SKEW));
        // what was published binds everybody: another journal would be no better
        let late = workers[1].journal();
        store.complete_through(UtcMicros::now()).await.unwrap();
        let hour_ago = UtcMicros::now().minus(Duration::from_secs(3_600));
        tending.leave_ahead(&tending.newest(), hour_ago).await.unwrap();
        assert_eq!(workers[1].journal().id(), late.id());
    }
}
