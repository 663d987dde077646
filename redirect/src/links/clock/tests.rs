use super::super::testing::{Place, on_each_database};
use super::*;
use ingest::ports::{JournalState, Landed, Registry as _};
use schemas::JournalId;

on_each_database!(
    nothing_is_published_later_than_the_stores_clock,
    what_can_not_be_true_is_named_and_binds_nobody_on_a_server,
    whose_clock_is_wrong_is_told_until_it_is_right,
);

const YEAR: Duration = Duration::from_secs(365 * 86_400);

async fn nothing_is_published_later_than_the_stores_clock(place: Place) {
    let store = place.store().await;
    let ahead = store.clock().await.unwrap().now.plus(YEAR);
    let id = JournalId::new();
    let mark = store.register(id, "n", ahead).await.unwrap();
    let landed = [Landed { id, through: ahead, committed: 1 }];
    let mut published = vec![mark, store.publish(&landed, ahead).await.unwrap()];
    published.push(store.publish_final_through(ahead).await.unwrap());
    store.set_state(id, JournalState::Closed).await.unwrap();
    published.push(store.complete_through(ahead).await.unwrap());
    published.push(store.publish(&[], ahead).await.unwrap());
    published.push(store.register(JournalId::new(), "n", ahead).await.unwrap());
    let now = store.clock().await.unwrap().now;
    assert!(published.iter().all(|at| *at <= now), "{published:?}, and it is {now}");
}

async fn what_can_not_be_true_is_named_and_binds_nobody_on_a_server(place: Place) {
    let store = place.store().await;
    let before = store.clock().await.unwrap();
    assert_eq!((before.published, before.impossible()), (None, None));
    let ahead = before.now.plus(YEAR);
    let mut tx = store.pools.write().await.unwrap();
    let sql = "INSERT INTO published (name, at) VALUES ('complete_through', $1)";
    tx.query(sql).bind(ahead.0).run().await.unwrap();
    tx.commit().await.unwrap();
    let clock = store.clock().await.unwrap();
    assert_eq!(clock.impossible(), Some(ahead));
    let mark = store.register(JournalId::new(), "n", clock.now).await.unwrap();
    match place {
        Place::Folder(_) => assert_eq!((clock.floor, mark), (Some(ahead), ahead)),
        Place::Server(_) => assert!(clock.floor.is_none() && mark == clock.now, "{mark}"),
    }
}

async fn whose_clock_is_wrong_is_told_until_it_is_right(place: Place) {
    let (store, other) = (place.store().await, place.store().await);
    store.tell_clock("b", Some("late")).await.unwrap();
    store.tell_clock("a", Some("early")).await.unwrap();
    store.tell_clock("a", Some("earlier")).await.unwrap();
    let told = |says: [(&str, &str); 2]| says.map(|(who, what)| (who.to_owned(), what.to_owned()));
    assert_eq!(other.wrong_clocks().await.unwrap(), told([("a", "earlier"), ("b", "late")]));
    other.tell_clock("a", None).await.unwrap();
    store.tell_clock("b", None).await.unwrap();
    assert_eq!(store.wrong_clocks().await.unwrap(), []);
}
