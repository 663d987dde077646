//! From the first append to the removal of a journal.

use super::*;
use crate::journal::stats::Refusal;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

#[test]
fn a_killed_process_loses_nothing_that_was_written() {
    let node = Node::new();
    let journal = node.open();
    for number in 0..50 {
        assert_eq!(click(&journal, format!("click {number}").as_bytes()), number);
    }
    drop(journal); // without a sync, as a kill leaves it
    let journal = node.open();
    let stats = journal.stats();
    assert_eq!((stats.begin, stats.end, stats.synced), (0, 50, 50));
    assert_eq!((stats.torn.bytes, stats.torn.frames_lost, stats.damage), (0, false, None));
    assert_eq!(click(&journal, b"one more"), 50);
}

#[test]
fn a_journal_has_one_owner() {
    let node = Node::new();
    let journal = node.open();
    let error = node.try_open(0).unwrap_err();
    assert!(matches!(error, JournalError::InUse { .. }));
    assert!(error.to_string().contains("in use by another process"));
    assert!(matches!(node.journals.remove(node.id), Err(JournalError::InUse { .. })));
    drop(journal);
    node.open();
}

#[test]
fn times_never_go_back() {
    let node = Node::new();
    let journal = node.open();
    let time_of = |journal: &Journal| {
        let mut seen = UtcMicros(0);
        journal.append(Analytics::Billed, |time, _| seen = time);
        seen
    };
    node.clock.store(10, Relaxed);
    assert_eq!(time_of(&journal), FIRST_MARK, "nothing is before the first mark");
    node.clock.store(5_000, Relaxed);
    assert_eq!(time_of(&journal), UtcMicros(5_000));
    node.clock.store(4_000, Relaxed);
    assert_eq!(time_of(&journal), UtcMicros(5_000));
    drop(journal);
    let journal = node.open();
    assert_eq!(time_of(&journal), UtcMicros(5_000), "not across a restart either");
    node.clock.store(6_000, Relaxed);
    journal.round(Instant::now()).unwrap();
    node.clock.store(1, Relaxed);
    assert_eq!(time_of(&journal), UtcMicros(6_000), "a mark's time counts too");
    // And not when every older segment is gone and the active one has no frame yet.
    for _ in 0..30 {
        click(&journal, &[0; 100]);
    }
    journal.sync().unwrap();
    drop(journal);
    let last = node.segments().pop().unwrap();
    for path in node.segments().into_iter().filter(|path| *path != last) {
        std::fs::remove_file(path).unwrap();
    }
    damage(&last, |bytes| bytes.truncate(44));
    assert_eq!(time_of(&node.open()), UtcMicros(6_000));
}

#[test]
fn a_torn_tail_is_cut_off_and_counted() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, b"whole");
    let whole = std::fs::metadata(&node.segments()[0]).unwrap().len();
    click(&journal, b"torn");
    drop(journal);
    damage(&node.segments()[0], |bytes| bytes.truncate(whole as usize + 9));
    let journal = node.open();
    let stats = journal.stats();
    assert_eq!((stats.end, stats.torn.bytes), (1, 9));
    assert!(!stats.torn.frames_lost, "the append of a frame that is cut hadn't returned");
    drop(journal);
    damage(&node.segments()[0], |bytes| bytes.extend_from_slice(&[0; 50]));
    let stats = node.open().stats();
    assert_eq!((stats.end, stats.torn.bytes, stats.torn.frames_lost), (1, 50, true));
    assert_eq!(node.open().stats().torn.bytes, 0, "it is cut off once");
}

#[test]
fn whole_segments_are_trimmed_and_never_the_active_one() {
    let node = Node::new();
    let journal = node.open();
    for _ in 0..30 {
        click(&journal, &[0; 100]);
        journal.round(Instant::now()).unwrap();
    }
    let before = journal.stats();
    assert!(before.segments > 5);
    journal.trim(before.end / 2);
    let after = journal.stats();
    assert!(after.begin > 0 && after.begin <= before.end / 2, "{after:?}");
    assert_eq!(node.segments().len(), after.segments);
    assert_eq!(node.journals.budget().stats().used, after.bytes);
    journal.trim(before.end / 2);
    assert_eq!(journal.stats(), after, "again changes nothing");
    journal.trim(u64::MAX);
    let last = journal.stats();
    assert_eq!((last.segments, node.segments().len()), (1, 1));
    drop(journal);
    let stats = node.open_committed(last.end).stats();
    assert_eq!((stats.begin, stats.end, stats.damage), (last.begin, last.end, None));
}

#[test]
fn what_is_not_synced_is_not_trimmed() {
    let node = Node::new();
    let journal = node.open();
    for _ in 0..30 {
        click(&journal, &[0; 100]);
    }
    journal.trim(u64::MAX);
    assert_eq!(journal.stats().begin, 0);
}

#[test]
fn a_sealed_journal_takes_nothing_and_stays_sealed() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, b"last");
    journal.seal().unwrap();
    let end = journal.stats().end;
    assert_eq!((end, journal.stats().synced), (2, 2), "the click and the last mark");
    assert_eq!(append(&journal, Analytics::Billed, b"late"), Appended::Lost(Refusal::Sealed));
    assert_eq!(append(&journal, Analytics::Off, b"late"), Appended::Dropped(Refusal::Sealed));
    journal.seal().unwrap();
    assert_eq!(journal.stats().end, end);
    assert_eq!((journal.stats().lost.count, journal.stats().dropped.count), (1, 1));
    drop(journal);
    assert!(node.open().is_sealed());
    node.journals.remove(node.id).unwrap();
    assert!(!node.path().exists());
    node.journals.remove(node.id).unwrap();
    assert_eq!(node.journals.ids().unwrap(), []);
}

#[test]
fn the_directory_lists_its_journals_and_tolerates_half_made_ones() {
    let node = Node::new();
    let root = node.directory.path().join("journal");
    std::fs::create_dir_all(root.join("lost+found")).unwrap();
    std::fs::write(root.join("note.txt"), "x").unwrap();
    let half_made = JournalId::new();
    std::fs::create_dir(root.join(half_made.to_string())).unwrap();
    std::fs::write(root.join(half_made.to_string()).join("next.tmp"), "hw").unwrap();
    node.open();
    let mut expected = vec![node.id, half_made];
    expected.sort_unstable();
    assert_eq!(node.journals.ids().unwrap(), expected);
    let journal = node.journals.open_journal(half_made, FIRST_MARK, 0).unwrap();
    assert_eq!(click(&journal, b"first"), 0);
}

#[test]
fn a_segment_in_the_wrong_place_is_named_and_left_alone() {
    let node = Node::new();
    drop(node.open());
    let other = JournalId::new();
    let place = node.directory.path().join("journal").join(other.to_string());
    std::fs::rename(node.path(), &place).unwrap();
    let error = node.journals.open_journal(other, FIRST_MARK, 0).unwrap_err();
    assert!(matches!(&error, JournalError::Misplaced { found, .. } if *found == node.id), "{error}");
    std::fs::rename(&place, node.path()).unwrap();
    damage(&node.segments()[0], |bytes| {
        bytes[6] = 2;
        let checksum = crc32fast::hash(&bytes[..40]);
        bytes[40..44].copy_from_slice(&checksum.to_le_bytes());
    });
    let error = node.try_open(0).unwrap_err();
    assert!(matches!(error, JournalError::Newer { version: 2, known: 1, .. }), "{error}");
}

/// Renamed or re-laid-out headers would make every journal unreadable: this test may gain cases, never change one.
#[test]
fn golden_header() {
    let node = Node::new();
    let id = JournalId(uuid::Uuid::from_bytes([7; 16]));
    drop(node.journals.open_journal(id, UtcMicros(1_773_480_413_123_456), 0).unwrap());
    let path = node.directory.path().join("journal").join(id.to_string()).join("00000000000000000000.seg");
    let hex: String = std::fs::read(path).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "68776a726e6c010007070707070707070707070707070707000000000000000080530a96f84c0600b25f6f55");
}

#[test]
fn marks_follow_clicks_and_silence() {
    let node = Node::new();
    let journal = node.open();
    let start = Instant::now();
    let round = |seconds| {
        journal.round(start + Duration::from_secs(seconds)).unwrap();
        journal.stats().end
    };
    assert_eq!(round(0), 1, "the first round marks");
    assert_eq!(round(1), 1, "a mark alone is not followed by another");
    click(&journal, b"a");
    click(&journal, b"b");
    assert_eq!(round(2), 4, "two clicks, one mark");
    assert_eq!(round(11), 4);
    assert_eq!(round(12), 5, "ten seconds of silence");
    assert_eq!(journal.stats().last_mark, Some(UtcMicros(1_000_000)));
}

#[test]
fn a_silent_journal_marks_along_with_another_that_takes_clicks() {
    let node = Node::new();
    let (busy, silent) = (node.open(), node.journals.open_journal(JournalId::new(), UtcMicros(0), 0).unwrap());
    let start = Instant::now();
    let round = |millis, company| {
        silent.round_beside(start + Duration::from_millis(millis), company).unwrap();
        silent.stats().end
    };
    assert_eq!(round(0, false), 1, "the first mark");
    assert_eq!(round(1, false), 1, "and the round that syncs it");
    assert!(!busy.has_fresh_clicks());
    click(&busy, b"a");
    assert!(busy.has_fresh_clicks() && !silent.has_fresh_clicks());
    assert!(!silent.is_due(start + Duration::from_millis(499), true));
    assert!(silent.is_due(start + Duration::from_millis(500), true));
    assert_eq!(round(500, true), 2);
    busy.sync().unwrap();
    assert!(!busy.has_fresh_clicks());
}

#[test]
fn a_quiet_journal_begins_a_new_segment_after_an_hour() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, b"somebody's address");
    journal.sync().unwrap();
    node.clock.fetch_add(2 * 3_600 * 1_000_000, Relaxed);
    journal.sync().unwrap();
    journal.sync().unwrap();
    journal.trim(1);
    assert_eq!(journal.stats().begin, 0, "the mark behind the click is in its segment");
    journal.trim(2);
    assert_eq!(journal.stats().begin, 2);
}

#[test]
fn an_event_longer_than_any_is_refused() {
    let node = Node::new();
    let journal = node.open();
    assert_eq!(append(&journal, Analytics::Billed, &vec![0; 2 << 20]), Appended::Lost(Refusal::TooLong));
    assert_eq!(click(&journal, &vec![0; 1 << 19]), 0);
}

#[test]
fn several_threads_may_append_to_one_journal() {
    let node = Node::with(JournalConfig { segment_bytes: 4_000, ..CONFIG });
    let journal = node.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    click(&journal, b"x");
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                journal.sync().unwrap();
            }
        });
    });
    let end = journal.stats().end;
    drop(journal);
    assert_eq!(node.open().stats().end, end);
}
