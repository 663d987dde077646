//! Partitions of a topic: what has landed is covered, what is missing is asked for, what is lost is written down.

use ingest::ports::Missing;
use schemas::JournalId;
use schemas::batch::Cover;

use super::*;

fn cover(journal: JournalId, from: u64, to: u64) -> Cover {
    Cover { journal, from, to, mark: None, ended: false, lost: None }
}

fn marked(cover: Cover, mark: i64) -> Cover {
    Cover { mark: Some(UtcMicros(mark)), ..cover }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_landed_is_covered_and_a_hole_is_asked_for() {
    let (world, log, journal) = (World::new(), TopicLog::new(), JournalId::new());
    world.coverage.enter_at(journal, 100);
    let hot = world.start();
    hot.read_topic(&log).await;
    log.batch(marked(cover(journal, 100, 110), 50), 0..5, sure());
    let row = world.coverage.until(journal, |row| row.covered == 110).await;
    assert_eq!((row.through, row.missing), (UtcMicros(50), None));
    // a batch is lost on its way
    log.batch(marked(cover(journal, 130, 140), 90), 10..15, sure());
    let row = world.coverage.until(journal, |row| row.missing.is_some()).await;
    assert_eq!((row.covered, row.through, row.missing), (110, UtcMicros(50), Some(Missing { to: 130, asked: 1 })));
    assert_eq!(world.ids(Table::Clicks).await.len(), 10, "its clicks are taken all the same");
    // it comes again, and more than was asked for, and its end
    log.batch(cover(journal, 105, 132), 3..12, sure());
    log.batch(Cover { ended: true, ..cover(journal, 140, 140) }, 0..0, sure());
    let row = world.coverage.until(journal, |row| row.ended).await;
    assert_eq!((row.covered, row.through, row.missing), (140, UtcMicros(90), None));
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..15).collect::<Vec<_>>());
    let reached = world.coverage.reached.borrow()[&0];
    assert_eq!((reached.next, reached.end), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_from_what_was_published_and_skips_what_the_topic_has_lost() {
    let (world, log, journal) = (World::new(), TopicLog::new(), JournalId::new());
    world.coverage.enter_at(journal, 0);
    let hot = world.start();
    hot.read_topic(&log).await;
    log.batch(cover(journal, 0, 5), 0..5, sure());
    world.coverage.until(journal, |row| row.covered == 5).await;
    hot.kill().await;
    log.batch(cover(journal, 5, 8), 5..8, sure());
    log.batch(cover(journal, 8, 9), 8..9, sure());
    log.forget(1);
    let hot = world.start();
    hot.read_topic(&log).await;
    let row = world.coverage.until(journal, |row| row.missing.is_some()).await;
    assert_eq!((row.covered, row.missing.map(|missing| missing.to)), (5, Some(8)));
    log.batch(cover(journal, 5, 8), 5..8, sure());
    world.coverage.until(journal, |row| row.covered == 9).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..9).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_is_written_down_once_and_what_can_not_be_read_is_refused() {
    let (world, log, journal) = (World::new(), TopicLog::new(), JournalId::new());
    world.coverage.enter_at(journal, 0);
    let hot = world.start();
    hot.read_topic(&log).await;
    // written down, and then the commit of the rows fails
    world.store.arm(ENTRY, 1, Fault::Before);
    log.garbage();
    log.batch(Cover { lost: Some(UtcMicros(7)), ..marked(cover(journal, 0, 40), 90) }, 0..0, sure());
    log.batch(cover(journal, 40, 41), 1..2, sure());
    let row = world.coverage.until(journal, |row| row.covered == 41).await;
    assert_eq!(row.missing, None);
    hot.drain().await.unwrap();
    assert_eq!(rejected(&world).await, [(0, "corrupt".to_owned())]);
    let gaps = world.table(Table::Gaps).await;
    assert_eq!(gaps.files().iter().map(|file| file.rows).sum::<u64>(), 1);
    let file = &gaps.files()[0];
    let batches = gaps.read(file, &["journal", "reason"]).await.unwrap();
    let text = |column: usize| batches[0].column(column).as_string::<i32>().value(0).to_owned();
    assert_eq!((text(0), text(1)), (journal.to_string(), "journal trimmed or damaged".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_breaks_the_enrichment_costs_no_other_of_its_batch() {
    let (world, log, journal) = (World::new(), TopicLog::new(), JournalId::new());
    world.coverage.enter_at(journal, 0);
    let hot = world.start();
    hot.read_topic(&log).await;
    log.batch(cover(journal, 0, 2), POISON - 1..POISON, sure());
    log.batch(cover(journal, 2, 3), POISON..POISON, sure());
    let mut with_poison = cover(journal, 3, 5);
    with_poison.mark = Some(UtcMicros(4));
    log.poisoned(with_poison, sure());
    world.coverage.until(journal, |row| row.covered == 5).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [9, POISON - 1]);
    assert_eq!(rejected(&world).await.len(), 1);
}

/// Two hot paths on one lake, the first of which reads the other partition of the topic too, all the time.
async fn two(world: &World) -> (Running, Running) {
    let (one, other) = (world.start(), world.start());
    one.read_topic(&TopicLog::numbered(1)).await;
    (one, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_comes_back_goes_on_from_what_others_have_published() {
    let (world, log, journal) = (World::new(), TopicLog::new(), JournalId::new());
    world.coverage.enter_at(journal, 0);
    let (one, other) = two(&world).await;
    let mut at = 0;
    for round in 0..6 {
        let (owner, next) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        if round == 0 {
            owner.read_topic(&log).await;
        }
        for _ in 0..2 {
            log.batch(marked(cover(journal, at, at + 5), at as i64), u128::from(at)..u128::from(at) + 5, sure());
            at += 5;
            let row = world.coverage.until(journal, |row| row.covered == at || row.missing.is_some()).await;
            assert_eq!((row.through, row.missing), (UtcMicros(at as i64 - 5), None), "round {round}");
        }
        owner.leave_topic(&log).await;
        next.read_topic(&log).await;
    }
    one.drain().await.unwrap();
    other.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..60).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_was_paused_goes_on_from_what_others_have_published() {
    let (world, log, journal) = (World::new(), TopicLog::new(), JournalId::new());
    world.coverage.enter_at(journal, 0);
    let (paused, other) = two(&world).await;
    paused.read_topic(&log).await;
    log.batch(cover(journal, 0, 5), 0..5, sure());
    world.coverage.until(journal, |row| row.covered == 5).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    log.batch(cover(journal, 5, 8), 5..8, sure());
    gate.reached().await;
    other.read_topic(&log).await;
    log.batch(cover(journal, 8, 12), 8..12, sure());
    world.coverage.until(journal, |row| row.covered == 12).await;
    other.drain().await.unwrap();
    // it has never been told to leave
    gate.open();
    log.batch(cover(journal, 12, 20), 12..20, sure());
    let row = world.coverage.until(journal, |row| row.covered == 20 || row.missing.is_some()).await;
    assert_eq!((row.covered, row.missing), (20, None));
    paused.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_landed_is_published_before_a_partition_is_left() {
    let (world, log, journal) = (World::new(), TopicLog::new(), JournalId::new());
    world.coverage.enter_at(journal, 0);
    let (one, other) = two(&world).await;
    one.read_topic(&log).await;
    log.batch(cover(journal, 0, 5), 0..5, sure());
    world.coverage.until(journal, |row| row.covered == 5).await;
    // while one publication takes its time, more lands
    world.coverage.holding.send_replace(true);
    let begun = *world.coverage.begun.borrow();
    log.batch(cover(journal, 5, 6), 5..6, sure());
    world.coverage.begun.subscribe().wait_for(|now| *now > begun).await.unwrap();
    log.batch(cover(journal, 6, 9), 6..9, sure());
    let mut status = one.status.clone();
    status.wait_for(|status| status.partitions.iter().any(|part| part.next == 3)).await.unwrap();
    let leaving = async {
        one.leave_topic(&log).await;
        assert_eq!(world.coverage.rows.borrow()[&(journal, 0)].covered, 9);
    };
    let released = async {
        status.wait_for(|status| status.partitions.len() == 1).await.unwrap();
        world.coverage.holding.send_replace(false);
    };
    tokio::join!(leaving, released);
    other.read_topic(&log).await;
    log.batch(cover(journal, 9, 10), 9..10, sure());
    let row = world.coverage.until(journal, |row| row.covered == 10 || row.missing.is_some()).await;
    assert_eq!(row.missing, None);
    one.drain().await.unwrap();
    other.drain().await.unwrap();
}
