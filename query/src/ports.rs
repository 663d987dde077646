//! What the service asks of the rest of the process, as traits: who is asking, and how far the pipeline is.

use std::collections::HashSet;
use std::fmt::Debug;

use async_trait::async_trait;
use schemas::{ClickId, Principal, UtcMicros};

use crate::status::Status;

/// Tokens can't be looked up now: whether this one is good nobody knows.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(pub String);

/// Who a token belongs to.
#[async_trait]
pub trait Access: Send + Sync + Debug {
    /// The token's owner; `None` for a token that is unknown, expired or taken back.
    async fn authenticate(&self, token: &str) -> Result<Option<Principal>, AccessError>;
}

/// How far the lake's promises reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Every event before this instant that reached a journal is in the lake.
    pub complete_through: Option<UtcMicros>,
    /// Edge logs are settled up to here too.
    pub final_through: Option<UtcMicros>,
}

/// A change of counts that was begun and hasn't ended: until it has, rows may be missing, or there that shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changing {
    /// Whose rows; none: those of any workspace.
    pub workspace: Option<String>,
    /// No row that it may touch is before this.
    pub start: UtcMicros,
    /// None is after this.
    pub end: UtcMicros,
    /// What is being done, for whoever reads numbers.
    pub reason: String,
}

/// The pipeline couldn't say where it stands.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StatusError(pub String);

/// Where the pipeline stands.
#[async_trait]
pub trait StatusSource: Send + Sync + Debug {
    /// The published `complete_through` and `final_through`. Asked before each look at the lake, never after: what
    /// is claimed must be in the rows that are read. Must be cheap.
    async fn freshness(&self) -> Result<Freshness, StatusError>;

    /// The changes of counts that are under way. They are told of before the first row comes or goes, so whoever asks
    /// after having looked at the lake hears of all that it shows half of. Must be cheap.
    async fn changing(&self) -> Result<Vec<Changing>, StatusError>;

    /// The whole of `GET /v1/status`, as an operator sees it; what a tenant may not see is taken out of it here.
    async fn status(&self) -> Result<Status, StatusError>;
}

/// What was answered can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AnsweredError(pub String);

/// Clicks that are known to have been answered and brought into the lake: each must have a row.
#[async_trait]
pub trait Answered: Send + Sync + Debug {
    /// How many there are, at most.
    fn most(&self) -> u64;

    /// Those whose id, as a number, leaves `piece` when it is divided by `pieces`. Never one that came into the lake after this
    /// was made: rows may be read before it is asked for.
    async fn piece(&self, piece: u64, pieces: u64) -> Result<HashSet<ClickId>, AnsweredError>;
}
