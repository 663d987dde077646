//! Whether this machine's clock is the link store's. Event times come from nodes' clocks, and what is published is the least of
//! them: one that is wrong counts clicks at wrong times, and would have everybody believe that all is complete until then.
//!
//! ```text
//! this clock │ the store's │ what was published ──► right, or a sentence ──► log, /readyz, and status by the store
//! ```
//! A node begins no journal while its clock is off, and goes on by itself when it is right. One that is running answers on:
//! what is published is never later than the store's clock, whatever its events say.

use std::time::{Duration, Instant};

use redirect::links::{LinkError, LinkStore, StoreClock};
use schemas::UtcMicros;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(5);
/// How often while a start waits for it.
const WAITING: Duration = Duration::from_secs(1);
/// How often it is said while it lasts, to the log and to the store.
const SAID_EVERY: Duration = Duration::from_secs(30);

/// What is wrong with the clock, if anything is. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockHealth(watch::Sender<Option<String>>);

impl ClockHealth {
    /// The sentence.
    pub(crate) fn problem(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    fn set(&self, problem: Option<String>) {
        self.0.send_if_modified(|before| std::mem::replace(before, problem.clone()) != problem);
    }
}

/// By how much this clock is off, in words; `None` when it is right. The store's was read between the two times of this one.
/// Pure.
fn off(before: UtcMicros, store: UtcMicros, after: UtcMicros, skew: Duration) -> Option<String> {
    let (by, how) = match (before.since(store), store.since(after)) {
        (ahead, _) if ahead > skew => (ahead, "ahead"),
        (_, behind) if behind > skew => (behind, "behind"),
        _ => return None,
    };
    let by = by.as_secs();
    Some(format!(
        "this machine's clock says {after} and the link store's {store}: it is {by} s {how}, and begins no journal until it is \
         set right"
    ))
}

/// What is wrong with what was published, in words. Pure.
fn impossible(store: &StoreClock) -> Option<String> {
    let published = store.impossible()?;
    Some(format!(
        "complete_through was published as {published}, and the link store's clock says {}: one of the clocks is wrong, or was \
         (see \"A clock is wrong\" in docs/operations.md)",
        store.now
    ))
}

/// The store's clock, and what is wrong with this one beside it.
///
/// # Errors
/// When the store can't be read.
pub(crate) async fn compare(store: &LinkStore, skew: Duration) -> Result<(StoreClock, Option<String>), LinkError> {
    let before = UtcMicros::now();
    let clock = store.clock().await?;
    Ok((clock, off(before, clock.now, UtcMicros::now(), skew)))
}

/// Lets nobody begin a journal by a wrong clock.
///
/// # Errors
/// When the clock is off, or the store can't be read.
pub(crate) async fn must_be_right(store: &LinkStore, skew: Duration) -> anyhow::Result<()> {
    match compare(store, skew).await? {
        (_, None) => Ok(()),
        (_, Some(off)) => anyhow::bail!("{off}"),
    }
}

/// What is wrong as status says it: with what was published, else with the clocks of processes that say so.
///
/// # Errors
/// When the store can't be read.
pub(crate) async fn told(store: &LinkStore) -> Result<Option<String>, LinkError> {
    if let Some(problem) = impossible(&store.clock().await?) {
        return Ok(Some(format!("clock: {problem}")));
    }
    let wrong = store.wrong_clocks().await?.into_iter().next();
    Ok(wrong.map(|(process, says)| format!("clock of {process}: {says}")))
}

/// Keeps an eye on the clock.
#[derive(Debug)]
pub(crate) struct Watcher {
    store: LinkStore,
    /// This process, as it names itself to the store.
    process: String,
    skew: Duration,
    health: ClockHealth,
    /// When the store was last told that it is wrong.
    said: Option<Instant>,
}

impl Watcher {
    /// Has not looked yet. What it sees is shown by `health`.
    pub(crate) fn new(store: &LinkStore, process: String, skew: Duration, health: ClockHealth) -> Self {
        Self { store: store.clone(), process, skew, health, said: None }
    }

    /// Waits until the clock is right.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(crate) async fn until_right(&mut self) -> Result<(), LinkError> {
        while self.look(Instant::now()).await? {
            tokio::time::sleep(WAITING).await;
        }
        Ok(())
    }

    /// Until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            if let Err(error) = self.look(Instant::now()).await {
                tracing::debug!(%error, "the clock can't be compared now");
            }
        }
    }

    /// Looks, and says what it sees. Returns whether the clock is off.
    async fn look(&mut self, now: Instant) -> Result<bool, LinkError> {
        let (clock, off) = compare(&self.store, self.skew).await?;
        let problem = off.clone().or_else(|| impossible(&clock));
        self.health.set(problem.clone());
        let is_said = self.said.is_some_and(|said| now.saturating_duration_since(said) < SAID_EVERY);
        match problem {
            Some(problem) if !is_said => {
                tracing::error!(problem, "a clock is wrong");
                self.store.tell_clock(&self.process, off.as_deref()).await?;
                self.said = Some(now);
            }
            Some(_) => {}
            None if self.said.is_some() => {
                tracing::info!("the clock is right again");
                self.store.tell_clock(&self.process, None).await?;
                self.said = None;
            }
            None => {}
        }
        Ok(off.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redirect::links::Domains;

    fn at(seconds: i64) -> UtcMicros {
        UtcMicros(1_700_000_000_000_000 + seconds * 1_000_000)
    }

    #[test]
    fn a_clock_is_off_when_no_answer_in_time_explains_it() {
        let skew = Duration::from_secs(5);
        for (before, store, after) in [(0, 0, 0), (5, 0, 5), (0, 5, 0), (-60, 0, 2), (-3, 5, 3)] {
            assert_eq!(off(at(before), at(store), at(after), skew), None, "{before} {store} {after}");
        }
        let told = off(at(7_200), at(0), at(7_201), skew).unwrap();
        for part in [at(7_201).to_string(), at(0).to_string(), "7200 s ahead".to_owned()] {
            assert!(told.contains(&part), "{told}");
        }
        assert!(off(at(-20), at(0), at(-10), skew).unwrap().contains("10 s behind"));
    }

    #[test]
    fn what_was_published_is_impossible_only_far_ahead() {
        let clock = |published| StoreClock { now: at(0), published, floor: None };
        assert_eq!(impossible(&clock(None)), None);
        assert_eq!(impossible(&clock(Some(at(590)))), None);
        assert!(impossible(&clock(Some(at(7_200)))).unwrap().contains(&at(7_200).to_string()));
    }

    #[tokio::test]
    async fn a_wrong_clock_is_named_to_everybody_and_forgotten_when_it_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let store = LinkStore::open(path.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
        let health = ClockHealth::default();
        let mut watcher = Watcher::new(&store, "n1".into(), Duration::from_secs(60), health.clone());
        assert!(!watcher.look(Instant::now()).await.unwrap());
        assert_eq!((health.problem(), told(&store).await.unwrap()), (None, None));
        store.tell_clock("n2", Some("it is 7 s ahead")).await.unwrap();
        assert_eq!(told(&store).await.unwrap().as_deref(), Some("clock of n2: it is 7 s ahead"));
        // as after its own clock was right again
        let mut other = Watcher::new(&store, "n2".into(), Duration::from_secs(60), ClockHealth::default());
        other.said = Some(Instant::now());
        assert!(!other.look(Instant::now()).await.unwrap());
        assert_eq!(told(&store).await.unwrap(), None);
    }
}
