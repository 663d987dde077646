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
