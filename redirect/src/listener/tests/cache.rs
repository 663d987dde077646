//! The link cache: how old, how often asked, what after a change, what when the store fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use schemas::Analytics;
use tokio::runtime::Handle;

use super::super::cache::{CacheLimits, LinkCache, MOST_FLIGHTS, Unavailable};
use super::super::found::Found;
use super::super::generations::Key;
use super::super::policy::Ttls;
use super::scripted::Scripted;
use super::{DOMAIN, target};

struct Cached {
    source: Arc<Scripted>,
    cache: Arc<LinkCache>,
    start: Instant,
}

impl Cached {
    /// A cache of a source with one link, `a`.
    fn new(limits: CacheLimits) -> Self {
        let source = Arc::new(Scripted::new());
        source.set("a", Some(target(Analytics::Billed)));
        let domains = vec![DOMAIN.to_owned(), "second.example".to_owned()];
        let cache = LinkCache::new(Arc::clone(&source) as _, domains, Ttls::default(), limits, Handle::current());
        Self { source, cache: Arc::new(cache), start: Instant::now() }
    }

    fn at(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }

    fn fresh(&self, code: &str, seconds: f64) -> Option<Found> {
        self.cache.fresh(&Key::new(0, code).unwrap(), self.at(seconds))
    }

    async fn load(&self, code: &str, seconds: f64) -> Result<Found, Unavailable> {
        self.cache.load(0, code, &Key::new(0, code).unwrap(), self.at(seconds)).await
    }

    /// Begins a load and waits until the source has been asked for it.
    async fn begin_load(&self, code: &str) -> tokio::task::JoinHandle<Result<Found, Unavailable>> {
        let (cache, now, before) = (Arc::clone(&self.cache), self.start, self.source.asked());
        let code = code.to_owned();
        let load = tokio::spawn(async move { cache.load(0, &code, &Key::new(0, &code).unwrap(), now).await });
        while self.source.asked() == before {
            tokio::task::yield_now().await;
        }
        load
    }
}

fn revision(found: &Found) -> i32 {
    match found {
        Found::Active(link) => link.target.revision,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_link_is_kept_for_its_time_and_the_lack_of_one_for_less() {
    let cached = Cached::new(CacheLimits::default());
    assert!(cached.fresh("a", 0.0).is_none());
    assert!(matches!(cached.load("a", 0.0).await, Ok(Found::Active(_))));
    assert!(matches!(cached.load("b", 0.0).await, Ok(Found::Missing)));
    assert!(matches!(cached.fresh("a", 4.9), Some(Found::Active(_))));
    assert!(cached.fresh("a", 5.0).is_none());
    assert!(matches!(cached.fresh("b", 1.9), Some(Found::Missing)));
    assert!(cached.fresh("b", 2.0).is_none());
    let other_domain = Key::new(1, "a").unwrap();
    assert!(cached.cache.fresh(&other_domain, cached.at(0.0)).is_none());
}

#[tokio::test]
async fn however_many_ask_the_store_is_asked_once() {
    let cached = Cached::new(CacheLimits::default());
    cached.source.close();
    let first = cached.begin_load("a").await;
    let others: Vec<_> = (0..50)
        .map(|_| {
            let (cache, now) = (Arc::clone(&cached.cache), cached.start);
            tokio::spawn(async move { cache.load(0, "a", &Key::new(0, "a").unwrap(), now).await })
        })
        .collect();
    tokio::task::yield_now().await;
    cached.source.open(1);
    for load in std::iter::once(first).chain(others) {
        assert!(matches!(load.await.unwrap(), Ok(Found::Active(_))));
    }
    assert_eq!(cached.source.asked(), 1);
}

#[tokio::test]
async fn a_change_is_seen_at_once_and_drops_nothing_else() {
    let cached = Cached::new(CacheLimits::default());
    cached.source.set("b", Some(target(Analytics::Billed)));
    cached.load("a", 0.0).await.unwrap();
    cached.load("b", 0.0).await.unwrap();
    cached.source.announce("elsewhere.example", "a");
    cached.source.announce("second.example", "a");
    assert!(cached.fresh("a", 0.1).is_some());
    cached.source.announce(DOMAIN, "a");
    assert!(cached.fresh("a", 0.1).is_none());
    assert!(cached.fresh("b", 0.1).is_some());
}

#[tokio::test]
async fn when_changes_were_missed_everything_is_dropped() {
    let cached = Cached::new(CacheLimits::default());
    cached.load("a", 0.0).await.unwrap();
    for _ in 0..9 {
        cached.source.announce(DOMAIN, "other");
    }
    assert!(cached.fresh("a", 0.1).is_none());
}

#[tokio::test]
async fn what_was_read_before_a_change_is_not_kept_after_it() {
    let cached = Cached::new(CacheLimits::default());
    cached.source.close();
    let before = cached.begin_load("a").await;
    cached.source.set("a", Some(crate::links::Target { revision: 2, ..target(Analytics::Billed) }));
    cached.source.announce(DOMAIN, "a");
    assert!(cached.fresh("a", 0.0).is_none());
    let after = cached.begin_load("a").await;
    cached.source.open(2);
    assert_eq!(revision(&before.await.unwrap().unwrap()), 1);
    assert_eq!(revision(&after.await.unwrap().unwrap()), 2);
    assert_eq!(revision(&cached.fresh("a", 0.0).unwrap()), 2);
}

#[tokio::test]
async fn a_failing_store_is_covered_for_within_the_takedown_limit_only() {
    let cached = Cached::new(CacheLimits::default());
    cached.load("a", 0.0).await.unwrap();
    cached.load("none", 0.0).await.unwrap();
    cached.source.fail(true);
    assert!(matches!(cached.load("a", 6.0).await, Ok(Found::Active(_))));
    assert_eq!(cached.load("none", 6.0).await.map(drop), Err(Unavailable), "a code may have come into being");
    assert_eq!(cached.load("new", 6.0).await.map(drop), Err(Unavailable));
    let asked = cached.source.asked();
    assert!(cached.load("a", 6.9).await.is_ok());
    assert_eq!(cached.source.asked(), asked, "it is left alone for a moment");
    assert!(cached.load("a", 7.1).await.is_ok());
    assert_eq!(cached.source.asked(), asked + 1);
    // 30 s less the 10 s that an edge may keep the answer
    assert!(cached.load("a", 19.9).await.is_ok());
    assert_eq!(cached.load("a", 20.0).await.map(drop), Err(Unavailable));
    cached.source.fail(false);
    assert!(cached.load("a", 20.0).await.is_ok());
}

#[tokio::test]
async fn a_store_that_hangs_costs_a_bounded_wait() {
    let limits =
        CacheLimits { deadline: Duration::from_millis(30), patience: Duration::from_millis(5), ..Default::default() };
    let cached = Cached::new(limits);
    cached.load("a", 0.0).await.unwrap();
    cached.source.close();
    assert!(matches!(cached.load("a", 6.0).await, Ok(Found::Active(_))));
    assert_eq!(cached.load("b", 6.0).await.map(drop), Err(Unavailable));
}

#[tokio::test]
async fn no_more_lookups_than_the_store_can_bear() {
    let cached = Cached::new(CacheLimits::default());
    cached.source.close();
    let mut loads = Vec::new();
    for i in 0..MOST_FLIGHTS {
        loads.push(cached.begin_load(&format!("c{i}")).await);
    }
    assert_eq!(cached.load("one-more", 0.0).await.map(drop), Err(Unavailable));
    cached.source.open(MOST_FLIGHTS + 1);
    for load in loads {
        assert!(load.await.unwrap().is_ok());
    }
    assert!(cached.load("one-more", 0.0).await.is_ok());
}

#[tokio::test]
async fn a_lookup_that_panics_holds_up_nobody() {
    let cached = Cached::new(CacheLimits::default());
    assert_eq!(cached.load("panics", 0.0).await.map(drop), Err(Unavailable));
    assert_eq!(cached.load("panics", 0.0).await.map(drop), Err(Unavailable));
    assert_eq!(cached.source.asked(), 2);
}
