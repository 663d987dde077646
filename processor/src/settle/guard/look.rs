//! A party's hour as the tables show it, and the verdict on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use schemas::link::DEFAULT_WORKSPACE;
use schemas::time::HOUR;
use schemas::{ClickId, UtcMicros};

use super::facts::{HourRows, Waiting, waiting};
use super::hours::UNLINKED;
use super::imports::Import;
use super::party::Party;
use super::policy::{Part, Verdict, judge};
use super::stands::{Said, Split};
use super::{Guard, Scope};
use crate::settle::error::SettleError;
use crate::settle::settler::Settler;
use crate::settle::waits::Kind;

/// How long the first lines of an import wait for its last before an hour is judged without it.
const UNDER_WAY: Duration = Duration::from_secs(3_600);

impl Settler {
    /// The lines that a party sees wait in an hour, and what is known of each workspace beyond them.
    pub(super) async fn look_at(
        &mut self,
        party: &Party,
        hour: i64,
        scope: Scope,
    ) -> Result<(Vec<Waiting>, BTreeMap<String, Part>), SettleError> {
        self.guard.follow_imports().await?;
        let split = self.split(&party.provider);
        let mut lines = waiting(&self.arrivals, &party.provider, &BTreeSet::from([hour])).await?;
        lines.retain(|line| scope.has(line.is_linked) && party.sees(&split, line.is_uploaded, &line.workspace, hour));
        let rows = self.guard.clicks.of(&self.desk.clicks, hour).await?;
        Ok((lines, self.guard.parts(party, scope, hour, (&rows, &split))))
    }

    /// Judges a party's hour by what the tables say now.
    pub(super) async fn verdict(
        &mut self,
        party: &Party,
        hour: i64,
        scope: Scope,
        complete_through: UtcMicros,
    ) -> Result<Verdict, SettleError> {
        let (lines, mut parts) = self.look_at(party, hour, scope).await?;
        let known = self.desk.known(lines.iter().map(|line| (line.id, line.time))).await?;
        // where clicks were sampled, a line without an event says nothing
        let thinned = self.desk.thinned(lines.iter().map(|line| (line.sampled_link, line.time))).await?;
        let missing: HashMap<ClickId, &Waiting> = lines
            .iter()
            .zip(thinned)
            .filter(|(line, thinned)| !thinned && !known.contains(&line.id))
            .map(|(line, _)| (line.id, line))
            .collect();
        for line in missing.values() {
            let part = parts.entry(line.workspace.clone()).or_default();
            let is_due = self.desk.waits().ready(complete_through, Kind::Origin, line.time);
            *if is_due { &mut part.due } else { &mut part.early } += 1;
        }
        let parts: Vec<Part> = parts.into_values().collect();
        let is_open = Said::of(&self.desk.clicks, party, hour).standing.is_some();
        let verdict = judge(&parts, is_open);
        if verdict != Verdict::Mismatched || is_open {
            return Ok(verdict);
        }
        // the first lines of an import that isn't ended say little of the hour
        let now = UtcMicros::now();
        let came: BTreeMap<&str, UtcMicros> =
            missing.values().map(|line| (line.import.as_str(), line.arrived)).collect();
        let ended = |import: &str| self.guard.imports.get(import).is_some_and(Import::has_ended);
        if came.iter().any(|(import, arrived)| now.since(*arrived) < UNDER_WAY && !ended(import)) {
            return Ok(Verdict::Undecided);
        }
        let sum = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
        tracing::warn!(
            provider = %party.name(), hour = %UtcMicros(hour * HOUR), lines = sum(|part| part.lines),
            without_event = sum(|part| part.recovered + part.due), events_without_id = sum(|part| part.nameless),
            "request ids of edge and origin don't meet: lines without an event wait for `highwater edge-logs settle`"
        );
        Ok(verdict)
    }
}

impl Guard {
    /// What is known of an hour by workspace, as far as the party sees them, but for lines that wait: how many lines
    /// reached the origin, which of them were recovered, and the events that may have a line of this provider. Our own
    /// have one under the same id where the provider is the edge in front. Rows of an import under way may be of any
    /// provider, and of anybody's log.
    fn parts(
        &self,
        party: &Party,
        scope: Scope,
        hour: i64,
        (rows, split): (&HourRows, &Split),
    ) -> BTreeMap<String, Part> {
        let mut parts: BTreeMap<String, Part> = BTreeMap::new();
        for (workspace, lines) in self.imports.lines(party, hour) {
            let workspace = match workspace.as_str() {
                UNLINKED if scope == Scope::All && party.may_have_unlinked() => DEFAULT_WORKSPACE,
                UNLINKED => continue,
                name => name,
            };
            if party.sees(split, false, workspace, hour) {
                parts.entry(workspace.to_owned()).or_default().lines += lines;
            }
        }
        let of_it = |import: &String| self.imports.get(import).is_none_or(|known| known.provider == party.provider);
        for (workspace, rows) in rows.iter().filter(|(workspace, _)| party.sees(split, false, workspace, hour)) {
            let part = parts.entry(workspace.clone()).or_default();
            let seen = |import: &String| {
                let is_uploaded = self.imports.get(import).is_some_and(Import::is_uploaded);
                of_it(import) && party.sees(split, is_uploaded, workspace, hour)
            };
            let recovered = rows.recovered.iter().filter(|(import, _)| seen(import)).map(|(_, of)| of);
            part.recovered = recovered.map(|of| if scope == Scope::All { of.rows } else { of.linked }).sum();
            part.named = rows.told.iter().filter(|(import, _)| of_it(import)).map(|(_, events)| events).sum();
            part.named += if party.provider == self.edge.provider { rows.named } else { 0 };
            part.nameless = rows.nameless;
        }
        parts
    }
}
