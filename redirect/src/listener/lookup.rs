//! What the listener asks of the link store.

use std::fmt::Debug;

use async_trait::async_trait;
use tokio::sync::broadcast;

use crate::links::{Changed, LinkError, LinkStore, Target};

/// Where links come from, and how changes of them are heard of.
#[async_trait]
pub(super) trait Lookup: Send + Sync + Debug {
    /// The link of `code` on `domain`; tombstones are found.
    async fn lookup(&self, domain: &str, code: &str) -> Result<Option<Target>, LinkError>;

    /// The changes made in this process from now on.
    fn changes(&self) -> broadcast::Receiver<Changed>;

    /// How many changes have been sent to [`Lookup::changes`]. A change is counted before whoever made it is told
    /// that it is made, so that comparing two numbers is enough to know that nothing has been missed.
    fn changes_sent(&self) -> u64;
}

#[async_trait]
impl Lookup for LinkStore {
    async fn lookup(&self, domain: &str, code: &str) -> Result<Option<Target>, LinkError> {
        LinkStore::lookup(self, domain, code).await
    }

    fn changes(&self) -> broadcast::Receiver<Changed> {
        LinkStore::changes(self)
    }

    fn changes_sent(&self) -> u64 {
        LinkStore::changes_sent(self)
    }
}
