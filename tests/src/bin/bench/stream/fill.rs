//! A journal full of clicks, as a redirect has left it that nobody read for a while.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ingest::journal::{Appended, JournalConfig, Journals};
use ingest::ports::Registry as _;
use redirect::links::{Domains, LinkStore};
use schemas::{Analytics, JournalId, UtcMicros, wire};
use tests::node::Node;

use super::made_up::Crowd;

/// Clicks a second as they came: the times of the events say so.
const RATE: u64 = 5_000;

/// The settings that let a journal be as long as one likes.
pub(super) const NO_LIMIT: &str = "[journal]\nmax_bytes = \"500GiB\"\nreserve = \"1MiB\"\n";

/// Writes a sealed journal of `clicks` clicks for `node`, none of which the lake has. Gives its bytes.
pub(super) async fn fill(node: &Node, clicks: u64) -> Result<u64> {
    // makes the folder, and the store in it
    node.ok(&["link", "add", "https://example.com/", "--code", "first"])?;
    let data = node.data();
    let store = LinkStore::open(&data.join("links.sqlite").display().to_string(), Domains::new(&["go.test"])?).await?;
    let took = Duration::from_secs(clicks / RATE + 60);
    let id = JournalId::new();
    let first = store.register(id, "bench", UtcMicros::now().minus(took)).await?;
    let config = JournalConfig { max_bytes: 500 << 30, reserve: 1 << 20, ..JournalConfig::default() };
    let written = tokio::task::spawn_blocking(move || {
        let journals = Arc::new(Journals::open(&data.join("journals"), config)?);
        let journal = journals.open_journal(id, first, 0)?;
        let mut crowd = Crowd::new(1);
        for n in 0..clicks {
            let event = crowd.click(first.plus(Duration::from_micros(n * 1_000_000 / RATE)));
            let appended = journal.append(Analytics::Billed, |_, bytes| wire::encode(&event, bytes));
            ensure!(matches!(appended, Appended::Written { .. }), "click {n}: {appended:?}");
        }
        journal.seal()?;
        Ok(journal.stats().bytes)
    });
    written.await.context("the writer died")?
}
