use super::*;
use ingest::ports::Generation;
use processor::lake::LakeOptions;
use redirect::links::{Claim, Domains};

async fn sources(folder: &std::path::Path) -> Sources {
    let path = |name: &str| folder.join(name).display().to_string();
    Sources {
        store: LinkStore::open(&path("links"), Domains::new(&["a.test"]).unwrap()).await.unwrap(),
        lake: Lake::open(&path("lake"), LakeOptions::default()).unwrap(),
        own: OwnJournals::default(),
        directory: folder.join("journals"),
        provider: "none".into(),
        settle: Duration::from_secs(1),
        changes: Changes::default(),
        standing: None,
        held_up: HeldUp::default(),
        topic: None,
    }
}

#[tokio::test]
async fn a_journal_that_is_written_is_not_silent_though_nobody_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let sources = sources(folder.path()).await;
    let now = UtcMicros::now();
    let registered_at = now.minus(Duration::from_secs(75));
    let known = || RegisteredJournal {
        id: JournalId::new(),
        node: "n".into(),
        registered_at,
        state: JournalState::Open,
        through: registered_at,
        committed: 0,
        forwarded: false,
    };
    let registered = [known(), known(), known()];
    let heard = |seconds| Looked { heard: Some(now.minus(Duration::from_secs(seconds))), ..Looked::default() };
    let here = Here::from([(registered[0].id, heard(9)), (registered[1].id, heard(70))]);
    let states: Vec<String> =
        sources.journals(&registered, &here, now).into_iter().map(|journal| journal.state).collect();
    assert_eq!(states, ["open", "silent", "silent"], "of the last nothing but the registry tells");
}

#[tokio::test]
async fn who_reads_no_journals_is_named_and_not_the_journals() {
    let folder = tempfile::tempdir().unwrap();
    let sources = sources(folder.path()).await;
    let id = JournalId::new();
    let registered_at = UtcMicros::now().minus(Duration::from_secs(75));
    sources.store.register(id, "n", registered_at).await.unwrap();
    let held_back_by = async || sources.status().await.unwrap().held_back_by.unwrap_or_default();
    assert_eq!(held_back_by().await, "process: nobody brings the journals into the lake");
    let stop = tokio_util::sync::CancellationToken::new();
    let (store, data, stopped) = (sources.store.clone(), folder.path().to_owned(), stop.clone());
    let reader = tokio::spawn(async move { super::super::readers::say(store, &data, stopped).await });
    let mut told = held_back_by().await;
    while told.starts_with("process") {
        tokio::task::yield_now().await;
        told = held_back_by().await;
    }
    assert_eq!(told, format!("journal {id}"), "somebody reads it, and hears nothing");
    stop.cancel();
    reader.await.unwrap().unwrap();
    assert!(held_back_by().await.starts_with("process: nobody"), "{told}");
}

/// A node elsewhere that was heard of `ago`, and a topic of two partitions.
async fn through_a_topic(folder: &std::path::Path, ago: Duration) -> (Sources, JournalId, Generation) {
    let topic = Some(TopicSource { topic: "clicks".into(), retention: Duration::from_secs(9) });
    let sources = Sources { topic, ..sources(folder).await };
    let (id, now) = (JournalId::new(), UtcMicros::now());
    sources.store.register(id, "elsewhere", now.minus(ago)).await.unwrap();
    let generation = sources.store.begin_generation("clicks", 2, None, now).await.unwrap();
    (sources, id, generation)
}

#[tokio::test]
async fn who_reads_a_partition_is_known_by_its_word_and_not_by_leases_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (sources, id, generation) = through_a_topic(folder.path(), Duration::from_secs(75)).await;
    let told = async || {
        let status = sources.status().await.unwrap();
        assert!(status.stream.lag_seconds >= 75.0, "what has come isn't known: {}", status.stream.lag_seconds);
        status.held_back_by.unwrap()
    };
    assert_eq!(told().await, "process: nobody reads partitions 0, 1 of the topic", "nobody ever came");
    let read = async |partition, reading| {
        let one = Reached { partition, next: 0, end: 0, reading };
        sources.store.cover(&generation, &[], &[one], UtcMicros::now()).await.unwrap();
    };
    read(0, Reading::Behind).await;
    assert_eq!(told().await, "process: nobody reads partitions 1 of the topic");
    // one that shares them has just come, and hasn't read anything yet
    let stream = generation.stream();
    let claim = |lasts| Claim { stream: &stream, partitions: 2, member: "a", lasts, gives_back: &[] };
    sources.store.claim_partitions(&claim(Duration::from_secs(600))).await.unwrap();
    assert_eq!(told().await, format!("journal {id}"));
    // leases that ended long ago say nothing of those that are told their shares now
    sources.store.leave_partitions("a").await.unwrap();
    assert_eq!(told().await, "process: nobody reads partitions 1 of the topic");
    read(1, Reading::Near).await;
    assert_eq!(told().await, format!("journal {id}"));
}

#[tokio::test]
async fn while_clicks_are_held_up_the_lag_is_as_old_as_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (sources, ..) = through_a_topic(folder.path(), Duration::from_secs(12)).await;
    let lag = async || sources.status().await.unwrap().stream.lag_seconds;
    assert!(lag().await < 1.0, "marks that are on their way are no lag");
    sources.store.tell_trouble("p", Some("stream: no answer")).await.unwrap();
    assert!(lag().await >= 12.0);
    sources.store.tell_trouble("p", None).await.unwrap();
    assert!(lag().await < 1.0);
}
