use super::super::testing::{Place, on_each_database};
use super::*;

const LEASE: Duration = Duration::from_secs(20);
const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

on_each_database!(
    a_log_is_read_as_it_was_queued,
    the_same_log_is_queued_once_unless_it_failed_or_is_wanted_again,
    logs_come_in_their_turn_and_one_owner_has_each,
    an_owner_that_is_gone_is_followed,
    what_is_put_off_waits,
    staged_objects_are_known_until_they_are_forgotten,
    versions_of_watched_logs_are_remembered,
    what_ended_long_ago_is_forgotten,
    what_failed_is_taken_off_the_list_and_nothing_else,
);

fn at(seconds: u64) -> UtcMicros {
    NOW.plus(Duration::from_secs(seconds))
}

fn log(id: &str) -> QueuedLog {
    QueuedLog {
        id: id.into(),
        way: Way::Upload,
        name: format!("{id}.log"),
        terms: Terms { workspace: Some("default".into()), source: Some("cdn".into()), ..Terms::default() },
        object: format!("object-{id}"),
        parts: 2,
        size: 5,
        tag: "tag".into(),
        stage: Stage::Queued,
        tries: 0,
        summary: None,
        error: None,
        queued_at: NOW,
    }
}

async fn stage(store: &LinkStore, id: &str) -> Stage {
    store.queued_log(id).await.unwrap().unwrap().stage
}

async fn claim(store: &LinkStore, owner: &str, now: UtcMicros) -> Option<String> {
    store.claim_log(Way::Upload, owner, now, LEASE).await.unwrap().map(|log| log.id)
}

async fn a_log_is_read_as_it_was_queued(place: Place) {
    let store = place.store().await;
    let mut given = log("a");
    given.terms.format = Some("nginx-json".parse().unwrap());
    given.terms.id = "status-only".parse().unwrap();
    assert_eq!(store.enqueue(&given, false).await.unwrap(), Enqueued::New);
    assert_eq!(place.store().await.queued_log("a").await.unwrap(), Some(given));
    assert_eq!(store.queued_log("b").await.unwrap(), None);
    assert_eq!(store.queued_logs().await.unwrap(), 1);
    let outside = |logs: Vec<QueuedLog>| logs.into_iter().map(|log| (log.id, log.stage)).collect::<Vec<_>>();
    assert_eq!(outside(store.logs_outside().await.unwrap()), [("a".to_owned(), Stage::Queued)]);
    claim(&store, "me", NOW).await.unwrap();
    store.finish_log("a", "me", Err("no such format"), NOW).await.unwrap();
    assert_eq!(outside(store.logs_outside().await.unwrap()), [("a".to_owned(), Stage::Failed)]);
    assert_eq!((store.queued_logs().await.unwrap(), store.failed_logs().await.unwrap()), (0, 1));
    store.enqueue(&log("a"), false).await.unwrap();
    claim(&store, "me", NOW).await.unwrap();
    store.finish_log("a", "me", Ok("{}"), NOW).await.unwrap();
    assert_eq!(outside(store.logs_outside().await.unwrap()), [], "what is in the lake, the lake tells of");
}

async fn the_same_log_is_queued_once_unless_it_failed_or_is_wanted_again(place: Place) {
    let store = place.store().await;
    store.enqueue(&log("a"), false).await.unwrap();
    assert_eq!(store.enqueue(&log("a"), true).await.unwrap(), Enqueued::Known(Stage::Queued));
    claim(&store, "me", NOW).await.unwrap();
    assert_eq!(store.enqueue(&log("a"), true).await.unwrap(), Enqueued::Known(Stage::Running));
    store.finish_log("a", "me", Err("no such format"), NOW).await.unwrap();
    let failed = store.queued_log("a").await.unwrap().unwrap();
    assert_eq!((failed.stage, failed.error.as_deref()), (Stage::Failed, Some("no such format")));

    let second = QueuedLog { object: "another".into(), parts: 7, ..log("a") };
    let again = Enqueued::Again { object: "object-a".into(), parts: 2 };
    assert_eq!(store.enqueue(&second, false).await.unwrap(), again);
    let queued = store.queued_log("a").await.unwrap().unwrap();
    assert_eq!((queued.parts, queued.tries, queued.error), (7, 0, None));
    claim(&store, "me", NOW).await.unwrap();
    store.finish_log("a", "me", Ok("{}"), NOW).await.unwrap();
    assert_eq!(store.enqueue(&log("a"), false).await.unwrap(), Enqueued::Known(Stage::Done));
    assert!(matches!(store.enqueue(&log("a"), true).await.unwrap(), Enqueued::Again { parts: 7, .. }));
}

async fn logs_come_in_their_turn_and_one_owner_has_each(place: Place) {
    let store = place.store().await;
    let other = place.store().await;
    for (id, after) in [("second", 1), ("first", 0)] {
        store.enqueue(&QueuedLog { queued_at: at(after), ..log(id) }, false).await.unwrap();
    }
    assert_eq!(claim(&store, "me", at(2)).await.as_deref(), Some("first"));
    assert_eq!(claim(&other, "you", at(2)).await.as_deref(), Some("second"));
    assert_eq!(claim(&store, "me", at(3)).await, None);
    assert_eq!(store.claim_log(Way::Watched, "me", at(3), LEASE).await.unwrap(), None);
    assert_eq!(store.queued_logs().await.unwrap(), 2);
    // what isn't one's own can't be ended or kept
    assert!(!store.keep_log("second", "me", at(100)).await.unwrap());
    store.finish_log("second", "me", Ok("{}"), at(3)).await.unwrap();
    assert_eq!(stage(&store, "second").await, Stage::Running);
}

async fn an_owner_that_is_gone_is_followed(place: Place) {
    let store = place.store().await;
    store.enqueue(&log("a"), false).await.unwrap();
    claim(&store, "gone", NOW).await.unwrap();
    assert!(store.keep_log("a", "gone", at(30)).await.unwrap());
    assert_eq!(claim(&store, "me", at(29)).await, None, "its word holds");
    assert_eq!(claim(&store, "me", at(30)).await.as_deref(), Some("a"));
    assert!(!store.keep_log("a", "gone", at(60)).await.unwrap());
    assert_eq!(store.queued_log("a").await.unwrap().unwrap().tries, 2);
    // one that starts anew takes up at once what it had
    assert_eq!(store.release_logs("gone").await.unwrap(), 0);
    assert_eq!(store.release_logs("me").await.unwrap(), 1);
    assert_eq!(claim(&store, "me", at(30)).await.as_deref(), Some("a"));
}

async fn what_is_put_off_waits(place: Place) {
    let store = place.store().await;
    store.enqueue(&log("a"), false).await.unwrap();
    claim(&store, "me", NOW).await.unwrap();
    store.postpone_log("a", "me", at(60), Some("the lake is down")).await.unwrap();
    assert_eq!(claim(&store, "me", at(59)).await, None);
    assert_eq!(store.queued_log("a").await.unwrap().unwrap().error.as_deref(), Some("the lake is down"));
    assert_eq!(claim(&store, "me", at(60)).await.as_deref(), Some("a"));
}

async fn staged_objects_are_known_until_they_are_forgotten(place: Place) {
    let store = place.store().await;
    store.enqueue(&log("a"), false).await.unwrap();
    assert_eq!(store.staged_objects().await.unwrap(), ["object-a"]);
    claim(&store, "me", NOW).await.unwrap();
    assert_eq!(store.staged_before(at(1_000)).await.unwrap(), []);
    store.finish_log("a", "me", Ok("{}"), at(10)).await.unwrap();
    assert_eq!(store.staged_before(at(9)).await.unwrap(), []);
    let staged = store.staged_before(at(10)).await.unwrap();
    assert_eq!((staged.len(), staged[0].parts), (1, 2));
    store.forget_staged(&staged[0]).await.unwrap();
    assert_eq!(store.staged_before(at(10)).await.unwrap(), []);
    assert_eq!(store.staged_objects().await.unwrap(), Vec::<String>::new());
}

async fn versions_of_watched_logs_are_remembered(place: Place) {
    let store = place.store().await;
    for (size, tag) in [(1, "x"), (2, "y")] {
        let id = watched_id("./logs", "./logs/a", size, tag);
        let terms = Terms { source: Some("./logs".into()), keep_unknown: true, ..Terms::default() };
        let found =
            QueuedLog { id, way: Way::Watched, terms, object: "./logs/a".into(), size, tag: tag.into(), ..log("") };
        let found = QueuedLog { queued_at: at(size), ..found };
        assert_eq!(store.enqueue(&found, false).await.unwrap(), Enqueued::New);
        assert_eq!(store.enqueue(&found, false).await.unwrap(), Enqueued::Known(Stage::Queued));
    }
    let versions = store.watched_logs("./logs").await.unwrap();
    assert_eq!(versions.iter().map(|(_, size, _)| *size).collect::<Vec<_>>(), [1, 2]);
    assert!(store.is_behind("./logs").await.unwrap());
    assert!(!store.is_behind("./other").await.unwrap());
    assert_eq!(store.watched_logs("./other").await.unwrap(), []);
}

async fn what_ended_long_ago_is_forgotten(place: Place) {
    let store = place.store().await;
    for id in ["done", "failed", "staged", "late", "waits"] {
        let parts = if id == "staged" { 2 } else { 0 };
        store.enqueue(&QueuedLog { parts, ..log(id) }, false).await.unwrap();
    }
    for (id, seconds) in [("done", 10), ("failed", 10), ("late", 11), ("staged", 10)] {
        assert_eq!(claim(&store, "me", NOW).await.as_deref(), Some(id));
        let result = if id == "failed" { Err("no such format") } else { Ok("{}") };
        store.finish_log(id, "me", result, at(seconds)).await.unwrap();
    }
    assert_eq!(store.forget_uploads(at(10)).await.unwrap(), 2);
    for (id, is_there) in [("done", false), ("failed", false), ("staged", true), ("late", true), ("waits", true)] {
        assert_eq!(store.queued_log(id).await.unwrap().is_some(), is_there, "{id}");
    }

    let watched = |id: &str, object: &str| {
        let terms = Terms { source: Some("./logs".into()), keep_unknown: true, ..Terms::default() };
        QueuedLog { way: Way::Watched, terms, object: object.into(), parts: 0, ..log(id) }
    };
    for id in ["one", "two"] {
        store.enqueue(&watched(id, &format!("./logs/{id}")), false).await.unwrap();
        store.claim_log(Way::Watched, "me", NOW, LEASE).await.unwrap().unwrap();
        store.finish_log(id, "me", Ok("{}"), at(10)).await.unwrap();
    }
    assert_eq!(store.forget_uploads(at(100)).await.unwrap(), 1, "they are no uploads");
    assert_eq!(store.ended_watched("./logs", at(9)).await.unwrap(), []);
    let ended = store.ended_watched("./logs", at(10)).await.unwrap();
    assert_eq!(ended.len(), 2);
    store.enqueue(&watched("two", "./logs/two"), true).await.unwrap();
    store.forget_watched(&ended).await.unwrap();
    let known = [store.queued_log("one").await.unwrap(), store.queued_log("two").await.unwrap()];
    assert_eq!(known.map(|log| log.map(|log| log.stage)), [None, Some(Stage::Queued)]);
}

async fn what_failed_is_taken_off_the_list_and_nothing_else(place: Place) {
    let store = place.store().await;
    let watched = QueuedLog { way: Way::Watched, parts: 0, object: "/logs/w.log".into(), ..log("w") };
    for given in [log("a"), watched.clone(), log("b")] {
        store.enqueue(&given, false).await.unwrap();
        assert!(!store.dismiss_failed(&given.id, "s").await.unwrap(), "it is still to be taken in");
    }
    for way in [Way::Upload, Way::Watched] {
        let id = store.claim_log(way, "me", NOW, LEASE).await.unwrap().unwrap().id;
        assert!(!store.dismiss_failed(&id, "s").await.unwrap(), "it is under way");
        store.finish_log(&id, "me", Err("no log"), NOW).await.unwrap();
        assert!(store.dismiss_failed(&id, "s").await.unwrap());
        assert!(!store.dismiss_failed(&id, "s").await.unwrap(), "once");
    }
    let left: Vec<String> = store.logs_outside().await.unwrap().into_iter().map(|log| log.id).collect();
    assert_eq!(left, ["b"]);
    assert_eq!(store.staged_objects().await.unwrap(), ["object-b"], "what was staged of the other is nobody's");
    assert_eq!(store.enqueue(&log("a"), false).await.unwrap(), Enqueued::New, "an upload may come again");
    let kept = store.queued_log("w").await.unwrap().unwrap();
    assert_eq!((kept.stage, kept.summary.as_deref(), kept.error), (Stage::Done, Some("s"), None));
    assert_eq!(store.watched_logs("cdn").await.unwrap().len(), 1, "what is found there is known");
    assert_eq!(store.enqueue(&watched, false).await.unwrap(), Enqueued::Known(Stage::Done));
}
