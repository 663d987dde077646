//! What the pipeline asks of the link store, as traits: the registry of journals, the directory of links,
//! the keys of visitors, how long workspaces keep their rows. Crate `redirect` implements them on SQLite. And what the
//! management API asks of the pipeline: that it take in events which are posted.

use std::error::Error;
use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use schemas::visitor::VisitorKey;
use schemas::{JournalId, Keep, LinkHistory, UtcMicros};

use crate::events::Naming;

mod coverage;

pub use coverage::{Coverage, Covered, Generation, Missing, Reached, Reading};

/// The link store didn't do what it was asked; whoever asked tries again later.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct PortError {
    /// What was being done, as in "reading the registry".
    pub doing: &'static str,
    /// Why it failed.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Where a journal stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// In use, or waiting for an owner to drain it.
    Open,
    /// The lake holds its last frame; no more will come.
    Closed,
    /// Given up: what it still holds is late when it returns.
    Retired,
}

impl JournalState {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Retired => "retired",
        }
    }
}

/// A journal as registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredJournal {
    /// Its identity.
    pub id: JournalId,
    /// The node that writes it.
    pub node: String,
    /// Its first mark: no event of it is before this.
    pub registered_at: UtcMicros,
    /// Where it stands.
    pub state: JournalState,
    /// The last mark whose commit has landed; `registered_at` at first.
    pub through: UtcMicros,
    /// Frames below this position are in the lake: the journal may be trimmed behind it.
    pub committed: u64,
    /// Whether it goes through a topic ([`Coverage`]): then its positions are no transaction of the lake.
    pub forwarded: bool,
}

/// How far the lake is with one journal, as a commit has just made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The journal.
    pub id: JournalId,
    /// Its last mark whose commit has landed.
    pub through: UtcMicros,
    /// Its first frame that the lake doesn't hold yet.
    pub committed: u64,
}

/// The registry of journals, and the progress that follows from it (design §4.2, §4.4).
#[async_trait]
pub trait Registry: Send + Sync + Debug {
    /// Registers a journal before its node's first answer, or finds it registered. Returns its first mark:
    /// the later of `now`, as far as that is not later than the registry's own clock, and the published
    /// `complete_through`. One transaction with [`Registry::publish`].
    async fn register(&self, id: JournalId, node: &str, now: UtcMicros) -> Result<UtcMicros, PortError>;

    /// All journals ever registered, oldest first.
    async fn journals(&self) -> Result<Vec<RegisteredJournal>, PortError>;

    /// Stores how far the lake is, and publishes `complete_through`: the minimum of `through` over all open
    /// journals, `now` when there is none; no later than the registry's own clock. Never goes back. Returns the published
    /// value.
    ///
    /// The registry is read and the value written in one transaction.
    async fn publish(&self, landed: &[Landed], now: UtcMicros) -> Result<UtcMicros, PortError>;

    /// Marks a journal closed (the lake holds its last frame) or retired (its retirement has landed in the lake).
    async fn set_state(&self, id: JournalId, state: JournalState) -> Result<(), PortError>;

    /// The published `complete_through`; `now` when no journal is open.
    async fn complete_through(&self, now: UtcMicros) -> Result<UtcMicros, PortError>;

    /// The published `final_through`: numbers up to it move only with a word said; `None` when nothing is final yet.
    async fn final_through(&self) -> Result<Option<UtcMicros>, PortError>;
}

/// The directory of links, for records that name a link by domain and code.
#[async_trait]
pub trait LinkDirectory: Send + Sync + Debug {
    /// For each `(domain, code)` the link and its revisions, in order; `None` where there is none. An empty domain
    /// stands for the first of the configured domains, and if that has no such code, for any that has.
    async fn histories(&self, keys: &[(String, String)]) -> Result<Vec<Option<LinkHistory>>, PortError>;
}

/// The keys of visitors (design §4.9): one a UTC day, shared by all nodes, destroyed when no longer needed.
#[async_trait]
pub trait VisitorKeys: Send + Sync + Debug {
    /// The key of `day` (days since 1970, UTC), made if there is none.
    async fn key_of(&self, day: i32) -> Result<VisitorKey, PortError>;
}

/// How long workspaces keep their rows.
#[async_trait]
pub trait Keeping: Send + Sync + Debug {
    /// What is set for each workspace, in order of their names.
    async fn keeps(&self) -> Result<Vec<(String, Keep)>, PortError>;
}

/// A body of events made elsewhere.
#[derive(Clone, Debug)]
pub struct EventPost {
    /// Whose links count; another's code is an unknown one.
    pub workspace: String,
    /// How the events are known.
    pub naming: Naming,
    /// NDJSON: plain, gzip or zstd.
    pub body: Bytes,
}

/// What became of a body's lines: accepted + duplicates + rejected = lines that aren't blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsTaken {
    /// Events that are in the lake now and weren't before.
    pub accepted: u64,
    /// Events of requests that were.
    pub duplicates: u64,
    /// The number of each other line, from 1, and why it isn't counted; in order.
    pub rejected: Vec<(u64, &'static str)>,
}

/// Why a body was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// It can't be unpacked, or not to its end. Nothing of it was taken in.
    #[error("the body can't be taken in, and nothing of it was: {0}")]
    Unreadable(String),
    /// It is too much at once. Nothing of it was taken in.
    #[error("{0}; send it in parts, or take it in with `highwater import`")]
    TooMuch(String),
    /// The lake or the link store failed. What has landed nevertheless will be found to be there when the body comes
    /// again.
    #[error(transparent)]
    Failed(#[from] PortError),
}

/// Takes posted events in.
#[async_trait]
pub trait EventIntake: Send + Sync + Debug {
    /// Takes a body in. When this returns, what it accepts is durable; when it comes again, nothing is added.
    async fn take_in(&self, post: EventPost) -> Result<EventsTaken, IntakeError>;
}
