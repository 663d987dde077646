//! A journal that stays silent is given up by itself after `journal.retire_after`, so that one dead node doesn't hold
//! `complete_through` back for ever. What it still holds is late when it returns: nothing is lost by that.

use std::time::{Duration, Instant};

use ingest::ports::{JournalState, RegisteredJournal, Registry as _};
use processor::hot::{self, HotStatus};
use processor::lake::Lake;
use redirect::links::LinkStore;
use schemas::{JournalId, UtcMicros};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often journals are looked at.
const EVERY: Duration = Duration::from_secs(30);

/// The journals to give up: open, nothing heard of them for `after`, and nothing left to read of them here. While the
/// lake can't be written it is nobody's fault but the lake's.
fn silent(journals: &[RegisteredJournal], status: &HotStatus, now: UtcMicros, after: Duration) -> Vec<JournalId> {
    if status.failing.is_some() {
        return Vec::new();
    }
    let has_more = |id: JournalId| {
        let name = id.to_string();
        status.partitions.iter().any(|part| *part.name == *name && part.failing.is_none() && part.next < part.end)
    };
    let open = journals.iter().filter(|journal| journal.state == JournalState::Open);
    open.filter(|journal| now.since(journal.through) > after && !has_more(journal.id))
        .map(|journal| journal.id)
        .collect()
}

/// Gives silent journals up until `stop`. Silence counts from this process's start at the earliest: before that nobody
/// may have listened.
pub(crate) async fn watch(
    store: LinkStore,
    lake: Lake,
    status: watch::Receiver<HotStatus>,
    after: Duration,
    stop: CancellationToken,
) {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if started.elapsed() < after {
            continue;
        }
        let journals = match store.journals().await {
            Ok(journals) => journals,
            Err(error) => {
                tracing::warn!(%error, "silent journals can't be looked for now");
                continue;
            }
        };
        let silent = silent(&journals, &status.borrow(), UtcMicros::now(), after);
        for id in silent {
            match hot::retire(&lake, &store, id).await {
                Ok(()) => {
                    tracing::error!(journal = %id, ?after, "silent for too long: given up, what it holds is late")
                }
                Err(error) => tracing::warn!(journal = %id, %error, "can't be given up now"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use processor::hot::PartitionStatus;

    fn journal(id: JournalId, state: JournalState, through: i64) -> RegisteredJournal {
        let through = UtcMicros(through * 1_000_000);
        RegisteredJournal { id, node: "n".into(), registered_at: UtcMicros(0), state, through, committed: 0 }
    }

    fn partition(id: JournalId, next: u64, end: u64, failing: Option<&str>) -> PartitionStatus {
        PartitionStatus { name: id.to_string().into(), next, end, failing: failing.map(str::to_owned) }
    }

    #[test]
    fn only_the_silent_are_given_up() {
        let [quiet, busy, catching_up, damaged, closed, gone] = std::array::from_fn(|_| JournalId::new());
        let journals = [
            journal(quiet, JournalState::Open, 10),
            journal(busy, JournalState::Open, 95),
            journal(catching_up, JournalState::Open, 10),
            journal(damaged, JournalState::Open, 10),
            journal(closed, JournalState::Closed, 10),
            journal(gone, JournalState::Open, 10),
        ];
        let mut status = HotStatus {
            partitions: vec![
                partition(quiet, 5, 5, None),
                partition(busy, 5, 9, None),
                partition(catching_up, 5, 9, None),
                partition(damaged, 5, 9, Some("synced frames are gone")),
            ],
            ..HotStatus::default()
        };
        let after = Duration::from_secs(60);
        let at = UtcMicros(100_000_000);
        assert_eq!(silent(&journals, &status, at, after), [quiet, damaged, gone]);
        status.failing = Some("the lake is down".into());
        assert_eq!(silent(&journals, &status, at, after), []);
    }
}
