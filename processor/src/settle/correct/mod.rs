//! Records that know better than the row of their request are merged into it (design §4.5).
//!
//! ```text
//! arrivals, marked `corrects` ──is it time?──► rows of clicks found ──merge──► files rewritten, one commit a bucket
//!                                                                                   │ landed
//!                                              the records leave `arrivals` ◄───────┘
//! ```
//! * [`policy`]: when; `rewrite`: one bucket (the affected files of an hour, or one file of a day)
//!
//! Invariants
//! * A rewriting holds the same requests as the files that it takes the place of, each once.
//! * Merging is a join: made twice, in pieces or by two settlers, it comes to the same rows.
//! * No correction holds the union up: records that are rows to be come first, and corrections count for nothing.
//!
//! Failure: killed between the commits, the next pass finds that the records know nothing better and takes them away.

pub(crate) mod policy;
mod rewrite;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::RecordBatch;
use schemas::UtcMicros;

use self::rewrite::{Bucket, buckets};
use super::desk::TRIES;
use super::error::SettleError;
use super::ids::IdMap;
use super::said::Records;
use super::settler::{Settled, Settler};
use super::union::{Arrival, Decision, Fate};

/// Records that correct, by the id of their row.
type ById = IdMap<Vec<usize>>;

impl Settler {
    /// Whether the corrections that wait are to be made in this pass.
    pub(super) fn is_time_to_correct(&self, now: UtcMicros, complete_through: UtcMicros) -> bool {
        let (through, config) = (complete_through.min(now), &self.config);
        self.eager || policy::is_due(self.pending.values(), now, through, config.settle, &config.patience)
    }

    /// Settles what can be settled, and makes all corrections that wait.
    ///
    /// # Errors
    /// As [`Settler::pass`].
    pub async fn correct_now(&mut self) -> Result<Settled, SettleError> {
        self.eager = true;
        let settled = self.settle().await;
        self.eager = false;
        settled
    }

    /// Merges the records whose fate is [`Fate::Correct`] into their rows; their fate is then [`Fate::Counted`]. Those
    /// whose row has gone meanwhile wait. Returns how many were merged.
    pub(super) async fn correct(
        &mut self,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        decision: &mut Decision,
    ) -> Result<u64, SettleError> {
        let records = Records::of(rows);
        let mut merged = 0;
        for _ in 0..TRIES {
            let left = corrections(arrivals, &decision.fates);
            if left.is_empty() {
                return Ok(merged);
            }
            let found =
                self.desk.find(left.values().flatten().map(|at| (arrivals[*at].id, arrivals[*at].time))).await?;
            let held: IdMap<()> = found.iter().flat_map(|(_, ids)| ids).map(|id| (*id, ())).collect();
            for at in left.iter().filter(|(id, _)| !held.contains_key(id)).flat_map(|(_, records)| records) {
                decision.fates[*at] = Fate::Wait;
            }
            let mut raced = false;
            for bucket in buckets(found, &self.config.compact) {
                if self.rewrite(&bucket, &left, &records).await? {
                    for at in bucket.ids.iter().filter_map(|id| left.get(id)).flatten() {
                        decision.fates[*at] = Fate::Counted;
                        merged += 1;
                    }
                } else {
                    raced = true;
                }
            }
            if !raced {
                return Ok(merged);
            }
            self.desk.clicks.refresh().await?;
        }
        Err(SettleError::Busy { tries: TRIES })
    }

    /// Rewrites the files of a bucket with its rows merged. Returns whether it is done; if not, somebody else has
    /// removed one of the files.
    async fn rewrite(&mut self, bucket: &Bucket, left: &ById, records: &Records<'_>) -> Result<bool, SettleError> {
        let final_through = self.desk.final_through().await?;
        let enricher = Arc::clone(&self.enricher);
        let clicks = &self.desk.clicks;
        let changed = bucket.changed(clicks, left, records, &enricher).await?;
        if changed.is_empty() {
            return Ok(true);
        }
        let add = bucket.written(clicks, &changed).await?;
        self.desk.tell(&changed.ledger(final_through)).await?;
        super::upkeep::swap(&mut self.desk.clicks, bucket.parts.clone(), add, false).await
    }
}

/// The records that correct, by the id of their row.
fn corrections(arrivals: &[Arrival], fates: &[Fate]) -> ById {
    let mut by_id = ById::default();
    for (at, arrival) in arrivals.iter().enumerate().filter(|(at, _)| fates[*at] == Fate::Correct) {
        by_id.entry(arrival.id).or_default().push(at);
    }
    by_id
}
