//! A partition that goes from one hot path to another: left and taken, or taken from one that is paused.

use std::time::Duration;

use schemas::tables::Table;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_left_is_read_and_committed_no_more() {
    let world = World::new();
    let (kept, gone) = (Log::new(), Log::new());
    let slow = HotConfig { commit_after: Duration::from_secs(3_600), ..quick() };
    let hot = world.start_with(slow);
    hot.read(&kept).await;
    hot.read(&gone).await;
    let end = gone.click(1, sure());
    gone.until_read(end).await;
    hot.leave(&gone).await;
    assert_eq!(hot.status.borrow().partitions.len(), 1);
    assert!(gone.is_unread(), "its reader has ended");
    gone.click(2, sure());
    kept.click(10, sure());
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [10], "what was buffered is the next owner's to commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_taken_is_left_at_once() {
    let world = World::new();
    let (log, never) = (Log::new(), Log::new());
    let hot = world.start();
    hot.leave(&never).await;
    // it is left before the lake has told where it begins, and when it is being read
    let gate = Gate::new();
    world.store.arm("clicks/", 1, Fault::Hold(gate.clone()));
    hot.read(&log).await;
    gate.reached().await;
    gate.open();
    hot.leave(&log).await;
    hot.leave(&log).await;
    hot.read(&log).await;
    let end = log.click(1, sure());
    world.until(&log, end).await;
    hot.drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_waits_for_room_can_be_left() {
    let world = World::new();
    let (log, other) = (Log::new(), Log::new());
    // room for one record at a time, which stays taken while the commit stands still
    let hot = world.start_with(HotConfig { max_bytes: 1, ..quick() });
    hot.read(&other).await;
    let first = other.click(1, sure());
    world.until(&other, first).await;
    hot.read(&log).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    log.clicks(10..40, sure());
    other.clicks(50..80, sure());
    gate.reached().await;
    let leaving = hot.leave(&log);
    gate.open();
    leaving.await;
    let next = world.start();
    next.read(&log).await;
    world.until(&log, 30).await;
    world.until(&other, 31).await;
    hot.drain().await.unwrap();
    next.drain().await.unwrap();
    let all: Vec<u128> = [1].into_iter().chain(10..40).chain(50..80).collect();
    assert_eq!(world.ids(Table::Clicks).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_change_hands_under_load_and_every_id_is_one_row() {
    let world = World::new();
    let logs = [Log::new(), Log::new(), Log::new()];
    let hots = [world.start(), world.start()];
    for log in &logs {
        hots[0].read(log).await;
    }
    let mut owner = [0; 3];
    let mut ends = [0; 3];
    let mut id = 0u128;
    for round in 0..30usize {
        for (number, log) in logs.iter().enumerate() {
            // of every click a repeat, some of them of the round before, by whoever owned it then
            for id in [id, id + 1, id, id.saturating_sub(5)] {
                ends[number] = log.click(id * 3 + number as u128, now());
            }
        }
        id += 2;
        let moved = round % 3;
        let next = 1 - owner[moved];
        if round % 4 != 3 {
            hots[owner[moved]].leave(&logs[moved]).await;
        } // else the old owner doesn't know yet: both read it for a while
        hots[next].read(&logs[moved]).await;
        if round % 4 == 3 {
            world.until(&logs[moved], ends[moved]).await;
            hots[owner[moved]].leave(&logs[moved]).await;
        }
        owner[moved] = next;
    }
    for (log, end) in logs.iter().zip(ends) {
        world.until(log, end).await;
    }
    for hot in hots {
        hot.drain().await.unwrap();
    }
    let ids = world.ids(Table::Clicks).await;
    let mut once = ids.clone();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an id is two rows");
    assert_eq!(ids.len(), 3 * 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_owner_that_wakes_leaves_what_another_has_taken() {
    let world = World::new();
    let log = Log::new();
    let paused = world.start();
    paused.read(&log).await;
    let first = log.click(1, sure());
    world.until(&log, first).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    log.clicks(2..6, sure());
    gate.reached().await;
    // its lease ended meanwhile
    let next = world.start();
    next.read(&log).await;
    let end = log.clicks(6..10, sure());
    world.until(&log, end).await;
    gate.open();
    paused.leave(&log).await;
    let end = log.clicks(4..14, sure());
    world.until(&log, end).await;
    paused.drain().await.unwrap();
    next.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (1..14).collect::<Vec<u128>>());
}
