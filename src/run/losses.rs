//! Losses become rows of table `gaps`: when even the reserve of the disk was full, billed clicks went unwritten.
//!
//! ```text
//! redirect: journals here as they say │ the folder's other files of losses ──tell──► link store: lost, recorded
//! process:  gaps: transaction `losses/JOURNAL` = so many are in a row ───────────────────┴─► the difference is a row
//! ```
//! Whoever has journals need not have the lake. The row and the transaction are one commit, so each click lost is in one row,
//! whoever is killed in between. What can't be told or written now, as on a disk that is still full, is when it can, by this
//! process or the next: the file in the journal's folder stays until the row is there.

use std::path::PathBuf;
use std::time::Duration;

use ingest::journal::{Losses, Refusal, forget_losses, losses_of};
use ingest::ports::{JournalState, Registry as _};
use processor::gaps::{self, Gap};
use processor::lake::{CommitError, Lake, TableHandle};
use redirect::links::{LinkStore, ToldLosses};
use schemas::tables::Table;
use schemas::{JournalId, UtcMicros};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journals::ids_in;
use super::own::OwnJournals;
use super::standing::Standing;

/// How often losses are looked for.
const EVERY: Duration = Duration::from_secs(5);
/// How long the last look may take: the next start goes on from there.
const LAST: Duration = Duration::from_secs(5);

/// How many of a journal's lost clicks are in rows.
fn counted(journal: JournalId) -> String {
    format!("losses/{journal}")
}

/// When the last of them was lost.
fn counted_until(journal: JournalId) -> String {
    format!("losses-until/{journal}")
}

/// What is to be written down of a journal's losses: those that are in no row yet. Pure.
fn unwritten(journal: JournalId, losses: &Losses, counted: u64, until: Option<UtcMicros>) -> Option<Gap> {
    let (first, last) = (losses.first?, losses.last?);
    let lost = losses.count.checked_sub(counted).filter(|lost| *lost > 0)?;
    let mut reason = losses.why.map_or("unknown", Refusal::as_str).to_owned();
    if losses.at_least > counted {
        reason.push_str(", at least so many");
    }
    Some(Gap { journal, start: until.unwrap_or(first), end: last, lost: Some(lost), reason })
}

/// Keeps losses from being forgotten.
#[derive(Debug)]
pub(crate) struct Keeper {
    own: OwnJournals,
    directory: PathBuf,
    store: LinkStore,
    records: Option<Records>,
}

impl Keeper {
    /// Tells the link store of what journals of this process, and others below `directory`, have lost.
    pub(crate) fn new(own: OwnJournals, directory: PathBuf, store: LinkStore) -> Self {
        Self { own, directory, store, records: None }
    }

    /// Writes down what any node has told, too. Nothing is written into a lake that isn't known to be the right one.
    #[must_use]
    pub(crate) fn recording(mut self, lake: Lake, standing: watch::Receiver<Standing>) -> Self {
        self.records = Some(Records { lake, standing, table: None });
        self
    }

    /// Until `stop`, and a last time then.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            said(self.keep().await);
        }
        if let Ok(kept) = tokio::time::timeout(LAST, self.keep()).await {
            said(kept);
        }
    }

    async fn keep(&mut self) -> anyhow::Result<()> {
        let here = self.losses().await?;
        self.tell(&here).await?;
        if let Some(records) = &mut self.records {
            records.record(&self.store).await?;
        }
        self.forget(here).await
    }

    /// The journals here that have lost clicks, ever.
    async fn losses(&self) -> anyhow::Result<Vec<(JournalId, Losses)>> {
        let own: Vec<(JournalId, Losses)> =
            self.own.all().iter().map(|journal| (journal.id(), journal.stats().lost)).collect();
        let directory = self.directory.clone();
        let all = tokio::task::spawn_blocking(move || -> std::io::Result<Vec<(JournalId, Losses)>> {
            let mut all = own;
            for id in ids_in(&directory)? {
                if all.iter().all(|(known, _)| *known != id) {
                    all.push((id, losses_of(&directory, id)?));
                }
            }
            all.retain(|(_, losses)| losses.count > 0);
            Ok(all)
        });
        Ok(all.await??)
    }

    async fn tell(&self, here: &[(JournalId, Losses)]) -> anyhow::Result<()> {
        if here.is_empty() {
            return Ok(());
        }
        let told = self.store.told_losses().await?;
        for (id, losses) in here {
            let is_told = |told: &ToldLosses| {
                told.journal == *id && told.losses.count >= losses.count && told.losses.at_least >= losses.at_least
            };
            if !told.iter().any(is_told) {
                self.store.tell_losses(*id, losses).await?;
            }
        }
        Ok(())
    }

    /// A closed journal whose losses are all written down has nothing more to say: it can be removed.
    async fn forget(&self, here: Vec<(JournalId, Losses)>) -> anyhow::Result<()> {
        let others: Vec<_> = here.into_iter().filter(|(id, _)| self.own.get(*id).is_none()).collect();
        if others.is_empty() {
            return Ok(());
        }
        let (told, registered) = (self.store.told_losses().await?, self.store.journals().await?);
        for (id, losses) in others {
            let is_closed = registered.iter().any(|known| known.id == id && known.state == JournalState::Closed);
            let is_recorded = told.iter().any(|told| told.journal == id && told.recorded >= losses.count);
            if is_closed && is_recorded {
                let directory = self.directory.clone();
                tokio::task::spawn_blocking(move || forget_losses(&directory, id)).await??;
            }
        }
        Ok(())
    }
}

fn said(kept: anyhow::Result<()>) {
    if let Err(error) = kept {
        tracing::warn!(error = format!("{error:#}"), "lost clicks can't be written down yet");
    }
}

/// Where losses are written down.
#[derive(Debug)]
struct Records {
    lake: Lake,
    standing: watch::Receiver<Standing>,
    table: Option<TableHandle>,
}

impl Records {
    async fn record(&mut self, store: &LinkStore) -> anyhow::Result<()> {
        let mut told = store.told_losses().await?;
        told.retain(|told| told.recorded < told.losses.count);
        if told.is_empty() || *self.standing.borrow() != Standing::Whole {
            return Ok(());
        }
        let mut table = match self.table.take() {
            Some(table) => table,
            None => self.lake.table(Table::Gaps).await?,
        };
        table.refresh().await?;
        let losses: Vec<(JournalId, Losses)> = told.iter().map(|told| (told.journal, told.losses)).collect();
        let rows = rows(&table, &losses);
        if !rows.is_empty() {
            let lost: u64 = rows.iter().filter_map(|(gap, _)| gap.lost).sum();
            write(&mut table, rows).await?;
            tracing::error!(lost, "billed clicks were lost: the disk and its reserve were full");
        }
        self.table = Some(table);
        for (journal, losses) in losses {
            store.record_losses(journal, losses.count).await?;
        }
        Ok(())
    }
}

async fn write(table: &mut TableHandle, rows: Vec<(Gap, Vec<(String, i64)>)>) -> Result<(), CommitError> {
    let (gaps, txns): (Vec<Gap>, Vec<_>) = rows.into_iter().unzip();
    gaps::add(table, &gaps, txns.into_iter().flatten().collect()).await
}

/// What is in no row yet, with the transactions that say that it is.
fn rows(table: &TableHandle, losses: &[(JournalId, Losses)]) -> Vec<(Gap, Vec<(String, i64)>)> {
    let row = |(id, losses): &(JournalId, Losses)| {
        let before = table.txn(&counted(*id)).unwrap_or_default().max(0) as u64;
        let until = table.txn(&counted_until(*id)).map(UtcMicros);
        let gap = unwritten(*id, losses, before, until)?;
        let txns = vec![(counted(*id), losses.count as i64), (counted_until(*id), gap.end.0)];
        Some((gap, txns))
    };
    losses.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::journal::{Appended, Journal, JournalConfig, Journals};
    use processor::lake::LakeOptions;
    use redirect::links::Domains;
    use schemas::Analytics;

    fn losses(count: u64, at_least: u64, first: i64, last: i64) -> Losses {
        let (first, last) = (Some(UtcMicros(first)), Some(UtcMicros(last)));
        Losses { count, at_least, first, last, why: Some(Refusal::Full) }
    }

    #[test]
    fn what_is_in_no_row_yet_goes_on_from_the_last_one() {
        let id = JournalId::new();
        assert_eq!(unwritten(id, &Losses::default(), 0, None), None);
        let gap = unwritten(id, &losses(3, 0, 10, 20), 0, None).unwrap();
        assert_eq!(
            (gap.start, gap.end, gap.lost, gap.reason.as_str()),
            (UtcMicros(10), UtcMicros(20), Some(3), "full")
        );
        assert_eq!(unwritten(id, &losses(3, 0, 10, 20), 3, Some(UtcMicros(20))), None);
        let gap = unwritten(id, &losses(5, 0, 10, 30), 3, Some(UtcMicros(20))).unwrap();
        assert_eq!((gap.start, gap.end, gap.lost), (UtcMicros(20), UtcMicros(30), Some(2)));
    }

    #[test]
    fn a_count_that_a_kill_may_have_cut_short_says_so_once() {
        let id = JournalId::new();
        assert_eq!(unwritten(id, &losses(5, 5, 1, 2), 0, None).unwrap().reason, "full, at least so many");
        assert_eq!(unwritten(id, &losses(7, 5, 1, 3), 5, None).unwrap().reason, "full", "those since are exact");
        assert_eq!(unwritten(id, &losses(4, 0, 1, 2), 5, None), None, "a count begun anew takes nothing back");
    }

    #[tokio::test]
    async fn each_loss_is_in_one_row_however_often_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::open(folder.path().to_str().unwrap(), LakeOptions::default()).unwrap();
        let id = JournalId::new();
        let mut table = lake.table(Table::Gaps).await.unwrap();
        let mut other = table.clone();
        let told = [(id, losses(3, 0, 10, 20))];
        let first = rows(&table, &told);
        write(&mut table, first).await.unwrap();
        assert!(rows(&table, &told).is_empty());
        // one that has not seen it, such as a recorder that was killed after its commit, gets nowhere
        let again = rows(&other, &told);
        write(&mut other, again).await.unwrap_err();
        assert!(rows(&other, &told).is_empty());
        let more = rows(&other, &[(id, losses(5, 0, 10, 30))]);
        write(&mut other, more).await.unwrap();
        assert_eq!(other.files().iter().map(|file| file.rows).sum::<u64>(), 2);
    }

    /// A journal that has lost clicks, and the folder it is in.
    fn full(root: &std::path::Path, id: JournalId) -> (PathBuf, Journal) {
        let directory = root.join("journals");
        let config = JournalConfig { max_bytes: 64 << 10, reserve: 0, ..JournalConfig::default() };
        let journals = Journals::open(&directory, config).unwrap();
        let journal = journals.open_journal(id, UtcMicros(1), 0).unwrap();
        let append = || journal.append(Analytics::Billed, |_, out| out.resize(9_000, 1));
        while matches!(append(), Appended::Written { .. }) {}
        append();
        (directory, journal)
    }

    #[tokio::test]
    async fn what_a_machine_without_the_lake_has_lost_becomes_one_row() {
        let (redirect, process) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let links = process.path().join("links");
        let store = LinkStore::open(links.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
        let lake = Lake::open(process.path().join("lake").to_str().unwrap(), LakeOptions::default()).unwrap();
        let id = JournalId::new();
        store.register(id, "n", UtcMicros(1)).await.unwrap();
        let (directory, journal) = full(redirect.path(), id);
        let own = OwnJournals::default();
        own.add(journal.clone());
        let mut tells = Keeper::new(own, directory.clone(), store.clone());
        let standing = watch::Sender::new(Standing::Whole);
        let recorder = || {
            let here = process.path().join("journals");
            Keeper::new(OwnJournals::default(), here, store.clone()).recording(lake.clone(), standing.subscribe())
        };
        let rows = async || {
            let table = lake.table(Table::Gaps).await.unwrap();
            table.files().iter().map(|file| file.rows).sum::<u64>()
        };
        tells.keep().await.unwrap();
        for _ in 0..2 {
            recorder().keep().await.unwrap();
            tells.keep().await.unwrap();
            assert_eq!(rows().await, 1);
        }
        journal.append(Analytics::Billed, |_, out| out.resize(9_000, 1));
        tells.keep().await.unwrap();
        recorder().keep().await.unwrap();
        assert_eq!(rows().await, 2);
        // killed between the two: the next start, with the journal closed, finds it told, and forgets
        drop((tells, journal));
        store.set_state(id, JournalState::Closed).await.unwrap();
        let mut next = Keeper::new(OwnJournals::default(), directory.clone(), store.clone());
        next.keep().await.unwrap();
        assert_eq!(losses_of(&directory, id).unwrap(), Losses::default());
        recorder().keep().await.unwrap();
        assert_eq!(rows().await, 2);
    }
}
