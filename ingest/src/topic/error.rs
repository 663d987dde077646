//! Why the topic can't be used now.

use std::time::Duration;

use fluvio_protocol::link::ErrorCode;
use fluvio_socket::SocketError;

use crate::ports::PortError;

/// Why the topic can't be used now; variants by what whoever asked does about it. All but [`TopicError::Unusable`] pass by
/// themselves when the cluster or the link store is well again.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// No answer in time.
    #[error("{doing} at {address}: no answer within {limit:?}")]
    Deadline {
        /// What was being done.
        doing: &'static str,
        /// Whom it was asked of.
        address: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The connection failed.
    #[error("{doing} at {address}: {source}")]
    Network {
        /// What was being done.
        doing: &'static str,
        /// Whom it was asked of.
        address: String,
        /// What failed.
        #[source]
        source: SocketError,
    },
    /// The broker answered, and refused.
    #[error("{doing} at {address}: refused: {code}")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// Who refused.
        address: String,
        /// Why.
        code: ErrorCode,
    },
    /// An answer makes no sense.
    #[error("{doing} at {address}: {why}")]
    Strange {
        /// What was being done.
        doing: &'static str,
        /// Who answered.
        address: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The topic isn't one that clicks can go through; an operator must do something.
    #[error("topic {topic:?}: {why}")]
    Unusable {
        /// The topic.
        topic: String,
        /// Why, and what to do.
        why: String,
    },
    /// The configuration of the connection is wrong.
    #[error("stream.fluvio.tls: {0}")]
    Tls(String),
    /// The link store failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
