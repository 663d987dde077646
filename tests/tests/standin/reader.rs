//! The hot path's own reader of a partition.

use std::sync::Arc;

use ingest::stream::Partition;
use ingest::topic::{Compression as Packed, Tls, Topic, TopicConfig};
use redirect::links::{Domains, LinkStore};
use tokio::sync::watch;

use super::*;

/// More records, each a batch of its own, than are read ahead of whoever takes them.
const BEFORE: u64 = 12;
/// Records that come while nobody takes any.
const MEANWHILE: u64 = 5;

fn config(endpoint: String) -> TopicConfig {
    TopicConfig {
        endpoint,
        topic: TOPIC.to_owned(),
        partitions: 1,
        replication: 1,
        retention: Duration::from_secs(3_600),
        partition_bytes: 1 << 30,
        compression: Packed::Lz4,
        tls: Tls::Off,
        local_addresses: false,
    }
}

/// Adds records of one byte, one after another.
async fn add(producer: &TopicProducerPool, records: u64) {
    for _ in 0..records {
        send(producer, &["\0".to_owned()]).await;
    }
}

/// Takes the record at an offset, and no other.
async fn take(reader: &mut impl Partition, from: u64) {
    let taken = within(reader.read(from, 1)).await.unwrap();
    assert_eq!(taken.iter().map(|record| record.offset).collect::<Vec<_>>(), [from]);
}

/// Waits until the partition is known to go so far.
async fn goes_to(reader: &mut impl Partition, end: u64) {
    within(async {
        while reader.end().await.unwrap() != end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// How far a slow processor is behind is told by nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn how_far_a_partition_goes_is_known_while_nothing_of_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let standin = StandIn::start(Options::new(folder.path().join("broker"))).await.unwrap();
    let links = folder.path().join("links.db").display().to_string();
    let store = LinkStore::open(&links, Domains::new(&["go.test"]).unwrap()).await.unwrap();
    let topic = Topic::new(config(standin.address()), Arc::new(store));
    let generation = Arc::new(within(topic.ensure()).await.unwrap());
    let producer = producer(&connect(&standin.address()).await, settings()).await;
    add(&producer, BEFORE).await;

    let (_tell, present) = watch::channel(Some(Arc::clone(&generation)));
    let mut reader = topic.partition(&generation, 0, &present);
    take(&mut reader, 0).await;
    goes_to(&mut reader, BEFORE).await;
    add(&producer, MEANWHILE).await;
    goes_to(&mut reader, BEFORE + MEANWHILE).await;
    // and nothing is missed or read twice for it
    for offset in 1..BEFORE + MEANWHILE {
        take(&mut reader, offset).await;
    }
}
