use super::*;
use processor::lake::LakeOptions;
use redirect::links::Domains;

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
