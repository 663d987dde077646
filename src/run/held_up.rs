//! What holds clicks up on their way through this process: a topic that can't be used, a lake that takes nothing, a watched
//! folder that isn't there. Told by `/readyz` and status here, and to those who are asked elsewhere, through the link store.
//!
//! Failure: a link store that is away hears nothing; nobody can be asked then either.

use std::time::{Duration, Instant};

use ingest::topic::TopicHealth;
use processor::hot::HotStatus;
use redirect::links::LinkStore;
use schemas::JournalId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journals::node_name;
use super::watch::Unseen;

/// A commit that fails is tried again, and most often lands: only what stays is worth a word.
const STAYS: Duration = Duration::from_secs(3);
/// How often it is looked whether there is something to tell.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is told while it lasts.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// What can hold clicks up in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldUp {
    /// The topic, when this process uses one.
    pub(crate) topic: Option<TopicHealth>,
    /// The hot path, when it has one.
    pub(crate) hot: Option<watch::Receiver<HotStatus>>,
    /// The watched places that it can't look at.
    pub(crate) unseen: Unseen,
}

impl HeldUp {
    /// What does, if anything does.
    pub(crate) fn problem(&self, now: Instant) -> Option<String> {
        let lake = self.hot.as_ref().and_then(|hot| lake_problem(&hot.borrow(), now));
        let clicks = lake.or_else(|| self.topic.as_ref()?.problem().map(|why| format!("stream: {why}")));
        clicks.or_else(|| self.unseen.problem())
    }

    /// Tells others, until `stop`.
    pub(crate) async fn tell(self, store: LinkStore, stop: CancellationToken) {
        let name = format!("{}/{}", node_name(), JournalId::new());
        let mut told: Option<(String, Instant)> = None;
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let now = Instant::now();
            let problem = self.problem(now);
            if !is_due(told.as_ref(), problem.as_deref(), now) {
                continue;
            }
            match store.tell_trouble(&name, problem.as_deref()).await {
                Ok(()) => told = problem.map(|why| (why, now)),
                Err(error) => tracing::debug!(%error, "what holds clicks up can't be told now"),
            }
        }
        if told.is_some()
            && let Err(error) = store.tell_trouble(&name, None).await
        {
            tracing::debug!(%error, "it ends by itself");
        }
    }
}

/// Why the lake takes no clicks, if it hasn't for a while.
fn lake_problem(hot: &HotStatus, now: Instant) -> Option<String> {
    let (why, since) = (hot.failing.as_ref()?, hot.failing_since?);
    (now.saturating_duration_since(since) >= STAYS).then(|| format!("lake: no commit lands: {why}"))
}

/// Whether something is to be told: it is another thing than what was `told`, or must be told again.
fn is_due(told: Option<&(String, Instant)>, problem: Option<&str>, now: Instant) -> bool {
    match (told, problem) {
        (None, None) => false,
        (Some((_, at)), Some(_)) => now.saturating_duration_since(*at) >= TOLD_EVERY,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lake_that_takes_nothing_for_a_while_comes_before_the_stream() {
        let (start, status) = (Instant::now(), watch::Sender::new(HotStatus::default()));
        let held_up = HeldUp { hot: Some(status.subscribe()), ..HeldUp::default() };
        assert_eq!(held_up.problem(start), None);
        status.send_modify(|status| {
            status.failing = Some("no space left".into());
            status.failing_since = Some(start);
        });
        assert_eq!(held_up.problem(start + STAYS / 2), None, "it may be over at once");
        assert_eq!(held_up.problem(start + STAYS).as_deref(), Some("lake: no commit lands: no space left"));
        status.send_replace(HotStatus::default());
        assert_eq!(held_up.problem(start + STAYS), None);
    }

    #[test]
    fn it_is_told_when_it_comes_and_goes_and_now_and_then() {
        let start = Instant::now();
        let told = ("a".to_owned(), start);
        assert!(!is_due(None, None, start) && is_due(None, Some("a"), start) && is_due(Some(&told), None, start));
        assert!(!is_due(Some(&told), Some("b"), start + LOOK_EVERY), "who reads has another one's word for that long");
        assert!(is_due(Some(&told), Some("a"), start + TOLD_EVERY));
    }

    #[tokio::test]
    async fn others_hear_of_it_until_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let domains = redirect::links::Domains::new(&["a.test"]).unwrap();
        let store = LinkStore::open(path.to_str().unwrap(), domains).await.unwrap();
        let status = watch::Sender::new(HotStatus::default());
        let (failing, failing_since) = (Some("x".to_owned()), Instant::now().checked_sub(STAYS));
        status.send_modify(|status| (status.failing, status.failing_since) = (failing, failing_since));
        let stop = CancellationToken::new();
        let held_up = HeldUp { hot: Some(status.subscribe()), ..HeldUp::default() };
        let telling = tokio::spawn(held_up.tell(store.clone(), stop.clone()));
        while store.trouble().await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        telling.await.unwrap();
        assert_eq!(store.trouble().await.unwrap(), None);
    }
}
