//! The link store: links and their revisions, workspaces and tokens, and what the pipeline keeps beside them (the
//! registry of journals, what the lake holds of them through a topic, what is published from it, visitor keys, how long rows are kept, the queue
//! of edge logs and their sources, clicks that were lost). One SQLite file, or a schema of a PostgreSQL server, used by several processes at once.
//!
//! ```text
//! manage, CLI ──create/change──► LinkStore ──Changed──► caches of this process
//! redirect    ──lookup─────────►    │
//! ingest, processor ──ports────►    └── db (pools, migrations) ── SQLite │ PostgreSQL
//! ```
//!
//! Invariants:
//! * `(domain, code)` is unique over all workspaces and for good: a deleted link stays as a tombstone.
//! * Every change of a link is a row of `link_revisions`, written in the same transaction; `effective_at` never goes
//!   back within a link.
//! * `complete_through` and `final_through` never go back, and no open journal's mark is before `complete_through`
//!   (`registry.rs`). Neither is ever later than the database's clock (`clock.rs`).
//! * Of a token only the SHA-256 is kept.
//!
//! Failure: every call returns [`LinkError`]; nothing is half done, since each is one transaction. While another
//! process holds the write lock a writer waits, for seconds at most; readers never wait. On a full disk a takedown
//! still works with a file: some space is held for it (`ballast`). A server that is away fails every call within seconds,
//! by a name of its own, and is found again by the first call after it is back.

mod access;
mod ballast;
mod change;
mod check;
mod clock;
mod coverage;
mod create;
mod db;
mod directory;
mod domains;
mod edge_queue;
mod edge_sources;
mod error;
mod keeping;
mod leases;
mod losses;
mod read;
mod refusals;
mod registry;
#[cfg(test)]
pub(crate) mod testing;
mod troubles;
mod visitor_keys;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemas::Link;
use tokio::sync::broadcast;

use error::Doing;

pub use access::{Token, TokenInfo};
pub use change::{Change, Edit};
pub use clock::StoreClock;
pub use create::NewLink;
pub use db::shown;
pub use domains::{Domains, DomainsError, short_url};
pub use edge_queue::{EndedLog, Enqueued, Staged, watched_id};
pub use edge_sources::EdgeSource;
pub use error::{FieldError, LinkError};
pub use leases::{Claim, Claimed, Holder};
pub use losses::ToldLosses;
pub use read::{ListLinks, Page, Target, Which};
pub use refusals::Refusal;

/// How many changes a slow listener may be behind before it is told that it missed some.
const CHANGES_KEPT: usize = 1_024;

/// How long a check may take, with its wait for the write lock: whoever asks wants to know about now.
const CHECK: Duration = Duration::from_secs(2);

/// A link was created or changed through this process's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Host name of the link.
    pub domain: String,
    /// Code of the link.
    pub code: String,
}

/// The link store. Clones share one set of connections and one channel of changes.
#[derive(Clone)]
pub struct LinkStore {
    pools: Arc<db::Pools>,
    domains: Arc<Domains>,
    changes: broadcast::Sender<Changed>,
    changes_sent: Arc<AtomicU64>,
}

impl LinkStore {
    /// Opens the store at `location` (a path, `sqlite:` and a path, or `postgres://…`), creating what there is none of: the
    /// file, or the tables. `domains` are the host names served.
    ///
    /// # Errors
    /// [`LinkError::Location`] when the file can't be created or opened or is no database, or the server turns us away;
    /// [`LinkError::Away`] when it doesn't answer; [`LinkError::Schema`] when a newer version has written the tables;
    /// [`LinkError::Database`] when another process keeps it locked.
    pub async fn open(location: &str, domains: Domains) -> Result<Self, LinkError> {
        let pools = Arc::new(db::Pools::open(location).await?);
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        Ok(Self { pools, domains: Arc::new(domains), changes, changes_sent: Arc::default() })
    }

    /// Whether a change can be made now: writes a small row, and sees to it that the space held for takedowns is there.
    /// It costs a sync of the disk, and answers within seconds.
    ///
    /// # Errors
    /// [`LinkError::DiskFull`], or [`LinkError::Database`], says what is in the way.
    pub async fn check_writable(&self) -> Result<(), LinkError> {
        self.pools.check_writable(CHECK).await.doing("checking that the link store can be written")
    }

    /// Whether anything can be read now. It answers within seconds.
    ///
    /// # Errors
    /// [`LinkError::Away`], or [`LinkError::Database`], says what is in the way.
    pub async fn check_readable(&self) -> Result<(), LinkError> {
        let read = self.pools.query("SELECT 1 FROM tokens LIMIT 1").row();
        let read = tokio::time::timeout(CHECK, read).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        read.map(drop).doing("checking that the link store can be read")
    }

    /// The host names served.
    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// The changes made through this store and its clones from now on, each sent once it is committed. A receiver
    /// that is told it lagged has missed some and must drop all that it caches. Changes made by other processes
    /// don't appear: a cache's time to live bounds those.
    pub fn changes(&self) -> broadcast::Receiver<Changed> {
        self.changes.subscribe()
    }

    /// How many changes have been sent to [`LinkStore::changes`]. A change is counted after it is sent, and before
    /// whoever made it is told that it is made: a cache that compares this number before it answers, and takes in
    /// what has been sent when it differs, never answers from before a change.
    pub fn changes_sent(&self) -> u64 {
        self.changes_sent.load(Ordering::Acquire)
    }

    /// Commits a change of a link and tells whoever listens. In a task of its own: a caller that goes away in between
    /// (a client that hangs up) must not leave a change that nobody was told of. Where nobody knows whether it was made,
    /// a connection having broken, it is told of too: a cache asks anew, and no harm is done.
    async fn commit(&self, tx: db::Tx, link: &Link) -> Result<(), LinkError> {
        let changed = Changed { domain: link.domain.clone(), code: link.code.clone() };
        let (changes, sent) = (self.changes.clone(), Arc::clone(&self.changes_sent));
        let committing = tokio::spawn(async move {
            let committed = tx.commit().await;
            // An error only says that nobody listens.
            let _ = changes.send(changed);
            sent.fetch_add(1, Ordering::AcqRel);
            committed
        });
        committing.await.unwrap_or(Err(sqlx::Error::WorkerCrashed)).doing("committing a change of a link")
    }
}

impl fmt::Debug for LinkStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkStore").field("domains", &self.domains).finish_non_exhaustive()
    }
}
