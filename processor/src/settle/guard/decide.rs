//! An operator's word on an hour whose ids don't meet.

use std::collections::BTreeSet;
use std::time::Duration;

use schemas::UtcMicros;
use schemas::time::HOUR;
use serde::Serialize;

use super::facts::waiting;
use super::party::Party;
use super::stands::{PREFIX, Said, Standing, now_stands, open_hours, said_of};
use crate::lake::{Change, CommitError, TableHandle};
use crate::settle::desk::{TRIES, fenced};
use crate::settle::error::SettleError;
use crate::settle::settler::Settler;

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
    /// The lake or the link store failed; the same command again goes on.
    #[error(transparent)]
    Settle(#[from] SettleError),
}

/// A word that has been written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    /// The other word that was given before, if this one was not known yet.
    pub(crate) was: Option<Standing>,
    /// Whether it is still to be carried out.
    pub(crate) is_under_way: bool,
}

/// An operator's word on an hour that is being carried out, or whose giver was killed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Word {
    /// As [`Mismatched`](super::Mismatched) has it.
    pub provider: String,
    /// The hour's begin.
    pub hour: UtcMicros,
    /// What its lines without an event are.
    #[serde(rename = "as")]
    pub word: Standing,
}

/// The words that are not carried out yet, as the snapshot of `clicks` has it.
pub fn words_under_way(clicks: &TableHandle) -> Vec<Word> {
    let under_way = said_of(clicks, PREFIX).filter(|(_, _, said)| said.is_under_way);
    let word = |(party, hour, said): (Party, i64, Said)| {
        let (provider, hour) = (party.name().into_owned(), UtcMicros(hour * HOUR));
        said.word().map(|word| Word { provider, hour, word })
    };
    under_way.filter_map(word).collect()
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
            let closed =
                |(party, hour): &(Party, i64)| now_stands(&self.desk.clicks, &split, (party, *hour), None, false);
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

    /// Writes down that an hour's lines without an event, and those that still come, are settled as `word` from now on.
    /// `provider` as [`Mismatched`](super::Mismatched) names it.
    ///
    /// # Errors
    /// As [`DecideError`] says.
    pub(crate) async fn say(&mut self, provider: &str, hour: UtcMicros, word: Standing) -> Result<Spoken, DecideError> {
        let (party, at) = (Party::named(provider), hour.hour());
        let mut was = None;
        for _ in 0..TRIES {
            self.desk.clicks.refresh().await.map_err(SettleError::from)?;
            self.arrivals.refresh().await.map_err(SettleError::from)?;
            let said = Said::of(&self.desk.clicks, &party, at);
            let Some(stands) = said.standing else {
                return Err(DecideError::NotMismatched { provider: provider.to_owned(), hour });
            };
            if stands == word {
                return Ok(Spoken { was, is_under_way: said.is_under_way });
            }
            was = said.word();
            // what waits is settled by any settler; rows that are there, or lines that left nothing, are more than that
            let is_more = word == Standing::Counted || was.is_some();
            let split = self.split(&party.provider);
            let txns = now_stands(&self.desk.clicks, &split, (&party, at), Some(word), is_more);
            self.commit_fenced(txns).await?;
        }
        Err(SettleError::Busy { tries: TRIES }.into())
    }

    /// Writes down that a word is carried out, unless another one was given meanwhile.
    ///
    /// # Errors
    /// As [`SettleError`] says.
    pub(crate) async fn carried_out(
        &mut self,
        provider: &str,
        hour: UtcMicros,
        word: Standing,
    ) -> Result<(), SettleError> {
        let (party, at) = (Party::named(provider), hour.hour());
        for _ in 0..TRIES {
            self.desk.clicks.refresh().await?;
            let said = Said::of(&self.desk.clicks, &party, at);
            if said.standing != Some(word) || !said.is_under_way {
                return Ok(());
            }
            let split = self.split(&party.provider);
            let txns = now_stands(&self.desk.clicks, &split, (&party, at), Some(word), false);
            self.commit_fenced(txns).await?;
        }
        Err(SettleError::Busy { tries: TRIES })
    }

    /// Sets transactions of `clicks`, unless somebody was faster.
    async fn commit_fenced(&mut self, txns: Vec<(String, i64)>) -> Result<(), SettleError> {
        let change = fenced(&self.desk.clicks, Change { txns, ..Change::default() });
        match self.desk.clicks.commit(change).await {
            Err(CommitError::Failed(source)) => Err(source.into()),
            _ => Ok(()),
        }
    }
}
