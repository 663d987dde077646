//! Clicks of `internal` links sampled: fairly, by weight, and never back again.

use schemas::sampling::is_kept;
use schemas::{ClickId, LinkId};

use super::*;

/// The first instant of a second that no window is unsure of, and that hasn't begun.
fn whole_second() -> i64 {
    (sure() / SECOND + 10) * SECOND
}

/// What must hold of a heavy link's clicks, all of one second: each is a row that its weight's rate keeps, or fails the
/// lowest rate recorded.
fn assert_sampled(ids: impl Iterator<Item = u128>, rows: &BTreeMap<u128, f64>, lowest: f64) -> usize {
    let mut away = 0;
    for id in ids {
        match rows.get(&id) {
            Some(weight) => assert!(is_kept(ClickId::from(id), 1.0 / weight), "{id} at {weight}"),
            None => {
                assert!(!is_kept(ClickId::from(id), lowest), "{id} is kept at {lowest}");
                away += 1;
            }
        }
    }
    away
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_heavy_is_thinned_and_all_else_is_exact() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    let first = log.click(1_000, sure());
    world.until(&log, first).await;
    hot.cap.set(Some(2));
    let (heavy, light, begin) = (LinkId::new(), LinkId::new(), whole_second());
    let mut end = 0;
    for second in 0..5i64 {
        let time = begin + second * SECOND;
        log.internals(second as u128 * 100..second as u128 * 100 + 40, time, heavy);
        log.internal(second as u128 * 100 + 50, time, light);
        end = log.click(second as u128 * 100 + 60, time);
    }
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    let (rows, rates) = (world.weights(Table::Clicks).await, world.rates().await);
    for second in 0..5i64 {
        let base = second as u128 * 100;
        assert_eq!((rows.get(&(base + 50)), rows.get(&(base + 60))), (Some(&1.0), Some(&1.0)), "light, billed");
        let lowest = rates[&(begin / SECOND + second)];
        assert!(assert_sampled(base..base + 40, &rows, lowest) > 5);
        if second > 0 {
            assert_eq!(lowest, 2.0 / 40.0, "the second before had forty");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sampled_away_is_a_duplicate_when_it_comes_again() {
    let world = World::new();
    let (one, two) = (Log::new(), Log::new());
    let hot = world.start();
    hot.read(&one).await;
    hot.read(&two).await;
    hot.cap.set(Some(1));
    let (link, time) = (LinkId::new(), whole_second());
    let end = one.internals(0..60, time, link);
    world.until(&one, end).await;
    let before = world.weights(Table::Clicks).await;
    assert!(before.len() < 50, "{before:?}");
    // the edge asks again, in a second in which all is kept
    hot.cap.set(None);
    let end = two.internals(0..60, time + 40 * SECOND, link);
    world.until(&two, end).await;
    hot.drain().await.unwrap();
    assert_eq!(world.weights(Table::Clicks).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_over_goes_by_the_rates_that_are_recorded() {
    for is_killed in [true, false] {
        let world = World::new();
        let log = Log::new();
        let old = world.start();
        old.read(&log).await;
        let (link, time) = (LinkId::new(), whole_second());
        let first = log.click(1_000, time - 20 * SECOND);
        world.until(&log, first).await;
        old.cap.set(Some(1));
        // the old one stands still on its way into the log: its rates are recorded, its rows are not there
        let gate = Gate::new();
        world.store.arm(ENTRY, 1, Fault::Hold(gate.clone()));
        let end = log.internals(0..60, time, link);
        gate.reached().await;
        let recorded = world.rates().await;
        let mut old = Some(old);
        if is_killed && let Some(old) = old.take() {
            old.kill().await;
        }
        let new = world.start();
        new.read(&log).await;
        world.until(&log, end).await;
        gate.open();
        let last = log.click(1_001, time + SECOND);
        world.until(&log, last).await;
        new.drain().await.unwrap();
        if let Some(old) = old {
            old.drain().await.unwrap();
        }
        let rows = world.weights(Table::Clicks).await;
        let lowest = world.rates().await[&(time / SECOND)];
        assert!(lowest <= recorded[&(time / SECOND)]);
        assert!(assert_sampled(0..60, &rows, lowest) > 5, "{rows:?}");
        let heavy = rows.iter().filter(|(id, _)| **id < 60);
        assert!(heavy.clone().all(|(_, weight)| *weight > 1.0), "of unknown past: by what is recorded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_late_and_kept_is_weighed_by_the_settler() {
    let world = World::new();
    let log = Log::new();
    let late = settle_an_hour(&world).await;
    let hot = world.start();
    hot.read(&log).await;
    hot.cap.set(Some(1));
    let link = LinkId::new();
    log.internals(0..40, late, link);
    let end = log.click(50, late);
    world.until(&log, end).await;
    hot.drain().await.unwrap();
    let (arrived, lowest) = (world.weights(Table::Arrivals).await, world.rates().await[&(late / SECOND)]);
    assert!(world.ids(Table::Clicks).await.is_empty());
    assert_eq!(arrived[&50], 1.0);
    for id in 0..40 {
        // whatever is on its way to the settler, the rate that others failed is recorded
        assert!(arrived.get(&id).map_or(!is_kept(ClickId::from(id), lowest), |weight| *weight == 0.0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_that_can_not_be_recorded_is_not_used() {
    let world = World::new();
    let log = Log::new();
    let hot = world.start();
    hot.read(&log).await;
    hot.cap.set(Some(1));
    for fault in [Fault::Before, Fault::After] {
        world.store.arm("sampling/_delta_log/", 1, fault);
    }
    let (link, time) = (LinkId::new(), whole_second());
    let end = log.internals(0..60, time, link);
    world.until(&log, end).await;
    assert!(world.store.is_spent());
    hot.drain().await.unwrap();
    let (rows, lowest) = (world.weights(Table::Clicks).await, world.rates().await[&(time / SECOND)]);
    assert_sampled(0..60, &rows, lowest);
}

/// A slow lake: each commit takes its time, and a group is small.
#[tokio::test(flavor = "multi_thread")]
async fn a_lake_that_is_too_slow_leads_to_sampling_and_all_is_kept_again_afterwards() {
    let world = World::new();
    let log = Log::new();
    // two records of one id have one time here: what comes afterwards is surely new
    let (skew, repeat) = (Duration::ZERO, Duration::ZERO);
    let config = HotConfig { lag_limit: Duration::from_secs(1), max_bytes: 20_000, skew, repeat, ..quick() };
    let hot = world.start_with(config);
    hot.read(&log).await;
    for n in 1..400 {
        world.store.arm(ENTRY, n, Fault::Delay(Duration::from_millis(40)));
    }
    let (link, mut id, mut status) = (LinkId::new(), 0u128, hot.status.clone());
    // clicks come until the controller has begun; each tenth is billed
    while status.borrow_and_update().sampling.is_none() {
        for _ in 0..40 {
            let _end = if id % 10 == 0 { log.click(id, now()) } else { log.internal(id, now(), link) };
            id += 1;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let end = log.click(id, now());
    world.store.disarm();
    world.until(&log, end).await;
    status.wait_for(|status| status.sampling.is_none()).await.unwrap();
    // nothing comes any more, and yet it ends: then all is kept
    let begin = now() + 2 * SECOND;
    let mut last = 0;
    for n in 0..50 {
        last = log.internal(1_000_000 + n, begin, link);
    }
    world.until(&log, last).await;
    hot.drain().await.unwrap();
    let rows = world.weights(Table::Clicks).await;
    for billed in (0..=id).filter(|n| n % 10 == 0 || *n == id) {
        assert_eq!(rows.get(&billed), Some(&1.0), "{billed}");
    }
    assert!((1_000_000..1_000_050).all(|id| rows.get(&id) == Some(&1.0)));
}
