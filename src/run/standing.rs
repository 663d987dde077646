//! Whether the lake that is there is the one that the registry knows. It isn't when its folder was deleted, an older copy
//! was put in its place, or the disk that holds it is not mounted.
//!
//! ```text
//! registry: the lake holds journal J below 900 ─┐
//! lake:     J is held below 700 ────────────────┴─► behind, unless the journal still has 700..900
//! ```
//! Clicks brought into such a lake would be missing from the right one once that is back, and trimmed from the journals. So
//! nothing is read from journals before the lake is known to be the right one: they keep what they are given, redirects go
//! on, `/readyz` says why, and whoever runs it restores the lake or gives up what it held.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ingest::journal::first_of;
use ingest::ports::{JournalState, RegisteredJournal, Registry as _};
use processor::hot;
use processor::lake::{Lake, LakeError, TableHandle};
use redirect::links::LinkStore;
use schemas::JournalId;
use schemas::tables::Table;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::trouble::Held;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(5);
/// How often it is said while it lasts.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// What is known of the lake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It could not be looked at yet.
    #[default]
    Unknown,
    /// It holds what the registry says.
    Whole,
    /// It doesn't; why, and what to do.
    Lost(String),
}

/// The journals of which the lake has lost what is nowhere else any more, each with what it holds of it now. Pure, but for
/// `first`: the first position that is left of a journal on the disk.
fn lost(
    registered: Vec<RegisteredJournal>,
    held: impl Fn(&RegisteredJournal) -> Held,
    first: impl Fn(&RegisteredJournal) -> Option<u64>,
) -> Vec<(RegisteredJournal, u64)> {
    let of = |known: RegisteredJournal| {
        let held = held(&known);
        let is_behind = known.committed > held.below && !held.retired;
        // what the journal still has is read again
        let is_whole = || known.state == JournalState::Open && first(&known).is_some_and(|first| first <= held.below);
        (is_behind && !is_whole()).then_some((known, held.below))
    };
    registered.into_iter().filter_map(of).collect()
}

/// Why the lake isn't the one that the registry knows, if it isn't.
fn behind(lost: &[(RegisteredJournal, u64)]) -> Option<String> {
    let (known, below) = lost.first()?;
    let others = match lost.len() {
        1 => String::new(),
        n => format!(" (and so with {} more)", n - 1),
    };
    Some(format!(
        "the lake is behind the registry: it held journal {} below position {}, and now below {below}{others}; restore the \
         lake (is its disk mounted?), or `highwater journal retire --lost` gives up what it has lost",
        known.id, known.committed
    ))
}

/// The same of partitions of a topic: `published` tells what the lake has held of each.
fn behind_topic(published: &[(String, u64)], held: impl Fn(&str) -> u64) -> Option<String> {
    let (partition, offset) = published.iter().find(|(partition, offset)| held(partition) < *offset)?;
    Some(format!(
        "the lake is behind what was published: it held partition {partition} below offset {offset}, and now below {}; restore \
         the lake (is its disk mounted?), or `highwater stream renew` gives up what it has lost, reads the topic from its \
         begin, and writes the loss down",
        held(partition)
    ))
}

/// What the lake lacks of what it held of a topic's partitions, if it does.
///
/// # Errors
/// When the link store or the lake can't be read.
pub(crate) async fn lost_offsets(lake: &Lake, store: &LinkStore) -> anyhow::Result<Option<String>> {
    let published = store.published_offsets().await?;
    let clicks = lake.table(Table::Clicks).await?;
    Ok(behind_topic(&published, |partition| hot::offset(&clicks, partition)))
}

fn lost_in(clicks: &TableHandle, registered: Vec<RegisteredJournal>, journals: &Path) -> Vec<(RegisteredJournal, u64)> {
    let first = |known: &RegisteredJournal| first_of(journals, known.id).ok().flatten();
    lost(registered, |known| Held::of(clicks, known), first)
}

/// The journals of which the lake has lost what is nowhere else any more.
///
/// # Errors
/// When lake or registry can't be read.
pub(crate) async fn lost_journals(lake: &Lake, store: &LinkStore, journals: &Path) -> anyhow::Result<Vec<JournalId>> {
    let registered = store.journals().await?;
    let clicks = lake.table(Table::Clicks).await?;
    Ok(lost_in(&clicks, registered, journals).into_iter().map(|(known, _)| known.id).collect())
}

/// Looks at table `clicks` as `handle` has it, opened when it has none.
///
/// # Errors
/// When lake or registry can't be read: nothing is known then.
pub(crate) async fn look(
    lake: &Lake,
    handle: &mut Option<TableHandle>,
    store: &LinkStore,
    journals: &Path,
) -> anyhow::Result<Standing> {
    // the registry first: it may only be behind what the lake holds
    let (registered, published) = (store.journals().await?, store.published_offsets().await?);
    let opened = match handle {
        Some(clicks) => clicks.refresh().await.map(drop),
        None => lake.table(Table::Clicks).await.map(|clicks| *handle = Some(clicks)),
    };
    match (opened, handle) {
        // a table that was read before and isn't there any more: not opened anew, which would make another
        (Err(error @ (LakeError::Gap { .. } | LakeError::Corrupt { .. })), _) => Ok(Standing::Lost(format!(
            "{error}; put back what is missing, or stop, and start on the lake that is there"
        ))),
        (Err(error), _) => Err(error.into()),
        (Ok(()), Some(clicks)) => {
            let journals = behind(&lost_in(clicks, registered, journals));
            let lost = journals.or_else(|| behind_topic(&published, |partition| hot::offset(clicks, partition)));
            Ok(lost.map_or(Standing::Whole, Standing::Lost))
        }
        (Ok(()), None) => Ok(Standing::Unknown),
    }
}

/// Keeps an eye on the lake.
#[derive(Debug)]
pub(crate) struct Watcher {
    lake: Lake,
    store: LinkStore,
    journals: PathBuf,
    clicks: Option<TableHandle>,
    said: Option<Instant>,
    standing: watch::Sender<Standing>,
}

impl Watcher {
    /// Has looked once.
    pub(crate) async fn new(lake: Lake, store: LinkStore, journals: PathBuf) -> Self {
        let mut watcher = Self { lake, store, journals, clicks: None, said: None, standing: watch::Sender::default() };
        watcher.look(Instant::now()).await;
        watcher
    }

    /// What is known, kept current by [`Watcher::run`].
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.look(Instant::now()).await;
        }
    }

    async fn look(&mut self, now: Instant) {
        match look(&self.lake, &mut self.clicks, &self.store, &self.journals).await {
            Ok(standing) => {
                self.say(&standing, now);
                self.standing.send_if_modified(|before| std::mem::replace(before, standing.clone()) != standing);
            }
            // whoever needs lake or registry says so; what was known of them stays
            Err(error) => tracing::debug!(error = format!("{error:#}"), "the lake can't be looked at now"),
        }
    }

    fn say(&mut self, standing: &Standing, now: Instant) {
        match standing {
            Standing::Lost(why) => {
                if self.said.is_none_or(|said| now.duration_since(said) >= SAID_EVERY) {
                    self.said = Some(now);
                    tracing::error!(why, "no click is brought into the lake");
                }
            }
            Standing::Whole | Standing::Unknown => {
                if self.said.take().is_some() {
                    tracing::info!("the lake is whole again");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::UtcMicros;

    fn known(state: JournalState, committed: u64) -> RegisteredJournal {
        let (id, at) = (JournalId::new(), UtcMicros(1));
        RegisteredJournal { id, node: "n".into(), registered_at: at, state, through: at, committed, forwarded: false }
    }

    #[test]
    fn a_lake_is_lost_when_what_it_held_is_in_no_journal_either() {
        let (open, closed) = (known(JournalState::Open, 9), known(JournalState::Closed, 9));
        let says = |known: &RegisteredJournal, below, retired, first| {
            !lost(vec![known.clone()], |_| Held { below, retired }, |_| first).is_empty()
        };
        assert!(!says(&open, 9, false, Some(5)));
        assert!(!says(&open, 12, false, None), "the registry may be behind");
        assert!(!says(&open, 5, false, Some(5)), "it is read again");
        assert!(says(&open, 4, false, Some(5)) && says(&open, 4, false, None));
        assert!(says(&closed, 8, false, Some(0)), "what is closed is read by nobody");
        assert!(!says(&open, 0, true, None) && !says(&closed, 0, true, None), "given up");
    }

    #[test]
    fn all_of_it_is_told_in_one_sentence() {
        let all = [known(JournalState::Closed, 900), known(JournalState::Closed, 9), known(JournalState::Open, 3)];
        let id = all[0].id.to_string();
        let told = behind(&lost(all.into(), |_| Held { below: 7, retired: false }, |_| None)).unwrap();
        for part in [id.as_str(), "below position 900", "now below 7", "and so with 1 more", "journal retire"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_lake_is_lost_when_it_held_more_of_a_partition() {
        let published = [("t@g/0".to_owned(), 5), ("t@g/1".to_owned(), 9)];
        assert_eq!(behind_topic(&published, |_| 9), None);
        let told = behind_topic(&published, |_| 8).unwrap();
        assert!(told.contains("t@g/1 below offset 9, and now below 8"), "{told}");
    }

    #[tokio::test]
    async fn a_lake_that_was_taken_away_is_lost_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let open_lake = || Lake::open(path("lake").to_str().unwrap(), processor::lake::LakeOptions::default()).unwrap();
        let domains = redirect::links::Domains::new(&["a.test"]).unwrap();
        let store = LinkStore::open(path("links").to_str().unwrap(), domains).await.unwrap();
        let id = JournalId::new();
        let mark = store.register(id, "n", UtcMicros(1)).await.unwrap();
        let mut clicks = open_lake().table(Table::Clicks).await.unwrap();
        let txns = vec![(format!("stream/{id}"), 9)];
        clicks.commit(processor::lake::Change { txns, ..Default::default() }).await.unwrap();
        store.publish(&[ingest::ports::Landed { id, through: mark, committed: 9 }], mark).await.unwrap();
        let journals = path("journals");
        let look = async |mut handle: Option<TableHandle>| {
            let standing = super::look(&open_lake(), &mut handle, &store, &journals).await.unwrap();
            (standing, handle)
        };
        let (standing, running) = look(None).await;
        assert_eq!(standing, Standing::Whole);
        std::fs::rename(path("lake"), path("elsewhere")).unwrap();
        let (told, running) = look(running).await;
        assert!(matches!(&told, Standing::Lost(why) if why.contains("is missing")), "while it runs: {told:?}");
        let (told, _) = look(None).await;
        assert!(matches!(&told, Standing::Lost(why) if why.contains("behind the registry")), "at a start: {told:?}");
        assert_eq!(lost_journals(&open_lake(), &store, &journals).await.unwrap(), [id]);
        std::fs::remove_dir_all(path("lake")).unwrap();
        std::fs::rename(path("elsewhere"), path("lake")).unwrap();
        assert_eq!(look(running).await.0, Standing::Whole);
    }
}
