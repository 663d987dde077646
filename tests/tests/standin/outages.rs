//! The broker is away, silent, or slow.

use fluvio::RecordKey;
use fluvio::dataplane::link::ErrorCode;
use futures::StreamExt;
use tests::standin::{Answer, Command, Refusal};

use super::*;

/// What is surely not coming, hasn't come by then.
const SOON: Duration = Duration::from_millis(200);

async fn one(producer: &TopicProducerPool, value: &str) -> ProduceOutput {
    within(producer.send(RecordKey::NULL, value)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_and_nothing_is_appended() {
    let (folder, standin, client) = cluster(1).await;
    let producer = producer(&client, settings()).await;
    for (refusal, words) in [
        (Refusal::NotLeader, "not the leader"),
        (Refusal::PartitionFull, "storage is full"),
        (Refusal::TooLarge, "too large"),
        (Refusal::TimedOut, "exceeded the timeout"),
        (Refusal::Storage, "storage error"),
    ] {
        standin.turn(|knobs| knobs.refuse = Some(refusal));
        let error = within(one(&producer, "refused").await.wait()).await.unwrap_err().to_string();
        assert!(error.contains(words), "{refusal:?}: {error}");
    }
    standin.turn(|knobs| knobs.refuse = None);
    assert_eq!(send(&producer, &values(0..1)).await, [(0, 0)]);
    assert_eq!(dump(folder.path(), TOPIC).unwrap()[0].len(), 1);
    assert_eq!(standin.counts().refused, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_broker_goes_on_where_it_was() {
    let (folder, standin, client) = cluster(1).await;
    let producer = producer(&client, settings()).await;
    send(&producer, &values(0..1)).await;
    let mut open = stream(&client, 0, 0, 1 << 20).await;
    next(&mut open).await.unwrap();
    standin.turn(|knobs| knobs.stall = true);
    let output = one(&producer, "stalled").await;
    let mut wait = Box::pin(output.wait());
    assert!(tokio::time::timeout(SOON, &mut wait).await.is_err(), "nothing is answered");
    assert_eq!(dump(folder.path(), TOPIC).unwrap()[0].len(), 1, "nothing is appended");
    standin.turn(|knobs| knobs.stall = false);
    assert_eq!(within(wait).await.unwrap().offset(), 1);
    assert_eq!(next(&mut open).await.unwrap().value, b"stalled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_stays_dead() {
    let (folder, standin, client) = cluster(1).await;
    let lost = producer(&client, settings()).await;
    send(&lost, &values(0..1)).await;
    let mut open = stream(&client, 0, 1, 1 << 20).await;
    until(|| standin.counts().streams == 1).await;
    standin.turn(|knobs| knobs.half_open = true);
    let mut wait = Box::pin(one(&lost, "lost").await.wait());
    assert!(tokio::time::timeout(SOON, &mut wait).await.is_err());
    let config = FluvioClusterConfig::new(standin.address());
    let connecting = tokio::time::timeout(SOON, Fluvio::connect_with_config(&config));
    assert!(connecting.await.is_err(), "a new connection is as dead");
    standin.turn(|knobs| knobs.half_open = false);
    let after = connect(&standin.address()).await;
    let producer = producer(&after, settings()).await;
    assert_eq!(send(&producer, &values(1..2)).await, [(0, 1)]);
    assert!(tokio::time::timeout(SOON, &mut wait).await.is_err(), "the old one is not repaired");
    assert!(tokio::time::timeout(SOON, open.next()).await.is_err());
    assert_eq!(dump(folder.path(), TOPIC).unwrap()[0].len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_connections_end_their_streams_and_producers_connect_again() {
    let (_folder, standin, client) = cluster(1).await;
    let producer = producer(&client, settings()).await;
    send(&producer, &values(0..1)).await;
    let mut open = stream(&client, 0, 1, 1 << 20).await;
    until(|| standin.counts().streams == 1).await;
    assert_eq!(standin.tell(Command::Drop), Answer::Done);
    let ended = within(open.next()).await;
    assert!(ended.is_none_or(|item| item.is_err()));
    let before = standin.counts().data_connections;
    within(async {
        // the client may see the end only when it writes
        loop {
            producer.clear_errors().await;
            let sent = producer.send(RecordKey::NULL, "again").await;
            if let Ok(output) = sent
                && output.wait().await.is_ok()
            {
                break;
            }
        }
    })
    .await;
    assert_eq!(standin.counts().data_connections, before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_refuses_connections_until_it_is_back() {
    let (_folder, standin, client) = cluster(1).await;
    let mut open = stream(&client, 0, 0, 1 << 20).await;
    standin.turn(|knobs| knobs.away = true);
    assert!(within(open.next()).await.is_none_or(|item| item.is_err()));
    let config = FluvioClusterConfig::new(standin.address());
    assert!(within(Fluvio::connect_with_config(&config)).await.is_err());
    standin.turn(|knobs| knobs.away = false);
    let client = within(async {
        loop {
            if let Ok(client) = Fluvio::connect_with_config(&config).await {
                break client;
            }
        }
    })
    .await;
    let producer = producer(&client, settings()).await;
    assert_eq!(send(&producer, &values(0..1)).await, [(0, 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_answer_is_late_but_its_records_are_not() {
    let (_folder, standin, client) = cluster(1).await;
    let producer = producer(&client, settings()).await;
    standin.turn(|knobs| knobs.ack_delay_ms = PATIENCE.as_millis() as u64 * 2);
    let mut wait = Box::pin(one(&producer, "early").await.wait());
    let reader = connect(&standin.address()).await;
    let mut open = stream(&reader, 0, 0, 1 << 20).await;
    assert_eq!(next(&mut open).await.unwrap().value, b"early");
    assert!(tokio::time::timeout(SOON, &mut wait).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn during_an_election_nobody_answers_and_after_it_the_other_spu_does() {
    let (_folder, standin, client) = cluster(2).await;
    let old = producer(&client, settings()).await;
    send(&old, &values(0..2)).await;
    let mut silent = stream(&client, 0, 1, 1 << 20).await;
    until(|| standin.counts().streams == 1).await;
    assert_eq!(standin.tell(Command::Depose { topic: TOPIC.to_owned(), partition: 0 }), Answer::Done);
    let mut outcomes = Vec::new();
    for value in ["a", "b"] {
        outcomes.push(within(one(&old, value).await.wait()).await);
    }
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1, "only one of the two partitions");
    let reader = connect(&standin.address()).await;
    let mut refused = stream(&reader, 0, 0, 1 << 20).await;
    assert_eq!(next(&mut refused).await.unwrap_err(), ErrorCode::NotLeaderForPartition);
    assert_eq!(standin.tell(Command::Elect { topic: TOPIC.to_owned(), partition: 0 }), Answer::Done);
    let after = connect(&standin.address()).await;
    let new = producer(&after, settings()).await;
    let acknowledged = send(&new, &values(0..2)).await;
    assert!(acknowledged.contains(&(0, 1)), "{acknowledged:?}");
    assert_eq!(read(&after, 0, 0, 2).await.len(), 2);
    assert!(tokio::time::timeout(SOON, silent.next()).await.is_err(), "a stream of the old leader is told nothing");
    let Answer::Partitions(extents) = standin.tell(Command::Partitions) else { panic!("no partitions") };
    let leaders: Vec<_> = extents.iter().filter(|extent| extent.topic == TOPIC).map(|extent| extent.leader).collect();
    assert_eq!(leaders, [Some(5002), Some(5001)]);
}
