//! Lost clicks are counted where a kill can't take the count back.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use schemas::{Analytics, UtcMicros};

use super::super::{Appended, Journal, JournalConfig, Losses, Refusal, forget_losses, losses_of};
use super::{CONFIG, Node, append, click, damage};

/// A node whose disk is full, without a reserve.
fn full() -> (Node, Journal) {
    let node = Node::with(JournalConfig { reserve: 0, ..CONFIG });
    let journal = node.open();
    node.disk.leave(0);
    (node, journal)
}

fn lose(node: &Node, journal: &Journal, at: i64) {
    node.clock.store(at, Ordering::Relaxed);
    assert!(matches!(append(journal, Analytics::Billed, b"lost"), Appended::Lost(_)));
}

fn root(node: &Node) -> std::path::PathBuf {
    node.directory.path().join("journal")
}

#[test]
fn a_loss_outlives_a_kill_on_a_full_disk_and_is_at_least_so_many() {
    let (node, journal) = full();
    for at in [2_000_000, 3_000_000, 4_000_000] {
        lose(&node, &journal, at);
    }
    let (first, last) = (Some(UtcMicros(2_000_000)), Some(UtcMicros(4_000_000)));
    let known = Losses { count: 3, at_least: 0, first, last, why: Some(Refusal::Disk) };
    assert_eq!(journal.stats().lost, known, "of a process that lives it is exact");
    assert_eq!(losses_of(&root(&node), node.id).unwrap(), known, "for others too");
    drop(journal);
    node.disk.power_cut(|_| (0, 0));
    let journal = node.open();
    assert_eq!(journal.stats().lost, Losses { at_least: 3, ..known });
    lose(&node, &journal, 9_000_000);
    let lost = journal.stats().lost;
    assert_eq!((lost.count, lost.at_least, lost.first, lost.last), (4, 3, first, Some(UtcMicros(9_000_000))));
    assert_eq!(losses_of(&root(&node), node.id).unwrap(), lost);
    node.disk.faults(|faults| faults.capacity = None);
    click(&journal, b"taken again");
}

#[test]
fn a_drain_makes_the_count_final_whether_there_is_room_for_its_mark_or_not() {
    for has_room in [false, true] {
        let (node, journal) = full();
        lose(&node, &journal, 2_000_000);
        if has_room {
            node.disk.faults(|faults| faults.capacity = None);
        }
        assert_eq!(journal.seal().is_ok(), has_room);
        assert!(!journal.losses_due(Instant::now() + Duration::from_secs(9)), "it is on the disk");
        drop(journal);
        let lost = node.open().stats().lost;
        assert_eq!((lost.count, lost.at_least), (1, 0), "exact, {has_room}");
    }
}

#[test]
fn losses_are_synced_once_a_second_while_they_go_on() {
    let (node, journal) = full();
    let start = Instant::now();
    assert!(!journal.losses_due(start), "nothing is lost yet");
    lose(&node, &journal, 1);
    assert!(journal.losses_due(start));
    journal.sync_losses(start);
    lose(&node, &journal, 2);
    assert!(!journal.losses_due(start + Duration::from_millis(999)));
    let later = start + Duration::from_secs(1);
    assert!(journal.losses_due(later));
    node.disk.faults(|faults| faults.syncs = 1);
    journal.sync_losses(later);
    assert!(journal.losses_due(later + Duration::from_secs(1)), "a sync that failed is due again");
    journal.sync_losses(later + Duration::from_secs(1));
    assert!(!journal.losses_due(later + Duration::from_secs(2)));
}

#[test]
fn a_count_that_was_cut_off_half_written_is_the_one_before() {
    let (node, journal) = full();
    for at in 1..=3 {
        lose(&node, &journal, at);
    }
    drop(journal);
    let path = node.path().join("losses");
    // the third is entry 4, in the first of the two slots
    damage(&path, |bytes| bytes[30] ^= 1);
    assert_eq!(losses_of(&root(&node), node.id).unwrap().count, 2);
    assert_eq!(node.open().stats().lost.count, 2);
    damage(&path, |bytes| bytes[4_096 + 30] ^= 1);
    node.disk.faults(|faults| faults.capacity = None);
    assert_eq!(node.open().stats().lost, Losses::default(), "nothing is left of it, and the journal is of use");
}

#[test]
fn a_count_that_is_forgotten_is_none() {
    let (node, journal) = full();
    lose(&node, &journal, 1);
    drop(journal);
    forget_losses(&root(&node), node.id).unwrap();
    forget_losses(&root(&node), node.id).unwrap();
    assert_eq!(losses_of(&root(&node), node.id).unwrap(), Losses::default());
}
