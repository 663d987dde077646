//! One connection to a controller or a broker: questions and answers, one at a time, each under a deadline.
//!
//! The client's own socket, requests and records are used, but not its producer, consumer and metadata tasks: those
//! spin on a full queue, go on with half-open connections, and keep errors and leaders for ever. Here a connection belongs
//! to one task; when anything about it is in doubt it is dropped, and with it everything that it was waiting for.

use std::time::Duration;

use fluvio_protocol::api::{Request, RequestMessage};
use fluvio_socket::{ClientConfig, FluvioSocket, SocketError, Versions};

use super::error::TopicError;

/// How long connecting may take, with the exchange of versions.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long an answer may take.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// What we are called at the broker.
const CLIENT: &str = "highwater";

/// An open connection.
pub(super) struct Session {
    address: String,
    socket: FluvioSocket,
    versions: Versions,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, and learns what the other side understands.
    pub(super) async fn open(mut config: ClientConfig) -> Result<Self, TopicError> {
        const DOING: &str = "connecting";
        config.set_client_id(CLIENT);
        let address = config.addr().to_owned();
        let opened = tokio::time::timeout(CONNECT_WITHIN, config.connect()).await;
        let opened = opened.map_err(|_| TopicError::Deadline {
            doing: DOING,
            address: address.clone(),
            limit: CONNECT_WITHIN,
        })?;
        let (socket, _, versions) =
            opened.map_err(|source| TopicError::Network { doing: DOING, address: address.clone(), source })?.split();
        Ok(Self { address, socket, versions })
    }

    /// The other side.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The version in which the other side understands `R`.
    pub(super) fn version_of<R: Request>(&self) -> i16 {
        self.versions.lookup_version::<R>().unwrap_or(R::DEFAULT_API_VERSION)
    }

    /// A question as it is sent; its number comes back with the answer.
    pub(super) fn message<R: Request>(&self, request: R, number: i32) -> RequestMessage<R> {
        let version = self.version_of::<R>();
        let mut message = RequestMessage::new_request(request).set_client_id(CLIENT);
        let header = message.get_mut_header();
        header.set_api_version(version);
        header.set_correlation_id(number);
        message
    }

    /// Asks and waits for the answer. After an error the session is of no use any more.
    pub(super) async fn ask<R: Request>(&mut self, doing: &'static str, request: R) -> Result<R::Response, TopicError> {
        let message = self.message(request, 1);
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.socket.send(&message)).await;
        match answer {
            Err(_) => Err(TopicError::Deadline { doing, address: self.address.clone(), limit: ANSWER_WITHIN }),
            Ok(Err(source)) => Err(self.failed(doing, source)),
            Ok(Ok(answer)) => Ok(answer.response),
        }
    }

    /// The socket, for a stream of answers.
    pub(super) fn socket(&mut self) -> &mut FluvioSocket {
        &mut self.socket
    }

    /// The error of a connection that failed.
    pub(super) fn failed(&self, doing: &'static str, source: SocketError) -> TopicError {
        TopicError::Network { doing, address: self.address.clone(), source }
    }
}
