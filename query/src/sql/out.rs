//! An answer on its way: held back while it is short, then piece by piece to a client that must keep reading.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};

use crate::engine::Running;
use crate::error::QueryError;

/// Pieces of a body between the query and its client: enough to keep both busy, few enough to hold the query back.
const PIECES: usize = 16;
/// Bytes of a piece: so small that a client on a slow line takes one in time.
const PIECE: usize = 64 * 1024;

/// What one answer may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) deadline: Duration,
    /// Longest time in which a client takes nothing.
    pub(crate) stall: Duration,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) hold: usize,
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    End,
    Failed(QueryError),
}

/// A body as it comes. Dropping it stops the query.
#[derive(Debug)]
pub struct SqlStream {
    pieces: mpsc::Receiver<Piece>,
    done: bool,
    /// Kept on this side too: the query's own doesn't come while its threads are all at work.
    until: Pin<Box<Sleep>>,
    deadline: Duration,
    _query: Running<()>,
}

impl Stream for SqlStream {
    type Item = Result<Bytes, QueryError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let piece = match self.pieces.poll_recv(context) {
            Poll::Ready(Some(Piece::Bytes(bytes))) => return Poll::Ready(Some(Ok(bytes))),
            Poll::Ready(Some(Piece::End)) => None,
            Poll::Ready(Some(Piece::Failed(error))) => Some(Err(error)),
            // closed without a word: stopped while the client didn't read
            Poll::Ready(None) => Some(Err(QueryError::lake("sending an answer", "the query was stopped"))),
            Poll::Pending => {
                ready!(self.until.as_mut().poll(context));
                Some(Err(QueryError::Deadline(self.deadline)))
            }
        };
        self.done = true;
        Poll::Ready(piece)
    }
}

/// How an answer begins.
pub(super) enum Begin {
    Whole(Bytes),
    Stream,
}

/// The client's end of an answer.
pub(super) struct Receiving {
    begun: oneshot::Receiver<Result<Begin, QueryError>>,
    pieces: mpsc::Receiver<Piece>,
    limits: Limits,
}

impl Receiving {
    /// Waits, no longer than the deadline, until `query`'s answer is whole, or too long to be held back.
    pub(super) async fn begin(self, query: Running<()>) -> Result<super::SqlAnswer, QueryError> {
        let deadline = self.limits.deadline;
        let until = Instant::now() + deadline;
        match tokio::time::timeout_at(until, self.begun).await {
            Ok(Ok(Ok(Begin::Whole(bytes)))) => Ok(super::SqlAnswer::Whole(bytes)),
            Ok(Ok(Ok(Begin::Stream))) => {
                let until = Box::pin(tokio::time::sleep_until(until));
                let stream = SqlStream { pieces: self.pieces, done: false, until, deadline, _query: query };
                Ok(super::SqlAnswer::Stream(stream))
            }
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(QueryError::lake("running a query", "it stopped without a word")),
            Err(_) => Err(QueryError::Deadline(deadline)),
        }
    }
}

/// Where an answer goes.
pub(super) struct Out {
    /// Taken when the answer is on its way.
    begun: Option<oneshot::Sender<Result<Begin, QueryError>>>,
    sender: mpsc::Sender<Piece>,
    held: Vec<u8>,
    bytes: u64,
    rows: u64,
    limits: Limits,
}

/// Both ends of an answer.
pub(super) fn pair(limits: Limits) -> (Out, Receiving) {
    let (begin, begun) = oneshot::channel();
    let (sender, pieces) = mpsc::channel(PIECES);
    let out = Out { begun: Some(begin), sender, held: Vec::new(), bytes: 0, rows: 0, limits };
    (out, Receiving { begun, pieces, limits })
}

impl Out {
    /// Forgets what it holds, if it still holds all: the query can then begin anew.
    pub(super) fn forget(&mut self) -> bool {
        (self.rows, self.bytes) = (0, 0);
        self.held.clear();
        self.begun.is_some()
    }

    /// Takes the next `bytes`, which are `rows` rows.
    pub(super) async fn put(&mut self, bytes: Vec<u8>, rows: u64) -> Result<(), QueryError> {
        self.rows += rows;
        self.bytes += bytes.len() as u64;
        for (count, limit, unit) in [(self.rows, self.limits.rows, "rows"), (self.bytes, self.limits.bytes, "bytes")] {
            if count > limit {
                return Err(QueryError::TooLarge { limit, unit });
            }
        }
        if self.begun.is_none() {
            return self.send(bytes).await;
        }
        self.held.extend_from_slice(&bytes);
        if self.held.len() > self.limits.hold
            && let Some(begun) = self.begun.take()
        {
            let _ = begun.send(Ok(Begin::Stream));
            let held = std::mem::take(&mut self.held);
            return self.send(held).await;
        }
        Ok(())
    }

    async fn send(&self, bytes: Vec<u8>) -> Result<(), QueryError> {
        let mut rest = Bytes::from(bytes);
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE));
            let sent = tokio::time::timeout(self.limits.stall, self.sender.send(Piece::Bytes(piece))).await;
            sent.map_err(|_| QueryError::lake("sending an answer", "the client doesn't read"))?
                .map_err(|_| QueryError::lake("sending an answer", "the client is gone"))?;
        }
        Ok(())
    }

    /// Says how it ended.
    pub(super) async fn end(mut self, result: Result<(), QueryError>) {
        match (self.begun.take(), result) {
            (Some(begun), result) => {
                let held = std::mem::take(&mut self.held);
                let _ = begun.send(result.map(|()| Begin::Whole(held.into())));
            }
            (None, Ok(())) => {
                drop(tokio::time::timeout(self.limits.stall, self.sender.send(Piece::End)).await);
            }
            // no waiting for a client that doesn't read: a body that just stops is cut too
            (None, Err(error)) => drop(self.sender.try_send(Piece::Failed(error))),
        }
    }
}
