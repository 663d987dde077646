//! An operator's word on an hour whose ids don't meet.

use std::collections::BTreeSet;
use std::time::Duration;

use schemas::UtcMicros;

use super::facts::waiting;
use super::party::Party;
use super::stands::{Said, Standing, now_stands, open_hours};
use crate::lake::{Change, CommitError};
use crate::settle::desk::{TRIES, fenced};
use crate::settle::error::SettleError;
use crate::settle::settler::{Settled, Settler};

/// Why an hour was not decided.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// Nothing of it waits for a decision.
    #[error("the hour {hour} of {provider} is not mismatched; `/v1/status` names those that are")]
    NotMismatched {
        /// Whose lines.
        provider: String,
        /// Its begin.
        hour: UtcMicros,
    },
    /// It was decided otherwise, and its lines are settled.
    #[error("the hour {hour} of {provider} was decided before: its lines are settled as {}", stands.as_str())]
    Decided {
        /// Whose lines.
        provider: String,
        /// Its begin.
        hour: UtcMicros,
        /// How.
        stands: Standing,
    },
    /// The lake or the link store failed; the same command again goes on.
    #[error(transparent)]
    Settle(#[from] SettleError),
}

/// How often it is looked for open hours that are empty, where any are open.
const LOOK_EVERY: Duration = Duration::from_secs(600);

impl Settler {
    /// Closes open hours of which nothing waits any more, as all their lines have found their events; now and then.
    pub(in crate::settle) async fn close_hours(&mut self, now: UtcMicros) -> Result<(), SettleError> {
        if self.guard.closed_at.is_some_and(|last| now.since(last) < LOOK_EVERY) {
            return Ok(());
        }
        let providers: BTreeSet<String> = open_hours(&self.desk.clicks).map(|(party, _)| party.provider).collect();
        for provider in &providers {
            self.close_empty_hours(provider).await?;
            self.guard.closed_at = Some(now);
        }
        Ok(())
    }

    /// Closes the provider's open hours of which nothing waits any more.
    ///
    /// # Errors
    /// As [`SettleError`] says.
    pub(crate) async fn close_empty_hours(&mut self, provider: &str) -> Result<(), SettleError> {
        for _ in 0..TRIES {
            self.desk.clicks.refresh().await?;
            self.arrivals.refresh().await?;
            let open = open_hours(&self.desk.clicks).filter(|(party, _)| party.provider == provider);
            let mut empty: BTreeSet<(Party, i64)> = open.collect();
            let hours: BTreeSet<i64> = empty.iter().map(|(_, hour)| *hour).collect();
            let split = self.split(provider);
            for line in waiting(&self.arrivals, provider, &hours).await? {
                let hour = line.time.hour();
                empty.retain(|(party, of)| *of != hour || !party.has(&split, line.is_uploaded, &line.workspace, hour));
            }
            if empty.is_empty() {
                return Ok(());
            }
            let closed = |(party, hour): &(Party, i64)| now_stands(&self.desk.clicks, &split, party, *hour, None);
            let txns = empty.iter().flat_map(closed).collect();
            let change = fenced(&self.desk.clicks, Change { txns, ..Change::default() });
            match self.desk.clicks.commit(change).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Failed(source)) => return Err(source.into()),
                Err(_) => {}
            }
        }
        Err(SettleError::Busy { tries: TRIES })
    }

    /// Decides the hour that begins at `hour`: its lines without an event, and those that still come, are `settled` as
    /// recovered or counted. Settles what waits of it; and takes out rows that were recovered before, if they are counted.
    /// `provider` as [`Mismatched`](super::Mismatched) names it. The same word again goes on where it was broken off.
    ///
    /// # Errors
    /// As [`DecideError`] says.
    pub async fn decide_hour(
        &mut self,
        provider: &str,
        hour: UtcMicros,
        settled: Standing,
    ) -> Result<Settled, DecideError> {
        let party = Party::named(provider);
        let mut decided = false;
        for _ in 0..TRIES {
            self.desk.clicks.refresh().await.map_err(SettleError::from)?;
            match Said::of(&self.desk.clicks, &party, hour.hour()).standing {
                Some(stands) if stands == settled => {
                    decided = true;
                    break;
                }
                Some(Standing::Open) => {}
                Some(stands) => return Err(DecideError::Decided { provider: provider.to_owned(), hour, stands }),
                None => return Err(DecideError::NotMismatched { provider: provider.to_owned(), hour }),
            }
            let split = self.split(&party.provider);
            let txns = now_stands(&self.desk.clicks, &split, &party, hour.hour(), Some(settled));
            let change = fenced(&self.desk.clicks, Change { txns, ..Change::default() });
            if let Err(CommitError::Failed(source)) = self.desk.clicks.commit(change).await {
                return Err(SettleError::from(source).into());
            }
        }
        if !decided {
            return Err(SettleError::Busy { tries: TRIES }.into());
        }
        let taken_out = match settled {
            Standing::Counted => self.take_out_recovered(&party, hour.hour()).await?,
            Standing::Open | Standing::Recovered => 0,
        };
        Ok(Settled { taken_out, ..self.settle().await? })
    }
}
