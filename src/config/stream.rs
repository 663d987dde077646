//! `[stream]`, and the rules of `[stream.fluvio]`: what the cluster would refuse is refused here, by its key.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Size, Span, seconds};

/// The most partitions: each is a position of every commit.
const MOST_PARTITIONS: u32 = 1_024;
/// The longest name of a topic.
const LONGEST_NAME: usize = 63;
/// The least that a partition holds: a few requests of the forwarder.
const LEAST_BYTES: u64 = 16 << 20;

/// `[stream]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Stream {
    /// Which backend.
    pub(crate) backend: Backend,
    /// Fluvio's settings.
    pub(crate) fluvio: Fluvio,
}

/// The stream's backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Backend {
    /// The journals themselves.
    #[default]
    Embedded,
    /// A Fluvio topic.
    Fluvio,
}

/// `[stream.fluvio]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fluvio {
    /// The cluster's address.
    pub(crate) endpoint: String,
    /// The topic.
    pub(crate) topic: String,
    /// Its partitions.
    pub(crate) partitions: u32,
    /// Copies of each partition.
    pub(crate) replication: u32,
    /// How long it keeps records.
    pub(crate) retention: Span,
    /// The most that a partition takes on a broker's disk.
    pub(crate) partition_bytes: Size,
    /// How batches are compressed.
    pub(crate) compression: Compression,
    /// Whether connections are encrypted.
    pub(crate) tls: Tls,
    /// The cluster's domain: its brokers are names below it.
    pub(crate) tls_domain: String,
    /// Our private key, a PEM file.
    pub(crate) tls_key: PathBuf,
    /// Our certificate, a PEM file.
    pub(crate) tls_cert: PathBuf,
    /// Who signs the brokers' certificates, a PEM file.
    pub(crate) tls_ca: PathBuf,
    /// Whether brokers are reached by their local addresses.
    pub(crate) local_addresses: bool,
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Compression {
    /// The least work.
    #[default]
    Lz4,
    /// The least bytes.
    Zstd,
    /// Snappy.
    Snappy,
    /// gzip.
    Gzip,
}

/// Whether and how connections to the cluster are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tls {
    /// Not at all.
    #[default]
    Off,
    /// Encrypted, whoever the brokers are.
    Anonymous,
    /// Both sides show certificates.
    Verified,
}

impl Default for Fluvio {
    fn default() -> Self {
        Self {
            endpoint: "127.0.0.1:9003".into(),
            topic: "clicks".into(),
            partitions: 4,
            replication: 1,
            retention: seconds(7 * 24 * 3600),
            partition_bytes: Size(100 << 30),
            compression: Compression::Lz4,
            tls: Tls::Off,
            tls_domain: String::new(),
            tls_key: PathBuf::new(),
            tls_cert: PathBuf::new(),
            tls_ca: PathBuf::new(),
            local_addresses: false,
        }
    }
}

/// What is wrong, one line each.
pub(super) fn problems(fluvio: &Fluvio) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |ok: bool, key: &str, value: &dyn std::fmt::Display, expected: &str| {
        if !ok {
            wrong.push(format!("stream.fluvio.{key} ({value}) must be {expected}"));
        }
    };
    let port = fluvio.endpoint.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let has_port = port.is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    check(has_port, "endpoint", &format!("{:?}", fluvio.endpoint), "the cluster's address, as host:port");
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let name = &fluvio.topic;
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    check(is_name, "topic", &format!("{name:?}"), "at most 63 of a-z, 0-9 and -, with - neither first nor last");
    check((1..=MOST_PARTITIONS).contains(&fluvio.partitions), "partitions", &fluvio.partitions, "from 1 to 1024");
    check(fluvio.replication >= 1, "replication", &fluvio.replication, "at least 1");
    let seconds = Duration::from_secs(10)..=Duration::from_secs(u64::from(u32::MAX));
    check(seconds.contains(&fluvio.retention.0), "retention", &fluvio.retention, "at least 10s");
    check(fluvio.partition_bytes.0 >= LEAST_BYTES, "partition_bytes", &fluvio.partition_bytes, "at least 16MiB");
    let files = [
        ("tls_domain", fluvio.tls_domain.is_empty()),
        ("tls_key", fluvio.tls_key.as_os_str().is_empty()),
        ("tls_cert", fluvio.tls_cert.as_os_str().is_empty()),
        ("tls_ca", fluvio.tls_ca.as_os_str().is_empty()),
    ];
    for (key, is_empty) in files {
        match fluvio.tls {
            Tls::Verified if is_empty => {
                wrong.push(format!("stream.fluvio.tls = \"verified\" needs stream.fluvio.{key}"))
            }
            Tls::Off | Tls::Anonymous if !is_empty => {
                wrong.push(format!("stream.fluvio.{key} is of no use without stream.fluvio.tls = \"verified\""));
            }
            _ => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Size, Span};

    #[test]
    fn each_rule_names_its_key() {
        let broken = |change: &dyn Fn(&mut Fluvio)| {
            let mut fluvio = Fluvio::default();
            change(&mut fluvio);
            problems(&fluvio).join("\n")
        };
        assert_eq!(broken(&|_| {}), "");
        assert!(broken(&|f| f.endpoint = "cluster".into()).contains("stream.fluvio.endpoint (\"cluster\")"));
        assert!(broken(&|f| f.endpoint = ":9003".into()).contains("host:port"));
        for name in ["", "Clicks", "a_b", "-a", "a-"] {
            assert!(broken(&|f| f.topic = name.into()).contains("stream.fluvio.topic"), "{name}");
        }
        assert!(broken(&|f| f.partitions = 0).contains("from 1 to 1024"));
        assert!(broken(&|f| f.replication = 0).contains("replication"));
        assert!(broken(&|f| f.retention = Span(Duration::from_secs(9))).contains("retention (9s)"));
        assert!(broken(&|f| f.partition_bytes = Size(1)).contains("partition_bytes"));
        assert!(broken(&|f| f.tls = Tls::Verified).contains("needs stream.fluvio.tls_key"));
        assert!(broken(&|f| f.tls_ca = "ca.pem".into()).contains("stream.fluvio.tls_ca is of no use"));
    }
}
