//! How the cluster is reached, and what the topic must be like.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use fluvio::config::{TlsConfig, TlsPaths, TlsPolicy};
use fluvio_future::net::DomainConnector;
use fluvio_future::rust_tls::{ConnectorBuilder, TlsDomainConnector};
use fluvio_protocol::record::Batch;
use fluvio_sc_schema::topic::CompressionAlgorithm;

use super::error::TopicError;

/// How batches are compressed on their way and in the topic. Always: the broker cuts answers in the middle of a batch, and a
/// cut in an uncompressed one can't be told from its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// LZ4: the least work.
    #[default]
    Lz4,
    /// Zstandard: the least bytes.
    Zstd,
    /// Snappy.
    Snappy,
    /// gzip.
    Gzip,
}

impl Compression {
    /// The word for configuration and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Snappy => "snappy",
            Self::Gzip => "gzip",
        }
    }

    pub(super) fn mark(self, batch: &mut Batch) {
        batch.get_mut_header().set_compression(match self {
            Self::Lz4 => fluvio::Compression::Lz4,
            Self::Zstd => fluvio::Compression::Zstd,
            Self::Snappy => fluvio::Compression::Snappy,
            Self::Gzip => fluvio::Compression::Gzip,
        });
    }

    /// Whether a topic of this kind takes it.
    pub(super) fn fits(self, topic: &CompressionAlgorithm) -> bool {
        match topic {
            CompressionAlgorithm::Any => true,
            CompressionAlgorithm::None => false,
            CompressionAlgorithm::Gzip => self == Self::Gzip,
            CompressionAlgorithm::Snappy => self == Self::Snappy,
            CompressionAlgorithm::Lz4 => self == Self::Lz4,
            CompressionAlgorithm::Zstd => self == Self::Zstd,
        }
    }

    pub(super) fn of_topic(self) -> CompressionAlgorithm {
        match self {
            Self::Gzip => CompressionAlgorithm::Gzip,
            Self::Snappy => CompressionAlgorithm::Snappy,
            Self::Lz4 => CompressionAlgorithm::Lz4,
            Self::Zstd => CompressionAlgorithm::Zstd,
        }
    }
}

/// Whether and how connections are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    #[default]
    Off,
    /// Encrypted, whoever the server is.
    Anonymous,
    /// Both sides show certificates (PEM files).
    Verified {
        /// The cluster's domain: its brokers are names below it.
        domain: String,
        /// Our private key.
        key: PathBuf,
        /// Our certificate.
        cert: PathBuf,
        /// Who signs the servers' certificates.
        ca_cert: PathBuf,
    },
}

/// How the cluster is reached, and what the topic must be like.
#[derive(Clone, Debug)]
pub struct TopicConfig {
    /// The cluster's address, as `host:port`.
    pub endpoint: String,
    /// The topic.
    pub topic: String,
    /// Its partitions.
    pub partitions: u32,
    /// Copies of each partition.
    pub replication: u32,
    /// How long the topic keeps records.
    pub retention: Duration,
    /// The most bytes that a partition takes on a broker's disk.
    pub partition_bytes: u64,
    /// How batches are compressed.
    pub compression: Compression,
    /// Whether connections are encrypted.
    pub tls: Tls,
    /// Whether brokers are reached by their local addresses: from within the cluster's own network.
    pub local_addresses: bool,
}

impl TopicConfig {
    pub(super) fn connector(&self) -> Result<DomainConnector, TopicError> {
        let policy = match &self.tls {
            Tls::Off => TlsPolicy::Disabled,
            Tls::Anonymous => TlsPolicy::Anonymous,
            Tls::Verified { domain, key, cert, ca_cert } => TlsPolicy::Verified(TlsConfig::Files(TlsPaths {
                domain: domain.clone(),
                key: key.clone(),
                cert: cert.clone(),
                ca_cert: ca_cert.clone(),
            })),
        };
        let connector = DomainConnector::try_from(policy).map_err(|error| TopicError::Tls(format!("{error:#}")))?;
        Ok(if self.tls == Tls::Anonymous { anonymous(&self.endpoint) } else { connector })
    }
}

/// Encrypted, whoever the server is. The client's own connector of that kind takes the address, port and all, for the
/// server's name, which can't be one: it never gets through.
fn anonymous(endpoint: &str) -> DomainConnector {
    let connector = ConnectorBuilder::with_safe_defaults().no_cert_verification().build();
    Box::new(TlsDomainConnector::new(connector, name_of(endpoint).to_owned()))
}

/// A name that the server at `endpoint` can be asked for by; any will do where there is only an address.
fn name_of(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    if is_address { "localhost" } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_for_by_a_name() {
        for (endpoint, name) in [
            ("fluvio.example.net:9003", "fluvio.example.net"),
            ("127.0.0.1:9003", "localhost"),
            ("[::1]:9003", "localhost"),
            ("fluvio", "fluvio"),
        ] {
            assert_eq!(name_of(endpoint), name);
        }
    }
}
