//! Why a journal can't be opened.

use std::io;
use std::path::{Path, PathBuf};

use schemas::JournalId;

/// Why a journal, or the directory of journals, can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process (or another part of this one) owns the journal.
    #[error("journal {path} is in use by another process")]
    InUse {
        /// The journal's directory.
        path: PathBuf,
    },
    /// The disk didn't do what it was asked.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was being done, as in "reading".
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What failed.
        #[source]
        source: io::Error,
    },
    /// A segment stands where it doesn't belong: somebody moved or renamed it.
    #[error("segment {path} belongs to journal {found} at position {first}; put it back where it was")]
    Misplaced {
        /// The segment's file.
        path: PathBuf,
        /// The journal that it was written for.
        found: JournalId,
        /// Its first position.
        first: u64,
    },
    /// Written by a newer release, which must be installed to read it.
    #[error("segment {path} has format {version}, this release knows formats up to {known}")]
    Newer {
        /// The segment's file.
        path: PathBuf,
        /// Its format.
        version: u16,
        /// The newest known.
        known: u16,
    },
}

impl JournalError {
    /// Wraps an I/O error with what was being done to which path.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}
