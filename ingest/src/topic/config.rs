//! How the cluster is reached, and what the topic must be like.

use std::path::PathBuf;
use std::time::Duration;

use fluvio::config::{TlsConfig, TlsPaths, TlsPolicy};
use fluvio_future::net::DomainConnector;
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
        DomainConnector::try_from(policy).map_err(|error| TopicError::Tls(format!("{error:#}")))
    }
}
