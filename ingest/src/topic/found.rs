//! What a topic that is there is like, beside what is configured. Pure.

use fluvio_sc_schema::topic::TopicSpec;

use super::config::TopicConfig;

/// What differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Clicks can't go through it like this.
    pub(super) wrong: Vec<String>,
    /// It works, but not as configured.
    pub(super) other: Vec<String>,
}

/// Compares the topic that is there with the configuration.
pub(super) fn differences(config: &TopicConfig, spec: &TopicSpec) -> Differences {
    let mut found = Differences::default();
    let partitions = spec.partitions();
    let says = |key: &str, has: &dyn std::fmt::Display, wanted: &dyn std::fmt::Display| {
        format!("{key} is {has} in the topic and {wanted} in the configuration")
    };
    if partitions < config.partitions {
        found.wrong.push(says("stream.fluvio.partitions", &partitions, &config.partitions));
    } else if partitions > config.partitions {
        found.other.push(says("stream.fluvio.partitions", &partitions, &config.partitions));
    }
    let compression = spec.get_compression_type();
    if !config.compression.fits(compression) {
        let word = config.compression.as_str();
        found.wrong.push(says("stream.fluvio.compression", &format!("{compression:?}").to_lowercase(), &word));
    }
    if let Some(replication) = spec.replication_factor().filter(|has| *has != config.replication) {
        found.other.push(says("stream.fluvio.replication", &replication, &config.replication));
    }
    let (retention, wanted) = (u64::from(spec.retention_secs()), config.retention.as_secs());
    if retention != wanted {
        found.other.push(says("stream.fluvio.retention", &format!("{retention}s"), &format!("{wanted}s")));
    }
    let bytes = spec.get_storage().and_then(|storage| storage.max_partition_size);
    if let Some(bytes) = bytes.filter(|has| *has != config.partition_bytes) {
        found.other.push(says("stream.fluvio.partition_bytes", &bytes, &config.partition_bytes));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fluvio_sc_schema::topic::{CleanupPolicy, CompressionAlgorithm, SegmentBasedPolicy, TopicStorageConfig};

    use super::super::config::{Compression, Tls};
    use super::*;

    #[test]
    fn each_difference_is_named_and_judged() {
        let config = TopicConfig {
            endpoint: String::new(),
            topic: "clicks".into(),
            partitions: 4,
            replication: 2,
            retention: Duration::from_secs(100),
            partition_bytes: 1 << 30,
            compression: Compression::Lz4,
            tls: Tls::Off,
            local_addresses: false,
        };
        let spec = |partitions, replication, seconds, bytes, compression| {
            let mut spec = TopicSpec::new_computed(partitions, replication, None);
            spec.set_cleanup_policy(CleanupPolicy::Segment(SegmentBasedPolicy { time_in_seconds: seconds }));
            spec.set_storage(TopicStorageConfig { segment_size: None, max_partition_size: Some(bytes) });
            spec.set_compression_type(compression);
            spec
        };
        let same = spec(4, 2, 100, 1 << 30, CompressionAlgorithm::Any);
        assert_eq!(differences(&config, &same), Differences::default());
        let other = differences(&config, &spec(8, 1, 50, 5, CompressionAlgorithm::Lz4));
        assert_eq!((other.wrong.len(), other.other.len()), (0, 4));
        for (line, key) in
            other.other.iter().zip(["partitions is 8", "replication is 1", "retention is 50s", "bytes is 5"])
        {
            assert!(line.contains(key), "{line}");
        }
        let wrong = differences(&config, &spec(3, 2, 100, 1 << 30, CompressionAlgorithm::Gzip));
        assert_eq!((wrong.wrong.len(), wrong.other.len()), (2, 0));
        assert!(wrong.wrong[1].contains("compression is gzip in the topic and lz4"), "{:?}", wrong.wrong);
    }
}
