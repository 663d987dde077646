//! The side tables: what is late, and what can't be read.

use schemas::tables::Table;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_read_is_kept_and_stops_nothing() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    log.click(1, sure());
    log.garbage(b"\x01 junk");
    log.garbage(b"\xff newer");
    log.click(POISON, sure());
    let end = log.click(2, sure());
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1, 2]);
    let reasons = [(1, "corrupt"), (2, "newer_version"), (3, "panic")].map(|(n, r)| (n, r.to_owned()));
    assert_eq!(rejected(&world).await, reasons);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_settled_hour_goes_to_arrivals() {
    let world = World::new();
    let log = Log::new();
    let time = settle_an_hour(&world).await;
    let hot = world.start();
    hot.read(&log).await;
    log.click(1, time);
    log.click(2, time - 1);
    let end = log.click(3, time + 1);
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Arrivals).await, [1, 2]);
    assert_eq!(world.ids(Table::Clicks).await, [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lateness_is_judged_where_the_commit_lands() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    let first = log.click(1, sure());
    world.until(&log, first).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    let end = log.click(2, settled_time());
    gate.reached().await; // judged as on time, and on its way
    settle_an_hour(&world).await;
    gate.open();
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1]);
    assert_eq!(world.ids(Table::Arrivals).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retirement_makes_what_is_under_way_late() {
    let world = World::new();
    let (given_up, good) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&given_up).await;
    hot.read(&good).await;
    let first = given_up.click(1, sure());
    world.until(&given_up, first).await;
    let gate = Gate::new();
    world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
    let end = given_up.click(2, sure());
    gate.reached().await;
    retire(&world.lake(), world.registry.as_ref(), given_up.journal, 0).await.unwrap();
    assert!(world.registry.state.borrow().retired.contains(&given_up.journal));
    gate.open();
    world.until(&given_up, end).await;
    let end = good.click(3, sure());
    world.until(&good, end).await;
    // again is fine
    retire(&world.lake(), world.registry.as_ref(), given_up.journal, 0).await.unwrap();
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Clicks).await, [1, 3]);
    assert_eq!(world.ids(Table::Arrivals).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_journal_that_has_lost_its_begin_the_rest_is_read() {
    let world = World::new();
    let log = Log::new();
    let end = log.clicks(0..9, sure());
    let hot = world.start();
    retire(&world.lake(), world.registry.as_ref(), log.journal, 5).await.unwrap();
    let clicks = world.table(Table::Clicks).await;
    assert_eq!((position(&clicks, log.journal), is_retired(&clicks, log.journal)), (5, true));
    hot.read(&log).await;
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.ids(Table::Arrivals).await, [5, 6, 7, 8]);
    // what the lake holds is never taken back
    let whole = Log::new();
    retire(&world.lake(), world.registry.as_ref(), whole.journal, 0).await.unwrap();
    assert_eq!(world.table(Table::Clicks).await.txn(&format!("stream/{}", whole.journal)), None);
}
