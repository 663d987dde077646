//! Readers: in the same process, and in another.

use std::path::PathBuf;
use std::time::Instant;

use super::*;
use crate::journal::JournalPartition;
use crate::stream::{Partition, StreamError};

fn filled(node: &Node, clicks: u64) -> Journal {
    let journal = node.open();
    for number in 0..clicks {
        click(&journal, format!("click {number}").as_bytes());
    }
    journal.sync().unwrap();
    journal
}

pub(super) fn root(node: &Node) -> PathBuf {
    node.directory.path().join("journal")
}

/// Reads up to the journal's end as it is now.
pub(super) async fn read_all(partition: &mut JournalPartition, from: u64, max_bytes: usize) -> Vec<Record> {
    let end = partition.end().await.unwrap();
    let mut records = Vec::new();
    let mut at = from;
    while at < end {
        let read = partition.read(at, max_bytes).await.unwrap();
        for record in &read {
            assert_eq!(record.offset, at);
            at += 1;
        }
        assert!(!read.is_empty());
        records.extend(read);
    }
    records
}

#[tokio::test]
async fn readers_at_different_places_see_the_same() {
    let node = Node::new();
    let journal = filled(&node, 200);
    let mut one = JournalPartition::new(&journal);
    let mut other = JournalPartition::new(&journal);
    assert_eq!(one.name(), node.id.to_string());
    let all = read_all(&mut one, 0, 1).await;
    assert_eq!(all.len(), 200);
    assert_eq!(texts(&all)[199], "click 199");
    assert!(all.iter().all(|record| record.journal == node.id));
    assert_eq!(read_all(&mut other, 77, 1 << 20).await, all[77..]);
    assert_eq!(read_all(&mut one, 33, 1 << 20).await, all[33..], "going back is fine");
    assert_eq!(read_all(&mut JournalPartition::in_directory(&root(&node), node.id), 0, 1).await, all);
}

#[tokio::test]
async fn a_reader_sees_nothing_until_it_is_synced_and_is_woken_then() {
    let node = Node::new();
    let journal = node.open();
    let mut partition = JournalPartition::new(&journal);
    click(&journal, b"hello");
    {
        let read = partition.read(0, 1_000);
        tokio::pin!(read);
        assert!(futures::poll!(&mut read).is_pending());
        journal.sync().unwrap();
        assert_eq!(texts(&read.await.unwrap()), ["hello"]);
    }
    assert_eq!(partition.end().await.unwrap(), 1);
    // A read that is given up leaves no trace.
    drop(partition.read(1, 1_000));
    journal.sync().unwrap();
    assert_eq!(partition.read(1, 1_000).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_large_event_is_read_with_a_small_limit() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, &vec![7; 1 << 19]);
    journal.sync().unwrap();
    let read = JournalPartition::new(&journal).read(0, 1).await.unwrap();
    assert_eq!(read.len(), 1);
    let mut followed = JournalPartition::in_directory(&root(&node), node.id);
    assert_eq!(followed.read(0, 1).await.unwrap(), read);
}

#[tokio::test]
async fn positions_that_are_gone_or_never_were_are_named() {
    let node = Node::new();
    let journal = filled(&node, 100);
    journal.trim(50);
    let begin = journal.stats().begin;
    assert!(begin > 0);
    let own = JournalPartition::new(&journal);
    let followed = JournalPartition::in_directory(&root(&node), node.id);
    for mut partition in [own, followed] {
        let gap = partition.read(0, 1_000).await.unwrap_err();
        assert!(matches!(gap, StreamError::Gap { wanted: 0, begin: at, .. } if at == begin), "{gap}");
        let beyond = partition.read(500, 1_000).await.unwrap_err();
        assert!(matches!(beyond, StreamError::BeyondEnd { stored: 500, end: 101, .. }), "{beyond}");
        assert!(beyond.to_string().contains("highwater journal retire"));
        assert_eq!(partition.read(begin, 1_000).await.unwrap()[0].offset, begin);
    }
}

#[tokio::test]
async fn the_end_of_a_sealed_journal_is_told() {
    let node = Node::new();
    let journal = filled(&node, 3);
    let mut own = JournalPartition::new(&journal);
    let mut followed = JournalPartition::in_directory(&root(&node), node.id);
    assert_eq!(read_all(&mut own, 0, 1_000).await.len(), 3);
    assert!(!own.is_sealed());
    journal.seal().unwrap();
    for partition in [&mut own, &mut followed] {
        let records = read_all(partition, 0, 1_000).await;
        assert_eq!(records.len(), 5, "three clicks, a mark, the last mark");
        assert!(matches!(records[4].body, Body::Mark(_)));
        assert!(!partition.is_sealed());
        assert_eq!(partition.read(5, 1_000).await.unwrap(), []);
        assert!(partition.is_sealed());
    }
}

#[tokio::test]
async fn another_process_sees_what_the_owner_says_is_synced() {
    let node = Node::new();
    let mut followed = JournalPartition::in_directory(&root(&node), node.id);
    assert_eq!(followed.end().await.unwrap(), 0, "nothing is there yet");
    let journal = node.open();
    for number in 0..20 {
        click(&journal, &[number; 100]);
    }
    assert_eq!(followed.end().await.unwrap(), 0, "written, not synced");
    journal.round(Instant::now()).unwrap();
    assert_eq!(followed.end().await.unwrap(), 20, "the mark says so");
    assert_eq!(read_all(&mut followed, 0, 500).await.len(), 20);
    click(&journal, b"unsynced");
    assert_eq!(followed.end().await.unwrap(), 20);
    let read = followed.read(20, 500);
    tokio::pin!(read);
    assert!(futures::poll!(&mut read).is_pending());
    journal.round(Instant::now()).unwrap();
    let records = read.await.unwrap();
    assert_eq!(texts(&records), ["unsynced"], "it is found without being told");
}

#[tokio::test]
async fn a_follower_goes_on_where_a_failed_sync_moved_the_frames() {
    for clicks in [0, 1, 15] {
        let node = Node::new();
        let journal = filled(&node, 2);
        let mut own = JournalPartition::new(&journal);
        let mut followed = JournalPartition::in_directory(&root(&node), node.id);
        let seen = read_all(&mut followed, 0, 1_000).await.len() as u64;
        read_all(&mut own, 0, 1_000).await;
        for number in 0..clicks {
            click(&journal, &[number; 100]);
        }
        assert_eq!(followed.end().await.unwrap(), seen);
        node.disk.faults(|faults| faults.syncs = 1);
        assert!(journal.round(Instant::now()).is_err());
        assert_eq!(followed.end().await.unwrap(), seen);
        journal.round(Instant::now()).unwrap();
        click(&journal, b"after");
        journal.round(Instant::now()).unwrap();
        journal.round(Instant::now() + Duration::from_secs(60)).unwrap();
        let here = read_all(&mut own, seen, 1_000).await;
        let there = read_all(&mut followed, seen, 1_000).await;
        assert_eq!(here[..there.len()], there);
        assert_eq!(texts(&there).last().map(String::as_str), Some("after"));
    }
}

#[tokio::test]
async fn damage_is_an_error_that_names_the_place() {
    let node = Node::new();
    let journal = filled(&node, 50);
    let oldest = &node.segments()[0];
    damage(oldest, |bytes| bytes[44 + 33 + 20] ^= 1);
    let own = JournalPartition::new(&journal);
    let followed = JournalPartition::in_directory(&root(&node), node.id);
    for mut partition in [own, followed] {
        assert_eq!(partition.read(0, 1_000).await.unwrap().len(), 1);
        let error = partition.read(1, 1_000).await.unwrap_err().to_string();
        assert!(error.contains("position 1 ") && error.contains("retire"), "{error}");
    }
    drop(journal);
    let newest = node.segments().pop().unwrap();
    damage(&newest, |bytes| bytes[44 + 20] ^= 1);
    let journal = node.open();
    let at = journal.stats().damage.unwrap().position;
    let mut partition = JournalPartition::new(&journal);
    let error = partition.read(at, 1_000).await.unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("retire"), "{error}");
    assert!(!partition.is_sealed(), "what is lost is not silently closed");
}

#[tokio::test]
async fn the_sync_task_makes_clicks_visible_and_syncs_once_more_when_it_ends() {
    let node = Node::new();
    let journal = node.open();
    let cancel = tokio_util::sync::CancellationToken::new();
    let task = tokio::spawn(
        node.journals.sync_task(tokio::sync::watch::Sender::new(vec![journal.clone()]).subscribe()).run(cancel.clone()),
    );
    click(&journal, b"ticked");
    let mut partition = JournalPartition::new(&journal);
    let mut seen = Vec::new();
    while texts(&seen).is_empty() {
        seen.extend(partition.read(seen.len() as u64, 1_000).await.unwrap());
    }
    assert_eq!(texts(&seen), ["ticked"]);
    click(&journal, b"last");
    cancel.cancel();
    task.await.unwrap();
    assert!(journal.stats().synced >= journal.stats().end - 1, "all but a mark");
}
