//! What becomes of lines without an event, by what stands of their hour or is found out about it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use arrow::array::RecordBatch;
use schemas::time::HOUR;
use schemas::{ClickId, UtcMicros};

use super::facts::{HourRows, Waiting, waiting};
use super::policy::{Hour, Verdict, may_be_mismatched};
use super::{Guard, Scope, Standing, linked, providers, standing, txn_of};
use crate::settle::elsewhere::Elsewhere;
use crate::settle::error::SettleError;
use crate::settle::settler::Settler;
use crate::settle::union::{Arrival, Decision, Fate};
use crate::settle::waits::Kind;

/// How long the first lines of an import wait for its last before an hour is judged without it.
const UNDER_WAY: Duration = Duration::from_secs(3_600);

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
        let mut suspects: BTreeMap<(&str, i64), Vec<usize>> = BTreeMap::new();
        let records = arrivals.iter().zip(&decision.fates).zip(providers(rows)).enumerate();
        for (number, ((arrival, fate), provider)) in records {
            if let (Kind::Origin, Fate::Add, Some(provider)) = (arrival.kind, fate, provider) {
                suspects.entry((provider, arrival.time.hour())).or_default().push(number);
            }
        }
        if suspects.is_empty() {
            return Ok(held);
        }
        let since = self.desk.events_since(self.config.max_skew).await?;
        for ((provider, hour), mut records) in suspects {
            let stands = standing(&self.desk.clicks, provider, hour);
            let (scope, judged) = self.scope(provider, hour, since);
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
                _ => self.verdict(provider, hour, scope, complete_through).await?,
            };
            let now_stands = match (stands, verdict) {
                (None | Some(Standing::Open), Verdict::Mismatched) => Some(Standing::Open),
                (Some(Standing::Open), Verdict::Lost) => None,
                (stands, _) => stands,
            };
            if now_stands != stands {
                held.txns.push((txn_of(provider, hour), Standing::version(now_stands)));
            }
            if verdict == Verdict::Lost {
                continue;
            }
            records.iter().for_each(|record| decision.fates[*record] = Fate::Wait);
            if verdict == Verdict::Mismatched {
                held.records.extend(records);
            }
        }
        Ok(held)
    }

    /// Lets a chunk's lines wait where their hour stands open, or may be found to be mismatched when it is looked at as
    /// a whole; and counts those that an operator has said are counted. `rows` are the batches that `arrivals` describe.
    pub(crate) async fn hold_chunk(
        &mut self,
        provider: &str,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        decision: &mut Decision,
    ) -> Result<(), SettleError> {
        let is_missing =
            |arrival: &Arrival, fate: &Fate| arrival.kind == Kind::Origin && matches!(fate, Fate::Add | Fate::Wait);
        if !arrivals.iter().zip(&decision.fates).any(|(arrival, fate)| is_missing(arrival, fate)) {
            return Ok(());
        }
        let linked = linked(rows);
        let mut missing: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (number, (arrival, fate)) in arrivals.iter().zip(&decision.fates).enumerate() {
            if is_missing(arrival, fate) {
                missing.entry(arrival.time.hour()).or_default().push(number);
            }
        }
        let since = self.desk.events_since(self.config.max_skew).await?;
        for (hour, mut lines) in missing {
            let (scope, judged) = self.scope(provider, hour, since);
            lines.retain(|line| scope.has(linked[*line]));
            let due: Vec<usize> = lines.iter().copied().filter(|line| decision.fates[*line] == Fate::Add).collect();
            if due.is_empty() {
                continue;
            }
            let fate = match standing(&self.desk.clicks, provider, hour) {
                Some(Standing::Recovered) => continue,
                Some(Standing::Counted) => Fate::Counted,
                Some(Standing::Open) => Fate::Wait,
                None if !judged => continue,
                None if may_be_mismatched(lines.len() as u64) => Fate::Wait,
                None => {
                    let there = waiting(&self.arrivals, provider, &BTreeSet::from([hour])).await?;
                    let there = there.iter().filter(|line| scope.has(line.is_linked)).count();
                    let before = self.recovered(provider, hour, scope).await?;
                    if !may_be_mismatched((lines.len() + there) as u64 + before) {
                        continue;
                    }
                    Fate::Wait
                }
            };
            due.iter().for_each(|record| decision.fates[*record] = fate);
        }
        Ok(())
    }

    /// Of which lines of a provider's hour an event may exist, if events are known of then at all; and whether the hour
    /// is judged. Events of our own are possible from `since` on.
    fn scope(&self, provider: &str, hour: i64, since: Option<UtcMicros>) -> (Scope, bool) {
        let from = |first: Option<UtcMicros>| first.is_some_and(|first| first.hour() <= hour);
        let told = from(self.told_since(provider));
        let scope = if told { Scope::All } else { Scope::Linked };
        (scope, self.guard.judges(provider) && (told || from(since)))
    }

    /// Since when events of a provider's requests are made elsewhere.
    fn told_since(&self, provider: &str) -> Option<UtcMicros> {
        let told = Elsewhere::read(provider, &self.desk.clicks, &self.arrivals).first();
        told.map(|first| first.minus(self.config.max_skew))
    }

    /// The first hour of a provider's that is judged; none where none is.
    pub(crate) async fn judged_since(&self, provider: &str) -> Result<Option<i64>, SettleError> {
        if !self.guard.judges(provider) {
            return Ok(None);
        }
        let own = self.desk.events_since(self.config.max_skew).await?;
        Ok([own, self.told_since(provider)].into_iter().flatten().map(UtcMicros::hour).min())
    }

    async fn verdict(
        &mut self,
        provider: &str,
        hour: i64,
        scope: Scope,
        complete_through: UtcMicros,
    ) -> Result<Verdict, SettleError> {
        let recovered = self.recovered(provider, hour, scope).await?;
        let lines = waiting(&self.arrivals, provider, &BTreeSet::from([hour])).await?;
        let known = self.desk.known(lines.iter().map(|line| (line.id, line.time))).await?;
        let missed = |line: &&Waiting| !known.contains(&line.id) && scope.has(line.is_linked);
        let missing: HashMap<ClickId, &Waiting> = lines.iter().filter(missed).map(|line| (line.id, line)).collect();
        let is_due = |line: &&&Waiting| self.desk.waits().ready(complete_through, Kind::Origin, line.time);
        let due = missing.values().filter(is_due).count() as u64;
        let rows = self.guard.clicks.of(&self.desk.clicks, hour).await?;
        let hour_now = Hour {
            lines: self.guard.imports.lines(provider, hour),
            recovered,
            due,
            early: missing.len() as u64 - due,
            named: self.guard.named(provider, &rows),
            nameless: rows.nameless,
        };
        let verdict = hour_now.judge();
        if verdict != Verdict::Mismatched || standing(&self.desk.clicks, provider, hour).is_some() {
            return Ok(verdict);
        }
        // the first lines of an import that isn't ended say little of the hour
        let now = UtcMicros::now();
        let came: BTreeMap<&str, UtcMicros> =
            missing.values().map(|line| (line.import.as_str(), line.arrived)).collect();
        let ended = |import: &str| self.guard.imports.provider_of(import).is_some();
        if came.iter().any(|(import, arrived)| now.since(*arrived) < UNDER_WAY && !ended(import)) {
            return Ok(Verdict::Undecided);
        }
        tracing::warn!(
            provider, hour = %UtcMicros(hour * HOUR), lines = hour_now.lines, without_event = recovered + due,
            events_without_id = rows.nameless, "request ids of edge and origin don't meet: lines without an event wait \
             for `highwater edge-logs settle`"
        );
        Ok(verdict)
    }

    /// Rows that were recovered from the provider's lines of an hour. An import under way may be of any provider.
    async fn recovered(&mut self, provider: &str, hour: i64, scope: Scope) -> Result<u64, SettleError> {
        self.guard.follow_imports().await?;
        let rows = self.guard.clicks.of(&self.desk.clicks, hour).await?;
        let imports = &self.guard.imports;
        let of_it = |import: &str| imports.provider_of(import).is_none_or(|known| known == provider);
        let recovered = rows.recovered.iter().filter(|(import, _)| of_it(import)).map(|(_, recovered)| recovered);
        Ok(recovered.map(|of| if scope == Scope::All { of.rows } else { of.linked }).sum())
    }
}

impl Guard {
    /// Of an hour's events, those that may have a line of this provider under the same id: our own, where it is the edge
    /// in front, and those made elsewhere of its requests.
    fn named(&self, provider: &str, rows: &HourRows) -> u64 {
        let own = if provider == self.edge.provider { rows.named } else { 0 };
        let of_it = |import: &str| self.imports.provider_of(import).is_some_and(|known| known == provider);
        own + rows.told.iter().filter(|(import, _)| of_it(import)).map(|(_, events)| events).sum::<u64>()
    }
}
