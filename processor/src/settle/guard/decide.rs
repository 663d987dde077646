//! An operator's word on an hour whose ids don't meet.

use std::collections::BTreeSet;

use schemas::UtcMicros;

use super::facts::waiting;
use super::{Standing, open_hours, standing, txn_of};
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

impl Settler {
    /// Closes the provider's open hours of which nothing waits any more.
    ///
    /// # Errors
    /// As [`SettleError`] says.
    pub(crate) async fn close_empty_hours(&mut self, provider: &str) -> Result<(), SettleError> {
        for _ in 0..TRIES {
            self.desk.clicks.refresh().await?;
            self.arrivals.refresh().await?;
            let open = open_hours(&self.desk.clicks).filter(|(of, _)| *of == provider);
            let mut empty: BTreeSet<i64> = open.map(|(_, hour)| hour).collect();
            for line in waiting(&self.arrivals, provider, &empty.clone()).await? {
                empty.remove(&line.time.hour());
            }
            if empty.is_empty() {
                return Ok(());
            }
            let closed = Standing::version(None);
            let txns = empty.iter().map(|hour| (txn_of(provider, *hour), closed)).collect();
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
    /// recovered or counted. Settles what waits of it.
    ///
    /// # Errors
    /// As [`DecideError`] says.
    pub async fn decide_hour(
        &mut self,
        provider: &str,
        hour: UtcMicros,
        settled: Standing,
    ) -> Result<Settled, DecideError> {
        let mut decided = false;
        for _ in 0..TRIES {
            self.desk.clicks.refresh().await.map_err(SettleError::from)?;
            match standing(&self.desk.clicks, provider, hour.hour()) {
                Some(stands) if stands == settled => {
                    decided = true;
                    break;
                }
                Some(Standing::Open) => {}
                Some(stands) => return Err(DecideError::Decided { provider: provider.to_owned(), hour, stands }),
                None => return Err(DecideError::NotMismatched { provider: provider.to_owned(), hour }),
            }
            let txns = vec![(txn_of(provider, hour.hour()), Standing::version(Some(settled)))];
            let change = fenced(&self.desk.clicks, Change { txns, ..Change::default() });
            if let Err(CommitError::Failed(source)) = self.desk.clicks.commit(change).await {
                return Err(SettleError::from(source).into());
            }
        }
        if !decided {
            return Err(SettleError::Busy { tries: TRIES }.into());
        }
        Ok(self.settle().await?)
    }
}
