//! What is shown of the rules in force: in `/metrics`, and to whoever asks for status what of them was refused.

use std::collections::BTreeMap;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::run::Refusals;

/// What the operator's rules are called among what is refused.
const RULES: &str = "classify.rules";
/// What lists are, before their names.
const LISTS: &str = "networks/";

/// Which rules are in force, and whether newer ones were refused. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct RulesMetrics {
    version: Gauge,
    refused: Gauge,
    lists: Gauge,
    expired: Gauge,
    lists_refused: Gauge,
    refusals: Refusals,
}

impl RulesMetrics {
    /// What is refused becomes one of `refusals`.
    pub(crate) fn new(refusals: Refusals) -> Self {
        Self { refusals, ..Self::default() }
    }

    /// Makes them part of what `/metrics` shows.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("highwater_rules_version", "Version of the rules in force", self.version.clone());
        registry.register(
            "highwater_rules_refused",
            "1 while rules on disk are wrong and the last good ones stay in force",
            self.refused.clone(),
        );
        registry.register("highwater_networks_lists", "Lists of networks in force", self.lists.clone());
        registry.register(
            "highwater_networks_expired",
            "Lists of networks that are too old to be believed",
            self.expired.clone(),
        );
        registry.register(
            "highwater_networks_refused",
            "Lists of networks on disk that are wrong; the last good ones stay in force",
            self.lists_refused.clone(),
        );
    }

    /// Rules of this version are in force, and what is on disk is as good.
    pub(super) fn in_force(&self, version: i32) {
        self.version.set(version.into());
        self.as_on_disk();
    }

    /// What is on disk is wrong.
    pub(super) fn refuse(&self, why: &str) {
        self.refused.set(1);
        self.refusals.refuse(RULES, why);
    }

    /// What is on disk is what is in force.
    pub(super) fn as_on_disk(&self) {
        self.refused.set(0);
        self.refusals.accept(RULES);
    }

    /// So many lists are in force, others have expired.
    pub(super) fn lists(&self, lists: usize, expired: usize) {
        self.lists.set(lists as i64);
        self.expired.set(expired as i64);
    }

    /// These lists are wrong, each with why; no others.
    pub(super) fn refuse_lists(&self, wrong: &BTreeMap<String, String>) {
        self.lists_refused.set(wrong.len() as i64);
        self.refusals.replace(LISTS, wrong);
    }
}

#[cfg(test)]
impl RulesMetrics {
    /// How many lists are in force, and how many are refused.
    pub(super) fn counts(&self) -> (i64, i64) {
        (self.lists.get(), self.lists_refused.get())
    }
}
