//! The way through a topic: which generation of it is the present one, and which of its partitions this process reads.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Context;
use ingest::ports::Generation;
use ingest::stream::Partition;
use ingest::topic::{Compression as Packed, Tls as Encrypted, Topic, TopicConfig, TopicHealth};
use redirect::links::LinkStore;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::tasks::Tasks;
use crate::config::{Backend, Compression, Config, Tls};

/// A topic in use by this process.
#[derive(Clone, Debug)]
pub(crate) struct Through {
    /// The topic.
    pub(crate) topic: Topic,
    /// Its present generation, `None` until the cluster has been reached.
    pub(crate) present: watch::Receiver<Option<Arc<Generation>>>,
}

impl Through {
    /// Looks after the topic that is configured, until `back` stops; `None` when journals are the stream.
    pub(crate) fn start(config: &Config, store: &LinkStore, back: &mut Tasks) -> Option<Self> {
        let topic = topic(config, store)?;
        let (tell, present) = watch::channel(None);
        let (follow, stop) = (topic.clone(), back.stop_token());
        back.spawn("topic", async move {
            follow.follow(stop, tell).await;
            Ok(())
        });
        Some(Self { topic, present })
    }

    /// What is in the way, if anything is.
    pub(crate) fn health(&self) -> TopicHealth {
        self.topic.health().clone()
    }

    /// Hands the partitions that this process reads to the hot path, of each generation in turn.
    pub(crate) async fn hand_over(
        mut self,
        hand_over: mpsc::Sender<Box<dyn Partition>>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        loop {
            let present = self.present.borrow_and_update().clone();
            if let Some(generation) = present {
                for partition in self.topic.partitions(&generation, read_here(&generation), &self.present) {
                    hand_over.send(partition).await.ok().context("the hot path has gone")?;
                }
            }
            if stop.run_until_cancelled(self.present.changed()).await.is_none_or(|changed| changed.is_err()) {
                return Ok(());
            }
        }
    }
}

/// The partitions that this process reads: all of them.
fn read_here(generation: &Generation) -> Range<u32> {
    0..generation.partitions
}

/// The topic that is configured; `None` when journals are the stream.
fn topic(config: &Config, store: &LinkStore) -> Option<Topic> {
    if config.stream.backend != Backend::Fluvio {
        return None;
    }
    let fluvio = &config.stream.fluvio;
    let tls = match fluvio.tls {
        Tls::Off => Encrypted::Off,
        Tls::Anonymous => Encrypted::Anonymous,
        Tls::Verified => Encrypted::Verified {
            domain: fluvio.tls_domain.clone(),
            key: fluvio.tls_key.clone(),
            cert: fluvio.tls_cert.clone(),
            ca_cert: fluvio.tls_ca.clone(),
        },
    };
    let settings = TopicConfig {
        endpoint: fluvio.endpoint.clone(),
        topic: fluvio.topic.clone(),
        partitions: fluvio.partitions,
        replication: fluvio.replication,
        retention: fluvio.retention.0,
        partition_bytes: fluvio.partition_bytes.0,
        compression: match fluvio.compression {
            Compression::Lz4 => Packed::Lz4,
            Compression::Zstd => Packed::Zstd,
            Compression::Snappy => Packed::Snappy,
            Compression::Gzip => Packed::Gzip,
        },
        tls,
        local_addresses: fluvio.local_addresses,
    };
    Some(Topic::new(settings, Arc::new(store.clone())))
}
