//! A journal that stays silent is given up by itself after `journal.retire_after`, so that one dead node doesn't hold
//! `complete_through` back for ever. What it still holds is late when it returns: nothing is lost by that.
//!
//! Through a topic a journal speaks in every partition, and is as far as the one that is least far. So none is silent before
//! all partitions of the topic's generation are read nearly up to their ends, by whichever process: of that each tells the
//! others. What isn't known counts as unread.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ingest::ports::{Coverage as _, JournalState, PortError, Reading, RegisteredJournal, Registry as _};
use processor::hot::HotStatus;
use processor::lake::Lake;
use redirect::links::LinkStore;
use schemas::{JournalId, UtcMicros};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::give_up::{GivenUp, How, give_up};
use super::own::OwnJournals;
use super::signs::Progress;
use super::standing::Standing;
use super::status::is_silent;

/// How often journals are looked at, at least and at most; between that, so that a silence is four looks long.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);
/// A look that comes so many times later than it should: whoever looks was suspended in between.
const LATE: u32 = 2;

/// How long journals have been silent, as far as anybody listened. Pure.
///
/// Silence is what passed between two looks that came in time, while clicks could be brought into the lake and nothing was
/// left to read of the journal. What passes while the watcher is suspended, as with a laptop that sleeps, is nobody's silence.
#[derive(Debug)]
struct Silence {
    every: Duration,
    last_look: Option<Instant>,
    journals: HashMap<JournalId, (UtcMicros, Duration)>,
}

impl Silence {
    /// Nobody has listened yet. Looks come `every` so often.
    fn new(every: Duration) -> Self {
        Self { every, last_look: None, journals: HashMap::new() }
    }

    /// Takes a look, and names the open journals that have been silent for `after`. Not one that is `alive`: its owner
    /// is this process, which knows better. `status` is that of the hot path, `None` when it reads nothing; `hears` whether a
    /// topic is read nearly up to its end, `None` when journals are the stream.
    fn look(
        &mut self,
        now: Instant,
        journals: &[RegisteredJournal],
        (status, hears): (Option<&HotStatus>, Option<bool>),
        alive: &[JournalId],
        after: Duration,
    ) -> Vec<JournalId> {
        let passed = self.last_look.map_or(Duration::ZERO, |last| now.duration_since(last));
        self.last_look = Some(now);
        let is_deaf = status.is_none_or(|status| status.failing.is_some()) || hears == Some(false);
        let listened = if passed > self.every * LATE || is_deaf { Duration::ZERO } else { passed };
        let has_more = |id: JournalId| {
            let name = id.to_string();
            let partitions = status.map_or(&[][..], |status| &status.partitions);
            partitions.iter().any(|part| *part.name == *name && part.failing.is_none() && part.next < part.end)
        };
        let mut silent = HashMap::new();
        for known in journals {
            if known.state != JournalState::Open || alive.contains(&known.id) {
                continue;
            }
            let before = self.journals.get(&known.id).filter(|(through, _)| *through == known.through);
            let so_far = match before {
                Some((_, so_far)) if !has_more(known.id) => *so_far + listened,
                _ => Duration::ZERO,
            };
            silent.insert(known.id, (known.through, so_far));
        }
        self.journals = silent;
        let is_over = |id: &&JournalId| self.journals.get(*id).is_some_and(|(_, so_far)| *so_far >= after);
        let mut over: Vec<JournalId> = self.journals.keys().filter(is_over).copied().collect();
        over.sort_unstable();
        over
    }
}

/// Gives silent journals up.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// The registry.
    pub(crate) store: LinkStore,
    /// Where a retirement is recorded.
    pub(crate) lake: Lake,
    /// Where journals are.
    pub(crate) directory: PathBuf,
    /// The topic that they go through, if they do.
    pub(crate) topic: Option<String>,
    /// Those of this process.
    pub(crate) own: OwnJournals,
    /// How far the hot path is.
    pub(crate) status: watch::Receiver<HotStatus>,
    /// What is known of the lake.
    pub(crate) standing: watch::Receiver<Standing>,
    /// `journal.retire_after`
    pub(crate) after: Duration,
    /// Where it is shown how many are silent.
    pub(crate) shown: Progress,
}

impl Watcher {
    /// Until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let every = (self.after / 4).clamp(OFTEN, SELDOM);
        let (mut silence, mut told) = (Silence::new(every), Vec::new());
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            // what is read first: a journal that had spoken by then is further when it is looked at
            let looked = async {
                Ok::<_, PortError>((unheard(&self.store, self.topic.as_deref()).await?, self.store.journals().await?))
            };
            let (unheard, journals) = match looked.await {
                Ok(looked) => looked,
                Err(error) => {
                    tracing::warn!(%error, "silent journals can't be looked for now");
                    continue;
                }
            };
            let now = UtcMicros::now();
            let seem_silent = journals.iter().filter(|known| is_silent(known, now)).count();
            self.shown.silent(seem_silent);
            let deaf_to = if seem_silent > 0 { unheard.clone() } else { Vec::new() };
            if deaf_to != told {
                tell_deaf(&deaf_to, seem_silent);
                told = deaf_to;
            }
            let is_reading = *self.standing.borrow() == Standing::Whole;
            let status = is_reading.then(|| self.status.borrow().clone());
            let heard = (status.as_ref(), self.topic.as_ref().map(|_| unheard.is_empty()));
            let silent = silence.look(Instant::now(), &journals, heard, &self.alive(), self.after);
            for id in silent {
                self.give_up(id).await;
            }
        }
    }

    /// Journals of this process that can speak for themselves: all but the damaged.
    fn alive(&self) -> Vec<JournalId> {
        let own = self.own.all();
        own.iter().filter(|journal| journal.stats().damage.is_none()).map(|journal| journal.id()).collect()
    }

    async fn give_up(&self, id: JournalId) {
        let after = self.after;
        // by force: that it was silent for so long is known better here than by its last mark alone
        let how = How { topic: self.topic.as_deref(), by_force: true };
        match give_up(&self.lake, &self.store, &self.directory, id, how).await {
            Ok(GivenUp::Closed) => {}
            Ok(GivenUp::Whole) => {
                tracing::error!(journal = %id, ?after, "silent for too long: given up, what it holds is late");
            }
            Ok(GivenUp::Lost(gap)) => {
                let (start, end, why) = (gap.start, gap.end, gap.reason);
                tracing::error!(journal = %id, ?after, %start, %end, why, "given up, and clicks may be lost with it");
            }
            Err(error) => tracing::warn!(journal = %id, error = format!("{error:#}"), "can't be given up now"),
        }
    }
}

/// What of a topic isn't read nearly up to its end by anybody, in words: journals may have spoken there. None when nothing is
/// unread, or there is no topic.
///
/// # Errors
/// When the link store fails.
pub(crate) async fn unheard(store: &LinkStore, topic: Option<&str>) -> Result<Vec<String>, PortError> {
    let Some(topic) = topic else { return Ok(Vec::new()) };
    let Some(generation) = store.generation(topic).await? else { return Ok(vec![format!("topic {topic}")]) };
    let unread = generation.read_less_than(Reading::Near, &store.reached(&generation).await?);
    Ok(unread.into_iter().map(|number| generation.partition(number)).collect())
}

/// Says once why journals that seem to be silent are none, or that they are heard now.
fn tell_deaf(unheard: &[String], journals: usize) {
    if unheard.is_empty() {
        tracing::info!("every partition is read nearly up to its end: a journal that is silent from now on is");
    } else {
        let partitions = unheard.join(", ");
        tracing::warn!(
            partitions,
            journals,
            "not read up to their ends: no journal is given up, as it may have spoken there"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::ports::Reached;
    use processor::hot::PartitionStatus;

    const EVERY: Duration = Duration::from_secs(10);
    const AFTER: Duration = Duration::from_secs(60);

    fn journal(id: JournalId, state: JournalState, through: i64) -> RegisteredJournal {
        let through = UtcMicros(through * 1_000_000);
        RegisteredJournal {
            id,
            node: "n".into(),
            registered_at: UtcMicros(0),
            state,
            through,
            committed: 0,
            forwarded: false,
        }
    }

    fn partition(id: JournalId, next: u64, end: u64, failing: Option<&str>) -> PartitionStatus {
        PartitionStatus { name: id.to_string().into(), next, end, lag: end - next, failing: failing.map(str::to_owned) }
    }

    /// The seconds at which looks at one open journal, that says nothing, give it up.
    fn given_up_at(looks: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let (start, open) = (Instant::now(), [journal(JournalId::new(), JournalState::Open, 1)]);
        let mut silence = Silence::new(EVERY);
        let mut gives_up = |at: &u64| {
            let now = start + Duration::from_secs(*at);
            !silence.look(now, &open, (Some(&HotStatus::default()), None), &[], AFTER).is_empty()
        };
        looks.into_iter().filter(|at| gives_up(at)).collect()
    }

    #[test]
    fn only_the_silent_are_given_up() {
        let [quiet, catching_up, damaged, closed, gone, own] = std::array::from_fn(|_| JournalId::new());
        let journals = [quiet, catching_up, damaged, gone, own].map(|id| journal(id, JournalState::Open, 10));
        let journals: Vec<_> = journals.into_iter().chain([journal(closed, JournalState::Closed, 10)]).collect();
        let status = HotStatus {
            partitions: vec![
                partition(quiet, 5, 5, None),
                partition(catching_up, 5, 9, None),
                partition(damaged, 5, 9, Some("synced frames are gone")),
            ],
            ..HotStatus::default()
        };
        let start = Instant::now();
        let mut silence = Silence::new(EVERY);
        let mut look = |at: u32, status: &HotStatus| {
            silence.look(start + EVERY * at, &journals, (Some(status), None), &[own], AFTER)
        };
        for at in 0..6 {
            assert_eq!(look(at, &status), []);
        }
        let mut expected = [quiet, damaged, gone];
        expected.sort_unstable();
        assert_eq!(look(6, &status), expected);
    }

    #[test]
    fn a_lake_that_fails_is_nobodys_silence_and_a_word_begins_anew() {
        let id = JournalId::new();
        let start = Instant::now();
        let mut silence = Silence::new(EVERY);
        let failing = HotStatus { failing: Some("the lake is down".into()), ..HotStatus::default() };
        let well = HotStatus::default();
        let mut look = |at: u32, through: i64, status: Option<&HotStatus>| {
            let open = [journal(id, JournalState::Open, through)];
            !silence.look(start + EVERY * at, &open, (status, None), &[], AFTER).is_empty()
        };
        for at in 0..10 {
            assert!(!look(at, 1, Some(&failing)));
        }
        for at in 10..20 {
            assert!(!look(at, 1, None), "the lake is not the right one");
        }
        for at in 20..25 {
            assert!(!look(at, 1, Some(&well)));
        }
        for at in 25..31 {
            assert!(!look(at, 2, Some(&well)), "it has said something at 25: {at}");
        }
        assert!(look(31, 2, Some(&well)));
    }

    #[test]
    fn through_a_topic_only_who_is_heard_can_be_silent() {
        // one that hasn't reached the topic yet can't be heard anywhere else either
        for forwarded in [true, false] {
            let open = [RegisteredJournal { forwarded, ..journal(JournalId::new(), JournalState::Open, 1) }];
            let (start, status) = (Instant::now(), HotStatus::default());
            let mut silence = Silence::new(EVERY);
            let mut look = |at: u32, hears: bool| {
                !silence.look(start + EVERY * at, &open, (Some(&status), Some(hears)), &[], AFTER).is_empty()
            };
            for at in 0..3 {
                assert!(!look(at, true));
            }
            for at in 3..20 {
                assert!(!look(at, false), "it may have spoken where nobody reads");
            }
            for at in 20..23 {
                assert!(!look(at, true));
            }
            assert!(look(23, true));
        }
    }

    #[tokio::test]
    async fn a_topic_is_heard_when_each_of_its_partitions_is_read_up_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let domains = redirect::links::Domains::new(&["a.test"]).unwrap();
        let store = LinkStore::open(path.to_str().unwrap(), domains).await.unwrap();
        let deaf_to = async || unheard(&store, Some("clicks")).await.unwrap();
        assert_eq!(unheard(&store, None).await.unwrap(), [""; 0], "journals are the stream");
        assert_eq!(deaf_to().await, ["topic clicks"], "the cluster has not been reached");
        let now = UtcMicros::now();
        let generation = store.begin_generation("clicks", 3, None, now).await.unwrap();
        let tell = async |partition, reading| {
            let one = Reached { partition, next: 0, end: 0, reading };
            store.cover(&generation, &[], &[one], now).await.unwrap();
        };
        tell(0, Reading::Near).await;
        tell(1, Reading::Behind).await;
        assert_eq!(deaf_to().await, [generation.partition(1), generation.partition(2)]);
        tell(1, Reading::Near).await;
        tell(2, Reading::Near).await;
        assert_eq!(deaf_to().await, [""; 0]);
    }

    #[test]
    fn what_passes_while_the_watcher_sleeps_is_no_silence() {
        assert_eq!(given_up_at((0..=60).step_by(10)), [60]);
        // asleep from 20 to 5,000
        assert_eq!(given_up_at([0, 10, 20, 5_000, 5_010, 5_020, 5_030, 5_040, 5_050]), [5_040, 5_050]);
        // again and again, so that nobody ever listens
        assert_eq!(given_up_at((0..10).map(|n| n * 3_600)), [0; 0]);
        // a little late is in time
        assert_eq!(given_up_at([0, 19, 38, 57, 76]), [76]);
    }
}
