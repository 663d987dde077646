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
use processor::import::{ImportError, Importer, Input, Summary};
use redirect::links::LinkStore;
use schemas::UtcMicros;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::UPLOAD;
use super::staging::Staging;
use super::store::options;
use crate::logs::{self, ObjectError};

/// How often the queue is looked at while there was nothing in it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// For so long a log is its owner's without a word, and how often it gives one.
const LEASE: Duration = Duration::from_secs(20);
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A log that breaks off so often without the lake or a store being to blame is given up.
const MOST_TRIES: u32 = 8;
/// Pauses before the next try: twice as long after each.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

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

/// How a try ended without the log being in the lake.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// The log is at fault: trying again won't help.
    Refused(String),
    /// The lake or a store doesn't answer: trying later will help.
    Later(String),
    /// It broke off for no reason known: trying again may help.
    Broke(String),
}

/// What follows from a fault at the `tries`th try. Pure.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    GiveUp,
    Again(Duration),
}

impl Fault {
    fn why(&self) -> &str {
        match self {
            Self::Refused(why) | Self::Later(why) | Self::Broke(why) => why,
        }
    }

    fn next(&self, tries: u32) -> Next {
        let pause = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
        match self {
            Self::Refused(_) => Next::GiveUp,
            Self::Broke(_) if tries >= MOST_TRIES => Next::GiveUp,
            Self::Broke(_) | Self::Later(_) => Next::Again(pause),
        }
    }
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
        self.importer.import(input, options(&log.terms), |_| {}).await.map_err(|error| fault(&error))
    }

    async fn input(&self, log: &QueuedLog) -> Result<Input, Fault> {
        match log.way {
            Way::Upload => {
                let fetched = self.staging.fetch(&log.object, log.parts, log.size, &self.spool_dir).await;
                let file = fetched.map_err(|error| Fault::Broke(crate::explain(&error)))?;
                Ok(Input::file(&*log.name, file).with_location(format!("{UPLOAD}{}", log.id)))
            }
            Way::Watched => {
                let found = logs::at(&log.object).await.map_err(|error| not_there(&error))?;
                found.input(&self.spool_dir, |_, _| {}).await.map_err(|error| not_there(&error))
            }
        }
    }
}

fn fault(error: &ImportError) -> Fault {
    let why = crate::explain(&anyhow::anyhow!("{error}"));
    match error {
        error if error.is_refusal() => Fault::Refused(why),
        ImportError::Settle { .. } | ImportError::Spool { .. } => Fault::Later(why),
        _ => Fault::Broke(why),
    }
}

/// A watched log that can't be read.
fn not_there(error: &anyhow::Error) -> Fault {
    let why = crate::explain(error);
    match error.downcast_ref::<ObjectError>() {
        Some(error) if error.may_pass() => Fault::Later(why),
        _ => Fault::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_log_is_given_up_and_a_lake_that_is_down_never() {
        assert_eq!(Fault::Refused(String::new()).next(1), Next::GiveUp);
        assert_eq!(Fault::Later(String::new()).next(1), Next::Again(FIRST_PAUSE));
        assert_eq!(Fault::Later(String::new()).next(2), Next::Again(FIRST_PAUSE * 2));
        assert_eq!(Fault::Later(String::new()).next(u32::MAX), Next::Again(LONGEST_PAUSE));
        assert_eq!(Fault::Broke(String::new()).next(MOST_TRIES - 1), Next::Again(FIRST_PAUSE * 64));
        assert_eq!(Fault::Broke(String::new()).next(MOST_TRIES), Next::GiveUp);
    }
}
