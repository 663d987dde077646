//! The stand-in broker, by the real client.

mod faults;
mod outages;
mod reader;
mod restarts;

use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use fluvio::consumer::{ConsumerConfigExtBuilder, ConsumerStream, Record, RetryMode};
use fluvio::dataplane::link::ErrorCode;
use fluvio::metadata::topic::TopicSpec;
use fluvio::{
    Compression, DeliverySemantic, Fluvio, FluvioClusterConfig, Offset, ProduceOutput, RecordKey, RetryPolicy,
    TopicProducerConfigBuilder, TopicProducerPool,
};
use futures::StreamExt;
use tempfile::TempDir;
use tests::standin::{Held, Options, StandIn, dump, serve_for_parent};

/// Nothing takes as long on a machine that is not stopped.
const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "clicks";

/// Not a test: the stand-in as a process of its own, for [`restarts`].
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process that other tests start"]
async fn serve() {
    serve_for_parent().await.unwrap();
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, Box::pin(future)).await.expect("it takes too long")
}

async fn connect(address: &str) -> Fluvio {
    within(Fluvio::connect_with_config(&FluvioClusterConfig::new(address))).await.unwrap()
}

async fn create(client: &Fluvio, partitions: u32) {
    let admin = client.admin().await;
    within(admin.create(TOPIC.to_owned(), false, TopicSpec::new_computed(partitions, 1, None))).await.unwrap();
}

/// A stand-in with one topic, and a client.
async fn cluster(partitions: u32) -> (TempDir, StandIn, Fluvio) {
    let folder = tempfile::tempdir().unwrap();
    let standin = StandIn::start(Options::new(folder.path())).await.unwrap();
    let client = connect(&standin.address()).await;
    create(&client, partitions).await;
    (folder, standin, client)
}

/// Batches are compressed, small, and an answer is waited for only once.
fn settings() -> TopicProducerConfigBuilder {
    let policy = RetryPolicy { max_retries: 0, timeout: PATIENCE, ..Default::default() };
    let mut settings = TopicProducerConfigBuilder::default();
    settings.compression(Compression::Lz4).linger(Duration::from_millis(1)).batch_size(4_096);
    settings.delivery_semantic(DeliverySemantic::AtLeastOnce(policy));
    settings
}

/// A producer, as soon as the client has heard of the topic.
async fn producer(client: &Fluvio, settings: TopicProducerConfigBuilder) -> TopicProducerPool {
    let config = settings.build().unwrap();
    within(async {
        loop {
            match client.topic_producer_with_config(TOPIC, config.clone()).await {
                Ok(producer) => return producer,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

/// Sends these values; gives the partition and the offset that each was acknowledged with.
async fn send(producer: &TopicProducerPool, values: &[String]) -> Vec<(u32, i64)> {
    let mut outputs: Vec<ProduceOutput> = Vec::new();
    for value in values {
        outputs.push(within(producer.send(RecordKey::NULL, value.as_bytes())).await.unwrap());
    }
    let mut acknowledged = Vec::new();
    for output in outputs {
        let metadata = within(output.wait()).await.unwrap();
        acknowledged.push((metadata.partition_id(), metadata.offset()));
    }
    acknowledged
}

fn value(n: usize) -> String {
    format!("value {n} {}", "abcdefgh".repeat(n % 32))
}

fn values(range: Range<usize>) -> Vec<String> {
    range.map(value).collect()
}

/// Waits until it is so.
async fn until(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Reads a partition from an offset, and tells of every error.
async fn stream(
    client: &Fluvio,
    partition: u32,
    from: i64,
    max_bytes: i32,
) -> impl ConsumerStream<Item = Result<Record, ErrorCode>> {
    let mut config = ConsumerConfigExtBuilder::default();
    config.topic(TOPIC).offset_start(Offset::absolute(from).unwrap()).max_bytes(max_bytes);
    config.partition(partition).retry_mode(RetryMode::Disabled);
    let config = config.build().unwrap();
    within(async {
        loop {
            match client.consumer_with_config(config.clone()).await {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

/// The records up to the one before `end`.
async fn read(client: &Fluvio, partition: u32, from: i64, end: i64) -> Vec<Held> {
    let mut stream = stream(client, partition, from, 1 << 20).await;
    let mut records = Vec::new();
    while records.last().map_or(from, |last: &Held| last.offset + 1) < end {
        records.push(next(&mut stream).await.unwrap());
    }
    records
}

/// The next record or error of a stream that goes on.
async fn next(stream: &mut (impl ConsumerStream<Item = Result<Record, ErrorCode>> + Send)) -> Result<Held, ErrorCode> {
    within(stream.next()).await.expect("the stream has ended").map(held)
}

fn held(record: Record) -> Held {
    Held { offset: record.offset(), key: record.key().map(<[u8]>::to_vec), value: record.value().to_vec() }
}

/// Every value is where it was acknowledged to be, offsets have no gap, and there is nothing else.
async fn check(client: &Fluvio, folder: &Path, sent: &[(String, (u32, i64))]) {
    let partitions = dump(folder, TOPIC).unwrap();
    assert_eq!(partitions.iter().map(Vec::len).sum::<usize>(), sent.len());
    for (partition, held) in (0..).zip(&partitions) {
        assert!(held.iter().zip(0..).all(|(held, offset)| held.offset == offset));
        assert_eq!(read(client, partition, 0, held.len() as i64).await, *held);
    }
    for (value, (partition, offset)) in sent {
        assert_eq!(partitions[*partition as usize][*offset as usize].value, value.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_compressed_to_several_partitions_is_read_back() {
    let (folder, standin, client) = cluster(3).await;
    let producer = producer(&client, settings()).await;
    let sent = values(0..2_000);
    let acknowledged = send(&producer, &sent).await;
    let sent: Vec<_> = sent.into_iter().zip(acknowledged).collect();
    assert_eq!(sent.iter().map(|(_, (partition, _))| *partition).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));
    check(&client, folder.path(), &sent).await;
    let counts = standin.counts();
    assert_eq!((counts.records, counts.refused, counts.streams), (2_000, 0, 3));
    assert!(counts.batches < 1_000, "{counts:?}");

    // what comes later comes over the stream that is already open
    let end = dump(folder.path(), TOPIC).unwrap()[1].len() as i64;
    let mut open = stream(&client, 1, end, 1 << 20).await;
    let late = values(0..30);
    let acknowledged = send(&producer, &late).await;
    let wanted = late.into_iter().zip(acknowledged).filter(|(_, (partition, _))| *partition == 1);
    for (value, (_, offset)) in wanted {
        let record = next(&mut open).await.unwrap();
        assert_eq!((record.offset, record.value), (offset, value.into_bytes()));
    }
}
