//! The hot path's own reader of a partition.

use std::sync::Arc;

use ingest::stream::Partition;
use ingest::topic::{Compression as Packed, Tls, Topic, TopicConfig};
use redirect::links::{Domains, LinkStore};
use tests::standin::Command;
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
async fn take(reader: &mut dyn Partition, from: u64) {
    let taken = within(reader.read(from, 1)).await.unwrap();
    assert_eq!(taken.iter().map(|record| record.offset).collect::<Vec<_>>(), [from]);
}

/// Waits until the partition is known to go so far.
async fn goes_to(reader: &mut dyn Partition, end: u64) {
    within(async {
        while reader.end().await.unwrap() != end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// A reader that has taken one record of those that there are.
async fn reading(standin: &StandIn, folder: &Path) -> Box<dyn Partition> {
    let links = folder.join("links.db").display().to_string();
    let store = LinkStore::open(&links, Domains::new(&["go.test"]).unwrap()).await.unwrap();
    let topic = Topic::new(config(standin.address()), Arc::new(store));
    let generation = Arc::new(within(topic.ensure()).await.unwrap());
    let producer = producer(&connect(&standin.address()).await, settings()).await;
    add(&producer, BEFORE).await;
    let (_tell, present) = watch::channel(Some(Arc::clone(&generation)));
    let mut reader = topic.partition(&generation, 0, &present);
    take(&mut reader, 0).await;
    goes_to(&mut reader, BEFORE).await;
    Box::new(reader)
}

/// More records come, and it is known though nothing is taken; nothing is missed or read twice for it.
async fn more(reader: Box<dyn Partition>, standin: &StandIn) {
    more_from(reader, standin, 1).await;
}

/// As [`more`], of a reader that has taken all before `next`.
async fn more_from(mut reader: Box<dyn Partition>, standin: &StandIn, mut next: u64) {
    let producer = producer(&connect(&standin.address()).await, settings()).await;
    add(&producer, MEANWHILE).await;
    goes_to(&mut *reader, BEFORE + MEANWHILE).await;
    while next < BEFORE + MEANWHILE {
        // a connection that is lost is told once
        let Ok(taken) = within(reader.read(next, 1)).await else { continue };
        // and that it is well again
        if taken.is_empty() {
            continue;
        }
        assert_eq!(taken.iter().map(|record| record.offset).collect::<Vec<_>>(), [next]);
        next += 1;
    }
}

/// How far a slow processor is behind is told by nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn how_far_a_partition_goes_is_known_while_nothing_of_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let standin = StandIn::start(Options::new(folder.path().join("broker"))).await.unwrap();
    let reader = reading(&standin, folder.path()).await;
    more(reader, &standin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn and_when_another_broker_leads_it() {
    let folder = tempfile::tempdir().unwrap();
    let standin = StandIn::start(Options::new(folder.path().join("broker"))).await.unwrap();
    let reader = reading(&standin, folder.path()).await;
    standin.tell(Command::Elect { topic: TOPIC.to_owned(), partition: 0 });
    more(reader, &standin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn and_when_the_broker_was_away() {
    let folder = tempfile::tempdir().unwrap();
    let standin = StandIn::start(Options::new(folder.path().join("broker"))).await.unwrap();
    let reader = reading(&standin, folder.path()).await;
    let options = standin.stop().await.unwrap();
    // long enough for it to look for another leader, and to find none; if it is slower, it comes to the same
    tokio::time::sleep(Duration::from_secs(4)).await;
    let standin = StandIn::start(options).await.unwrap();
    more(reader, &standin).await;
}

/// A partition of which nothing comes has no record to tell by that it can be read again.
#[tokio::test(flavor = "multi_thread")]
async fn that_an_idle_partition_can_be_read_again_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let standin = StandIn::start(Options::new(folder.path().join("broker"))).await.unwrap();
    let mut reader = reading(&standin, folder.path()).await;
    for offset in 1..BEFORE {
        take(&mut *reader, offset).await;
    }
    let options = standin.stop().await.unwrap();
    within(reader.read(BEFORE, 1)).await.unwrap_err();
    let standin = StandIn::start(options).await.unwrap();
    within(async {
        while reader.read(BEFORE, 1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    more_from(reader, &standin, BEFORE).await;
}
