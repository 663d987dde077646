//! The journals of this node: opened and registered before the first answer, drained when no worker uses them any more.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ingest::journal::{Journal, JournalConfig, Journals, WorkerJournal, losses_of};
use ingest::ports::{JournalState, RegisteredJournal, Registry};
use redirect::links::LinkStore;
use schemas::{JournalId, UtcMicros};

use super::clock;
use super::names::Names;
use super::own::OwnJournals;
use super::trouble::Trouble;
use crate::config::{Backend, Config};

/// The journals of a redirect node.
#[derive(Debug)]
pub(crate) struct NodeJournals {
    /// The directory, with the disk budget that they share.
    pub(crate) journals: Arc<Journals>,
    /// One for each worker.
    pub(crate) workers: Vec<WorkerJournal>,
    /// Those of the workers, and those that lost theirs: sealed, read to their end.
    pub(crate) own: OwnJournals,
}

impl NodeJournals {
    /// Opens what is there, and makes what is missing for `workers` workers. Each is in `own` as soon as it is open.
    ///
    /// # Errors
    /// When the disk or the link store fails, this machine's clock is wrong, or a journal has another owner.
    pub(crate) async fn open(
        config: &Config,
        store: &LinkStore,
        own: &OwnJournals,
        workers: usize,
    ) -> anyhow::Result<Self> {
        let directory = config.journal_dir();
        let journals = Journals::open(&directory, journal_config(config))
            .with_context(|| format!("data_dir = {:?}: opening the journals", config.data_dir.display().to_string()))?;
        let mut node = Self { journals: Arc::new(journals), workers: Vec::new(), own: own.clone() };
        let known: HashMap<JournalId, RegisteredJournal> =
            store.journals().await?.into_iter().map(|journal| (journal.id, journal)).collect();
        let there = node.journals.ids()?;
        let names = Names::of(&directory);
        let missing = missing(&known, &there, &names.read());
        missing.iter().for_each(|known| name_missing(known));
        // what is missing stays known until it is given up
        let mut here: BTreeSet<JournalId> = missing.iter().map(|known| known.id).collect();
        let mut copied = Vec::new();
        for id in there {
            let state = known.get(&id).map(|known| known.state);
            // what other machines may write too; embedded, the registry is of the folder
            if config.stream.backend == Backend::Fluvio
                && state != Some(JournalState::Closed)
                && node.journals.is_copy(id)?
            {
                copied.push(id);
                continue;
            }
            here.insert(id);
            node.take_over(id, known.get(&id), &directory, store, workers).await?;
        }
        names.write(&here);
        while node.workers.len() < workers {
            let journal = open_new(&node.journals, store, config.edge.skew.0).await?;
            node.employ(journal);
        }
        for id in copied {
            node.adopt(id).await?;
        }
        Ok(node)
    }

    /// A copy of a journal that was made elsewhere, and may be written there still: it is not gone on with, and its clicks go
    /// into a journal of this node.
    async fn adopt(&self, id: JournalId) -> anyhow::Result<()> {
        let Some(into) = self.workers.first().map(WorkerJournal::journal) else { return Ok(()) };
        let (journals, next) = (Arc::clone(&self.journals), into.id());
        let adopted = tokio::task::spawn_blocking(move || journals.adopt_copy(id, &into)).await??;
        let (clicks, way_out) = (adopted.clicks, format!("if it is nowhere else, `highwater journal retire {id}`"));
        match adopted.whole {
            true => {
                tracing::error!(journal = %id, %next, clicks, way_out, "the folder is a copy: its clicks go on in another journal");
            }
            false => {
                tracing::error!(journal = %id, %next, clicks, "the folder is a copy, and there is no room for all its clicks: the next start goes on");
            }
        }
        Ok(())
    }

    /// A journal that was there before: removed when the lake holds it whole, else a worker's, else drained.
    async fn take_over(
        &mut self,
        id: JournalId,
        known: Option<&RegisteredJournal>,
        directory: &Path,
        store: &LinkStore,
        workers: usize,
    ) -> anyhow::Result<()> {
        match known.map(|known| (known.state, known)) {
            // what it has lost and nobody has written down yet stays with it
            Some((JournalState::Closed, _)) if losses_of(directory, id)?.count > 0 => return Ok(()),
            Some((JournalState::Closed, _)) => return Ok(self.journals.remove(id)?),
            Some((JournalState::Retired, known)) => return self.take_over_retired(known),
            Some((JournalState::Open, _)) | None => {}
        }
        let journal = match open_one(&self.journals, id, store).await {
            Ok(journal) => journal,
            Err(failure) => {
                // it may have been given up since the registry was read
                let now = store.journals().await?.into_iter().find(|now| now.id == id);
                return match now.filter(|now| now.state != JournalState::Open) {
                    Some(now) => Box::pin(self.take_over(id, Some(&now), directory, store, workers)).await,
                    None => Err(failure),
                };
            }
        };
        if journal.is_sealed() || self.workers.len() >= workers {
            return self.drain(journal);
        }
        self.employ(journal);
        Ok(())
    }

    /// What a journal that was given up still holds is late: it is read to its end, and never written again.
    fn take_over_retired(&self, known: &RegisteredJournal) -> anyhow::Result<()> {
        let journal = self.journals.open_journal(known.id, known.registered_at, known.committed)?;
        if let Some(damage) = journal.stats().damage
            && damage.position <= known.committed
        {
            tracing::info!(journal = %known.id, "damaged and given up: its folder is left as it is, and may be deleted");
            return Ok(());
        }
        self.drain(journal)
    }

    fn employ(&mut self, journal: Journal) {
        self.own.add(journal.clone());
        self.workers.push(WorkerJournal::new(journal));
    }

    /// No worker's any more: it is read to its end, and takes no more events.
    fn drain(&self, journal: Journal) -> anyhow::Result<()> {
        if let Some(damage) = journal.stats().damage {
            let (id, trouble) = (journal.id(), Trouble::Damaged(damage));
            let way_out = trouble.way_out(id);
            tracing::error!(journal = %id, %trouble, way_out, "synced clicks are gone");
        }
        // a damaged one is sealed already, and stays as it is
        if !journal.is_sealed() {
            journal.seal()?;
        }
        self.own.add(journal);
        Ok(())
    }
}

/// Journals that were made `here`, are open, and whose folder is gone. Others are of other nodes.
fn missing<'a>(
    known: &'a HashMap<JournalId, RegisteredJournal>,
    there: &[JournalId],
    here: &BTreeSet<JournalId>,
) -> Vec<&'a RegisteredJournal> {
    let is_gone = |id: &&JournalId| !there.contains(id);
    let gone = here.iter().filter(is_gone).filter_map(|id| known.get(id));
    gone.filter(|known| known.state == JournalState::Open).collect()
}

fn name_missing(known: &RegisteredJournal) {
    let (trouble, way_out) = (Trouble::Missing, Trouble::Missing.way_out(known.id));
    tracing::error!(journal = %known.id, %trouble, through = %known.through, way_out, "a journal is gone");
}

/// Makes a new journal, registered.
///
/// # Errors
/// When the disk or the link store fails, or this machine's clock differs from the store's by more than `skew`.
pub(crate) async fn open_new(journals: &Arc<Journals>, store: &LinkStore, skew: Duration) -> anyhow::Result<Journal> {
    clock::must_be_right(store, skew).await?;
    let id = JournalId::new();
    Names::of(journals.directory()).add(id);
    open_one(journals, id, store).await
}

async fn open_one(journals: &Arc<Journals>, id: JournalId, store: &LinkStore) -> anyhow::Result<Journal> {
    let mark = store.register(id, &node_name(), UtcMicros::now()).await?;
    let committed = store.journals().await?.into_iter().find(|known| known.id == id).map_or(0, |known| known.committed);
    let journals = Arc::clone(journals);
    // opening blocks, and other workers may be answering
    let journal = tokio::task::spawn_blocking(move || journals.open_journal(id, mark, committed)).await??;
    let stats = journal.stats();
    if stats.torn.bytes > 0 {
        let frames_lost = stats.torn.frames_lost;
        tracing::warn!(journal = %id, bytes = stats.torn.bytes, frames_lost, "a torn tail was cut off");
    }
    Ok(journal)
}

fn journal_config(config: &Config) -> JournalConfig {
    JournalConfig {
        max_bytes: config.journal.max_bytes.0,
        reserve: config.journal.reserve.0,
        sync: config.journal.sync.0,
        ..JournalConfig::default()
    }
}

/// The name of this node in the registry: its host name.
pub(crate) fn node_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// The journals below `directory`, for a process that doesn't own them.
///
/// # Errors
/// When the folder can't be listed; one that isn't there has none.
pub(crate) fn ids_in(directory: &Path) -> std::io::Result<Vec<JournalId>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<JournalId>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(state: JournalState) -> RegisteredJournal {
        let (id, at) = (JournalId::new(), UtcMicros(1));
        RegisteredJournal { id, node: "n".into(), registered_at: at, state, through: at, committed: 0, forwarded: true }
    }

    #[tokio::test]
    async fn one_that_is_given_up_while_a_node_starts_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let domains = redirect::links::Domains::new(&["a.test"]).unwrap();
        let store = LinkStore::open(path.to_str().unwrap(), domains).await.unwrap();
        let config = JournalConfig { max_bytes: 1 << 20, reserve: 0, ..JournalConfig::default() };
        let journals = Arc::new(Journals::open(&folder.path().join("journals"), config).unwrap());
        let id = JournalId::new();
        let mark = store.register(id, "n", UtcMicros::now()).await.unwrap();
        drop(journals.open_journal(id, mark, 0).unwrap());
        let read = store.journals().await.unwrap().remove(0);
        store.set_state(id, JournalState::Retired).await.unwrap();
        let mut node = NodeJournals { journals, workers: Vec::new(), own: OwnJournals::default() };
        node.take_over(id, Some(&read), folder.path(), &store, 1).await.unwrap();
        assert!(node.workers.is_empty(), "nobody writes into it any more");
        assert!(node.own.get(id).is_some_and(|journal| journal.is_sealed()));
    }

    #[test]
    fn only_what_was_made_here_and_is_open_can_be_gone() {
        let [gone, there, elsewhere] = std::array::from_fn(|_| known(JournalState::Open));
        let [closed, retired] = [JournalState::Closed, JournalState::Retired].map(known);
        let here: BTreeSet<JournalId> = [&gone, &there, &closed, &retired].map(|known| known.id).into();
        let ids = [there.id];
        let all = [gone.clone(), there, elsewhere, closed, retired].map(|known| (known.id, known)).into();
        assert_eq!(missing(&all, &ids, &here), [&gone]);
        assert_eq!(missing(&all, &ids, &BTreeSet::new()), [&gone; 0], "of other nodes, as far as anybody knows");
    }
}
