//! The way through a topic: which generation of it is the present one, and which of its partitions this process reads.

use std::sync::Arc;

use anyhow::Context;
use ingest::ports::Generation;
use ingest::stream::Partition;
use ingest::topic::{Compression as Packed, Tls as Encrypted, Topic, TopicConfig, TopicHealth};
use processor::hot::Seating;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use redirect::links::LinkStore;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::shares::{Member, Over, Shared, share};
use super::signs::{Failing, Reads};
use super::tasks::Tasks;
use super::{Roles, member};
use crate::config::{Backend, Compression, Config, Partitions, Tls};

/// A topic in use by this process.
#[derive(Clone, Debug)]
pub(crate) struct Through {
    /// The topic.
    pub(crate) topic: Topic,
    /// Its present generation, `None` until the cluster has been reached.
    pub(crate) present: watch::Receiver<Option<Arc<Generation>>>,
    /// By how many hours the topic keeps records for too short a time.
    pub(crate) missing_hours: Gauge,
    /// What of it this process reads, when it does.
    reads: Partitions,
    /// What it reads of it now, to be shown.
    shown: Reads,
    /// This process among those that share it.
    me: Member,
}

impl Through {
    /// Looks after the topic that is configured, until `back` stops; `None` when journals are the stream, or `roles` need
    /// none.
    ///
    /// # Errors
    /// When the data folder can't be written.
    pub(crate) async fn start(
        config: &Config,
        store: &LinkStore,
        roles: Roles,
        metrics: &mut Registry,
        back: &mut Tasks,
    ) -> anyhow::Result<Option<Self>> {
        let topic = match topic(config, store) {
            Some(topic) if roles.redirect || roles.process => topic,
            _ => return Ok(None),
        };
        let (missing_hours, shown) = (Gauge::default(), Reads::default());
        let mut name = String::new();
        if roles.process {
            name = member::name(store, &config.data_dir).await?;
            shown.register(metrics);
        }
        if roles.redirect {
            let help = "Hours of the longest expected backlog for which the topic keeps no records";
            metrics.register("highwater_stream_retention_missing_hours", help, missing_hours.clone());
        }
        metrics.register_collector(Box::new(Failing { topic: Some(topic.health().clone()), lake: None }));
        let (tell, present) = watch::channel(None);
        let (follow, stop) = (topic.clone(), back.stop_token());
        back.spawn("topic", async move {
            follow.follow(stop, tell).await;
            Ok(())
        });
        let me = Member { store: store.clone(), name, lasts: config.process.lease.0 };
        Ok(Some(Self { topic, present, missing_hours, reads: config.process.partitions.clone(), shown, me }))
    }

    /// What is in the way, if anything is.
    pub(crate) fn health(&self) -> TopicHealth {
        self.topic.health().clone()
    }

    /// Has the hot path behind `seats` read this process's partitions of each generation in turn: those that it is told to,
    /// or a fair share.
    pub(crate) async fn read(mut self, seats: mpsc::Sender<Seating>, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let present = self.present.borrow_and_update().clone();
            let mut next = self.present.clone();
            let over = async {
                match stop.run_until_cancelled(next.changed()).await {
                    Some(Ok(())) => Over::Stream,
                    _ => Over::Stopping,
                }
            };
            let Some(generation) = present else {
                match over.await {
                    Over::Stream => continue,
                    Over::Stopping => return Ok(()),
                }
            };
            let stream = Stream { topic: &self.topic, generation, present: &self.present };
            self.shown.of(stream.partitions());
            match self.reads.fixed(stream.partitions()) {
                None => share(&self.me, &stream, &seats, &self.shown, over).await?,
                Some(parts) => {
                    tracing::info!(stream = stream.name(), ?parts, "reading the partitions that are configured");
                    for &part in &parts {
                        self.shown.take(&stream.name_of(part));
                        seats.send(Seating::Take(stream.open(part))).await.ok().context("the hot path has gone")?;
                    }
                    over.await;
                    parts.iter().for_each(|part| self.shown.leave(&stream.name_of(*part)));
                }
            }
            if stop.is_cancelled() {
                return Ok(());
            }
        }
    }
}

/// A generation of the topic, as it is shared.
struct Stream<'a> {
    topic: &'a Topic,
    generation: Arc<Generation>,
    present: &'a watch::Receiver<Option<Arc<Generation>>>,
}

impl Shared for Stream<'_> {
    fn name(&self) -> String {
        self.generation.stream()
    }

    fn partitions(&self) -> u32 {
        self.generation.partitions
    }

    fn name_of(&self, part: u32) -> String {
        self.generation.partition(part)
    }

    fn open(&self, part: u32) -> Box<dyn Partition> {
        Box::new(self.topic.partition(&self.generation, part, self.present))
    }
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
