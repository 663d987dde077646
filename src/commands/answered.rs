//! Clicks that journals still hold, of which the lake says that it has them: redirects that were served, to be compared one
//! by one with the rows.
//!
//! A journal is trimmed behind what the lake holds, by whole segments: while a node runs, the clicks of about its last hour are
//! still there. Those of `billed` links alone are looked at, since others may have been sampled away.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::Context;
use arrow::array::AsArray as _;
use arrow::datatypes::TimestampMicrosecondType;
use ingest::journal::clicks_below;
use processor::lake::Lake;
use schemas::tables::Table;
use schemas::{Analytics, ClickId, JournalId, UtcMicros, wire};

/// The most that are compared: some 50 MB.
const MOST: usize = 1 << 20;

/// Clicks that must be rows of `clicks`: of each of these journals those below the position up to which the lake has it, but
/// for those that wait in `arrivals`, and those of times from which rows were removed for their age.
///
/// `clicks` is to be read after that: what waits may become a row meanwhile.
///
/// # Errors
/// When a journal or a table can't be read.
pub(super) async fn answered(
    lake: &Lake,
    directory: &Path,
    journals: Vec<(JournalId, u64)>,
) -> anyhow::Result<HashSet<ClickId>> {
    let directory = directory.to_owned();
    let mut clicks = tokio::task::spawn_blocking(move || held(&directory, &journals)).await??;
    if !clicks.is_empty() {
        let removed = removed_before(lake).await?;
        clicks.retain(|_, time| *time > removed);
        let arrivals = lake.table(Table::Arrivals).await?;
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
    Ok(clicks.into_keys().collect())
}

fn held(directory: &Path, journals: &[(JournalId, u64)]) -> anyhow::Result<HashMap<ClickId, UtcMicros>> {
    let mut clicks = HashMap::new();
    for (id, below) in journals {
        let take = |bytes: &[u8]| {
            if let Ok(event) = wire::decode(bytes)
                && event.analytics == Analytics::Billed
                && clicks.len() < MOST
            {
                clicks.insert(event.click_id, event.event_time);
            }
        };
        clicks_below(directory, *id, *below, take).with_context(|| format!("journal {id}"))?;
    }
    Ok(clicks)
}

/// Until when rows were removed because they were older than their workspace keeps any, of the one that keeps the least.
async fn removed_before(lake: &Lake) -> anyhow::Result<UtcMicros> {
    let restatements = lake.table(Table::Restatements).await?;
    let mut removed = i64::MIN;
    for file in restatements.files() {
        for batch in restatements.read(file, &["why", "end"]).await? {
            let ends = batch.column(1).as_primitive::<TimestampMicrosecondType>();
            let of_age = batch.column(0).as_string::<i32>().iter().zip(ends.values());
            removed = of_age.filter(|(why, _)| *why == Some("retention")).map(|(_, end)| *end).fold(removed, i64::max);
        }
    }
    Ok(UtcMicros(removed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::journal::{Appended, JournalConfig, Journals};
    use processor::lake::LakeOptions;
    use schemas::{ClickEvent, LinkId, Method};

    fn event(id: u128, analytics: Analytics, time: UtcMicros) -> ClickEvent<'static> {
        ClickEvent {
            click_id: ClickId::from(id),
            link_id: LinkId::new(),
            event_time: time,
            analytics,
            visitor: None,
            agent_hash: 0,
            workspace: "default",
            domain: "go.test",
            code: "abc",
            revision: 1,
            destination: "https://example.com/",
            method: Method::Get,
            status: 302,
            address: None,
            no_edge_id: false,
            private: false,
            user_agent: "",
            referrer: "",
            language: "",
            query: "",
            country: "",
            region: "",
            city: "",
            purpose: "",
            provider: "",
        }
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
            let mut ids: Vec<u128> =
                answered(&lake, &directory, journals).await.unwrap().into_iter().map(|id| id.as_u128()).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(of(end).await, [0, 1, 3, 4], "the last isn't in the lake yet, and one may be sampled away");
        assert_eq!(of(end + 1).await, [0, 1, 3, 4, 5]);
        assert_eq!(of(0).await, [0; 0]);
    }
}
