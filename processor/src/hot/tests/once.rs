//! Once: repeats, restarts, lost answers, two owners.

use std::time::Duration;

use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::SECOND;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn clicks_land_once_with_their_position_and_their_mark() {
    let world = World::new();
    let (one, two) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&one).await;
    hot.read(&two).await;
    let mark = now();
    for n in 0..10 {
        one.click(n, mark);
        two.click(100 + n, mark);
    }
    let end = one.mark(mark);
    let landed = world.registry.until(|state| state.landed.contains_key(&one.journal)).await;
    assert_eq!(landed.landed[&one.journal].through, UtcMicros(mark));
    assert_eq!(landed.landed[&one.journal].committed, end);
    assert!(!landed.landed.contains_key(&two.journal), "without a mark nothing is promised");
    world.until(&two, 10).await;
    let status = hot.status.clone().wait_for(|status| status.lag_seconds == 0.0).await.unwrap().clone();
    assert_eq!(status.partitions.len(), 2);
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..10).chain(100..110).collect::<Vec<u128>>());
    assert!(world.ids(Table::Arrivals).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_one_row_within_a_partition_across_partitions_and_in_the_window() {
    let world = World::new();
    let (one, two) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&one).await;
    hot.read(&two).await;
    for time in [now(), sure()] {
        let id = time as u128;
        one.click(id, time);
        one.click(id, time + 1);
        let a = one.click(id + 1, time);
        two.click(id, time);
        let b = two.click(id + 2, time);
        world.until(&one, a).await;
        world.until(&two, b).await;
        let c = two.click(id + 1, time + 30 * SECOND); // landed before: the window knows
        world.until(&two, c).await;
        let ids = world.ids(Table::Clicks).await;
        assert_eq!(ids.iter().filter(|&&i| i >= id && i < id + 3).count(), 3, "{ids:?}");
    }
    hot.drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_knows_from_the_lake_what_its_window_has_lost() {
    let world = World::new();
    let (old, new) = (Log::new(), Log::new());
    let time = now();
    let hot = world.start();
    hot.read(&old).await;
    let end = old.clicks(0..20, time);
    world.until(&old, end).await;
    hot.kill().await;

    // the edge asks again under the same ids, through another worker's journal
    let hot = world.start();
    hot.read(&old).await;
    hot.read(&new).await;
    let end = new.clicks(0..25, time + 3 * SECOND);
    world.until(&new, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..25).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_days_ahead_and_went_back_makes_no_event_surely_new() {
    let world = World::new();
    let (old, new) = (Log::new(), Log::new());
    // a journal's times never go back: after the clock was set right, events are still days ahead
    let ahead = now() + 3 * 24 * 3_600 * SECOND;
    let hot = world.start();
    hot.read(&old).await;
    let end = old.clicks(0..20, ahead);
    world.until(&old, end).await;
    hot.kill().await;

    let hot = world.start();
    hot.read(&new).await;
    let end = new.clicks(0..20, ahead + 10 * SECOND);
    world.until(&new, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (0..20).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_or_whose_answer_is_lost_lands_once() {
    for fault in [Fault::Before, Fault::After] {
        let world = World::new();
        let log = Log::new();
        let hot = world.start();
        hot.read(&log).await;
        let first = log.click(1, sure());
        world.until(&log, first).await;
        for n in 0..6u128 {
            world.store.arm(ENTRY, 1, fault.clone());
            let end = log.click(10 + n, sure());
            world.until(&log, end).await;
            assert!(world.store.is_spent());
        }
        hot.drain().await.unwrap();
        assert_eq!(world.ids(Table::Clicks).await, [1, 10, 11, 12, 13, 14, 15], "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_owner_that_wakes_and_commits_adds_nothing() {
    let world = World::new();
    let log = Log::new();
    let old = world.start();
    old.read(&log).await;
    let first = log.click(1, sure());
    world.until(&log, first).await;
    // the old owner stands still on its way into the log, with 2 and 3 in its hands
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    log.click(2, sure());
    log.click(3, sure());
    gate.reached().await;
    // another takes the partition over and goes further
    let new = world.start();
    new.read(&log).await;
    let end = log.click(4, sure());
    world.until(&log, end).await;
    gate.open();
    // the old one must find itself overtaken, read on from there, and both live with each other
    let end = log.clicks(5..30, sure());
    world.until(&log, end).await;
    old.drain().await.unwrap();
    new.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (1..30).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_overtaken_asks_the_lake_what_others_have_judged() {
    let world = World::new();
    let log = Log::new();
    let none = HotConfig { skew: Duration::ZERO, repeat: Duration::ZERO, ..quick() };
    let old = world.start_with(none.clone());
    old.read(&log).await;
    let first = log.click(1, now());
    world.until(&log, first).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    log.click(2, now());
    gate.reached().await;
    let new = world.start_with(none);
    new.read(&log).await;
    let time = now(); // later than the old one's floor
    let end = log.clicks(3..9, time);
    world.until(&log, end).await;
    new.kill().await;
    gate.open();
    // the ids that the other has judged come again, and only the lake can tell
    let end = log.clicks(2..12, time);
    world.until(&log, end).await;
    old.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, (1..12).collect::<Vec<u128>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_any_put_lose_and_double_nothing() {
    let world = World::new();
    let log = Log::new();
    let mut expected = Vec::new();
    for round in 0..12u128 {
        let gate = Gate::new();
        // some stand still before a data file, some before the log entry, some in a side table
        let pattern = ["date=", ENTRY, "arrivals/", "rejects/"][round as usize % 4];
        world.store.arm(pattern, 1, Fault::Hold(gate.clone()));
        let hot = world.start();
        hot.read(&log).await;
        let time = if pattern == "arrivals/" { settle_an_hour(&world).await } else { sure() };
        for n in 0..4 {
            log.click(round * 10 + n, time);
            expected.push((round * 10 + n, time));
        }
        if pattern == "rejects/" {
            log.garbage(b"junk");
        }
        gate.reached().await;
        hot.kill().await;
        gate.open();
    }
    let hot = world.start();
    hot.read(&log).await;
    let end = log.click(999, sure());
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    let late_time = settled_time();
    let on_time = expected.iter().filter(|(_, time)| *time != late_time).map(|(id, _)| *id).chain([999]);
    assert_eq!(world.ids(Table::Clicks).await, on_time.collect::<Vec<u128>>());
    let mut late = world.ids(Table::Arrivals).await;
    late.dedup(); // written again on a replay: the settler's union by id makes that harmless
    let wanted: Vec<u128> = expected.iter().filter(|(_, time)| *time == late_time).map(|(id, _)| *id).collect();
    assert_eq!(late, wanted);
    assert_eq!(rejected(&world).await.len(), 3, "each unreadable record once");
}
