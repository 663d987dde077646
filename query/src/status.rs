//! `GET /v1/status`: where the pipeline stands (interface §4.3). The binary fills it in; here it is cut to what the
//! caller may see.

use schemas::{Principal, UtcMicros};
use serde::Serialize;
use serde_json::Value;

/// All of it, as an operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// When this was put together.
    pub as_of: UtcMicros,
    /// Every event before this instant that reached a journal is in the lake.
    pub complete_through: Option<UtcMicros>,
    /// Edge logs are settled up to here too.
    pub final_through: Option<UtcMicros>,
    /// The journal that `complete_through` waits for, when it waits unusually long; else the source of edge logs that
    /// `final_through` waits for.
    pub held_back_by: Option<String>,
    /// What the processors read.
    pub stream: StreamStatus,
    /// The redirect workers' logs.
    pub journals: Vec<JournalStatus>,
    /// Their disk budget, in a process that writes them.
    pub journal_budget: Option<BudgetStatus>,
    /// Whether clicks of `internal` links are thinned.
    pub sampling: SamplingStatus,
    /// Logs of the edge.
    pub edge_logs: EdgeLogsStatus,
    /// Files of an operator's that aren't taken because they are wrong.
    pub refused: Vec<RefusedFile>,
    /// Links that the edge keeps for now because they are hot.
    pub hot_links: Vec<HotLink>,
}

/// The stream between journals and processors.
#[derive(Clone, Debug, Serialize)]
pub struct StreamStatus {
    /// `embedded` or `fluvio`.
    pub backend: String,
    /// Clicks not yet in the lake; through a topic, its records that hold some. Marks that wait are none.
    pub lag_records: u64,
    /// Age of the oldest of them, seconds.
    pub lag_seconds: f64,
    /// How long the stream keeps records, seconds.
    pub retention_seconds: u64,
    /// Its partitions.
    pub partitions: Vec<PartitionStatus>,
}

/// One partition of the stream.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionStatus {
    /// Its number.
    pub id: u64,
    /// First offset that the lake lacks.
    pub next: u64,
    /// Behind the last of its clicks, as far as known: all before it that the lake lacks is lag.
    pub end: u64,
    /// The process that has its lease; none where none is needed (`embedded`, or a share that is told), or nobody has it.
    pub owner: Option<String>,
    /// Until when nobody else may read it, unless the owner gives word again.
    pub until: Option<UtcMicros>,
}

/// One journal.
#[derive(Clone, Debug, Serialize)]
pub struct JournalStatus {
    /// Its identity.
    pub id: String,
    /// The node that writes it.
    pub node: String,
    /// Its last mark in the lake.
    pub through: UtcMicros,
    /// Clicks not yet in the lake; none where nobody here can tell, as of another machine's journal.
    pub unsent: Option<u64>,
    /// Its size on disk.
    pub bytes: u64,
    /// `open`, `closed`, `silent` or `retired`.
    pub state: String,
}

/// The disk budget of a node's journals.
#[derive(Clone, Debug, Serialize)]
pub struct BudgetStatus {
    /// Bytes taken.
    pub used: u64,
    /// Bytes that may be taken.
    pub max_bytes: u64,
    /// The alarm that is on: percent of the budget that are taken, 50 or 80.
    pub alarm: Option<u64>,
}

/// Sampling under backlog.
#[derive(Clone, Debug, Serialize)]
pub struct SamplingStatus {
    /// Whether clicks were thinned in the last ten seconds.
    pub active: bool,
    /// The share that was kept of the link that was thinned most; 1 when none was.
    pub rate: f64,
}

/// Logs of the edge.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeLogsStatus {
    /// Logs that wait for their turn or are being taken in, also once more because another was taken back; and those being
    /// taken back.
    pub queued: u64,
    /// Logs that could not be taken in.
    pub failed: u64,
    /// Lines that wait for their event.
    pub waiting: u64,
    /// Clicks that came when their time had been answered for, and wait: of journals that had been given up, and events made
    /// elsewhere.
    pub late: u64,
    /// Hours in which request ids of edge and origin don't meet, for an operator to decide.
    pub mismatched: Vec<MismatchedHour>,
    /// Hours for which an operator's word is being carried out.
    pub deciding: Vec<DecidingHour>,
    /// Continuous sources.
    pub sources: Vec<EdgeSource>,
}

/// An hour whose ids don't meet.
#[derive(Clone, Debug, Serialize)]
pub struct MismatchedHour {
    /// Whose lines: the provider, and where they are one tenant's matter, `/` and its workspace.
    pub provider: String,
    /// The hour's begin.
    pub hour: UtcMicros,
    /// Lines that wait for the decision.
    pub waiting: u64,
}

/// An hour for which an operator's word is being carried out.
#[derive(Clone, Debug, Serialize)]
pub struct DecidingHour {
    /// As [`MismatchedHour::provider`].
    pub provider: String,
    /// The hour's begin.
    pub hour: UtcMicros,
    /// What its lines without an event are.
    #[serde(rename = "as")]
    pub word: String,
}

/// A continuous source of edge logs.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeSource {
    /// Its name.
    pub name: String,
    /// How far it has come.
    pub through: Option<UtcMicros>,
    /// Whether it has said nothing for too long.
    pub silent: bool,
}

/// A file of an operator's that a process doesn't take; what was good of it before stays in force.
#[derive(Clone, Debug, Serialize)]
pub struct RefusedFile {
    /// The node whose file it is.
    pub node: String,
    /// Which one: `classify.rules`, `geo.mmdb`, or `networks/` and the name of a list.
    pub what: String,
    /// What is wrong.
    pub why: String,
}

/// A link that is hot.
#[derive(Clone, Debug, Serialize)]
pub struct HotLink {
    /// The tenant whose link it is.
    #[serde(skip)]
    pub workspace: String,
    /// Its code.
    pub code: String,
    /// Hot since then.
    pub since: UtcMicros,
    /// Until then at least.
    pub until: UtcMicros,
    /// Requests a second.
    pub rate: f64,
}

/// What a tenant may see of it.
#[derive(Debug, Serialize)]
struct TenantStatus<'a> {
    as_of: UtcMicros,
    complete_through: Option<UtcMicros>,
    final_through: Option<UtcMicros>,
    hot_links: Vec<&'a HotLink>,
}

impl Status {
    /// The part that `principal` may see: all for an operator; freshness and its own links for a tenant.
    ///
    /// # Errors
    /// When a number can't be written as JSON: a fault of whoever filled it in.
    pub fn seen_by(&self, principal: &Principal) -> Result<Value, serde_json::Error> {
        let Some(workspace) = principal.workspace.as_deref() else {
            return serde_json::to_value(self);
        };
        serde_json::to_value(TenantStatus {
            as_of: self.as_of,
            complete_through: self.complete_through,
            final_through: self.final_through,
            hot_links: self.hot_links.iter().filter(|link| link.workspace == workspace).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testlake::{operator, status, tenant};

    #[test]
    fn an_operators_status_is_the_contract() {
        let value = status().seen_by(&operator()).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        for key in [
            "as_of",
            "complete_through",
            "final_through",
            "held_back_by",
            "stream",
            "journals",
            "sampling",
            "edge_logs",
            "refused",
            "hot_links",
        ] {
            assert!(keys.contains(&key), "{key}");
        }
        assert_eq!(value["hot_links"].as_array().unwrap().len(), 2);
        assert_eq!(value["hot_links"][0].get("workspace"), None);
    }

    #[test]
    fn a_tenant_sees_freshness_and_its_own_links_only() {
        let value = status().seen_by(&tenant("b")).unwrap();
        let object = value.as_object().unwrap();
        assert_eq!(object.len(), 4, "{value}");
        assert_eq!(value["hot_links"].as_array().unwrap().len(), 1);
        assert_eq!(value["hot_links"][0]["code"], "of-b");
    }
}
