//! One error for every door of this crate; its variants say what the caller does about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is wrong with one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// The parameter's name, as the caller wrote it.
    pub field: String,
    /// What is expected instead.
    pub message: String,
}

impl FieldError {
    /// An error of `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The caller must change the request: one entry per field.
    #[error("{}", summary(.0))]
    Invalid(Vec<FieldError>),
    /// The caller must change the statement.
    #[error("{0}")]
    Statement(String),
    /// The caller's token may not do this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// All places are taken; the caller tries again later.
    #[error("too many queries are running; try again in {} s", .retry_after.as_secs())]
    Busy {
        /// When a try makes sense.
        retry_after: Duration,
    },
    /// What it needs beside the lake doesn't answer; the caller tries again later, and the operator looks at the log.
    #[error("{doing}: {reason}")]
    Unavailable {
        /// What was being done, as in "checking a token".
        doing: &'static str,
        /// Why it failed. Not for tenants' eyes.
        reason: String,
    },
    /// It took too long; the caller asks for less.
    #[error("the query took longer than {} s and was stopped", .0.as_secs())]
    Deadline(Duration),
    /// It needed more memory or temporary disk than one query may have; the caller asks for less, or later.
    #[error(
        "the query needed more memory than there is: {0}; group by fewer or less different values, ask for a shorter time, or \
         count with approx_distinct(x) in place of count(DISTINCT x)"
    )]
    Resources(String),
    /// The answer is bigger than one answer may be; the caller asks for less.
    #[error("the answer has more than {limit} {unit}")]
    TooLarge {
        /// The limit that was passed.
        limit: u64,
        /// What it counts: `rows` or `bytes`.
        unit: &'static str,
    },
    /// The place of the lake can't be used; the operator must change the configuration.
    #[error("lake = {location:?}: {reason}")]
    Location {
        /// As configured.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of the snapshot is gone: the snapshot was taken before the cleaner ran. A fresh one has it not.
    #[error("a file of the snapshot is gone: {0}")]
    Stale(String),
    /// The lake could not be read, or something here is broken; the operator looks at the log.
    #[error("{doing}: {reason}")]
    Lake {
        /// What was being done, as in "reading table clicks".
        doing: &'static str,
        /// Why it failed. Not for tenants' eyes.
        reason: String,
    },
}

impl QueryError {
    /// One wrong field.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(field, message)])
    }

    pub(crate) fn unavailable(doing: &'static str, reason: impl ToString) -> Self {
        Self::Unavailable { doing, reason: reason.to_string() }
    }

    pub(crate) fn lake(doing: &'static str, reason: impl ToString) -> Self {
        Self::Lake { doing, reason: reason.to_string() }
    }
}

fn summary(errors: &[FieldError]) -> String {
    let parts: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
    parts.join("; ")
}
