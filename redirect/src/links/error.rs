//! Why the link store didn't do what it was asked.

use std::fmt;

use ingest::ports::{JournalState, PortError};
use schemas::JournalId;
use serde::Serialize;

use super::db::{Fault, fault_of};

/// One thing wrong with one input field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field's name.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl FieldError {
    /// An error of `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Why the link store didn't do what it was asked; variants by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The input is at fault, field by field.
    #[error("{}", join(.0))]
    Invalid(Vec<FieldError>),
    /// There is no such link, or it belongs to another workspace.
    #[error("there is no link with code {code:?}{}", on(.domain))]
    NotFound {
        /// The domain, when one was named.
        domain: Option<String>,
        /// The code.
        code: String,
    },
    /// The code has been given out before, to a link or a tombstone.
    #[error("code {code:?} on {domain} is taken; a code is never given out twice")]
    Taken {
        /// The domain.
        domain: String,
        /// The code.
        code: String,
    },
    /// The link is a tombstone, which doesn't change any more.
    #[error("the link with code {code:?} on {domain} is deleted for good")]
    Deleted {
        /// The domain.
        domain: String,
        /// The code.
        code: String,
    },
    /// No workspace has this name.
    #[error("there is no workspace {0:?}")]
    UnknownWorkspace(String),
    /// A workspace of this name exists.
    #[error("workspace {0:?} exists already")]
    WorkspaceExists(String),
    /// No journal of this identity is registered.
    #[error("there is no journal {0}")]
    UnknownJournal(JournalId),
    /// The journal is closed or retired: its owner begins a new one.
    #[error("journal {id} is {}", state.as_str())]
    JournalOver {
        /// Which journal.
        id: JournalId,
        /// Where it stands.
        state: JournalState,
    },
    /// Another generation of the topic has begun since.
    #[error("generation {id} of topic {topic:?} is over: another one has begun")]
    GenerationOver {
        /// The topic.
        topic: String,
        /// The generation that is over.
        id: String,
    },
    /// The place of the store can't be one.
    #[error("link store {location:?}: {why}")]
    Location {
        /// As configured.
        location: String,
        /// What is wrong and what is expected.
        why: String,
    },
    /// The store's tables aren't those of this version.
    #[error("link store {location:?}: {source}")]
    Schema {
        /// As configured.
        location: String,
        /// What doesn't fit.
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// The database failed, or was locked for too long; trying again may help.
    #[error("{doing}: {source}")]
    Database {
        /// What was being done, as in "reading a link".
        doing: &'static str,
        /// What failed.
        #[source]
        source: sqlx::Error,
    },
    /// The database can't be reached or doesn't answer; it may come back by itself.
    #[error("{doing}: the database of links doesn't answer: {source}")]
    Away {
        /// What was being done.
        doing: &'static str,
        /// What failed.
        #[source]
        source: sqlx::Error,
    },
    /// The disk of the link store is full, or fails: trying again helps once there is room.
    #[error("{doing}: the disk of the link store is full, or fails: {source}")]
    DiskFull {
        /// What was being done.
        doing: &'static str,
        /// What failed.
        #[source]
        source: sqlx::Error,
    },
    /// The system's random source failed.
    #[error("the system gives no random bytes: {0}")]
    Random(#[from] rand::rand_core::OsError),
}

impl LinkError {
    /// An error of one input field.
    pub(crate) fn field(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(field, message)])
    }

    /// Whether it is for want of disk space.
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }
}

/// Names what was being done when the database failed.
pub(crate) trait Doing<T> {
    /// The error as [`LinkError::Database`], or as [`LinkError::DiskFull`] or [`LinkError::Away`] where it is that.
    fn doing(self, doing: &'static str) -> Result<T, LinkError>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, doing: &'static str) -> Result<T, LinkError> {
        self.map_err(|source| match fault_of(&source) {
            Fault::Disk => LinkError::DiskFull { doing, source },
            Fault::Away => LinkError::Away { doing, source },
            Fault::Other => LinkError::Database { doing, source },
        })
    }
}

/// As the ports' users see it.
pub(crate) fn port_error(doing: &'static str) -> impl FnOnce(LinkError) -> PortError {
    move |error| match error {
        LinkError::Database { doing, source } => PortError { doing, source: source.into() },
        other => PortError { doing, source: other.into() },
    }
}

fn join(errors: &[FieldError]) -> String {
    errors.iter().map(FieldError::to_string).collect::<Vec<_>>().join("; ")
}

fn on(domain: &Option<String>) -> String {
    domain.as_ref().map(|domain| format!(" on {domain}")).unwrap_or_default()
}
