//! Edge logs that wait for their turn: what an upload or a watched prefix puts into the queue, and where an upload's
//! bytes are kept until then. The link store holds the queue, so that a restart goes on with it; whoever knows the lake
//! keeps the bytes.

use std::error::Error;
use std::fmt::{self, Debug};
use std::str::FromStr;

use async_trait::async_trait;
use bytes::Bytes;
use schemas::UtcMicros;
use serde_json::Value;

use crate::edge::{Format, IdMode};
use crate::ports::PortError;

/// How a log came into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over HTTP; its bytes are staged.
    Upload,
    /// Found below a watched prefix; its bytes are where it was found.
    Watched,
}

/// Where a queued log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for its turn.
    Queued,
    /// Somebody takes it in.
    Running,
    /// It is in the lake.
    Done,
    /// It was refused, or given up.
    Failed,
}

/// A stored word that this version doesn't know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no word of the queue of edge logs")]
pub struct UnknownStage(pub String);

macro_rules! words {
    ($kind:ty: $($value:path => $word:literal),+) => {
        impl $kind {
            /// The word that is stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $($value => $word),+ }
            }
        }

        impl FromStr for $kind {
            type Err = UnknownStage;

            fn from_str(word: &str) -> Result<Self, UnknownStage> {
                match word {
                    $($word => Ok($value),)+
                    other => Err(UnknownStage(other.to_owned())),
                }
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
words!(Way: Way::Upload => "upload", Way::Watched => "watched");
words!(Stage: Stage::Queued => "queued", Stage::Running => "running", Stage::Done => "done", Stage::Failed => "failed");

/// How a log is to be taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The tenant whose links alone it may add to; none: every workspace's, as an operator may.
    pub workspace: Option<String>,
    /// Its format; none: found out from its first lines.
    pub format: Option<Format>,
    /// Whose word decides.
    pub id: IdMode,
    /// Whether redirects for codes without a link become clicks of the default workspace; only without `workspace`.
    pub keep_unknown: bool,
    /// The continuous source that it belongs to.
    pub source: Option<String>,
}

/// A log in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedLog {
    /// Its identity; of an upload that of the import, so that one name stands for both.
    pub id: String,
    /// How it came.
    pub way: Way,
    /// Its name, for people.
    pub name: String,
    /// How it is to be taken in.
    pub terms: Terms,
    /// Where its bytes are: the name of the staged object, or path or URL of a watched one.
    pub object: String,
    /// In how many parts they are staged; 0: they are not, or not any more.
    pub parts: u32,
    /// How many they are.
    pub size: u64,
    /// What changes whenever they do: of an upload their SHA-256 in hex, of a watched log its entity tag or time.
    pub tag: String,
    /// Where it stands.
    pub stage: Stage,
    /// How often it has been begun.
    pub tries: u32,
    /// The summary of its import (interface §5) as it stood when that ended.
    pub summary: Option<String>,
    /// Why it failed, or why its last try did.
    pub error: Option<String>,
    /// When it came.
    pub queued_at: UtcMicros,
}

/// Keeps what is uploaded until it has been taken in, and says what has become of it.
#[async_trait]
pub trait UploadStore: Send + Sync + Debug {
    /// Keeps a part of an object, which is durable when this returns. Parts are numbered from 0.
    async fn keep(&self, object: &str, part: u32, bytes: Bytes) -> Result<(), PortError>;

    /// Removes the first `parts` parts of an object; those that are gone already are fine.
    async fn remove(&self, object: &str, parts: u32) -> Result<(), PortError>;

    /// The identity of an import of these bytes on these terms.
    fn id_of(&self, sha256: &[u8; 32], terms: &Terms) -> String;

    /// Whether a log that is done is wanted again, because an operator took it back, or another that its lines were
    /// counted by.
    async fn may_come_again(&self, id: &str) -> Result<bool, PortError>;

    /// The summary (interface §5) of a queued log as of now.
    async fn summary(&self, log: &QueuedLog) -> Result<Value, PortError>;

    /// The summary of an import that the queue doesn't know: it came any other way, or long ago. With `workspace`, only of one
    /// that is that tenant's own; none if there is no such import.
    async fn import(&self, id: &str, workspace: Option<&str>) -> Result<Option<Value>, PortError>;
}

/// An error of a port, with what was being done.
pub fn failed<E: Error + Send + Sync + 'static>(doing: &'static str) -> impl FnOnce(E) -> PortError {
    move |source| PortError { doing, source: source.into() }
}
