//! Watched prefixes: each log found below one is queued once, and what was found nothing new of is progress.
//!
//! ```text
//! every poll: list ──Seen──► new, and standing still ──► queue
//!                      ├─► still growing: looked at again
//!                      └─► nothing new, nothing waiting ──► the source has come as far as this poll
//! ```
//! Remembered are versions (name, size, tag), in the queue itself; so a restart queues nothing twice, a log that
//! failed doesn't come again, and one that has grown since does: lines that were counted are known again. A version is
//! forgotten when it is no longer there, and a good while after it was taken in; never while nothing at all is there, as
//! when a disk is not mounted.
//!
//! Failure: a prefix that can't be listed makes no progress, is logged once, told by `/readyz` and status while it lasts, and
//! tried again at the next poll.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ingest::edge::IdMode;
use ingest::queue::{QueuedLog, Stage, Terms, Way};
use redirect::links::{EndedLog, LinkStore, watched_id};
use schemas::UtcMicros;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::uploads::REMEMBERED;
use crate::logs::{Listed, Place};

/// How often it is looked what can be forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

/// How status names a source.
pub(crate) const SOURCE: &str = "source ";

/// Size and tag.
type Version = (u64, String);

/// Which watched prefixes can't be looked at now, and why. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unseen(Arc<Mutex<BTreeMap<String, String>>>);

impl Unseen {
    /// The first of them by name, as status names a source.
    pub(crate) fn problem(&self) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().next().map(|(prefix, why)| format!("{SOURCE}{prefix}: {why}"))
    }

    /// Notes how a look went; whether that is another than the last.
    fn note(&self, prefix: &str, why: Option<String>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_well = match &why {
            Some(why) => all.insert(prefix.to_owned(), why.clone()).is_none(),
            None => all.remove(prefix).is_none(),
        };
        was_well == why.is_some()
    }
}

/// What is known of a prefix's logs. Pure.
#[derive(Debug, Default)]
struct Seen {
    /// The newest version queued of each.
    queued: HashMap<String, Version>,
    /// Versions that the last poll has seen first.
    fresh: HashMap<String, Version>,
}

/// What a poll says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Poll {
    /// Logs to queue, the oldest first.
    queue: Vec<Listed>,
    /// Whether there is nothing but what was known before.
    quiet: bool,
}

impl Seen {
    fn judge(&mut self, listed: Vec<Listed>) -> Poll {
        let before = std::mem::take(&mut self.fresh);
        let mut poll = Poll { quiet: true, ..Poll::default() };
        for log in listed {
            let version = (log.size, log.tag.clone());
            if self.queued.get(&log.object) == Some(&version) {
                continue;
            }
            poll.quiet = false;
            if !log.may_grow || before.get(&log.object) == Some(&version) {
                poll.queue.push(log);
            } else {
                self.fresh.insert(log.object, version);
            }
        }
        poll.queue.sort_by(|a, b| (a.modified, &a.object).cmp(&(b.modified, &b.object)));
        poll
    }

    fn queued(&mut self, log: &Listed) {
        self.queued.insert(log.object.clone(), (log.size, log.tag.clone()));
    }

    /// Forgets what isn't `there` any more. Of `ended`, the versions that the queue may forget too.
    fn forget(&mut self, there: &HashMap<String, Version>, mut ended: Vec<EndedLog>) -> Vec<EndedLog> {
        if there.is_empty() {
            return Vec::new();
        }
        self.queued.retain(|object, _| there.contains_key(object));
        ended.retain(|log| there.get(&log.object).is_none_or(|(size, tag)| (*size, tag) != (log.size, &log.tag)));
        ended
    }
}

/// Watches a prefix until `stop`; that it can't be looked at is noted in `unseen`.
pub(crate) async fn watch(queue: LinkStore, prefix: String, every: Duration, unseen: Unseen, stop: CancellationToken) {
    let (mut place, mut seen, mut forgotten) = (None, None, None);
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let polled = tokio::select! {
            () = stop.cancelled() => return,
            polled = poll(&queue, &prefix, &mut place, &mut seen, &mut forgotten) => polled,
        };
        let error = polled.err().map(|error| crate::explain(&error));
        if unseen.note(&prefix, error.clone())
            && let Some(error) = error
        {
            tracing::warn!(prefix, error, "a watched prefix can't be looked at now");
        }
    }
}

async fn poll(
    queue: &LinkStore,
    prefix: &str,
    place: &mut Option<Place>,
    seen: &mut Option<Seen>,
    forgotten: &mut Option<Instant>,
) -> anyhow::Result<()> {
    let began = UtcMicros::now();
    let place = match place {
        Some(open) => open,
        None => place.insert(Place::open(prefix)?),
    };
    let mut known = match seen.take() {
        Some(known) => known,
        None => {
            let logs = queue.watched_logs(prefix).await?;
            let queued = logs.into_iter().map(|(object, size, tag)| (object, (size, tag))).collect();
            Seen { queued, ..Seen::default() }
        }
    };
    let listed = place.list().await;
    let result = match listed {
        Ok(listed) if forgotten.is_none_or(|last| last.elapsed() >= FORGET_EVERY) => {
            *forgotten = Some(Instant::now());
            let done = forget(queue, prefix, &mut known, &listed, began).await;
            done.and(look(queue, prefix, &mut known, listed, began).await)
        }
        Ok(listed) => look(queue, prefix, &mut known, listed, began).await,
        Err(error) => Err(error),
    };
    *seen = Some(known);
    result
}

async fn look(
    queue: &LinkStore,
    prefix: &str,
    known: &mut Seen,
    listed: Vec<Listed>,
    began: UtcMicros,
) -> anyhow::Result<()> {
    let poll = known.judge(listed);
    for log in poll.queue {
        queue.enqueue(&queued(prefix, &log), false).await?;
        known.queued(&log);
    }
    if poll.quiet && !queue.is_behind(prefix).await? {
        queue.hear_source(prefix, None, began).await?;
    }
    Ok(())
}

async fn forget(
    queue: &LinkStore,
    prefix: &str,
    known: &mut Seen,
    listed: &[Listed],
    now: UtcMicros,
) -> anyhow::Result<()> {
    let version = |log: &Listed| (log.object.clone(), (log.size, log.tag.clone()));
    let there: HashMap<String, Version> = listed.iter().map(version).collect();
    let ended = queue.ended_watched(prefix, now.minus(REMEMBERED)).await?;
    queue.forget_watched(&known.forget(&there, ended)).await?;
    Ok(())
}

/// As an operator's backfill of the same log would be.
fn queued(prefix: &str, log: &Listed) -> QueuedLog {
    QueuedLog {
        id: watched_id(prefix, &log.object, log.size, &log.tag),
        way: Way::Watched,
        name: log.object.clone(),
        terms: Terms {
            workspace: None,
            format: None,
            id: IdMode::Auto,
            keep_unknown: true,
            source: Some(prefix.to_owned()),
        },
        object: log.object.clone(),
        parts: 0,
        size: log.size,
        tag: log.tag.clone(),
        stage: Stage::Queued,
        tries: 0,
        summary: None,
        error: None,
        queued_at: UtcMicros::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(object: &str, size: u64, may_grow: bool) -> Listed {
        Listed { object: object.into(), size, tag: "t".into(), modified: size as i64, may_grow }
    }

    fn names(poll: &Poll) -> Vec<&str> {
        poll.queue.iter().map(|log| log.object.as_str()).collect()
    }

    fn judge(seen: &mut Seen, listed: Vec<Listed>) -> Poll {
        let poll = seen.judge(listed);
        poll.queue.iter().for_each(|log| seen.queued(log));
        poll
    }

    #[tokio::test]
    async fn a_folder_that_is_missing_is_told_of_until_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("links");
        let domains = redirect::links::Domains::new(&["a.test"]).unwrap();
        let store = LinkStore::open(path.to_str().unwrap(), domains).await.unwrap();
        let (folder, unseen, stop) = (dir.path().join("logs"), Unseen::default(), CancellationToken::new());
        let (prefix, every) = (folder.display().to_string(), Duration::from_millis(10));
        let watching = tokio::spawn(watch(store, prefix.clone(), every, unseen.clone(), stop.clone()));
        while unseen.problem().is_none() {
            tokio::time::sleep(every).await;
        }
        let told = unseen.problem().unwrap_or_default();
        assert!(told.starts_with(&format!("source {prefix}: can't list ")), "{told}");
        std::fs::create_dir(&folder).unwrap();
        while unseen.problem().is_some() {
            tokio::time::sleep(every).await;
        }
        stop.cancel();
        watching.await.unwrap();
    }

    #[test]
    fn how_a_look_went_is_news_once() {
        let unseen = Unseen::default();
        assert!(!unseen.note("a", None));
        assert!(unseen.note("a", Some("gone".into())) && !unseen.note("a", Some("still".into())));
        assert_eq!(unseen.problem().as_deref(), Some("source a: still"));
        assert!(unseen.note("a", None) && unseen.problem().is_none());
    }

    #[test]
    fn a_file_is_taken_once_and_when_it_stands_still() {
        let mut seen = Seen::default();
        assert!(judge(&mut seen, vec![]).quiet);
        for size in [1, 2] {
            let poll = judge(&mut seen, vec![log("a", size, true)]);
            assert!(poll.queue.is_empty() && !poll.quiet, "it grows");
        }
        assert_eq!(names(&judge(&mut seen, vec![log("a", 2, true)])), ["a"]);
        let poll = judge(&mut seen, vec![log("a", 2, true)]);
        assert!(poll.queue.is_empty() && poll.quiet);
        assert!(judge(&mut seen, vec![log("a", 3, true)]).queue.is_empty(), "it has grown since");
        assert_eq!(names(&judge(&mut seen, vec![log("a", 3, true)])), ["a"]);
    }

    #[test]
    fn objects_are_whole_and_come_by_age() {
        let mut seen = Seen::default();
        let listed = || vec![log("new", 9, false), log("old", 1, false)];
        assert_eq!(names(&judge(&mut seen, listed())), ["old", "new"]);
        assert!(judge(&mut seen, listed()).quiet);
    }

    #[test]
    fn what_is_no_longer_there_is_forgotten_unless_nothing_is() {
        let mut seen = Seen::default();
        judge(&mut seen, vec![log("gone", 1, false), log("there", 2, false), log("grown", 4, false)]);
        let ended = |object: &str, size| EndedLog { id: object.into(), object: object.into(), size, tag: "t".into() };
        let all = || vec![ended("gone", 1), ended("there", 2), ended("grown", 3)];
        assert_eq!(seen.forget(&HashMap::new(), all()), [], "a disk that is not mounted");
        let there = ["there", "grown"].map(|object| (object.to_owned(), seen.queued[object].clone()));
        let forgotten = seen.forget(&there.into(), all());
        assert_eq!(forgotten.iter().map(|log| &*log.object).collect::<Vec<_>>(), ["gone", "grown"]);
        assert!(judge(&mut seen, vec![log("there", 2, false), log("grown", 4, false)]).quiet, "what is there is known");
    }

    #[test]
    fn what_failed_to_be_queued_comes_again() {
        let mut seen = Seen::default();
        assert_eq!(names(&seen.judge(vec![log("a", 1, false)])), ["a"]);
        assert_eq!(names(&seen.judge(vec![log("a", 1, false)])), ["a"]);
    }
}
