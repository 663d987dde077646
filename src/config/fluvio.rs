//! Rules of `[stream.fluvio]`: what the cluster would refuse is refused here, by its key.

use std::time::Duration;

use super::{Fluvio, Tls};

/// The most partitions: each is a position of every commit.
const MOST_PARTITIONS: u32 = 1_024;
/// The longest name of a topic.
const LONGEST_NAME: usize = 63;
/// The least that a partition holds: a few requests of the forwarder.
const LEAST_BYTES: u64 = 16 << 20;

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
