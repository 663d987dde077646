//! The topic as it is found: made as configured, compared, without brokers, gone, made anew by somebody else.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fluvio::metadata::topic::{CompressionAlgorithm, TopicSpec};
use fluvio::{Fluvio, FluvioAdmin, FluvioClusterConfig};

use super::{PATIENCE, broker, check, load, node, settings, value};

/// What an operator has in hand: a cluster, and the name of a topic.
pub(super) struct Operator {
    client: Fluvio,
    topic: String,
}

impl Operator {
    /// Of the cluster and the topic that settings name.
    pub(super) async fn of(settings: &str) -> Result<Self> {
        let config = FluvioClusterConfig::new(value(settings, "endpoint"));
        let client = tokio::time::timeout(PATIENCE, Fluvio::connect_with_config(&config)).await??;
        Ok(Self { client, topic: value(settings, "topic").to_owned() })
    }

    async fn admin(&self) -> FluvioAdmin {
        self.client.admin().await
    }

    /// Makes the topic, once an older one of its name is gone.
    async fn make(&self, partitions: u32, compression: CompressionAlgorithm) -> Result<()> {
        let mut spec = TopicSpec::new_computed(partitions, 1, None);
        spec.set_compression_type(compression);
        let made = async {
            while self.admin().await.create(self.topic.clone(), false, spec.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, made).await.context("the topic can't be made")
    }

    /// The topic's settings.
    async fn spec(&self) -> Result<TopicSpec> {
        let topics = self.admin().await.list::<TopicSpec, String>(vec![self.topic.clone()]).await?;
        Ok(topics.into_iter().find(|topic| topic.name == self.topic).context("there is no topic")?.spec)
    }

    /// Deletes the topic.
    pub(super) async fn delete(&self) -> Result<()> {
        self.admin().await.delete::<TopicSpec>(self.topic.clone()).await
    }
}

/// A topic that clicks can't go through is refused with what is wrong, and one that is missing is made as configured.
pub(super) async fn compared(endpoint: &str) -> Result<()> {
    let settings = format!("{}\nretention = \"3h\"", settings(endpoint, 2));
    let operator = Operator::of(&settings).await?;
    operator.make(1, CompressionAlgorithm::Gzip).await?;
    let mut node = node(&settings)?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(100).await?;
    let said = node.readyz_says("partitions is 1 in the topic and 2 in the configuration").await?;
    ensure!(said.contains("compression is gzip in the topic and lz4 in the configuration"), "{said}");
    operator.delete().await?;
    node.readyz_says("ready\n").await?;
    let ledger = clicks.end().await?;
    check(&node, &ledger).await?;
    let spec = operator.spec().await?;
    let made = (spec.partitions(), spec.retention_secs(), spec.get_compression_type().clone());
    ensure!(made == (2, 3 * 3_600, CompressionAlgorithm::Lz4), "{made:?}");
    node.stop().await?;
    operator.delete().await
}

/// A topic that is gone, and one that is another under the same name, are refused until an operator has spoken.
pub(super) async fn made_anew(endpoint: &str) -> Result<()> {
    let settings = settings(endpoint, 2);
    let operator = Operator::of(&settings).await?;
    let mut node = node(&settings)?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(1_000).await?;
    let mut all = clicks.end().await?;
    check(&node, &all).await?;
    operator.delete().await?;
    let said = node.readyz_says("highwater stream renew").await?;
    ensure!(said.contains("there is no partition"), "{said}");
    // an empty one: the offsets that the lake has are beyond its end
    operator.make(2, CompressionAlgorithm::Any).await?;
    let said = node.readyz_says("the topic was made anew").await?;
    ensure!(said.contains("but the lake holds its records up to"), "{said}");
    let clicks = load(&node);
    clicks.more(300).await?;
    node.ok(&["stream", "renew"])?;
    clicks.more(300).await?;
    all.add(clicks.end().await?);
    check(&node, &all).await?;
    node.readyz_says("ready\n").await?;
    node.stop().await?;
    node.ok(&["verify"])?;
    check(&node, &all).await?;
    operator.delete().await
}

/// More copies are asked for than there are brokers: it is said, clicks wait, and go on when an operator has made room.
pub(super) async fn without_brokers(endpoint: &str) -> Result<()> {
    let settings = format!("{}\nreplication = 7", settings(endpoint, 2));
    let operator = Operator::of(&settings).await?;
    let mut node = node(&settings)?;
    node.start().await?;
    let clicks = load(&node);
    clicks.more(100).await?;
    node.readyz_says("stream.fluvio.replication is 7, and no fewer must run").await?;
    operator.delete().await?;
    operator.make(2, CompressionAlgorithm::Any).await?;
    clicks.more(100).await?;
    let ledger = clicks.end().await?;
    check(&node, &ledger).await?;
    node.readyz_says("ready\n").await?;
    node.stop().await?;
    operator.delete().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_made_as_configured_and_one_that_is_there_is_compared() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    compared(&broker.address()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_made_anew_is_refused_until_an_operator_renews_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    made_anew(&broker.address()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_brokers_says_so_and_clicks_wait() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    without_brokers(&broker.address()).await
}
