//! Metrics of this node's journals, read when they are asked for.

use ingest::journal::Journal;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use super::own::OwnJournals;
use super::tend::Committed;

/// Shows `highwater_journal_bytes` and `highwater_journal_unsent_records` of all journals together.
#[derive(Debug)]
pub(crate) struct JournalMetrics {
    /// The journals.
    pub(crate) journals: OwnJournals,
    /// What the lake holds of them.
    pub(crate) committed: Committed,
}

impl prometheus_client::collector::Collector for JournalMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats: Vec<_> = self.journals.all().iter().map(Journal::stats).collect();
        let mut show = |name: &str, help: &str, value: u64| {
            let gauge = ConstGauge::new(value as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        show("highwater_journal_bytes", "Bytes of the journals on disk", stats.iter().map(|one| one.bytes).sum())?;
        if let Some(budget) = self.journals.all().first().map(Journal::budget) {
            show("highwater_journal_max_bytes", "Disk budget of the journals", budget.max_bytes)?;
            let alarm = "Percent of their disk budget that the journals have reached: 0, 50 or 80";
            show("highwater_journal_alarm_percent", alarm, budget.alarm().unwrap_or_default())?;
        }
        let unsent = stats.iter().map(|one| one.end.saturating_sub(self.committed.of(one.id))).sum();
        show("highwater_journal_unsent_records", "Records that the lake doesn't hold yet, marks among them", unsent)
    }
}
