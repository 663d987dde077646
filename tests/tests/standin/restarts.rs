//! The broker is stopped, killed, or comes back with less.

use fluvio::consumer::OffsetManagementStrategy;
use tests::standin::{Answer, Command, Counts, Launch, Lose, Process};
use tokio::sync::oneshot;

use super::*;

/// The test that is no test, by its whole name.
const SERVE: Launch = Launch::Test("standin::serve");

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_broker_comes_back_with_everything() {
    let (folder, standin, client) = cluster(2).await;
    let first = values(0..300);
    let acknowledged = send(&producer(&client, settings()).await, &first).await;
    let mut sent: Vec<_> = first.into_iter().zip(acknowledged).collect();
    drop(client);
    let options = standin.stop().await.unwrap();
    let standin = StandIn::start(options).await.unwrap();
    let client = connect(&standin.address()).await;
    let second = values(300..400);
    let acknowledged = send(&producer(&client, settings()).await, &second).await;
    sent.extend(second.into_iter().zip(acknowledged));
    check(&client, folder.path(), &sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_can_t_use_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = StandIn::start(Options::new(folder.path())).await.unwrap();
    let error = StandIn::start(Options::new(folder.path())).await.unwrap_err();
    assert!(format!("{error:#}").contains("is used by another stand-in"), "{error:#}");
    drop(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_s_offset_outlives_a_restart() {
    let (_folder, standin, client) = cluster(1).await;
    send(&producer(&client, settings()).await, &values(0..10)).await;
    let mut config = ConsumerConfigExtBuilder::default();
    config.topic(TOPIC).partition(0).offset_start(Offset::beginning()).offset_consumer("reader".to_owned());
    config.offset_strategy(OffsetManagementStrategy::Manual).retry_mode(RetryMode::Disabled);
    let config = config.build().unwrap();
    let mut stream = within(client.consumer_with_config(config.clone())).await.unwrap();
    for _ in 0..4 {
        next(&mut stream).await.unwrap();
    }
    within(stream.offset_commit()).await.unwrap();
    within(stream.offset_flush()).await.unwrap();
    drop((stream, client));
    let standin = StandIn::start(standin.stop().await.unwrap()).await.unwrap();
    let client = connect(&standin.address()).await;
    // the client asks before it has heard of the topic, else
    drop(producer(&client, settings()).await);
    let mut stream = within(client.consumer_with_config(config)).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap().offset, 4);
}

/// Sends until it is told that the broker was killed, and gives what was acknowledged.
async fn send_until(mut killed: oneshot::Receiver<()>, address: String, from: usize) -> Vec<(String, (u32, i64))> {
    let client = connect(&address).await;
    let producer = producer(&client, settings()).await;
    let mut acknowledged = Vec::new();
    for value in (from..).map(value) {
        let sent = async { anyhow::Ok(producer.send(RecordKey::NULL, value.as_bytes()).await?.wait().await?) };
        tokio::select! {
            // the client never gives up
            _ = &mut killed => break,
            Ok(metadata) = sent => acknowledged.push((value, (metadata.partition_id(), metadata.offset()))),
        }
    }
    acknowledged
}

async fn counts(standin: &Process) -> Counts {
    match standin.tell(Command::Counts).await.unwrap() {
        Answer::Counts(counts) => counts,
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_keeps_every_acknowledged_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut standin = Process::new(SERVE, folder.path()).unwrap();
    standin.start().unwrap();
    create(&connect(&standin.address()).await, 2).await;
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let (kill, killed) = oneshot::channel();
        let sender = tokio::spawn(send_until(killed, standin.address(), round * 1_000_000));
        within(async {
            while counts(&standin).await.batches < 50 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        standin.kill().unwrap();
        kill.send(()).unwrap();
        let more = within(sender).await.unwrap();
        assert!(more.len() >= 49, "only the last batch may be without an answer");
        acknowledged.extend(more);
        standin.start().unwrap();
    }
    let client = connect(&standin.address()).await;
    let partitions = dump(folder.path(), TOPIC).unwrap();
    for (partition, held) in (0..).zip(&partitions) {
        assert_eq!(read(&client, partition, 0, held.len() as i64).await, *held);
    }
    for (value, (partition, offset)) in &acknowledged {
        assert_eq!(partitions[*partition as usize][*offset as usize].value, value.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_loses_acknowledged_records_gives_their_offsets_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut standin = Process::new(SERVE, folder.path()).unwrap();
    standin.start().unwrap();
    let client = connect(&standin.address()).await;
    create(&client, 1).await;
    let producer_ = producer(&client, settings()).await;
    for n in 0..10 {
        send(&producer_, &values(n..n + 1)).await;
    }
    standin.kill().unwrap();
    standin.start_losing(&[Lose { topic: TOPIC.to_owned(), partition: 0, records: 3 }]).unwrap();
    let client = connect(&standin.address()).await;
    let mut beyond = stream(&client, 0, 10, 1 << 20).await;
    assert!(next(&mut beyond).await.is_err());
    assert_eq!(send(&producer(&client, settings()).await, &values(99..100)).await, [(0, 7)]);
    let held = read(&client, 0, 0, 8).await;
    assert_eq!(held[6].value, values(6..7)[0].as_bytes());
    assert_eq!(held[7].value, values(99..100)[0].as_bytes());
    standin.kill().unwrap();
    let options = |records| {
        let lose = vec![Lose { topic: TOPIC.to_owned(), partition: 0, records }];
        Options { lose, ..Options::new(folder.path()) }
    };
    let error = StandIn::start(options(9)).await.unwrap_err().to_string();
    assert_eq!(error, "clicks-0 had only 8 of the 9 records to be lost");
}
