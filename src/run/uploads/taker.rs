//! Takes queued edge logs in, one after the other: uploads, and what was found below watched prefixes.
//!
//! ```text
//! queue ──claim──► bytes (staging, file, object store) ──► Importer ──► queue: done with its summary
//!           │ heartbeat while it lasts                        ├─ refused ──► failed, with the reason
//!           └─ stop: back into the queue                      └─ the lake or a store is down ──► later
//! ```
//! Killed anywhere, the next process of this folder takes up again what was under way; another process waits until the
//! lease has run out. A log that two take in at once comes into the lake once: its chunks carry a transaction.

use std::path::PathBuf;
use std::time::Duration;

use ingest::queue::{QueuedLog, Way};
use processor::import::{Importer, Input, Summary};
use redirect::links::LinkStore;
use schemas::UtcMicros;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::UPLOAD;
use super::fault::{Fault, Next};
use super::staging::Staging;
use super::store::options;
use crate::logs;

/// How often the queue is looked at while there was nothing in it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// For so long a log is its owner's without a word, and how often it gives one.
const LEASE: Duration = Duration::from_secs(20);
const HEARTBEAT: Duration = Duration::from_secs(5);
/// What takes logs of one way in.
#[derive(Clone, Debug)]
pub(crate) struct Taker {
    /// The queue.
    pub(crate) queue: LinkStore,
    /// Where uploads are.
    pub(crate) staging: Staging,
    /// What brings them into the lake.
    pub(crate) importer: Importer,
    /// Where fetched bytes are kept meanwhile.
    pub(crate) spool_dir: PathBuf,
    /// Who this is: the same for every process of a folder, of which there is one at a time.
    pub(crate) owner: String,
    /// Which logs.
    pub(crate) way: Way,
}

impl Taker {
    /// Takes logs in until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        if let Err(error) = self.queue.release_logs(&self.owner).await {
            tracing::warn!(%error, "what was under way is taken up again when its lease has run out");
        }
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            loop {
                match self.queue.claim_log(self.way, &self.owner, UtcMicros::now(), LEASE).await {
                    Ok(Some(log)) => self.attend(&log, &stop).await,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "the queue of edge logs can't be read now");
                        break;
                    }
                }
                if stop.is_cancelled() {
                    return;
                }
            }
        }
    }

    /// One log, and word of it to the queue while it lasts and when it ends.
    async fn attend(&self, log: &QueuedLog, stop: &CancellationToken) {
        let result = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = self.hold(log) => return,
            result = self.take_in(log) => Some(result),
        };
        let (id, owner, now) = (log.id.as_str(), self.owner.as_str(), UtcMicros::now());
        let told = match result {
            None => self.queue.postpone_log(id, owner, now, None).await,
            Some(Ok(summary)) => {
                tracing::info!(name = log.name, id, records = summary.records, "edge log taken in");
                let text = serde_json::to_string(&summary).unwrap_or_default();
                self.queue.finish_log(id, owner, Ok(&text), now).await
            }
            Some(Err(fault)) => match fault.next(log.tries) {
                Next::GiveUp => {
                    tracing::warn!(name = log.name, id, why = fault.why(), "edge log refused");
                    self.queue.finish_log(id, owner, Err(fault.why()), now).await
                }
                Next::Again(pause) => {
                    tracing::warn!(name = log.name, id, why = fault.why(), ?pause, "edge log can't be taken in now");
                    self.queue.postpone_log(id, owner, now.plus(pause), Some(fault.why())).await
                }
            },
        };
        if let Err(error) = told {
            // the lease runs out, and the log is taken in again, which adds nothing
            tracing::warn!(%error, id, "the queue of edge logs can't be written now");
        }
    }

    /// Keeps the lease; ends when it is lost.
    async fn hold(&self, log: &QueuedLog) {
        let mut ticks = tokio::time::interval(HEARTBEAT);
        loop {
            ticks.tick().await;
            match self.queue.keep_log(&log.id, &self.owner, UtcMicros::now().plus(LEASE)).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(id = log.id, "another process takes this edge log in");
                    return;
                }
                Err(error) => tracing::warn!(%error, "the lease of an edge log can't be lengthened now"),
            }
        }
    }

    async fn take_in(&self, log: &QueuedLog) -> Result<Summary, Fault> {
        let input = self.input(log).await?;
        self.importer.import(input, options(&log.terms), |_| {}).await.map_err(|error| Fault::of(&error))
    }

    async fn input(&self, log: &QueuedLog) -> Result<Input, Fault> {
        match log.way {
            Way::Upload => {
                let fetched = self.staging.fetch(&log.object, log.parts, log.size, &self.spool_dir).await;
                let file = fetched.map_err(|error| Fault::Broke(crate::explain(&error)))?;
                Ok(Input::file(&*log.name, file).with_location(format!("{UPLOAD}{}", log.id)))
            }
            Way::Watched => {
                let found = logs::at(&log.object).await.map_err(|error| Fault::not_there(&error))?;
                found.input(&self.spool_dir, |_, _| {}).await.map_err(|error| Fault::not_there(&error))
            }
        }
    }
}
