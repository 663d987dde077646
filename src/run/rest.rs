//! The end of this process's journals at a stop: sealed, and brought in as far as somebody takes what they hold.

use std::time::{Duration, Instant};

use ingest::ports::{JournalState, RegisteredJournal, Registry as _};
use ingest::topic::Forwarded;
use redirect::links::LinkStore;
use tokio::sync::watch;

use super::node::DRAIN;
use super::own::OwnJournals;
use super::readers;

/// Ends the journals, and lets the lake catch up with them if this process brings clicks into it.
pub(super) async fn come_to_rest(
    store: &LinkStore,
    own: &OwnJournals,
    process: bool,
    forwarded: Option<watch::Receiver<Forwarded>>,
) {
    seal(own).await;
    if process {
        land(store, own).await;
    } else if let Some(mut forwarded) = forwarded {
        let all = forwarded.wait_for(|forwarded| forwarded.all);
        if tokio::time::timeout(DRAIN, all).await.is_err() {
            tracing::warn!("the topic has not taken all clicks in time; the next start sends the rest");
            readers::tell_left(store, own).await;
        }
    } else {
        readers::tell_left(store, own).await;
    }
}

/// Nothing more will be written: the journals end here, so that they can be closed when the lake holds them whole and
/// hold nothing back while no redirect runs.
pub(super) async fn seal(own: &OwnJournals) {
    for journal in own.all() {
        match tokio::task::spawn_blocking(move || journal.seal()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a journal can't be sealed; the next start goes on with it"),
            Err(error) => tracing::error!(%error, "sealing ended early"),
        }
    }
}

/// Waits until the lake holds all that the journals hold, so that a clean stop leaves nothing to replay.
async fn land(store: &LinkStore, own: &OwnJournals) {
    let begin = Instant::now();
    while begin.elapsed() < DRAIN {
        let registered = store.journals().await.unwrap_or_default();
        let is_open = |known: &RegisteredJournal| known.state == JournalState::Open && own.get(known.id).is_some();
        if !registered.iter().any(is_open) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tracing::warn!("the lake has not caught up with the journals in time; the next start goes on from there");
}
