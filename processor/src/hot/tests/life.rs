//! A hot path's life: outages, drains, sealed journals, budgets.

use std::time::Duration;

use schemas::UtcMicros;
use schemas::tables::Table;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_that_is_down_is_waited_for() {
    let world = World::new();
    let log = Log::new();
    world.store.set_down(true);
    let hot = world.start();
    hot.read(&log).await;
    let end = log.clicks(0..9, now());
    let mut status = hot.status.clone();
    status.wait_for(|status| status.failing.is_some()).await.unwrap();
    world.store.set_down(false);
    world.until(&log, end).await;
    status.wait_for(|status| status.failing.is_none()).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await.len(), 9);
}

/// Of a backlog that is worked off without a pause, all that has been heard of has landed after every commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_as_old_as_what_is_read_during_a_commit() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    let begin = log.click(0, now());
    world.until(&log, begin).await;
    let [one, next] = [Gate::new(), Gate::new()];
    world.store.arm(ENTRY, 1, Fault::Hold(one.clone()));
    world.store.arm(ENTRY, 2, Fault::Hold(next.clone()));
    log.click(1, now());
    one.reached().await;
    // three are read at once: those before the last three have been handed over
    let end = log.clicks(2..8, now() - 60 * SECOND);
    log.until_read(end).await;
    one.open();
    next.reached().await;
    let lag = hot.status.borrow().lag_seconds;
    next.open();
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert!(lag >= 60.0, "{lag} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_journal_is_closed_when_the_lake_holds_all_of_it() {
    let world = World::new();
    let (full, empty) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&full).await;
    hot.read(&empty).await;
    world.store.arm(ENTRY, 1, Fault::Before);
    full.click(1, sure());
    let end = full.mark(7);
    full.seal();
    empty.seal();
    let state = world.registry.until(|state| state.closed.len() == 2).await;
    assert_eq!(state.landed[&full.journal].committed, end);
    let mut status = hot.status.clone();
    status.wait_for(|status| status.partitions.is_empty()).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_commits_what_is_there_and_says_when_it_can_not() {
    let world = World::new();
    let log = Log::new();
    let slow = HotConfig { commit_after: Duration::from_secs(3_600), ..HotConfig::default() };
    let hot = world.start_with(slow.clone());
    hot.read(&log).await;
    hot.status.clone().wait_for(|status| !status.partitions.is_empty()).await.unwrap();
    log.clicks(0..50, sure());
    log.mark(5);
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await.len(), 50);
    assert_eq!(world.registry.state.borrow().landed[&log.journal].through, UtcMicros(5));

    let hot = world.start_with(HotConfig { drain_within: Duration::from_millis(50), ..slow });
    hot.read(&log).await;
    hot.status.clone().wait_for(|status| !status.partitions.is_empty()).await.unwrap();
    log.click(99, sure());
    world.store.set_down(true);
    assert!(matches!(hot.drain().await, Err(HotError::Drain(_))));
    world.store.set_down(false);
    assert_eq!(world.ids(Table::Clicks).await.len(), 50);

    // nor does it wait for a store that doesn't answer
    let hot = world.start_with(HotConfig { drain_within: Duration::from_millis(50), ..quick() });
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    hot.read(&log).await;
    gate.reached().await;
    assert!(matches!(hot.drain().await, Err(HotError::Drain(_))));
    world.store.disarm();
    let hot = world.start();
    hot.read(&log).await;
    world.until(&log, 52).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await.len(), 51);
}

/// A record of 2 MiB that can't be read.
static FAT: [u8; 2 << 20] = [0; 2 << 20];

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_leaves_a_backlog_to_whoever_comes() {
    let world = World::new();
    let log = Log::new();
    let end = (0..30).map(|_| log.garbage(&FAT)).max().unwrap();
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    // room for one batch
    let hot = world.start_with(HotConfig { max_bytes: 1_024, ..quick() });
    hot.read(&log).await;
    gate.reached().await;
    let cancel = hot.cancel.clone();
    cancel.cancel();
    gate.open();
    hot.drain().await.unwrap();
    let app_id = slot::app_id(&log.journal.to_string());
    let landed = world.table(Table::Clicks).await.txn(&app_id).unwrap() as u64;
    assert!((3..end).contains(&landed), "{landed} of {end}");
    assert_eq!(rejected(&world).await.len() as u64, landed);

    let hot = world.start();
    hot.read(&log).await;
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(rejected(&world).await.len() as u64, end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_for_records_that_do_not_come() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    let end = log.click(1, sure());
    world.until(&log, end).await;
    log.be_silent();
    log.click(2, sure());
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_down_holds_no_commit_back() {
    let world = World::new();
    let log = Log::new();
    *world.registry.failing.lock().unwrap() = true;
    let hot = world.start();
    hot.read(&log).await;
    log.click(1, sure());
    let end = log.mark(3);
    world.until(&log, end).await;
    assert_eq!(world.registry.state.borrow().published, 0);
    *world.registry.failing.lock().unwrap() = false;
    world.registry.until(|state| state.landed.contains_key(&log.journal)).await;
    hot.drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_can_not_be_read_is_named_and_holds_up_no_other() {
    let world = World::new();
    let (broken, good) = (Log::new(), Log::new());
    broken.set_failing(true);
    let hot = world.start();
    hot.read(&broken).await;
    hot.read(&good).await;
    let end = good.click(1, sure());
    world.until(&good, end).await;
    let mut status = hot.status.clone();
    let named = |status: &HotStatus| status.partitions.iter().any(|one| one.failing.is_some());
    good.click(2, sure());
    status.wait_for(named).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_budget_makes_many_commits_and_loses_nothing() {
    let world = World::new();
    let logs = [Log::new(), Log::new(), Log::new()];
    let config = HotConfig { max_bytes: 4_096, commit_after: Duration::from_secs(5), ..HotConfig::default() };
    let hot = world.start_with(config);
    for (n, log) in logs.iter().enumerate() {
        for k in 0..60 {
            log.click(n as u128 * 1_000 + k, sure());
        }
        hot.read(log).await;
    }
    hot.status.clone().wait_for(|status| status.partitions.len() == 3).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await.len(), 180);
    assert!(world.table(Table::Clicks).await.version() > 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_alone_make_few_commits() {
    let world = World::new();
    let log = Log::new();
    let config = HotConfig {
        commit_after: Duration::from_millis(1),
        idle_after: Duration::from_secs(3_600),
        ..HotConfig::default()
    };
    let hot = world.start_with(config);
    hot.read(&log).await;
    for n in 0..30 {
        log.mark(n);
    }
    let end = log.click(1, sure());
    world.until(&log, end).await;
    for n in 0..30 {
        log.mark(100 + n);
    }
    assert_eq!(world.table(Table::Clicks).await.version(), 1);
    hot.drain().await.unwrap();
    assert_eq!(world.registry.state.borrow().landed[&log.journal].through, UtcMicros(129));
}
