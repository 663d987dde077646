//! What the processor counts (interface §7). Cheap to clone; clones count into the same places.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use schemas::tables::Table;
use schemas::{Class, Source};

use crate::classify::Sign;
use crate::hot::PartitionStatus;
use crate::import::Checks;

/// Upper ends of the buckets of a commit's time, in seconds.
const COMMIT_SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];

/// A kind of row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RowLabels {
    source: &'static str,
    class: &'static str,
}

/// A class of clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClassLabels {
    class: &'static str,
}

/// Where a record was found to be known already.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PathLabels {
    path: &'static str,
}

/// A table of the lake.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TableLabels {
    table: &'static str,
}

/// Lines of edge logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LineLabels {
    format: String,
    result: &'static str,
}

/// A cross-check of edge logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CheckLabels {
    check: &'static str,
}

/// A partition of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PartitionLabels {
    partition: String,
}

/// By what gave them away.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SignLabels {
    sign: &'static str,
}

/// Counters of all that brings rows into `clicks`.
#[derive(Clone, Debug)]
pub struct Metrics {
    clicks_committed: Family<RowLabels, Counter>,
    duplicates: Family<PathLabels, Counter>,
    sampled_away: Family<ClassLabels, Counter>,
    sampling_rate: Gauge<f64, AtomicU64>,
    edge_log_lines: Family<LineLabels, Counter>,
    mismatched_hours: Gauge,
    edge_log_checks: Family<CheckLabels, Counter>,
    late: Counter,
    corrected: Counter,
    moved: Family<SignLabels, Counter>,
    rejected: Counter,
    stream_gaps: Counter,
    stream_asked: Counter,
    commit_seconds: Histogram,
    stream_lag_records: Family<PartitionLabels, Gauge>,
    stream_lag_seconds: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            clicks_committed: Family::default(),
            duplicates: Family::default(),
            sampled_away: Family::default(),
            sampling_rate: Gauge::default(),
            edge_log_lines: Family::default(),
            mismatched_hours: Gauge::default(),
            edge_log_checks: Family::default(),
            late: Counter::default(),
            corrected: Counter::default(),
            moved: Family::default(),
            rejected: Counter::default(),
            stream_gaps: Counter::default(),
            stream_asked: Counter::default(),
            commit_seconds: Histogram::new(COMMIT_SECONDS),
            stream_lag_records: Family::default(),
            stream_lag_seconds: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Makes them part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        self.begin_at_zero();
        let name = |name: &str| format!("highwater_{name}");
        registry.register(name("clicks_committed"), "Rows added to clicks", self.clicks_committed.clone());
        registry.register(name("duplicates"), "Records of a click that was there already", self.duplicates.clone());
        let away = self.sampled_away.clone();
        registry.register(name("sampled_away"), "Clicks of internal links that were sampled away", away);
        let rate = self.sampling_rate.clone();
        registry.register(name("sampling_rate"), "Share of clicks of internal links that is kept", rate);
        let lines = self.edge_log_lines.clone();
        registry.register(name("edge_log_lines"), "Records of edge logs, by what became of them", lines);
        let hours = self.mismatched_hours.clone();
        registry.register(name("edge_log_mismatched_hours"), "Hours whose ids don't meet, undecided", hours);
        let checks = self.edge_log_checks.clone();
        registry.register(name("edge_log_checks"), "Records of edge logs that don't fit our own events", checks);
        registry.register(name("late_events"), "Events that went to arrivals", self.late.clone());
        registry.register(
            name("corrections"),
            "Records merged into the row they knew better than",
            self.corrected.clone(),
        );
        let moved = self.moved.clone();
        registry.register(name("behaviour_moved"), "Rows that others showed to be no person's", moved);
        registry.register(name("rejected_records"), "Stream records that are no events", self.rejected.clone());
        registry.register(name("stream_gaps"), "Stretches of journals that are lost", self.stream_gaps.clone());
        let asked = self.stream_asked.clone();
        registry.register(
            name("stream_asked_again"),
            "Stretches asked of journals again, as the topic lacks them",
            asked,
        );
        registry.register(name("commit_seconds"), "Time of a group commit", self.commit_seconds.clone());
        let lag = self.stream_lag_records.clone();
        registry.register(
            name("stream_lag_records"),
            "Clicks not in the lake; of a topic, records that hold some",
            lag,
        );
        registry.register(
            name("stream_lag_seconds"),
            "Age of the oldest event that was read and is not in the lake",
            self.stream_lag_seconds.clone(),
        );
    }

    /// Shows counters before there is anything to count, whose labels are known: an increase can be told from the first one on.
    fn begin_at_zero(&self) {
        for class in Class::ALL.iter().map(|class| class.as_str()) {
            for source in Source::ALL.iter().map(|source| source.as_str()) {
                self.clicks_committed.get_or_create(&RowLabels { source, class }).inc_by(0);
            }
            self.sampled_away.get_or_create(&ClassLabels { class }).inc_by(0);
        }
        for path in ["hot", "settle", "import"] {
            self.duplicates.get_or_create(&PathLabels { path }).inc_by(0);
        }
        for check in ["lost", "surprise", "reused_id"] {
            self.edge_log_checks.get_or_create(&CheckLabels { check }).inc_by(0);
        }
        for sign in Sign::ALL {
            self.moved.get_or_create(&SignLabels { sign: sign.reason() }).inc_by(0);
        }
    }

    /// Counts `rows` that have become part of `clicks`.
    pub fn note_rows(&self, source: Source, class: Class, rows: u64) {
        let labels = RowLabels { source: source.as_str(), class: class.as_str() };
        self.clicks_committed.get_or_create(&labels).inc_by(rows);
    }

    /// Counts records that `path` (`hot`, `settle`, `import`) found to be known already.
    pub fn note_duplicates(&self, path: &'static str, records: u64) {
        self.duplicates.get_or_create(&PathLabels { path }).inc_by(records);
    }

    /// Counts records that were merged into the row that they knew better than.
    pub(crate) fn note_corrected(&self, records: u64) {
        self.corrected.inc_by(records);
    }

    /// Counts rows that others showed to be no person's.
    pub(crate) fn note_behaviour(&self, sign: &'static str, rows: u64) {
        if rows > 0 {
            self.moved.get_or_create(&SignLabels { sign }).inc_by(rows);
        }
    }

    /// Counts records of edge logs of one format, by what became of them.
    pub fn note_lines(&self, format: &str, result: &'static str, lines: u64) {
        if lines > 0 {
            let labels = LineLabels { format: format.to_owned(), result };
            self.edge_log_lines.get_or_create(&labels).inc_by(lines);
        }
    }

    /// Tells how many hours wait for an operator, as their ids don't meet.
    pub(crate) fn note_mismatched(&self, hours: usize) {
        self.mismatched_hours.set(hours as i64);
    }

    /// Counts the lines of a file that don't fit the events of our own.
    pub(crate) fn note_checks(&self, checks: &Checks) {
        for (check, lines) in [("lost", checks.lost), ("surprise", checks.surprise), ("reused_id", checks.reused_id)] {
            if lines > 0 {
                self.edge_log_checks.get_or_create(&CheckLabels { check }).inc_by(lines);
            }
        }
    }

    /// Counts what a commit of the hot path has done.
    pub(crate) fn note_landed(&self, landed: &Landed, seconds: f64) {
        for ((source, class), rows) in &landed.rows {
            self.note_rows(*source, *class, *rows);
        }
        for (class, clicks) in &landed.shed {
            self.sampled_away.get_or_create(&ClassLabels { class: class.as_str() }).inc_by(*clicks);
        }
        self.note_duplicates("hot", landed.duplicates);
        self.late.inc_by(landed.late);
        self.rejected.inc_by(landed.rejected);
        self.stream_gaps.inc_by(landed.gaps);
        self.commit_seconds.observe(seconds);
    }

    /// Tells which share of clicks of `internal` links is kept.
    pub(crate) fn note_sampling(&self, rate: f64) {
        self.sampling_rate.set(rate);
    }

    /// Counts a stretch of a journal that is asked for again.
    pub(crate) fn note_asked(&self) {
        self.stream_asked.inc();
    }

    pub(crate) fn note_lag(&self, partitions: &[PartitionStatus], seconds: f64) {
        for partition in partitions {
            let labels = PartitionLabels { partition: partition.name.to_string() };
            self.stream_lag_records.get_or_create(&labels).set(partition.lag as i64);
        }
        self.stream_lag_seconds.set(seconds);
    }

    /// A partition that is no more has no lag.
    pub(crate) fn forget_partition(&self, name: &str) {
        self.stream_lag_records.remove(&PartitionLabels { partition: name.to_owned() });
    }
}

/// What a commit of the hot path has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Landed {
    pub(crate) rows: HashMap<(Source, Class), u64>,
    /// Rows of `internal` links among them.
    pub(crate) internal: u64,
    /// Clicks sampled away.
    pub(crate) shed: HashMap<Class, u64>,
    pub(crate) duplicates: u64,
    pub(crate) late: u64,
    pub(crate) rejected: u64,
    pub(crate) gaps: u64,
}

/// What the lake says of its tables.
#[derive(Clone, Debug, Default)]
pub struct LakeMetrics {
    files: Family<TableLabels, Gauge>,
}

impl LakeMetrics {
    /// Makes them part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("highwater_lake_files", "Live data files", self.files.clone());
    }

    pub(crate) fn note_files(&self, table: Table, files: usize) {
        self.files.get_or_create(&TableLabels { table: table.as_str() }).set(files as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_contract() {
        let (metrics, lake, mut registry) = (Metrics::default(), LakeMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        lake.register(&mut registry);
        let mut fresh = String::new();
        prometheus_client::encoding::text::encode(&mut fresh, &registry).unwrap();
        for line in [
            "highwater_clicks_committed_total{source=\"recovered\",class=\"human\"} 0",
            "highwater_duplicates_total{path=\"import\"} 0",
            "highwater_sampled_away_total{class=\"headless\"} 0",
            "highwater_behaviour_moved_total{sign=\"behaviour/many-links\"} 0",
            "highwater_edge_log_checks_total{check=\"reused_id\"} 0",
        ] {
            assert!(fresh.lines().any(|have| have == line), "{line} is not in\n{fresh}");
        }
        let landed = Landed {
            rows: HashMap::from([((Source::Origin, Class::Human), 3)]),
            shed: HashMap::from([(Class::Human, 6)]),
            duplicates: 2,
            ..Landed::default()
        };
        metrics.note_sampling(0.25);
        metrics.note_landed(&landed, 0.02);
        let status = PartitionStatus { name: "p".into(), next: 3, end: 9, lag: 5, failing: None };
        metrics.note_lag(&[status], 1.5);
        metrics.note_lines("nginx-json", "added", 7);
        metrics.note_lines("nginx-json", "waiting", 0);
        lake.note_files(Table::Clicks, 4);
        metrics.note_checks(&Checks { lost: 2, ..Checks::default() });
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "highwater_clicks_committed_total{source=\"origin\",class=\"human\"} 3",
            "highwater_duplicates_total{path=\"hot\"} 2",
            "highwater_sampled_away_total{class=\"human\"} 6",
            "highwater_sampling_rate 0.25",
            "highwater_edge_log_lines_total{format=\"nginx-json\",result=\"added\"} 7",
            "highwater_edge_log_checks_total{check=\"lost\"} 2",
            "highwater_commit_seconds_count 1",
            "highwater_stream_lag_records{partition=\"p\"} 5",
            "highwater_stream_lag_seconds 1.5",
            "highwater_lake_files{table=\"clicks\"} 4",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in\n{text}");
        }
    }
}
