use super::super::testing::{Place, on_each_database};
use super::*;

on_each_database!(what_is_told_and_what_is_recorded_only_grow, what_was_counted_before_a_kill_may_be_more);

fn losses(count: u64, at_least: u64, last: i64) -> Losses {
    let (first, last) = (Some(UtcMicros(10)), Some(UtcMicros(last)));
    Losses { count, at_least, first, last, why: Some(Refusal::Full) }
}

async fn what_is_told_and_what_is_recorded_only_grow(place: Place) {
    let (store, journal) = (place.store().await, JournalId::new());
    assert_eq!(store.told_losses().await.unwrap(), []);
    store.record_losses(journal, 9).await.unwrap();
    for (count, last) in [(3, 20), (7, 50), (5, 30), (7, 50)] {
        store.tell_losses(journal, &losses(count, 0, last)).await.unwrap();
    }
    for recorded in [4, 2] {
        store.record_losses(journal, recorded).await.unwrap();
    }
    store.tell_losses(JournalId::new(), &losses(1, 0, 10)).await.unwrap();
    let told = place.store().await.told_losses().await.unwrap();
    assert_eq!(told.len(), 2);
    let expected = ToldLosses { journal, losses: losses(7, 0, 50), recorded: 4 };
    assert!(told.contains(&expected), "{told:?}");
}

async fn what_was_counted_before_a_kill_may_be_more(place: Place) {
    let (store, journal) = (place.store().await, JournalId::new());
    store.tell_losses(journal, &losses(3, 0, 20)).await.unwrap();
    store.tell_losses(journal, &losses(3, 3, 20)).await.unwrap();
    assert_eq!(store.told_losses().await.unwrap()[0].losses, losses(3, 3, 20));
}
