//! Why an import was refused or given up.

use std::io;

use ingest::edge::{Format, IdMode, ReadError, SniffError};
use ingest::ports::PortError;

use crate::lake::LakeError;
use crate::settle::SettleError;

/// An import that was refused (nothing was written) or given up (what has landed stays; a repeat goes on from there).
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input can't be read.
    #[error("{name}: {source}")]
    Unreadable {
        /// The input.
        name: String,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// The input can't be kept until its content is known.
    #[error("{name}: can't be read or spooled: {source}")]
    Spool {
        /// The input.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is no known format, or could be several.
    #[error("{name}: {source}")]
    Format {
        /// The input.
        name: String,
        /// How it reads.
        #[source]
        source: SniffError,
    },
    /// It is not the format that was given.
    #[error("{name}: is not {format}: {why}")]
    WrongFormat {
        /// The input.
        name: String,
        /// The format given.
        format: Format,
        /// Why it doesn't fit.
        why: String,
    },
    /// Its layout has no request id, so its lines can't be known again.
    #[error(
        "{name}: this {format} layout has no request id, so a line can't be told from the origin's own event; \
         log the id, or take the file by cache status with --id status-only (in a watched folder, the logs of \
         edge.provider: [edge] id = \"status-only\")"
    )]
    NoRequestIds {
        /// The input.
        name: String,
        /// Its format.
        format: Format,
    },
    /// The same bytes are in the lake with ids of another kind, so that the union wouldn't know the lines again.
    #[error(
        "{name}: the same bytes were taken in before with --id {first}; with --id {asked} their lines would count twice"
    )]
    OtherIds {
        /// The input.
        name: String,
        /// The mode of the import before.
        first: IdMode,
        /// The mode of this one.
        asked: IdMode,
    },
    /// The input is not the one that was meant.
    #[error("{name}: holds other bytes than were taken in before (SHA-256 {found}, expected {expected})")]
    OtherContent {
        /// The input.
        name: String,
        /// SHA-256 of the bytes that were meant.
        expected: String,
        /// SHA-256 of those that are there.
        found: String,
    },
    /// It was taken back while its lines came in.
    #[error("{name}: was taken back (`edge-logs revert {id}`) while it came in; import it again if that wasn't meant")]
    TakenBack {
        /// The input.
        name: String,
        /// The import's id.
        id: String,
    },
    /// Another import was taken back meanwhile, so that lines of this one may count again: it must begin anew.
    #[error("{name}: another import was taken back meanwhile; import it again")]
    BeginAnew {
        /// The input.
        name: String,
    },
    /// It should hold events made elsewhere, and none of its first lines is one.
    #[error(
        "{name}: holds no click events: none of its first {looked_at} lines is a JSON object with \"code\" and \"time\"; \
         an edge's log is for `highwater backfill`"
    )]
    NoEvents {
        /// The input.
        name: String,
        /// How many lines were looked at.
        looked_at: usize,
    },
    /// The same bytes are in the lake as events under other ids.
    #[error(
        "{name}: the same bytes were imported before as events of provider {provider} or standing for something else \
         (import {id}); taken in like this they would count twice"
    )]
    OtherEvents {
        /// The input.
        name: String,
        /// The import before.
        id: String,
        /// Its provider.
        provider: String,
    },
    /// The lake or the link store failed.
    #[error("{name}: {source}")]
    Settle {
        /// The input.
        name: String,
        /// What failed.
        #[source]
        source: SettleError,
    },
    /// A part of the import ended before its work was done.
    #[error("{name}: the import broke off: {part}")]
    BrokeOff {
        /// The input.
        name: String,
        /// Which part.
        part: String,
    },
}

impl ImportError {
    /// Whether the input itself is at fault: trying again won't help.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::Format { .. }
                | Self::WrongFormat { .. }
                | Self::NoRequestIds { .. }
                | Self::OtherIds { .. }
                | Self::OtherContent { .. }
                | Self::NoEvents { .. }
                | Self::OtherEvents { .. }
                | Self::TakenBack { .. }
        )
    }
}

/// What fails inside an import, before the input's name is put to it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Settle(#[from] SettleError),
    #[error("another import was taken back meanwhile")]
    BeginAnew,
    #[error("import {0} was taken back meanwhile")]
    TakenBack(String),
    #[error("{0}")]
    BrokeOff(String),
}

impl From<LakeError> for Failure {
    fn from(error: LakeError) -> Self {
        Self::Settle(error.into())
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Self::Settle(error.into())
    }
}

impl Failure {
    pub(super) fn of(self, name: &str) -> ImportError {
        let name = name.to_owned();
        match self {
            Self::Read(source) => ImportError::Unreadable { name, source },
            Self::Settle(source) => ImportError::Settle { name, source },
            Self::BeginAnew => ImportError::BeginAnew { name },
            Self::TakenBack(id) => ImportError::TakenBack { name, id },
            Self::BrokeOff(part) => ImportError::BrokeOff { name, part },
        }
    }
}
