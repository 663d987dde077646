//! Whether anybody reads what clicks wait in: a topic's partitions by their readers' words and leases, and journals, where they are the stream,
//! by one lease for all of them, since one process brings all into the lake.
//!
//! ```text
//! process ──► lease "journals" ──► status: does anybody have it?
//! ```
//! Failure: a process that can't reach the link store isn't heard; it can't publish how far the lake is either.

use std::path::Path;
use std::time::Duration;

use ingest::ports::{RegisteredJournal, Registry as _};
use redirect::links::{Claim, LinkError, LinkStore};
use tokio_util::sync::CancellationToken;

use super::{member, own::OwnJournals};

/// What the journals are called among streams: no topic's generation is called so, which has an `@` in its name.
const JOURNALS: &str = "journals";
/// How long a word is believed: whoever asks looks only when the lake is further behind than that.
const LASTS: Duration = Duration::from_secs(15);
/// How often it is said.
const SAID_EVERY: Duration = Duration::from_secs(5);

/// What nobody reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Somebody reads all.
    #[default]
    Nothing,
    /// These partitions of the topic.
    Partitions(Vec<u32>),
    /// The journals.
    Journals,
}

impl Unread {
    /// Of journals that are the stream, where the lake is behind.
    pub(crate) async fn of_journals(store: &LinkStore) -> Result<Self, LinkError> {
        Ok(if store.holders(JOURNALS).await?.is_empty() { Self::Journals } else { Self::Nothing })
    }

    /// What status says of it.
    pub(crate) fn told(&self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Partitions(unread) => {
                let numbers: Vec<String> = unread.iter().map(u32::to_string).collect();
                Some(format!("process: nobody reads partitions {} of the topic", numbers.join(", ")))
            }
            Self::Journals => Some("process: nobody brings the journals into the lake".to_owned()),
        }
    }
}

/// Says that this process, which has the lock of `folder`, brings the journals into the lake, until `stop`.
///
/// # Errors
/// When the folder can't be written.
pub(crate) async fn say(store: LinkStore, folder: &Path, stop: CancellationToken) -> anyhow::Result<()> {
    let name = member::name(&store, folder).await?;
    let mut ticks = tokio::time::interval(SAID_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let claim = Claim { stream: JOURNALS, partitions: 1, member: &name, lasts: LASTS, gives_back: &[] };
        if let Err(error) = store.claim_partitions(&claim).await {
            tracing::debug!(%error, "that this process brings the journals into the lake can't be told now");
        }
    }
    if let Err(error) = store.leave_partitions(&name).await {
        tracing::debug!(%error, "it ends by itself");
    }
    Ok(())
}

/// Says how many clicks this process, which ends, leaves in its journals.
pub(crate) async fn tell_left(store: &LinkStore, own: &OwnJournals) {
    match store.journals().await {
        Ok(registered) => match left(&registered, own) {
            0 => {}
            clicks => {
                tracing::info!(
                    clicks,
                    "not in the lake yet: they wait in this node's journals (data_dir) until `process` takes them"
                );
            }
        },
        Err(error) => tracing::warn!(%error, "what the lake lacks waits in this node's journals (data_dir)"),
    }
}

/// How many clicks of this process's journals the lake lacks.
fn left(registered: &[RegisteredJournal], own: &OwnJournals) -> u64 {
    let of = |known: &RegisteredJournal| own.get(known.id).map(|journal| journal.lacking(known.committed).clicks);
    registered.iter().filter_map(of).sum()
}
