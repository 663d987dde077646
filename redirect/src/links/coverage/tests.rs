use std::time::Duration;

use ingest::ports::Registry as _;

use super::super::testing::{Place, on_each_database};
use super::*;

const NOW: UtcMicros = UtcMicros(1_573_480_413_123_456);

on_each_database!(
    a_generation_begins_once_for_whoever_saw_the_one_before,
    a_journal_is_as_far_as_its_slowest_partition,
    what_is_missing_is_told_and_taken_back,
    another_generation_goes_on_from_what_the_lake_holds,
    how_far_partitions_are_is_kept_for_status,
    who_reads_a_partition_is_believed_as_long_as_it_is_told,
);

fn later(micros: u64) -> UtcMicros {
    NOW.plus(Duration::from_micros(micros))
}

fn row(journal: JournalId, partition: u32, covered: u64, through: u64) -> Covered {
    Covered { journal, partition, covered, through: later(through), ended: false, missing: None }
}

async fn begun(store: &LinkStore) -> Generation {
    store.begin_generation("clicks", 2, None, NOW).await.unwrap()
}

async fn a_generation_begins_once_for_whoever_saw_the_one_before(place: Place) {
    let store = place.store().await;
    assert_eq!(store.generation("clicks").await.unwrap(), None);
    let first = begun(&store).await;
    let other = place.store().await;
    assert_eq!(begun(&other).await, first, "somebody else was first");
    assert_eq!(other.generation("clicks").await.unwrap(), Some(first.clone()));
    let second = other.begin_generation("clicks", 4, Some(&first), NOW).await.unwrap();
    assert!(second.id != first.id && second.partitions == 4);
    assert_eq!(store.begin_generation("clicks", 4, Some(&first), NOW).await.unwrap(), second);
    assert_eq!(store.generation("other").await.unwrap(), None);
    assert_eq!(first.partition(1), format!("clicks@{}/1", first.id));
}

async fn a_journal_is_as_far_as_its_slowest_partition(place: Place) {
    let store = place.store().await;
    let id = JournalId::new();
    store.register(id, "n", NOW).await.unwrap();
    let generation = begun(&store).await;
    let rows = store.enter(id, &generation).await.unwrap();
    assert_eq!(rows, [row(id, 0, 0, 0), row(id, 1, 0, 0)]);
    assert!(store.journals().await.unwrap()[0].forwarded);

    let cover = async |rows: &[Covered]| store.cover(&generation, rows, &[], later(99)).await.unwrap();
    assert_eq!(cover(&[row(id, 0, 10, 50)]).await, NOW, "the other partition holds it back");
    assert_eq!(cover(&[row(id, 1, 7, 40)]).await, later(40));
    let journal = store.journals().await.unwrap().remove(0);
    assert_eq!((journal.committed, journal.through), (7, later(40)));
    assert_eq!(cover(&[row(id, 1, 3, 20)]).await, later(40), "nothing goes back");
    assert_eq!(store.covered(&generation).await.unwrap()[1].covered, 7);

    let ended = |partition, covered| Covered { ended: true, ..row(id, partition, covered, 60) };
    cover(&[ended(0, 10)]).await;
    assert_eq!(store.journals().await.unwrap()[0].state, JournalState::Open);
    assert_eq!(cover(&[ended(1, 10)]).await, later(99), "closed: it holds nothing back");
    assert_eq!(store.journals().await.unwrap()[0].state, JournalState::Closed);
}

async fn what_is_missing_is_told_and_taken_back(place: Place) {
    let store = place.store().await;
    let id = JournalId::new();
    store.register(id, "n", NOW).await.unwrap();
    let generation = begun(&store).await;
    store.enter(id, &generation).await.unwrap();
    let missing = Some(Missing { to: 9, asked: 1 });
    store.cover(&generation, &[Covered { missing, ..row(id, 0, 4, 1) }], &[], NOW).await.unwrap();
    assert_eq!(store.covered(&generation).await.unwrap()[0].missing, missing);
    assert_eq!(store.enter(id, &generation).await.unwrap()[0].covered, 4, "entering again changes nothing");
    store.cover(&generation, &[row(id, 0, 9, 1)], &[], NOW).await.unwrap();
    assert_eq!(store.covered(&generation).await.unwrap()[0].missing, None);
}

async fn another_generation_goes_on_from_what_the_lake_holds(place: Place) {
    let store = place.store().await;
    let id = JournalId::new();
    store.register(id, "n", NOW).await.unwrap();
    let first = begun(&store).await;
    store.enter(id, &first).await.unwrap();
    store.cover(&first, &[row(id, 0, 10, 50), row(id, 1, 7, 40)], &[], NOW).await.unwrap();
    let second = store.begin_generation("clicks", 3, Some(&first), NOW).await.unwrap();
    assert!(store.enter(id, &first).await.is_err(), "over");
    let rows = store.enter(id, &second).await.unwrap();
    assert_eq!(rows, [0, 1, 2].map(|part| row(id, part, 7, 40)));
    store.cover(&first, &[row(id, 0, 90, 90)], &[], NOW).await.unwrap();
    assert_eq!(store.covered(&second).await.unwrap(), rows, "what is over moves nothing any more");
}

async fn how_far_partitions_are_is_kept_for_status(place: Place) {
    let store = place.store().await;
    let generation = begun(&store).await;
    let at = |partition, next, end| Reached { partition, next, end, reading: Reading::Near };
    store.cover(&generation, &[], &[at(1, 5, 9), at(0, 1, 1)], NOW).await.unwrap();
    store.cover(&generation, &[], &[at(1, 9, 9)], NOW).await.unwrap();
    store.cover(&generation, &[], &[at(1, 8, 20)], NOW).await.unwrap();
    assert_eq!(store.reached(&generation).await.unwrap(), [at(0, 1, 1), at(1, 9, 9)], "nothing goes back");
    let published = store.published_offsets().await.unwrap();
    assert_eq!(published, [(generation.partition(0), 1), (generation.partition(1), 9)]);
    store.begin_generation("clicks", 2, Some(&generation), NOW).await.unwrap();
    assert_eq!(store.published_offsets().await.unwrap(), [], "what is over says nothing of the lake");
}

async fn who_reads_a_partition_is_believed_as_long_as_it_is_told(place: Place) {
    let store = place.store().await;
    let generation = begun(&store).await;
    let less = async |wanted| generation.read_less_than(wanted, &store.reached(&generation).await.unwrap());
    let tell = async |partition, reading| {
        let one = Reached { partition, next: 5, end: 9, reading };
        store.cover(&generation, &[], &[one], NOW).await.unwrap();
    };
    assert_eq!(less(Reading::Behind).await, [0, 1], "nobody ever came");
    tell(0, Reading::Near).await;
    assert_eq!((less(Reading::Behind).await, less(Reading::Near).await), (vec![1], vec![1]));
    tell(1, Reading::Behind).await;
    assert_eq!((less(Reading::Behind).await, less(Reading::Near).await), (vec![], vec![1]));
    let mut tx = store.pools.write().await.unwrap();
    let sql = "UPDATE topic_reached SET told_at = told_at - $1 WHERE part = 0";
    tx.query(sql).bind(BELIEVED.as_micros() as i64).run().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        (less(Reading::Behind).await, less(Reading::Near).await),
        (vec![0], vec![0, 1]),
        "its reader was killed"
    );
    tell(0, Reading::Near).await;
    assert_eq!(less(Reading::Near).await, [1]);
}
