//! Rows that an operator's word shows to be doubles, out of `clicks` again.
//!
//! Before an hour was found to be mismatched, fewer than a hundred of its lines may have been recovered. Once the operator
//! has said that its lines are counted, so are those.

use std::collections::{HashMap, HashSet};

use schemas::UtcMicros;
use schemas::time::HOUR;

use super::Scope;
use super::party::Party;
use crate::settle::error::SettleError;
use crate::settle::settler::Settler;
use crate::settle::take_out::Leaving;

impl Settler {
    /// Takes the rows out of `clicks` that were recovered from lines of an hour, as far as an event of them may exist, also
    /// of imports that come in right now: what they bring from now on is settled by the word. Returns how many went.
    /// `provider` as [`Mismatched`](super::Mismatched) names it.
    ///
    /// # Errors
    /// As [`SettleError`] says; a repeat goes on.
    pub(crate) async fn take_out_recovered(&mut self, provider: &str, hour: UtcMicros) -> Result<u64, SettleError> {
        let (party, hour) = (&Party::named(provider), hour.hour());
        let since = self.desk.events_since(self.config.max_skew).await?;
        self.desk.clicks.refresh().await?;
        self.arrivals.refresh().await?;
        self.guard.follow_imports().await?;
        let (scope, _) = self.scope(party, hour, since);
        let split = self.split(&party.provider);
        let rows = self.guard.clicks.of(&self.desk.clicks, hour).await?;
        let mut of: HashMap<String, HashSet<String>> = HashMap::new();
        for (workspace, rows) in &rows {
            let is_theirs = |import: &&String| {
                self.guard.imports.get(import).is_some_and(|known| {
                    known.provider == party.provider && party.has(&split, known.is_uploaded(), workspace, hour)
                })
            };
            let imports: HashSet<String> = rows.recovered.keys().filter(is_theirs).cloned().collect();
            if !imports.is_empty() {
                of.insert(workspace.clone(), imports);
            }
        }
        if of.is_empty() {
            return Ok(0);
        }
        let leaving = Leaving::Recovered { hour, of, only_linked: scope == Scope::Linked };
        self.take_out_rows(&leaving, (UtcMicros(hour * HOUR), UtcMicros((hour + 1) * HOUR - 1))).await
    }
}
