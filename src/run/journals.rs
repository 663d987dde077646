//! The journals of this node: opened and registered before the first answer, trimmed behind what the lake holds,
//! drained when no worker uses them any more.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use ingest::journal::{Journal, JournalConfig, Journals};
use ingest::ports::{JournalState, RegisteredJournal, Registry};
use redirect::links::LinkStore;
use schemas::{JournalId, UtcMicros};
use tokio_util::sync::CancellationToken;

use crate::config::Config;

/// How often journals are trimmed behind what the lake holds.
const TRIM_EVERY: Duration = Duration::from_secs(2);

/// The journals of a redirect node.
#[derive(Debug)]
pub(crate) struct NodeJournals {
    /// The directory, with the disk budget that they share.
    pub(crate) journals: Journals,
    /// One for each worker.
    pub(crate) workers: Vec<Journal>,
    /// Those that lost their worker: sealed, read to their end.
    pub(crate) orphans: Vec<Journal>,
}

impl NodeJournals {
    /// Opens what is there, and makes what is missing for `workers` workers.
    ///
    /// # Errors
    /// When the disk or the link store fails, or a journal has another owner.
    pub(crate) async fn open(config: &Config, store: &LinkStore, workers: usize) -> anyhow::Result<Self> {
        let directory = config.journal_dir();
        let journals = Journals::open(&directory, journal_config(config))
            .with_context(|| format!("data_dir = {:?}: opening the journals", config.data_dir.display().to_string()))?;
        let mut node = Self { journals, workers: Vec::new(), orphans: Vec::new() };
        let known: HashMap<JournalId, RegisteredJournal> =
            store.journals().await?.into_iter().map(|journal| (journal.id, journal)).collect();
        for id in node.journals.ids()? {
            node.take_over(id, known.get(&id), store, workers).await?;
        }
        while node.workers.len() < workers {
            let journal = node.open_one(JournalId::new(), store).await?;
            node.workers.push(journal);
        }
        Ok(node)
    }

    /// A journal that was there before: removed when the lake holds it whole, else a worker's, else drained.
    async fn take_over(
        &mut self,
        id: JournalId,
        known: Option<&RegisteredJournal>,
        store: &LinkStore,
        workers: usize,
    ) -> anyhow::Result<()> {
        match known.map(|known| known.state) {
            Some(JournalState::Closed) => return Ok(self.journals.remove(id)?),
            Some(JournalState::Retired) => {
                // what it still holds is late: it is read to its end, and never written again
                let (mark, committed) =
                    known.map_or_else(Default::default, |known| (known.registered_at, known.committed));
                let journal = self.journals.open_journal(id, mark, committed)?;
                return self.drain(journal);
            }
            Some(JournalState::Open) | None => {}
        }
        let journal = self.open_one(id, store).await?;
        if journal.is_sealed() || self.workers.len() >= workers {
            return self.drain(journal);
        }
        self.workers.push(journal);
        Ok(())
    }

    /// No worker's any more: it is read to its end, and takes no more events.
    fn drain(&mut self, journal: Journal) -> anyhow::Result<()> {
        if let Some(damage) = journal.stats().damage {
            let (id, position) = (journal.id(), damage.position);
            tracing::error!(journal = %id, position, "synced clicks are gone: `highwater journal retire {id}` gives it up");
        }
        // a damaged one is sealed already, and stays as it is
        if !journal.is_sealed() {
            journal.seal()?;
        }
        self.orphans.push(journal);
        Ok(())
    }

    async fn open_one(&self, id: JournalId, store: &LinkStore) -> anyhow::Result<Journal> {
        let mark = store.register(id, &node_name(), UtcMicros::now()).await?;
        let committed =
            store.journals().await?.into_iter().find(|known| known.id == id).map_or(0, |known| known.committed);
        let journal = self.journals.open_journal(id, mark, committed)?;
        let stats = journal.stats();
        if stats.torn.bytes > 0 {
            let frames_lost = stats.torn.frames_lost;
            tracing::warn!(journal = %id, bytes = stats.torn.bytes, frames_lost, "a torn tail was cut off");
        }
        Ok(journal)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Journal> {
        self.workers.iter().chain(&self.orphans).cloned().collect()
    }
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

/// What the lake holds of each journal: its first position that isn't there, as last heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committed(Arc<Mutex<HashMap<JournalId, u64>>>);

impl Committed {
    /// Of one journal; 0 when nothing was heard of it.
    pub(crate) fn of(&self, id: JournalId) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied().unwrap_or_default()
    }

    fn hear(&self, id: JournalId, committed: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, committed);
    }
}

/// Deletes segments whose frames the lake holds, until `stop`; what is heard of that goes into `heard`.
pub(crate) async fn trim(journals: Vec<Journal>, store: LinkStore, heard: Committed, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(TRIM_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let registered = match store.journals().await {
            Ok(registered) => registered,
            Err(error) => {
                tracing::warn!(%error, "journals can't be trimmed now");
                continue;
            }
        };
        for journal in &journals {
            let Some(known) = registered.iter().find(|known| known.id == journal.id()) else { continue };
            let (journal, committed) = (journal.clone(), known.committed);
            heard.hear(known.id, committed);
            // deleting files blocks
            if let Err(error) = tokio::task::spawn_blocking(move || journal.trim(committed)).await {
                tracing::error!(%error, "trimming ended early");
            }
        }
    }
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
