//! Metrics that alarms are made of, and that nobody else counts: how far answers are complete and final, what is failing, who
//! is silent, who reads which partition.
//!
//! Failure: a process that can't find out leaves the last value standing; that it can't is a value of its own.

use ingest::topic::TopicHealth;
use processor::hot::HotStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use schemas::UtcMicros;
use tokio::sync::watch;

use super::standing::Standing;

/// A partition of a stream, as `highwater_stream_lag_records` names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Part {
    partition: String,
}

/// What this process reads of a topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    of: Gauge,
    owned: Family<Part, Gauge>,
}

impl Reads {
    /// Makes it part of what `/metrics` shows.
    pub(crate) fn register(&self, metrics: &mut Registry) {
        metrics.register(
            "highwater_stream_partitions",
            "Partitions of the topic's present generation",
            self.of.clone(),
        );
        let help = "1 for each partition that this process reads";
        metrics.register("highwater_stream_partition_owned", help, self.owned.clone());
    }

    /// There are so many partitions to be read by somebody.
    pub(crate) fn of(&self, partitions: u32) {
        self.of.set(i64::from(partitions));
    }

    /// This one is read here now.
    pub(crate) fn take(&self, partition: &str) {
        self.owned.get_or_create(&Part { partition: partition.to_owned() }).set(1);
    }

    /// This one isn't any more.
    pub(crate) fn leave(&self, partition: &str) {
        self.owned.remove(&Part { partition: partition.to_owned() });
    }
}

/// How far answers are complete and final, and who holds them back, as the process role last found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    complete: Gauge,
    settled: Gauge,
    silent: Gauge,
}

impl Progress {
    /// Makes it part of what `/metrics` shows.
    pub(crate) fn register(&self, metrics: &mut Registry) {
        let help = "Up to when every click is in the lake, in seconds since 1970; 0 until it is known";
        metrics.register("highwater_complete_through_seconds", help, self.complete.clone());
        let help = "Up to when edge logs are settled too, in seconds since 1970; 0 until anything is final";
        metrics.register("highwater_final_through_seconds", help, self.settled.clone());
        let help = "Open journals of which nothing has been heard for a minute or more";
        metrics.register("highwater_journals_silent", help, self.silent.clone());
    }

    /// Every click before `at` is in the lake.
    pub(crate) fn complete(&self, at: UtcMicros) {
        self.complete.set(at.0 / 1_000_000);
    }

    /// Edge logs before `at` are settled too.
    pub(crate) fn settled(&self, at: UtcMicros) {
        self.settled.set(at.0 / 1_000_000);
    }

    /// So many journals are silent.
    pub(crate) fn silent(&self, journals: usize) {
        self.silent.set(journals as i64);
    }
}

/// What fails, asked when it is to be shown.
#[derive(Debug)]
pub(crate) struct Failing {
    /// The topic, when clicks go through one.
    pub(crate) topic: Option<TopicHealth>,
    /// Hot path and lake, in a process that brings clicks into it.
    pub(crate) lake: Option<(watch::Receiver<HotStatus>, watch::Receiver<Standing>)>,
}

impl Collector for Failing {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut show = |name: &str, help: &str, value: bool| {
            let gauge = ConstGauge::new(i64::from(value));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        if let Some(topic) = &self.topic {
            show("highwater_stream_failing", "1 while the topic can't be used", topic.problem().is_some())?;
        }
        if let Some((hot, standing)) = &self.lake {
            let (fails, is_lost) = (hot.borrow().failing.is_some(), matches!(*standing.borrow(), Standing::Lost(_)));
            show("highwater_lake_failing", "1 since a commit of clicks failed, until one lands", fails)?;
            show("highwater_lake_lost", "1 while the lake isn't the one that the registry knows", is_lost)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn what_is_read_and_what_fails_is_shown_as_it_is_now() {
        let (reads, progress, mut registry) = (Reads::default(), Progress::default(), Registry::default());
        reads.register(&mut registry);
        progress.register(&mut registry);
        let (hot, lake) = (watch::Sender::new(HotStatus::default()), watch::Sender::new(Standing::Whole));
        let failing = Failing { topic: Some(TopicHealth::default()), lake: Some((hot.subscribe(), lake.subscribe())) };
        registry.register_collector(Box::new(failing));
        reads.of(4);
        reads.take("clicks@1/0");
        reads.take("clicks@1/1");
        reads.leave("clicks@1/0");
        progress.complete(UtcMicros(7_900_000));
        progress.silent(2);
        let text = shown(&registry);
        for line in [
            "highwater_stream_partitions 4",
            "highwater_stream_partition_owned{partition=\"clicks@1/1\"} 1",
            "highwater_complete_through_seconds 7",
            "highwater_final_through_seconds 0",
            "highwater_journals_silent 2",
            "highwater_stream_failing 0",
            "highwater_lake_failing 0",
            "highwater_lake_lost 0",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("clicks@1/0"), "{text}");
        hot.send_replace(HotStatus { failing: Some("no room".into()), ..HotStatus::default() });
        lake.send_replace(Standing::Lost("it is gone".into()));
        let text = shown(&registry);
        assert!(text.contains("highwater_lake_failing 1") && text.contains("highwater_lake_lost 1"), "{text}");
    }
}
