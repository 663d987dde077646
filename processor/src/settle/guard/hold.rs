//! What becomes of lines without an event, by what stands of their hour or is found out about it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::array::RecordBatch;
use schemas::UtcMicros;
use schemas::link::DEFAULT_WORKSPACE;

use super::party::Party;
use super::policy::{Verdict, may_be_mismatched};
use super::stands::{Change, Said, Split, Standing};
use super::{Scope, linked, texts};
use crate::settle::elsewhere::{self, Elsewhere};
use crate::settle::error::SettleError;
use crate::settle::settler::Settler;
use crate::settle::union::{Arrival, Decision, Fate};
use crate::settle::waits::Kind;

/// What was held.
#[derive(Clone, Debug, Default)]
pub(in crate::settle) struct Held {
    /// What the commit must say of hours.
    pub(in crate::settle) txns: Vec<(String, i64)>,
    /// Records that wait until something else stands of their hour.
    pub(in crate::settle) records: BTreeSet<usize>,
}

impl Settler {
    /// Lets records of `arrivals` wait whose hour's ids don't meet, and counts those that an operator has said are
    /// counted. `rows` are the batches that `arrivals` describe, row by row.
    pub(in crate::settle) async fn hold(
        &mut self,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        decision: &mut Decision,
        complete_through: UtcMicros,
    ) -> Result<Held, SettleError> {
        let mut held = Held::default();
        let linked = linked(rows);
        let suspects: Vec<usize> = (0..arrivals.len())
            .filter(|record| arrivals[*record].kind == Kind::Origin && decision.fates[*record] == Fate::Add)
            .collect();
        if suspects.is_empty() {
            return Ok(held);
        }
        let brought = texts(rows, "provider");
        let hours = self.by_party(rows, arrivals, suspects, |record| brought[record]);
        let since = self.desk.events_since(self.config.max_skew).await?;
        let mut change = Change::default();
        for ((party, hour), mut records) in hours {
            let stands = Said::of(&self.desk.clicks, &party, hour).standing;
            let (scope, judged) = self.scope(&party, hour, since);
            records.retain(|record| scope.has(linked[*record]));
            if records.is_empty() {
                continue;
            }
            let verdict = match stands {
                Some(Standing::Recovered) => Verdict::Lost,
                Some(Standing::Counted) => {
                    records.iter().for_each(|record| decision.fates[*record] = Fate::Counted);
                    continue;
                }
                None if !judged => Verdict::Lost,
                Some(Standing::Open) if !judged => Verdict::Mismatched,
                _ => self.verdict(&party, hour, scope, complete_through).await?,
            };
            let standing = match (stands, verdict) {
                (None | Some(Standing::Open), Verdict::Mismatched) => Some(Standing::Open),
                (Some(Standing::Open), Verdict::Lost) => None,
                (stands, _) => stands,
            };
            if standing != stands {
                let split = self.split(&party.provider);
                change.stand(&self.desk.clicks, &split, (&party, hour), standing, false);
            }
            if verdict == Verdict::Lost {
                continue;
            }
            records.iter().for_each(|record| decision.fates[*record] = Fate::Wait);
            if verdict == Verdict::Mismatched {
                held.records.extend(records);
            }
        }
        held.txns = change.into_txns();
        Ok(held)
    }

    /// Some records by their party and hour; `brought` says how each was brought.
    fn by_party<'a>(
        &self,
        rows: &'a [RecordBatch],
        arrivals: &[Arrival],
        records: impl IntoIterator<Item = usize>,
        brought: impl Fn(usize) -> Option<&'a str>,
    ) -> BTreeMap<(Party, i64), Vec<usize>> {
        let workspaces = texts(rows, "workspace");
        let mut groups: BTreeMap<(&str, &str, i64), Vec<usize>> = BTreeMap::new();
        for record in records {
            if let (Some(brought), Some(workspace)) = (brought(record), workspaces[record]) {
                groups.entry((brought, workspace, arrivals[record].time.hour())).or_default().push(record);
            }
        }
        let mut hours: BTreeMap<(Party, i64), Vec<usize>> = BTreeMap::new();
        let mut splits: HashMap<String, Split> = HashMap::new();
        for ((brought, workspace, hour), records) in groups {
            let brought = Party::named(brought);
            let split = splits.entry(brought.provider.clone()).or_insert_with(|| self.split(&brought.provider));
            let party = brought.of_lines(split, workspace, hour);
            hours.entry((party, hour)).or_default().extend(records);
        }
        hours
    }

    /// Which workspaces' lines of a provider's logs are parties of their own, as the snapshots have it.
    pub(super) fn split(&self, provider: &str) -> Split {
        Split::read(provider, &self.desk.clicks, &self.arrivals)
    }

    /// Lets a chunk's lines wait where their hour stands open, or may be found to be mismatched when it is looked at as
    /// a whole; and counts those that an operator has said are counted. `rows` are the batches that `arrivals` describe,
    /// `brought` as `arrivals` will know them.
    pub(crate) async fn hold_chunk(
        &mut self,
        brought: &str,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        decision: &mut Decision,
    ) -> Result<(), SettleError> {
        let is_missing =
            |arrival: &Arrival, fate: &Fate| arrival.kind == Kind::Origin && matches!(fate, Fate::Add | Fate::Wait);
        let records = arrivals.iter().zip(&decision.fates).enumerate();
        let missing: Vec<usize> =
            records.filter(|(_, (arrival, fate))| is_missing(arrival, fate)).map(|(record, _)| record).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let linked = linked(rows);
        let hours = self.by_party(rows, arrivals, missing, |_| Some(brought));
        let since = self.desk.events_since(self.config.max_skew).await?;
        for ((party, hour), mut lines) in hours {
            let (scope, judged) = self.scope(&party, hour, since);
            lines.retain(|line| scope.has(linked[*line]));
            let due: Vec<usize> = lines.iter().copied().filter(|line| decision.fates[*line] == Fate::Add).collect();
            if due.is_empty() {
                continue;
            }
            let fate = match Said::of(&self.desk.clicks, &party, hour).standing {
                Some(Standing::Recovered) => continue,
                Some(Standing::Counted) => Fate::Counted,
                Some(Standing::Open) => Fate::Wait,
                None if !judged => continue,
                None if may_be_mismatched(lines.len() as u64) => Fate::Wait,
                None => {
                    let (there, parts) = self.look_at(&party, hour, scope).await?;
                    let before: u64 = parts.values().map(|part| part.recovered).sum();
                    if !may_be_mismatched((lines.len() + there.len()) as u64 + before) {
                        continue;
                    }
                    Fate::Wait
                }
            };
            due.iter().for_each(|record| decision.fates[*record] = fate);
        }
        Ok(())
    }

    /// Of which lines of a party's hour an event may exist, if events are known of then at all; and whether the hour
    /// is judged. Events of our own are possible from `since` on.
    pub(super) fn scope(&self, party: &Party, hour: i64, since: Option<UtcMicros>) -> (Scope, bool) {
        let (clicks, arrivals) = (&self.desk.clicks, &self.arrivals);
        let tells = |tenant: &String| elsewhere::has_told((clicks, arrivals), &party.provider, tenant, hour);
        let told = party.tenant.as_ref().is_some_and(tells);
        // lines without a link are of one workspace's requests, whose own matter they may not have become
        let stay = party.tenant.is_none() && self.split(&party.provider).stays(DEFAULT_WORKSPACE, hour);
        let scope = if told || stay { Scope::All } else { Scope::Linked };
        let ours = since.is_some_and(|since| since.hour() <= hour);
        (scope, self.guard.judges(&party.provider) && (told || ours))
    }

    /// The first hour of a provider's that is judged; none where none is.
    pub(crate) async fn judged_since(&self, provider: &str) -> Result<Option<i64>, SettleError> {
        if !self.guard.judges(provider) {
            return Ok(None);
        }
        let own = self.desk.events_since(self.config.max_skew).await?;
        let told = Elsewhere::read(provider, &self.desk.clicks, &self.arrivals).first_hour();
        Ok([own.map(UtcMicros::hour), told].into_iter().flatten().min())
    }
}
