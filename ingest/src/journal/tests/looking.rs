//! Journals looked at from outside, and workers that are given another.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use schemas::{Analytics, JournalId, UtcMicros};

use super::super::{Appended, Damage, Inspection, Lacking, Refusal, WorkerJournal, first_of, inspect};
use super::{FIRST_MARK, Node, append, click, damage};

fn root(node: &Node) -> PathBuf {
    node.directory.path().join("journal")
}

fn look(node: &Node, from: u64) -> Inspection {
    inspect(&root(node), node.id, from).unwrap().unwrap()
}

/// A node whose journal has `frames` clicks a second apart, every one synced and with a mark behind it.
fn written(frames: i64) -> Node {
    let node = Node::new();
    let journal = node.open();
    for number in 0..frames {
        node.clock.store((number + 1) * 1_000_000, Ordering::Relaxed);
        click(&journal, &[0; 100]);
        journal.round(Instant::now()).unwrap();
    }
    node
}

#[test]
fn a_whole_journal_is_whole_from_outside_while_it_is_written() {
    let node = written(20);
    let journal = node.open();
    let stats = journal.stats();
    let found = look(&node, 10);
    assert_eq!((found.begin, found.end, found.damage), (0, stats.end, None));
    assert_eq!(found.before, Some(UtcMicros(5_000_000)), "the mark before position 10");
    assert_eq!(found.newest, Some(UtcMicros(20_000_000)));
    let expected = Lacking { clicks: 15, oldest: Some(UtcMicros(6_000_000)) };
    assert_eq!(found.clicks, expected, "marks are no clicks");
    assert_eq!(
        (journal.lacking(38).clicks, journal.lacking(39).clicks),
        (1, 0),
        "as whoever opens it again knows, too"
    );
    // an append under way
    let last = node.segments().pop().unwrap();
    damage(&last, |bytes| bytes.extend_from_slice(&[7; 20]));
    assert_eq!(look(&node, 10), found);
    journal.trim(30);
    let begin = look(&node, 30).begin;
    assert!(begin > 0 && begin <= 30);
    assert_eq!(first_of(&root(&node), node.id).unwrap(), Some(begin));
    assert_eq!(look(&node, begin).before, None, "it is gone");
}

#[test]
fn synced_frames_that_are_gone_are_damage_and_later_marks_tell_of_them() {
    let node = written(20);
    let at = node.segments().len() / 2;
    // the second frame of a segment in the middle
    damage(&node.segments()[at], |bytes| bytes[44 + 125 + 40] ^= 1);
    let found = look(&node, 0);
    let Some(Damage { position, synced }) = found.damage else { panic!("no damage: {found:?}") };
    assert_eq!(found.end, position);
    assert!(position > 2 && position < synced && synced >= 38, "{found:?}");
    assert_eq!(found.newest, Some(UtcMicros(20_000_000)), "marks behind the hole tell the time");
    let last = node.segments().pop().unwrap();
    assert_eq!(look(&node, 39).damage, None, "what is asked for is whole: {last:?}");
}

#[test]
fn what_the_lake_lacks_of_a_journal_in_use_is_counted_in_clicks() {
    let node = Node::new();
    let journal = node.open();
    journal.round(Instant::now()).unwrap();
    assert!(journal.stats().end > 0 && journal.lacking(0).clicks == 0, "an idle journal only marks");
    let from = journal.stats().end;
    for second in 1..=3 {
        node.clock.store(second * 1_000_000, Ordering::Relaxed);
        click(&journal, &[0; 100]);
    }
    journal.round(Instant::now()).unwrap();
    assert_eq!(journal.lacking(0), Lacking { clicks: 3, oldest: Some(UtcMicros(1_000_000)) });
    assert_eq!(journal.lacking(from + 1).clicks, 2);
    journal.trim(from + 2);
    assert_eq!((journal.lacking(from + 2).clicks, journal.lacking(journal.stats().end)), (1, Lacking::default()));
    assert_eq!(look(&node, from).clicks, journal.lacking(from), "from outside it is the same");
}

#[test]
fn a_journal_without_folder_or_segments() {
    let node = written(3);
    assert_eq!(inspect(&root(&node), JournalId::new(), 0).unwrap(), None);
    assert_eq!(first_of(&root(&node), JournalId::new()).unwrap(), None);
    for path in node.segments() {
        std::fs::remove_file(path).unwrap();
    }
    let found = look(&node, 6);
    assert_eq!((found.begin, found.end, found.newest), (0, 0, None));
    assert_eq!(first_of(&root(&node), node.id).unwrap(), Some(0));
}

#[test]
fn a_worker_goes_on_in_another_journal() {
    let node = Node::new();
    let first = node.open();
    let worker = WorkerJournal::new(first.clone());
    let write = |text: &[u8]| worker.append(Analytics::Billed, |_, out| out.extend_from_slice(text));
    assert!(matches!(write(b"a"), Appended::Written { offset: 0 }));
    first.seal().unwrap();
    assert_eq!(write(b"b"), Appended::Lost(Refusal::Sealed));
    let next = node.journals.open_journal(JournalId::new(), FIRST_MARK, 0).unwrap();
    assert_eq!(worker.succeed(next.clone()).id(), first.id());
    assert!(matches!(write(b"c"), Appended::Written { offset: 0 }));
    assert_eq!((worker.journal().id(), next.stats().end), (next.id(), 1));
    assert!(matches!(append(&next, Analytics::Off, b"d"), Appended::Written { offset: 1 }));
}
