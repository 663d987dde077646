//! A disk that is full, that breaks, and that loses power.

use std::time::Instant;

use super::*;
use crate::journal::stats::Refusal;

fn start() -> Instant {
    Instant::now()
}

#[test]
fn a_full_disk_drops_internal_events_and_gives_billed_clicks_the_reserve() {
    let node = Node::with(JournalConfig { segment_bytes: 1 << 20, ..CONFIG });
    let journal = node.open();
    assert_eq!(node.journals.budget().stats().held, 1 << 20);
    node.disk.leave(100);
    assert!(matches!(append(&journal, Analytics::Internal, b"fits"), Appended::Written { .. }));
    let text = [1; 200];
    assert_eq!(append(&journal, Analytics::Internal, &text), Appended::Dropped(Refusal::NearlyFull));
    assert_eq!(node.journals.budget().stats().held, 1 << 20, "an internal event takes nothing of the reserve");
    let mut written = 1;
    let refused = loop {
        match append(&journal, Analytics::Billed, &text) {
            Appended::Written { offset } => {
                assert_eq!(offset, written);
                written += 1;
            }
            refused => break refused,
        }
    };
    assert_eq!(refused, Appended::Lost(Refusal::Disk));
    // 1 MiB of reserve holds that many frames of 225 bytes.
    assert_eq!(written - 1, ((1 << 20) + 100 - 29) / 225);
    assert_eq!(append(&journal, Analytics::Internal, b""), Appended::Dropped(Refusal::NearlyFull));
    let stats = journal.stats();
    assert_eq!((stats.lost.count, stats.dropped.count), (1, 2));
    assert_eq!((stats.lost.first, stats.lost.last), (Some(UtcMicros(1_000_000)), Some(UtcMicros(1_000_000))));
    drop(journal);
    let journal = node.open();
    assert_eq!((journal.stats().end, journal.stats().torn.bytes), (written, 0), "refused writes leave nothing behind");

    node.disk.faults(|faults| faults.capacity = None);
    click(&journal, b"there is room again");
    let budget = node.journals.budget();
    assert_eq!(append(&journal, Analytics::Internal, b""), Appended::Dropped(Refusal::NearlyFull));
    budget.tend(start() + Duration::from_secs(5));
    assert_eq!(budget.stats().held, 1 << 20, "the reserve is made again");
    assert!(matches!(append(&journal, Analytics::Internal, b""), Appended::Written { .. }));
}

#[test]
fn the_reserve_is_not_made_again_from_the_last_bytes() {
    let node = Node::new();
    let journal = node.open();
    node.disk.leave(0);
    click(&journal, b"into the reserve");
    let held = node.journals.budget().stats().held;
    for seconds in 1..10 {
        node.journals.budget().tend(start() + Duration::from_secs(10 * seconds));
    }
    assert_eq!(node.journals.budget().stats().held, held);
    assert!(node.journals.budget().stats().nearly_full);
}

#[test]
fn a_full_budget_loses_billed_clicks_and_still_marks() {
    let node = Node::with(JournalConfig { max_bytes: 4_000, reserve: 1_000, segment_bytes: 500, ..CONFIG });
    let journal = node.open();
    while matches!(append(&journal, Analytics::Internal, &[0; 50]), Appended::Written { .. }) {}
    assert!(node.journals.budget().stats().used > 2_900);
    let internal = journal.stats().end;
    while matches!(append(&journal, Analytics::Billed, &[0; 50]), Appended::Written { .. }) {}
    assert!(journal.stats().end > internal + 8);
    assert_eq!(journal.stats().lost.why, Some(Refusal::Full));
    let end = journal.stats().end;
    journal.round(start()).unwrap();
    assert_eq!(journal.stats().end, end + 1, "without marks complete_through would stand still");
    journal.round(start()).unwrap();
    journal.trim(u64::MAX);
    click(&journal, b"room again");
}

#[test]
fn a_short_write_is_gone_on_with() {
    let node = Node::new();
    node.disk.faults(|faults| faults.short_writes = Some(7));
    let journal = node.open();
    for number in 0..20 {
        click(&journal, format!("click {number}").as_bytes());
    }
    drop(journal);
    assert_eq!(node.open().stats().end, 20);
}

#[test]
fn a_failed_write_is_cut_off_and_tried_again_in_a_new_segment() {
    for cuts in [0, 1, 9] {
        let node = Node::new();
        let journal = node.open();
        click(&journal, b"before");
        node.disk.faults(|faults| (faults.writes, faults.cuts) = (1, cuts));
        assert_eq!(click(&journal, b"during"), 1);
        node.disk.faults(|faults| faults.cuts = 0);
        assert_eq!(click(&journal, b"after"), 2);
        journal.sync().unwrap();
        drop(journal);
        let stats = node.open().stats();
        assert_eq!((stats.end, stats.torn.bytes, stats.damage), (4, 0, None), "{cuts} cuts failed");
    }
}

#[test]
fn a_disk_that_refuses_every_write_loses_clicks_and_counts_them() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, b"before");
    node.disk.faults(|faults| faults.writes = u32::MAX);
    node.clock.store(2_000_000, Ordering::Relaxed);
    assert_eq!(append(&journal, Analytics::Billed, b"lost"), Appended::Lost(Refusal::Disk));
    node.clock.store(3_000_000, Ordering::Relaxed);
    assert_eq!(append(&journal, Analytics::Billed, b"lost"), Appended::Lost(Refusal::Disk));
    assert_eq!(append(&journal, Analytics::Internal, b"dropped"), Appended::Dropped(Refusal::Disk));
    let lost = journal.stats().lost;
    assert_eq!((lost.count, lost.first, lost.last), (2, Some(UtcMicros(2_000_000)), Some(UtcMicros(3_000_000))));
    node.disk.faults(|faults| faults.writes = 0);
    assert_eq!(click(&journal, b"after"), 1);
    drop(journal);
    assert_eq!(node.open().stats().end, 2);
}

#[test]
fn after_a_failed_sync_frames_are_written_anew_and_survive_a_power_cut() {
    for directory_fails in [false, true] {
        let node = Node::new();
        let journal = node.open();
        click(&journal, b"synced");
        journal.round(start()).unwrap();
        for number in 0..9 {
            click(&journal, &[number; 100]);
        }
        let before = journal.stats();
        node.disk.faults(|faults| if directory_fails { faults.directory_syncs = 1 } else { faults.syncs = 1 });
        assert!(journal.round(start()).is_err());
        let stalled = journal.stats();
        assert!(stalled.synced < before.end, "a failed sync shows readers nothing");
        assert_eq!((stalled.sync_errors, stalled.sync_failing_since), (1, Some(UtcMicros(1_000_000))));
        click(&journal, b"meanwhile");
        journal.round(start()).unwrap();
        let after = journal.stats();
        assert!(after.synced > before.end);
        assert_eq!((after.sync_failing_since, after.lost.count), (None, 0));
        drop(journal);
        node.disk.power_cut(|_| (0, 0));
        let stats = node.open_committed(after.synced).stats();
        assert_eq!((stats.end, stats.damage), (after.synced, None), "the kernel had dropped them, the copy hadn't");
    }
}

#[test]
fn a_disk_that_never_syncs_stalls_readers_and_nothing_else() {
    let node = Node::new();
    let journal = node.open();
    node.disk.faults(|faults| faults.syncs = u32::MAX);
    let mut now = start();
    for number in 0..50 {
        click(&journal, format!("{number}").as_bytes());
        now += Duration::from_secs(20);
        assert!(journal.round(now).is_err());
    }
    let stats = journal.stats();
    assert_eq!((stats.synced, stats.end, stats.sync_errors), (0, 50, 50));
    assert_eq!(stats.sync_failing_since, Some(UtcMicros(1_000_000)));
    assert!(stats.segments < 30, "copies replace each other: {}", stats.segments);
    assert!(journal.round(now).is_err(), "it is too early to try again");
    assert_eq!(journal.stats().sync_errors, 50);
    node.disk.faults(|faults| faults.syncs = 0);
    journal.round(now + Duration::from_secs(20)).unwrap();
    assert_eq!(journal.stats().synced, 50);
    assert_eq!(node.journals.budget().stats().used, journal.stats().bytes);
    drop(journal);
    node.disk.power_cut(|_| (0, 0));
    assert_eq!(node.open().stats().end, 50);
}

#[test]
fn frames_that_cannot_be_read_back_after_a_failed_sync_are_counted_as_lost() {
    let node = Node::new();
    let journal = node.open();
    for text in [b"a", b"b", b"c"] {
        click(&journal, text);
    }
    node.disk.faults(|faults| faults.syncs = 1);
    assert!(journal.round(start()).is_err());
    damage(&node.segments()[0], |bytes| bytes[44 + 26 + 20] ^= 1);
    journal.round(start()).unwrap();
    let stats = journal.stats();
    assert_eq!((stats.synced, stats.end, stats.lost.count), (3, 4, 2));
    assert_eq!(click(&journal, b"d"), 4, "later positions are what they were");
    drop(journal);
    assert_eq!(node.open().stats().end, 5);
}

#[test]
fn a_power_cut_takes_only_what_was_not_synced() {
    for synced_clicks in [0u64, 1, 7, 20] {
        let node = Node::new();
        let journal = node.open();
        for number in 0..synced_clicks {
            click(&journal, &[number as u8; 100]);
        }
        journal.round(start()).unwrap();
        let synced = journal.stats().synced;
        for number in 0..20 {
            click(&journal, &[number; 100]);
        }
        drop(journal);
        node.disk.power_cut(|unsynced| (unsynced / 2, 0));
        let stats = node.open_committed(synced).stats();
        assert!(stats.end >= synced && stats.end <= synced + 21, "{stats:?}");
        assert!(stats.torn.frames_lost || stats.torn.bytes < 200, "{stats:?}");
        assert_eq!(stats.damage, None);
    }
}

#[test]
fn lost_frames_that_were_synced_close_the_journal() {
    let node = Node::with(JournalConfig { segment_bytes: 1 << 20, ..CONFIG });
    let journal = node.open();
    for number in 0..5 {
        click(&journal, &[number; 100]);
        journal.round(start()).unwrap();
    }
    let synced = journal.stats().synced;
    drop(journal);
    let last = node.segments().pop().unwrap();
    damage(&last, |bytes| bytes[44 + 20] ^= 1);
    let bytes = std::fs::read(&last).unwrap();
    let journal = node.open();
    let stats = journal.stats();
    let hurt = stats.damage.unwrap();
    assert!(stats.sealed && hurt.position == stats.end && hurt.position < hurt.synced && hurt.synced <= synced);
    assert_eq!(append(&journal, Analytics::Billed, b"no"), Appended::Lost(Refusal::Sealed));
    assert_eq!(std::fs::read(&last).unwrap(), bytes, "nothing is cut off");
}

#[test]
fn a_journal_that_ends_before_what_the_lake_holds_is_closed() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, b"a");
    drop(journal);
    let stats = node.open_committed(5).stats();
    assert!(stats.sealed);
    assert_eq!(stats.damage.map(|damage| (damage.position, damage.synced)), Some((1, 5)));
    assert_eq!(node.open_committed(1).stats().damage, None);
}

#[test]
fn a_damaged_header_never_makes_positions_begin_anew() {
    for only_header in [false, true] {
        let node = Node::new();
        let journal = node.open();
        for number in 0..20 {
            click(&journal, &[number; 100]);
            journal.round(start()).unwrap();
        }
        journal.round(start() + Duration::from_secs(20)).unwrap();
        journal.trim(u64::MAX);
        let begin = journal.stats().begin;
        drop(journal);
        assert_eq!(node.segments().len(), 1);
        damage(&node.segments()[0], |bytes| {
            bytes[10] ^= 1;
            if only_header {
                bytes.truncate(44);
            }
        });
        let stats = node.open().stats();
        assert_eq!((stats.end, stats.damage.map(|damage| damage.position)), (begin, Some(begin)));
    }
}

#[test]
fn a_journal_that_cannot_be_opened_takes_no_room() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, b"x");
    drop(journal);
    for fault in [|faults: &mut disk::Faults| faults.syncs = 1, |faults: &mut disk::Faults| faults.opens = 1] {
        node.disk.faults(fault);
        let error = node.try_open(0).unwrap_err();
        assert!(matches!(error, JournalError::Io { .. }), "{error}");
        assert_eq!(node.journals.budget().stats().used, 0);
    }
    assert_eq!(node.open().stats().end, 1);
}

#[test]
fn a_journal_is_opened_on_a_full_disk() {
    let node = Node::with(JournalConfig { reserve: 0, ..CONFIG });
    let journal = node.open();
    click(&journal, b"x");
    drop(journal);
    node.disk.leave(0);
    let journal = node.open();
    assert_eq!((journal.stats().end, journal.stats().synced), (1, 1));
    assert_eq!(append(&journal, Analytics::Billed, b"y"), Appended::Lost(Refusal::Disk));
}

#[test]
fn what_is_written_during_a_sync_is_not_shown_with_it() {
    let node = Node::new();
    let journal = node.open();
    click(&journal, b"before");
    let writer = journal.clone();
    node.disk.faults(|faults| {
        faults.meanwhile = Some(Box::new(move || {
            click(&writer, b"during");
        }));
    });
    journal.round(start()).unwrap();
    let stats = journal.stats();
    assert_eq!((stats.synced, stats.end), (1, 3), "the click before; then the one during, and a mark");
    let place = crate::journal::segment::Place::new(Arc::new(crate::journal::disk::RealDisk), node.path(), node.id);
    let mut follower = crate::journal::follow::Follower::new(place);
    assert_eq!(follower.refresh().unwrap().synced, 1, "nor to another process");
    journal.round(start()).unwrap();
    assert_eq!(follower.refresh().unwrap().synced, 3);
}

#[test]
fn appends_go_on_while_frames_move() {
    let node = Node::new();
    let journal = node.open();
    let appended = std::thread::scope(|scope| {
        let appender =
            scope.spawn(|| (0..3_000u32).map(|number| click(&journal, &number.to_le_bytes())).collect::<Vec<_>>());
        let mut now = start();
        while !appender.is_finished() {
            node.disk.faults(|faults| faults.syncs = 1);
            now += Duration::from_secs(20);
            // The first round fails if there was anything to sync, the second moves it.
            let _ = journal.round(now);
            let _ = journal.round(now);
        }
        node.disk.faults(|faults| faults.syncs = 0);
        appender.join().unwrap()
    });
    journal.round(start() + Duration::from_secs(1_000_000)).unwrap();
    let synced = journal.stats().synced;
    drop(journal);
    node.disk.power_cut(|_| (0, 0));
    let journal = node.open_committed(synced);
    assert_eq!(journal.stats().damage, None);
    let mut clicks = Vec::new();
    let mut partition = crate::journal::JournalPartition::new(&journal);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut at = 0;
    while at < journal.stats().end {
        let records = runtime.block_on(crate::stream::Partition::read(&mut partition, at, 1 << 20)).unwrap();
        at += records.len() as u64;
        clicks.extend(records.into_iter().filter_map(|record| match record.body {
            Body::Click(bytes) => Some((record.offset, u32::from_le_bytes(bytes[8..12].try_into().unwrap()))),
            _ => None,
        }));
    }
    let expected: Vec<_> = appended.into_iter().zip(0u32..).collect();
    assert_eq!(clicks, expected);
}
