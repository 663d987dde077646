//! Giving a journal up, and writing down what is lost with it: the row of `gaps` first, so that the loss is named from the
//! moment on in which the journal no longer holds anything back.
//!
//! Through a topic a journal may be on another machine, of which nobody here can say what it had answered and not sent yet:
//! that may be missing, and is written down. One whose node is heard of isn't given up by mistake, nor one that can't be heard
//! because nobody reads where it speaks.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, anyhow, ensure};
use ingest::journal::{JournalError, is_in_use};
use ingest::ports::{JournalState, RegisteredJournal, Registry as _};
use processor::gaps::{self, Gap};
use processor::hot;
use processor::lake::Lake;
use redirect::links::LinkStore;
use schemas::tables::Table;
use schemas::{JournalId, UtcMicros};

use super::names::made_here;
use super::retire::unheard;
use super::status::is_silent;
use super::trouble::{Found, Held, Trouble, span, trouble};

/// What became of a journal that was to be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// The lake holds all of it: there was nothing to give up.
    Closed,
    /// Nothing is lost: what it still holds is late when it returns.
    Whole,
    /// This is lost with it, or may be.
    Lost(Gap),
}

/// How a journal is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How<'a> {
    /// The topic that journals go through, if they do: one that isn't here may be on another machine.
    pub(crate) topic: Option<&'a str>,
    /// Even one that somebody goes on with.
    pub(crate) by_force: bool,
}

/// Gives `journal` up. Trying again is safe, and writes nothing down twice.
///
/// # Errors
/// When it isn't registered, somebody goes on with it, or the lake or the link store fails.
pub(crate) async fn give_up(
    lake: &Lake,
    store: &LinkStore,
    journals: &Path,
    journal: JournalId,
    how: How<'_>,
) -> anyhow::Result<GivenUp> {
    let known = store.journals().await?.into_iter().find(|known| known.id == journal);
    let mut known =
        known.with_context(|| format!("there is no journal {journal}; `highwater journal list` names them"))?;
    known.forwarded |= how.topic.is_some();
    let clicks = lake.table(Table::Clicks).await?;
    let held = Held::of(&clicks, &known);
    let found = Found::look(journals, journal, held.below).await;
    let is_of_here = made_here(journals).contains(&journal);
    let mut trouble = trouble(&known, held, &found, is_of_here);
    if trouble.is_none() && known.state == JournalState::Closed {
        return Ok(GivenUp::Closed);
    }
    let now = UtcMicros::now();
    let is_elsewhere = known.state == JournalState::Open && found == Found::Nothing && !is_of_here && known.forwarded;
    if is_elsewhere && trouble.is_none() && !held.retired {
        if !how.by_force {
            let unheard = unheard(store, how.topic).await?;
            ensure!(unheard.is_empty(), unknown(&known, &unheard));
            ensure!(is_silent(&known, now), alive(&known, now));
        }
        trouble = Some(Trouble::Elsewhere);
    }
    // one that can't be looked at may be as well as any
    let may_be_well = matches!(trouble, None | Some(Trouble::Unreadable(_)));
    if !how.by_force && known.state == JournalState::Open && may_be_well && !held.retired {
        let is_at_work = is_in_use(&journals.join(journal.to_string()));
        let is_at_work = is_at_work.map_err(|why| anyhow!(untold(journal, &why)))?;
        ensure!(!is_at_work, at_work(journal));
    }
    let lost = match &trouble {
        None => None,
        Some(trouble) => {
            let changed = if is_elsewhere { now } else { last_change(journals.to_owned(), journal).await };
            Some(write_down(lake, &known, trouble, span(&known, trouble, &found, changed)).await?)
        }
    };
    let left = match (&trouble, &found) {
        // what it still has is read, behind what is gone
        (Some(_), Found::Here(found)) if !known.forwarded => found.begin,
        _ => 0,
    };
    hot::retire(lake, store, journal, left).await?;
    Ok(lost.map_or(GivenUp::Whole, GivenUp::Lost))
}

/// Why a journal isn't given up: a process here goes on with it.
fn at_work(journal: JournalId) -> String {
    format!(
        "journal {journal} is not given up: a process on this machine writes into it. Clicks that it answers would be late: \
         stop it first; or --force gives the journal up all the same"
    )
}

/// Why a journal isn't given up: whether a process here goes on with it can't be told.
fn untold(journal: JournalId, why: &JournalError) -> String {
    format!(
        "journal {journal} is not given up: whether a process on this machine writes into it can't be told ({why}): ask as \
         the user whose folder it is; or --force gives the journal up all the same"
    )
}

/// Why a journal isn't given up: whether its node goes on with it can't be known.
fn unknown(known: &RegisteredJournal, unheard: &[String]) -> String {
    format!(
        "journal {} is not given up: node {} has it, and whether that speaks is not known while {} is not read up to its end: \
         see to a `process` that reads it; or --force gives the journal up all the same",
        known.id,
        known.node,
        unheard.join(", ")
    )
}

/// Why a journal isn't given up: its node goes on with it.
fn alive(known: &RegisteredJournal, now: UtcMicros) -> String {
    format!(
        "journal {} is not given up: node {} has it, and is heard of: the lake has its clicks up to {}, {:.0} s ago; stop that \
         node if it is to go, or --force gives the journal up all the same",
        known.id,
        known.node,
        known.through,
        now.since(known.through).as_secs_f64()
    )
}

/// The row of `gaps`, written once.
async fn write_down(
    lake: &Lake,
    known: &RegisteredJournal,
    trouble: &Trouble,
    (start, end): (UtcMicros, UtcMicros),
) -> anyhow::Result<Gap> {
    // frames are counted by position, marks among them: how many clicks are gone nobody knows
    let gap = Gap { journal: known.id, start, end, lost: None, reason: trouble.reason().to_owned() };
    let mut table = lake.table(Table::Gaps).await?;
    let written = gaps::given_up(known.id);
    if table.txn(&written).is_none() {
        gaps::add(&mut table, std::slice::from_ref(&gap), vec![(written, UtcMicros::now().0)])
            .await
            .context("the loss can't be written down")?;
    }
    Ok(gap)
}

/// When a journal's files last changed; when it has none, the folder that held it; now when that isn't known either.
async fn last_change(journals: PathBuf, journal: JournalId) -> UtcMicros {
    let look = move || {
        let of = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let files = std::fs::read_dir(journals.join(journal.to_string()));
        let newest = files.ok().and_then(|files| files.filter_map(|file| of(&file.ok()?.path())).max());
        newest.or_else(|| of(&journals))
    };
    let changed = tokio::task::spawn_blocking(look).await.ok().flatten();
    let since = changed.and_then(|changed| changed.duration_since(SystemTime::UNIX_EPOCH).ok());
    let now = UtcMicros::now();
    since.map_or(now, |since| UtcMicros(since.as_micros() as i64).min(now))
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;
    use ingest::journal::{JournalConfig, Journals};
    use ingest::ports::{Coverage as _, Landed, Reached, Reading};
    use processor::lake::LakeOptions;
    use redirect::links::Domains;
    use schemas::Analytics;

    struct World {
        folder: tempfile::TempDir,
        lake: Lake,
        store: LinkStore,
        id: JournalId,
    }

    impl World {
        /// A journal with clicks, of which the lake holds none, although the registry may say otherwise.
        async fn new(committed: u64) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
            let lake = Lake::open(&path("lake"), LakeOptions::default()).unwrap();
            let store = LinkStore::open(&path("links"), Domains::new(&["a.test"]).unwrap()).await.unwrap();
            let id = JournalId::new();
            let mark = store.register(id, "n", UtcMicros::now()).await.unwrap();
            store.publish(&[Landed { id, through: mark, committed }], mark).await.unwrap();
            let config = JournalConfig { max_bytes: 1 << 20, reserve: 0, ..JournalConfig::default() };
            let journals = Journals::open(&folder.path().join("journals"), config).unwrap();
            let journal = journals.open_journal(id, mark, 0).unwrap();
            for _ in 0..20 {
                journal.append(Analytics::Billed, |_, out| out.extend_from_slice(&[1; 100]));
                journal.sync().unwrap();
            }
            Self { folder, lake, store, id }
        }

        fn journals(&self) -> PathBuf {
            self.folder.path().join("journals")
        }

        async fn give_up(&self) -> GivenUp {
            self.try_to(false, false).await.unwrap()
        }

        async fn try_to(&self, through_topic: bool, by_force: bool) -> anyhow::Result<GivenUp> {
            let how = How { topic: through_topic.then_some("clicks"), by_force };
            give_up(&self.lake, &self.store, &self.journals(), self.id, how).await
        }

        fn remove_folder(&self) {
            std::fs::remove_dir_all(self.journals().join(self.id.to_string())).unwrap();
        }

        async fn gaps(&self) -> u64 {
            let table = self.lake.table(Table::Gaps).await.unwrap();
            table.files().iter().map(|file| file.rows).sum()
        }
    }

    #[tokio::test]
    async fn of_a_whole_journal_nothing_is_lost() {
        let world = World::new(0).await;
        assert_eq!(world.give_up().await, GivenUp::Whole);
        assert_eq!(world.gaps().await, 0);
        assert_eq!(world.store.journals().await.unwrap()[0].state, JournalState::Retired);
    }

    #[tokio::test]
    async fn a_vanished_journal_is_a_gap_once() {
        let world = World::new(0).await;
        world.remove_folder();
        let GivenUp::Lost(gap) = world.give_up().await else { panic!("nothing lost") };
        let known = &world.store.journals().await.unwrap()[0];
        assert_eq!((gap.start, gap.lost, gap.reason.as_str()), (known.through, None, "journal missing"));
        assert!(gap.end >= gap.start && gap.end <= UtcMicros::now());
        assert_eq!((world.give_up().await, world.gaps().await), (GivenUp::Whole, 1), "again writes nothing");
    }

    #[tokio::test]
    async fn a_damaged_journal_is_a_gap_to_the_newest_time_that_is_left() {
        let world = World::new(0).await;
        let folder = world.journals().join(world.id.to_string());
        let segment = folder.join(format!("{:020}.seg", 0));
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[200] ^= 1;
        std::fs::write(&segment, bytes).unwrap();
        let newest = UtcMicros::now();
        let GivenUp::Lost(gap) = world.give_up().await else { panic!("nothing lost") };
        assert_eq!(gap.reason, "journal damaged");
        assert!(gap.start < gap.end && gap.end < newest, "{gap:?}");
    }

    #[tokio::test]
    async fn a_journal_that_the_lake_has_lost_is_a_gap_from_its_begin() {
        let world = World::new(9).await;
        let GivenUp::Lost(gap) = world.give_up().await else { panic!("nothing lost") };
        let known = &world.store.journals().await.unwrap()[0];
        assert_eq!((gap.reason.as_str(), gap.start), ("lake lost", known.registered_at));
    }

    #[tokio::test]
    async fn an_unknown_journal_is_named() {
        let world = World::new(0).await;
        let id = JournalId::new();
        let how = How { topic: None, by_force: false };
        let error = give_up(&world.lake, &world.store, &world.journals(), id, how).await.unwrap_err();
        assert!(error.to_string().contains(&id.to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_journal_of_another_machine_is_given_up_by_force_only_while_it_is_heard_of() {
        let world = World::new(0).await;
        world.remove_folder();
        let refused = world.try_to(true, false).await.unwrap_err().to_string();
        assert!(refused.contains("not known while topic clicks is not read"), "{refused}");
        let now = UtcMicros::now();
        let generation = world.store.begin_generation("clicks", 1, None, now).await.unwrap();
        let read = Reached { partition: 0, next: 0, end: 0, reading: Reading::Near };
        world.store.cover(&generation, &[], &[read], now).await.unwrap();
        let refused = world.try_to(true, false).await.unwrap_err().to_string();
        let known = &world.store.journals().await.unwrap()[0];
        for part in ["node n has it", &known.through.to_string(), "0 s ago", "--force"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!((known.state, world.gaps().await), (JournalState::Open, 0));
        let GivenUp::Lost(gap) = world.try_to(true, true).await.unwrap() else { panic!("nothing lost") };
        assert_eq!((gap.start, gap.reason.as_str()), (known.through, "node gone"));
        assert!(gap.end >= gap.start && gap.end <= UtcMicros::now());
        assert_eq!((world.try_to(true, false).await.unwrap(), world.gaps().await), (GivenUp::Whole, 1));
    }

    #[tokio::test]
    async fn one_of_which_nobody_can_tell_whether_it_is_written_is_given_up_by_force_only() {
        let world = World::new(0).await;
        let folder = world.journals().join(world.id.to_string());
        let lock = folder.join("lock");
        std::fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(&lock, &lock).unwrap();
        let refused = async || world.try_to(false, false).await.unwrap_err().to_string();
        let said = refused().await;
        assert!(said.contains("can't be told") && said.contains("--force"), "{said}");
        // nor is one for lost that can't be read either
        let segment = folder.join(format!("{:020}.seg", 0));
        std::fs::rename(&segment, world.folder.path().join("aside")).unwrap();
        std::fs::create_dir(&segment).unwrap();
        assert!(refused().await.contains("can't be told"));
        assert_eq!((world.store.journals().await.unwrap()[0].state, world.gaps().await), (JournalState::Open, 0));
        let GivenUp::Lost(gap) = world.try_to(false, true).await.unwrap() else { panic!("nothing lost") };
        assert_eq!(gap.reason, "journal damaged");
    }

    #[tokio::test]
    async fn one_that_was_made_here_and_is_gone_is_a_gap_through_a_topic_too() {
        let world = World::new(0).await;
        world.remove_folder();
        Names::of(&world.journals()).add(world.id);
        let GivenUp::Lost(gap) = world.try_to(true, false).await.unwrap() else { panic!("nothing lost") };
        assert_eq!(gap.reason, "journal missing");
    }
}
