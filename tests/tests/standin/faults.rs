//! Records come twice, go missing, or aren't there any more.

use std::collections::BTreeMap;

use fluvio::metadata::partition::PartitionSpec;
use fluvio::metadata::topic::{CleanupPolicy, SegmentBasedPolicy};
use rand::{Rng, SeedableRng};
use tests::standin::{Answer, Command};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_appended_twice_and_acknowledged_once() {
    let (folder, standin, client) = cluster(1).await;
    let producer = producer(&client, settings()).await;
    standin.turn(|knobs| knobs.duplicates = 1);
    assert_eq!(send(&producer, &values(7..8)).await, [(0, 1)], "the second is what the client hears of");
    assert_eq!(send(&producer, &values(8..9)).await, [(0, 2)]);
    assert_eq!(standin.knobs().duplicates, 0);
    let held = dump(folder.path(), TOPIC).unwrap().remove(0);
    let held: Vec<_> = held.into_iter().map(|held| String::from_utf8(held.value).unwrap()).collect();
    assert_eq!(held, [values(7..8), values(7..9)].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_makes_the_client_send_again() {
    let (folder, standin, client) = cluster(1).await;
    let lonely = producer(&client, settings()).await;
    standin.turn(|knobs| knobs.lost_acks = 1);
    let output = within(lonely.send(RecordKey::NULL, "once")).await.unwrap();
    assert!(within(output.wait()).await.is_err(), "nobody has told it that the record is there");
    assert_eq!(dump(folder.path(), TOPIC).unwrap()[0].len(), 1);
    assert_eq!(standin.knobs().lost_acks, 0);
}

/// How many records [`fill`] sends, and the limit that its batches don't fit in, whole, one after another.
const FILL: i64 = 200;
const LIMIT: i32 = 40_000;

/// Sends batches of 16 kB that can't be made smaller.
async fn fill(client: &Fluvio, compression: Compression) {
    let mut settings = settings();
    settings.compression(compression).linger(Duration::from_millis(50)).batch_size(16_000);
    let producer = producer(client, settings).await;
    let mut random = rand::rngs::StdRng::seed_from_u64(1);
    let values = (0..FILL).map(|_| (0..1_000).map(|_| random.random_range('!'..'~')).collect());
    send(&producer, &values.collect::<Vec<String>>()).await;
}

/// Reads until the last record comes.
async fn read_limited(client: &Fluvio) -> Vec<Result<Held, ErrorCode>> {
    let mut stream = stream(client, 0, 0, LIMIT).await;
    let mut items: Vec<Result<Held, ErrorCode>> = Vec::new();
    while !items.last().is_some_and(|last| last.as_ref().is_ok_and(|held| held.offset == FILL - 1)) {
        items.push(next(&mut stream).await);
    }
    items
}

/// What the design builds on: see its list of the client's faults.
#[tokio::test(flavor = "multi_thread")]
async fn the_client_silently_skips_records_of_an_answer_that_is_cut_inside_an_uncompressed_batch() {
    let (folder, standin, client) = cluster(1).await;
    fill(&client, Compression::None).await;
    let items = read_limited(&client).await;
    assert!(standin.counts().cut_chunks > 0);
    let offsets: BTreeSet<_> = items.iter().map(|item| item.as_ref().expect("no error is told").offset).collect();
    assert!(offsets.len() < FILL as usize, "nothing was skipped");
    assert_eq!(dump(folder.path(), TOPIC).unwrap()[0].len(), FILL as usize, "the broker has them all");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_tells_of_an_answer_that_is_cut_inside_a_compressed_batch() {
    let (_folder, standin, client) = cluster(1).await;
    fill(&client, Compression::Lz4).await;
    let items = read_limited(&client).await;
    let errors = items.iter().filter(|item| item.is_err()).count() as u64;
    assert_eq!(errors, standin.counts().cut_chunks);
    assert!(errors > 0);
    let mut expected = 0;
    for item in items {
        match item {
            Ok(held) => {
                assert!(held.offset == expected || expected < 0, "{} without an error before it", held.offset);
                expected = held.offset + 1;
            }
            // a whole batch is missing
            Err(_) => expected = -1,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_whole_batches_are_read_without_a_gap() {
    let (folder, standin, client) = cluster(1).await;
    standin.turn(|knobs| knobs.whole_batches = true);
    fill(&client, Compression::None).await;
    let items: Vec<_> = read_limited(&client).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(items, dump(folder.path(), TOPIC).unwrap()[0]);
    assert_eq!(standin.counts().cut_chunks, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn evicted_records_and_those_that_never_were_are_named() {
    let (folder, standin, client) = cluster(1).await;
    let producer = producer(&client, settings()).await;
    for n in 0..5 {
        send(&producer, &values(n..n + 1)).await;
    }
    let evict = Command::Evict { topic: TOPIC.to_owned(), partition: 0, before: 3 };
    assert_eq!(standin.tell(evict), Answer::Evicted(3));
    let mut evicted = stream(&client, 0, 1, 1 << 20).await;
    let error = next(&mut evicted).await.unwrap_err();
    assert_eq!(error, ErrorCode::OffsetEvicted { offset: 1, next_available: 3 });
    assert_eq!(read(&client, 0, 3, 5).await, dump(folder.path(), TOPIC).unwrap()[0]);
    let mut beyond = stream(&client, 0, 6, 1 << 20).await;
    let error = next(&mut beyond).await.unwrap_err();
    assert_eq!(error, ErrorCode::Other("start offset: 6 is greater than leo: 5".to_owned()));
    let partitions = within(client.admin().await.list::<PartitionSpec, String>(vec![])).await.unwrap();
    let status = &partitions.iter().find(|one| one.name == format!("{TOPIC}-0")).unwrap().status;
    assert_eq!((status.base_offset, status.leader.hw, status.leader.leo), (3, 5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_topic_ends_its_streams_and_a_new_one_begins_anew() {
    let (_folder, standin, client) = cluster(1).await;
    let before = producer(&client, settings()).await;
    send(&before, &values(0..3)).await;
    let mut open = stream(&client, 0, 3, 1 << 20).await;
    until(|| standin.counts().streams == 1).await;
    within(client.admin().await.delete::<TopicSpec>(TOPIC)).await.unwrap();
    assert_eq!(next(&mut open).await.unwrap_err(), ErrorCode::TopicDeleted);
    create(&client, 1).await;
    let after = producer(&client, settings()).await;
    assert_eq!(send(&after, &values(9..10)).await, [(0, 0)]);
    assert_eq!(read(&client, 0, 0, 1).await[0].value, values(9..10)[0].as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_topics_are_kept_and_bad_ones_refused() {
    let (_folder, standin, client) = cluster(2).await;
    let admin = client.admin().await;
    let mut spec = TopicSpec::new_computed(4, 1, None);
    spec.set_cleanup_policy(CleanupPolicy::Segment(SegmentBasedPolicy { time_in_seconds: 3_600 }));
    within(admin.create("other".to_owned(), false, spec.clone())).await.unwrap();
    let options = standin.stop().await.unwrap();
    let standin = StandIn::start(options).await.unwrap();
    let admin = connect(&standin.address()).await.admin().await;
    let topics = within(admin.list::<TopicSpec, String>(vec![])).await.unwrap();
    let topics: BTreeMap<_, _> = topics.into_iter().map(|topic| (topic.name, topic.spec)).collect();
    assert_eq!(
        topics,
        BTreeMap::from([(TOPIC.to_owned(), TopicSpec::new_computed(2, 1, None)), ("other".to_owned(), spec)])
    );
    for (name, partitions, words) in [
        (TOPIC, 1, "already exists"),
        ("../up", 1, "Invalid topic name"),
        ("Upper", 1, "Invalid topic name"),
        ("none", 0, "partition must be greater than 0"),
    ] {
        let spec = TopicSpec::new_computed(partitions, 1, None);
        let error = within(admin.create(name.to_owned(), false, spec)).await.unwrap_err().to_string();
        assert!(error.contains(words), "{name}: {error}");
    }
}
