//! Clicks that journals still hold, of which the lake says that it has them: redirects that were served, to be compared one
//! by one with the rows.
//!
//! A journal is trimmed behind what the lake holds, by whole segments: while a node runs, the clicks of about its last hour are
//! still there. Those of `billed` links alone are looked at, since others may have been sampled away.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use arrow::array::AsArray as _;
use arrow::datatypes::TimestampMicrosecondType;
use async_trait::async_trait;
use ingest::journal::clicks_below;
use processor::lake::{Lake, TableHandle};
use query::{Answered, AnsweredError};
use schemas::restatement::Why;
use schemas::tables::Table;
use schemas::wire::{self, Head};
use schemas::{Analytics, ClickId, JournalId, UtcMicros};

/// Clicks that must be rows of `clicks`: of each of these journals those below the position up to which the lake has it, but
/// for those that wait in `arrivals`, and those of times from which rows were removed for their age.
///
/// `clicks` is to be read after this was made: what waits may become a row meanwhile. Memory holds what is asked for at a
/// time, and journals are read anew for it: they may be longer than memory is large.
#[derive(Clone, Debug)]
pub(super) struct InJournals {
    directory: PathBuf,
    /// Each with the first position that the lake lacks.
    journals: Arc<[(JournalId, u64)]>,
    most: u64,
    /// As it was when this was made.
    arrivals: TableHandle,
    /// Rows up to this may have been removed.
    removed: UtcMicros,
}

impl InJournals {
    /// Of these journals in `directory`.
    ///
    /// # Errors
    /// When a journal or a table can't be read.
    pub(super) async fn of(lake: &Lake, directory: PathBuf, journals: Vec<(JournalId, u64)>) -> anyhow::Result<Self> {
        let removed = removed_before(lake).await?;
        let arrivals = lake.table(Table::Arrivals).await?;
        let mut all = Self { directory, journals: journals.into(), most: 0, arrivals, removed };
        let counted = all.clone();
        all.most = tokio::task::spawn_blocking(move || {
            let mut most = 0;
            counted.each(|_| most += 1).map(|()| most)
        })
        .await??;
        Ok(all)
    }

    /// Gives the head of each click to `take`.
    fn each(&self, mut take: impl FnMut(Head)) -> anyhow::Result<()> {
        for (id, below) in &*self.journals {
            let take = |bytes: &[u8]| {
                if let Ok(head) = wire::decode_head(bytes)
                    && head.analytics == Analytics::Billed
                    && head.event_time > self.removed
                    // what can't be read whole was refused
                    && wire::decode(bytes).is_ok()
                {
                    take(head);
                }
            };
            clicks_below(&self.directory, *id, *below, take).with_context(|| format!("journal {id}"))?;
        }
        Ok(())
    }

    async fn held(self, piece: u64, pieces: u64) -> anyhow::Result<HashSet<ClickId>> {
        let arrivals = self.arrivals.clone();
        let mut clicks = tokio::task::spawn_blocking(move || {
            let mut clicks = HashSet::new();
            let is_of = |id: ClickId| id.as_u128() % u128::from(pieces) == u128::from(piece);
            let take = |head: Head| {
                if is_of(head.click_id) {
                    clicks.insert(head.click_id);
                }
            };
            self.each(take).map(|()| clicks)
        })
        .await??;
        if !clicks.is_empty() {
            for file in arrivals.files() {
                for batch in arrivals.read(file, &["click_id"]).await? {
                    for id in batch.column(0).as_binary::<i32>().iter().flatten() {
                        if let Ok(id) = id.try_into() {
                            clicks.remove(&ClickId(id));
                        }
                    }
                }
            }
        }
        Ok(clicks)
    }
}

#[async_trait]
impl Answered for InJournals {
    fn most(&self) -> u64 {
        self.most
    }

    async fn piece(&self, piece: u64, pieces: u64) -> Result<HashSet<ClickId>, AnsweredError> {
        self.clone().held(piece, pieces).await.map_err(|error| AnsweredError(format!("{error:#}")))
    }
}

/// Until when rows were removed because they were older than their workspace keeps any, of the one that keeps the least.
async fn removed_before(lake: &Lake) -> anyhow::Result<UtcMicros> {
    let restatements = lake.table(Table::Restatements).await?;
    let mut removed = i64::MIN;
    for file in restatements.files() {
        for batch in restatements.read(file, &["why", "end"]).await? {
            let ends = batch.column(1).as_primitive::<TimestampMicrosecondType>();
            let of_age = batch.column(0).as_string::<i32>().iter().zip(ends.values());
            let of_age = of_age.filter(|(why, _)| *why == Some(Why::Retention.as_str()));
            removed = of_age.map(|(_, end)| *end).fold(removed, i64::max);
        }
    }
    Ok(UtcMicros(removed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::journal::{Appended, JournalConfig, Journals};
    use processor::lake::LakeOptions;
    use schemas::ClickEvent;

    fn event(id: u128, analytics: Analytics, time: UtcMicros) -> ClickEvent<'static> {
        ClickEvent { analytics, ..processor::enrich::testing::event(id, time) }
    }

    #[tokio::test]
    async fn billed_clicks_below_what_the_lake_holds_must_be_rows() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("journals");
        let config = JournalConfig { max_bytes: 64 << 20, reserve: 1 << 20, ..JournalConfig::default() };
        let (journals, id) = (Journals::open(&directory, config).unwrap(), JournalId::new());
        let journal = journals.open_journal(id, UtcMicros(1), 0).unwrap();
        let mut end = 0;
        for number in 0..6 {
            let analytics = if number == 2 { Analytics::Internal } else { Analytics::Billed };
            let written = journal.append(analytics, |time, out| wire::encode(&event(number, analytics, time), out));
            let Appended::Written { offset } = written else { panic!("{written:?}") };
            end = offset;
        }
        let lake = Lake::open(&folder.path().join("lake").display().to_string(), LakeOptions::default()).unwrap();
        let of = async |below: u64| {
            let journals = vec![(id, below), (JournalId::new(), 9)];
            let answered = InJournals::of(&lake, directory.clone(), journals).await.unwrap();
            let mut ids = Vec::new();
            for pieces in [1, 4] {
                ids.clear();
                for piece in 0..pieces {
                    let more = answered.piece(piece, pieces).await.unwrap();
                    assert!(more.iter().all(|id| id.as_u128() as u64 % pieces == piece), "{more:?}");
                    ids.extend(more.into_iter().map(|id| id.as_u128()));
                }
                assert_eq!(ids.len() as u64, answered.most(), "in {pieces} pieces");
            }
            ids.sort_unstable();
            ids
        };
        assert_eq!(of(end).await, [0, 1, 3, 4], "the last isn't in the lake yet, and one may be sampled away");
        assert_eq!(of(end + 1).await, [0, 1, 3, 4, 5]);
        assert_eq!(of(0).await, [0; 0]);
    }
}
