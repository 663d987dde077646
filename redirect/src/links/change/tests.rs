use ingest::ports::LinkDirectory;
use schemas::LinkHistory;

use super::super::testing::{Place, on_each_database};
use super::super::{NewLink, Target};
use super::*;

const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

on_each_database!(
    every_change_is_a_revision_that_another_process_sees,
    a_revision_never_comes_into_force_before_the_last,
    what_changes_nothing_is_no_revision_and_tells_nobody,
    a_takedown_needs_a_reason_and_can_be_taken_back,
    a_tombstone_stays_one,
    wrong_values_change_nothing,
    changes_from_two_processes_are_all_kept,
    a_change_whose_caller_went_away_is_announced_all_the_same,
);

fn code(code: &str) -> Which {
    Which { workspace: None, domain: None, code: code.into() }
}

async fn with_link(place: &Place) -> LinkStore {
    let store = place.store().await;
    let new = NewLink { code: Some("a".into()), title: Some("T".into()), ..NewLink::to("https://example.com/1") };
    store.create(new, NOW).await.unwrap();
    store
}

async fn history(store: &LinkStore) -> LinkHistory {
    store.histories(&[("sho.rt".into(), "a".into())]).await.unwrap().remove(0).unwrap()
}

async fn target(store: &LinkStore) -> Target {
    store.lookup("sho.rt", "a").await.unwrap().unwrap()
}

async fn every_change_is_a_revision_that_another_process_sees(place: Place) {
    let store = with_link(&place).await;
    let other = place.store().await;
    let edit = Edit {
        destination: Some("https://example.com/2".into()),
        analytics: Some(Analytics::Off),
        title: Some(None),
        tags: Some(vec!["x".into()]),
    };
    let link = store.change(&code("a"), &Change::Edit(edit), UtcMicros(NOW.0 + 1)).await.unwrap();
    assert_eq!((link.revision, link.title.as_deref(), link.tags.len()), (2, None, 1));
    assert_eq!(other.get(&code("a")).await.unwrap(), link);
    let disable = Change::Disable { reason: "phishing".into() };
    store.change(&code("a"), &disable, UtcMicros(NOW.0 + 2)).await.unwrap();
    let target = target(&other).await;
    assert_eq!((target.status, target.reason.as_deref()), (LinkStatus::Disabled, Some("phishing")));
    assert_eq!((target.revision, &*target.destination), (3, "https://example.com/2"));

    let revisions = history(&other).await.revisions;
    let seen: Vec<_> = revisions.iter().map(|r| (r.revision, r.effective_at.0 - NOW.0, r.status)).collect();
    use LinkStatus::{Active, Disabled};
    assert_eq!(seen, [(1, 0, Active), (2, 1, Active), (3, 2, Disabled)]);
    assert_eq!(
        (revisions[0].destination.as_str(), revisions[0].analytics),
        ("https://example.com/1", Analytics::Billed)
    );
    assert_eq!((revisions[1].destination.as_str(), revisions[1].analytics), ("https://example.com/2", Analytics::Off));
}

async fn a_revision_never_comes_into_force_before_the_last(place: Place) {
    let store = with_link(&place).await;
    let disable = Change::Disable { reason: "r".into() };
    for (change, at) in [(disable, 50), (Change::Enable, 20), (Change::Delete, 60)] {
        store.change(&code("a"), &change, UtcMicros(NOW.0 + at)).await.unwrap();
    }
    let times: Vec<_> = history(&store).await.revisions.iter().map(|r| r.effective_at.0 - NOW.0).collect();
    assert_eq!(times, [0, 50, 50, 60]);
}

async fn what_changes_nothing_is_no_revision_and_tells_nobody(place: Place) {
    let store = with_link(&place).await;
    let mut changes = store.changes();
    let same =
        Edit { destination: Some("https://EXAMPLE.com/1".into()), title: Some(Some("T ".into())), ..Edit::default() };
    for change in [Change::Edit(same), Change::Edit(Edit::default()), Change::Enable] {
        assert_eq!(store.change(&code("a"), &change, NOW).await.unwrap().revision, 1);
    }
    assert!(changes.try_recv().is_err());
    let before = store.changes_sent();
    store.change(&code("a"), &Change::Delete, NOW).await.unwrap();
    assert_eq!(changes.try_recv().unwrap().code, "a");
    assert_eq!(store.changes_sent(), before + 1);
}

async fn a_takedown_needs_a_reason_and_can_be_taken_back(place: Place) {
    let store = with_link(&place).await;
    let refused = store.change(&code("a"), &Change::Disable { reason: " ".into() }, NOW).await.unwrap_err();
    assert!(matches!(refused, LinkError::Invalid(_)), "{refused}");
    for reason in ["phishing", "malware"] {
        let disable = Change::Disable { reason: reason.into() };
        assert_eq!(store.change(&code("a"), &disable, NOW).await.unwrap().reason.as_deref(), Some(reason));
    }
    let link = store.change(&code("a"), &Change::Enable, NOW).await.unwrap();
    assert_eq!((link.status, link.reason, link.revision), (LinkStatus::Active, None, 4));
}

async fn a_tombstone_stays_one(place: Place) {
    let store = with_link(&place).await;
    let link = store.change(&code("a"), &Change::Delete, NOW).await.unwrap();
    assert_eq!((link.status, link.revision), (LinkStatus::Deleted, 2));
    assert_eq!(store.change(&code("a"), &Change::Delete, NOW).await.unwrap(), link);
    for change in [Change::Enable, Change::Disable { reason: "r".into() }, Change::Edit(Edit::default())] {
        assert!(matches!(store.change(&code("a"), &change, NOW).await, Err(LinkError::Deleted { .. })));
    }
    assert_eq!(target(&store).await.status, LinkStatus::Deleted);
}

async fn wrong_values_change_nothing(place: Place) {
    let store = with_link(&place).await;
    let edit = Edit {
        destination: Some("https://sho.rt/a".into()),
        title: Some(Some("a\tb".into())),
        tags: Some(vec!["ok".into()]),
        analytics: Some(Analytics::Off),
    };
    let LinkError::Invalid(errors) = store.change(&code("a"), &Change::Edit(edit), NOW).await.unwrap_err() else {
        panic!("not invalid")
    };
    assert_eq!(errors.iter().map(|e| e.field.as_str()).collect::<Vec<_>>(), ["destination", "title"]);
    let link = store.get(&code("a")).await.unwrap();
    assert_eq!((link.revision, link.analytics, link.tags.len()), (1, Analytics::Billed, 0));
}

async fn changes_from_two_processes_are_all_kept(place: Place) {
    let store = with_link(&place).await;
    let other = place.store().await;
    let change = async |store: LinkStore, who: &str| {
        for n in 0..20 {
            let edit = Edit { title: Some(Some(format!("{who}{n}"))), ..Edit::default() };
            store.change(&code("a"), &Change::Edit(edit), NOW).await.unwrap();
        }
    };
    tokio::join!(change(store.clone(), "x"), change(other, "y"));
    let revisions = history(&store).await.revisions;
    assert_eq!(revisions.iter().map(|r| r.revision).collect::<Vec<_>>(), (1..=41).collect::<Vec<_>>());
}

async fn a_change_whose_caller_went_away_is_announced_all_the_same(place: Place) {
    let store = with_link(&place).await;
    let mut changes = store.changes();
    for n in 0..60 {
        let edit = Edit { title: Some(Some(n.to_string())), ..Edit::default() };
        let (which, change) = (code("a"), Change::Edit(edit));
        let patience = std::time::Duration::from_micros(n * 25);
        let _ = tokio::time::timeout(patience, store.change(&which, &change, NOW)).await;
    }
    // This one waits for whatever is still being committed.
    let last = store.change(&code("a"), &Change::Delete, NOW).await.unwrap();
    for _ in 1..last.revision {
        let next = tokio::time::timeout(std::time::Duration::from_secs(10), changes.recv()).await;
        assert_eq!(next.expect("a change was not announced").unwrap().code, "a");
    }
}
