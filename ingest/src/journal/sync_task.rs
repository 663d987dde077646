//! The task that syncs a node's journals on an interval.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::handle::Journal;

/// Group sync: one round per interval, for those journals that have something to sync or to mark.
#[derive(Debug)]
pub struct SyncTask {
    journals: watch::Receiver<Vec<Journal>>,
    budget: Arc<Budget>,
    every: Duration,
}

impl SyncTask {
    pub(crate) fn new(journals: watch::Receiver<Vec<Journal>>, budget: Arc<Budget>, every: Duration) -> Self {
        Self { journals, budget, every: every.max(Duration::from_millis(1)) }
    }

    /// Runs until cancelled, then syncs once more. A failed sync is logged and counted by its journal.
    pub async fn run(self, cancel: CancellationToken) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while cancel.run_until_cancelled(ticks.tick()).await.is_some() {
            self.round().await;
        }
        self.round().await;
    }

    async fn round(&self) {
        let now = Instant::now();
        let budget = Arc::clone(&self.budget);
        let mut rounds = vec![tokio::task::spawn_blocking(move || budget.tend(now))];
        let journals = self.journals.borrow().clone();
        let company = journals.iter().any(Journal::has_fresh_clicks);
        for journal in journals.iter().filter(|journal| journal.is_due(now, company)) {
            let journal = journal.clone();
            rounds.push(tokio::task::spawn_blocking(move || {
                // The journal has logged and counted its error.
                let _ = journal.round_beside(now, company);
            }));
        }
        for journal in journals.iter().filter(|journal| journal.losses_due(now)) {
            let journal = journal.clone();
            rounds.push(tokio::task::spawn_blocking(move || journal.sync_losses(now)));
        }
        for ended in join_all(rounds).await {
            if let Err(error) = ended {
                tracing::error!(%error, "a sync round ended early");
            }
        }
    }
}
