//! The topic as a whole: made when it is missing, compared when it is there, known by its present generation.

use std::sync::Arc;
use std::time::Duration;

use schemas::UtcMicros;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, chance};
use super::cluster::Cluster;
use super::config::TopicConfig;
use super::error::TopicError;
use super::found::differences;
use super::health::TopicHealth;
use super::partition::TopicPartition;
use crate::ports::{Coverage, Generation};
use crate::stream::{Partition, TopicPart};

/// How often it is looked whether another generation has begun.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the link store may take.
pub(super) const STORE_WITHIN: Duration = Duration::from_secs(5);

/// A topic. Clones are the same.
#[derive(Clone, Debug)]
pub struct Topic {
    cluster: Cluster,
    coverage: Arc<dyn Coverage>,
    health: TopicHealth,
}

impl Topic {
    /// The topic that is configured. Nothing happens yet.
    pub fn new(config: TopicConfig, coverage: Arc<dyn Coverage>) -> Self {
        Self { cluster: Cluster { config: Arc::new(config) }, coverage, health: TopicHealth::default() }
    }

    /// What is wrong with it, kept current by those who use it.
    pub fn health(&self) -> &TopicHealth {
        &self.health
    }

    /// How long it keeps records, as configured.
    pub fn retention(&self) -> Duration {
        self.cluster.config.retention
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(super) fn coverage(&self) -> &Arc<dyn Coverage> {
        &self.coverage
    }

    /// Makes the topic if it is missing, compares it if not, and tells its present generation.
    ///
    /// # Errors
    /// As [`TopicError`] says; only `Unusable` needs an operator.
    pub async fn ensure(&self) -> Result<Generation, TopicError> {
        let config = &self.cluster.config;
        let seen = self.present().await?;
        let mut controller = self.cluster.controller().await?;
        match self.cluster.topic(&mut controller).await? {
            Some(topic) => {
                let found = differences(config, &topic.spec);
                if !found.wrong.is_empty() {
                    return Err(self.unusable(format!("{}; change one of them", found.wrong.join("; "))));
                }
                for difference in found.other {
                    tracing::warn!(topic = config.topic, difference, "the topic isn't as configured");
                }
            }
            None => {
                if let Some(seen) = &seen
                    && !self.coverage.reached(seen).await?.is_empty()
                {
                    let why = format!(
                        "it is gone from the cluster at {}, and the lake has read generation {} of it; restore it, or \
                         `highwater stream renew` begins another generation, and journals send what the lake lacks",
                        config.endpoint, seen.id
                    );
                    return Err(self.unusable(why));
                }
            }
        }
        let generation = self.generation(seen).await?;
        self.cluster.create(&mut controller).await?;
        Ok(generation)
    }

    /// The present generation, begun if there is none.
    async fn generation(&self, seen: Option<Generation>) -> Result<Generation, TopicError> {
        let config = &self.cluster.config;
        let generation = match seen {
            Some(seen) => seen,
            None => {
                let begin = self.coverage.begin_generation(&config.topic, config.partitions, None, UtcMicros::now());
                begin.await?
            }
        };
        if generation.partitions != config.partitions {
            let why = format!(
                "stream.fluvio.partitions is {} in the configuration, and generation {} has {}: set it back, or, once all \
                 that it holds is in the lake, `highwater stream renew` begins another",
                config.partitions, generation.id, generation.partitions
            );
            return Err(self.unusable(why));
        }
        Ok(generation)
    }

    /// The present generation, if there is one.
    ///
    /// # Errors
    /// When the link store fails.
    pub async fn present(&self) -> Result<Option<Generation>, TopicError> {
        Ok(self.coverage.generation(&self.cluster.config.topic).await?)
    }

    /// Tells the present generation whenever there is another, once the topic is ensured; until `stop`.
    pub async fn follow(&self, stop: CancellationToken, tell: watch::Sender<Option<Arc<Generation>>>) {
        const PART: &str = "topic";
        let mut backoff = Backoff::default();
        loop {
            let pause = match self.look(&tell).await {
                Ok(()) => {
                    backoff.over();
                    if self.health.well(PART) {
                        tracing::info!(topic = self.cluster.config.topic, "the topic can be used");
                    }
                    LOOK_EVERY
                }
                Err(failure) => {
                    if self.health.ill(PART, &failure) {
                        tracing::warn!(%failure, "the topic can't be used now");
                    }
                    backoff.pause(chance())
                }
            };
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    async fn look(&self, tell: &watch::Sender<Option<Arc<Generation>>>) -> Result<(), TopicError> {
        let known = tell.borrow().clone();
        if let Some(known) = &known
            && self.present().await?.as_ref() == Some(known)
        {
            return Ok(());
        }
        let generation = self.ensure().await?;
        tracing::info!(topic = generation.topic, generation = generation.id, "clicks go through the topic");
        tell.send_replace(Some(Arc::new(generation)));
        Ok(())
    }

    /// Partition `number` of `generation`, to be read by one task. It ends when `present` tells of another generation.
    pub fn partition(
        &self,
        generation: &Arc<Generation>,
        number: u32,
        present: &watch::Receiver<Option<Arc<Generation>>>,
    ) -> impl Partition + use<> {
        let part = TopicPart { generation: Arc::clone(generation), number };
        TopicPartition::new(self.cluster.clone(), self.health.clone(), part, present.clone())
    }

    fn unusable(&self, why: String) -> TopicError {
        TopicError::Unusable { topic: self.cluster.config.topic.clone(), why }
    }
}
