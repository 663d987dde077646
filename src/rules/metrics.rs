//! What `/metrics` shows of the rules in force.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Which rules are in force, and whether newer ones were refused. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct RulesMetrics {
    version: Gauge,
    refused: Gauge,
    lists: Gauge,
    expired: Gauge,
}

impl RulesMetrics {
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
    }

    /// Rules of this version are in force, and what is on disk is as good; so many lists are too, others have expired.
    pub(crate) fn in_force(&self, version: i32, lists: usize, expired: usize) {
        self.version.set(version.into());
        self.refused.set(0);
        self.lists.set(lists as i64);
        self.expired.set(expired as i64);
    }

    /// What is on disk is wrong.
    pub(crate) fn refuse(&self) {
        self.refused.set(1);
    }

    /// What is on disk is what is in force.
    pub(crate) fn as_on_disk(&self) {
        self.refused.set(0);
    }
}

#[cfg(test)]
impl RulesMetrics {
    /// How many lists are in force.
    pub(super) fn lists(&self) -> i64 {
        self.lists.get()
    }
}
