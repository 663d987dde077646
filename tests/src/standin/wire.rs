//! Frames of the wire protocol over TCP, and what runs on one connection.
//!
//! ```text
//! request: length (i32) | api key, version, correlation id, client id | body
//! answer:  length (i32) | correlation id | body
//! ```
//! A connection is one future: its requests in their order, and beside them the answers that never end (watches,
//! streams). So what drops the future closes the connection with all that ran on it, and what stops polling it makes
//! a half-open one.

use std::fmt::Debug;
use std::future::Future;
use std::io::{Cursor, Error, ErrorKind, Result};
use std::sync::Arc;

use fluvio_protocol::Encoder;
use fluvio_protocol::api::{ApiMessage, RequestHeader, ResponseMessage};
use fluvio_protocol::link::versions::{ApiVersionKey, ApiVersionsResponse, PlatformVersion};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, mpsc};

use super::tls::Socket;

/// The real broker takes no longer request (its `STORAGE_MAX_REQUEST_SIZE`), and ours some bytes more.
const MAX_REQUEST: usize = 33_554_432 + 4_096;
/// Watches and streams that were asked for and have not been begun.
const OPENING: usize = 16;

/// An answer that goes on until its connection ends, or it fails.
pub(super) type Running = BoxFuture<'static, Result<()>>;

/// The requests of a connection.
pub(super) struct Requests(BufReader<ReadHalf<Socket>>);

impl Requests {
    /// The next request; none when the client has left.
    ///
    /// # Errors
    /// When it can't be read, or is none.
    pub(super) async fn next<R: ApiMessage>(&mut self) -> Result<Option<R>> {
        let length = match self.0.read_i32().await {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            length => usize::try_from(length?).ok().filter(|length| *length <= MAX_REQUEST),
        };
        let length = length.ok_or_else(|| Error::new(ErrorKind::InvalidData, "a request is too long"))?;
        let mut frame = vec![0; length];
        self.0.read_exact(&mut frame).await?;
        R::decode_from(&mut Cursor::new(frame)).map(Some)
    }
}

/// The way back.
#[derive(Clone)]
pub(super) struct Answers(Arc<Mutex<WriteHalf<Socket>>>);

impl Answers {
    /// Answers a request.
    ///
    /// # Errors
    /// When the client has left.
    pub(super) async fn send<P: Encoder + Default + Debug>(&self, header: &RequestHeader, answer: P) -> Result<()> {
        let mut frame = vec![0; 4];
        ResponseMessage::from_header(header, answer).encode(&mut frame, header.api_version())?;
        let length = i32::try_from(frame.len() - 4).map_err(|_| Error::new(ErrorKind::InvalidData, "too long"))?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let mut socket = self.0.lock().await;
        socket.write_all(&frame).await?;
        socket.flush().await
    }
}

/// Runs a connection: `serve` reads its requests, and hands over what goes on beside them.
///
/// # Errors
/// When the client has left in the middle of something, or sent what is no request.
pub(super) async fn converse<S, F>(socket: Socket, serve: S) -> Result<()>
where
    S: FnOnce(Requests, Answers, mpsc::Sender<Running>) -> F,
    F: Future<Output = Result<()>>,
{
    let (read, write) = tokio::io::split(socket);
    let (open, opened) = mpsc::channel(OPENING);
    let served = serve(Requests(BufReader::new(read)), Answers(Arc::new(Mutex::new(write))), open);
    tokio::select! {
        ended = served => ended,
        ended = run_all(opened) => ended,
    }
}

async fn run_all(mut opened: mpsc::Receiver<Running>) -> Result<()> {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(next) = opened.recv() => running.push(next),
            Some(ended) = running.next() => ended?,
            // nothing runs and nothing can come any more: the requests have ended
            else => return Ok(()),
        }
    }
}

/// Which requests are answered, as (key, lowest version, highest).
///
/// # Errors
/// Never: the version is one.
pub(super) fn versions(keys: &[(i16, i16, i16)]) -> Result<ApiVersionsResponse> {
    let platform = "0.18.1".parse().map_err(|_| Error::new(ErrorKind::InvalidData, "no version"))?;
    Ok(ApiVersionsResponse {
        api_keys: keys
            .iter()
            .map(|&(api_key, min_version, max_version)| ApiVersionKey { api_key, min_version, max_version })
            .collect(),
        platform_version: PlatformVersion::new(&platform),
        ..Default::default()
    })
}
