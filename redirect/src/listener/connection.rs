//! One connection: HTTP/1.1 over a socket, until either side closes, patience runs out, or the listener drains.
//!
//! Once an answer is made its click is in the journal, so it goes out before anything that follows its request is looked
//! at: another request, what is none, or the peer saying that it sends no more.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::Request;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::answers::Answer;
use super::patience::{Patience, Progress, Waits};
use super::worker::{Answering, Peer, Worker};

/// The most bytes of a request's head, and of answers not yet taken.
const MAX_BUFFER: usize = 16 << 10;
/// How often a connection is looked at, at least.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a peer that has its last answer may go on sending.
const LINGER: Duration = Duration::from_secs(1);
/// The most bytes that are taken from it meanwhile.
const MOST_UNREAD: usize = 256 << 10;
/// What a peer that speaks HTTP/2 without having agreed on it is told; others get their 400 from hyper.
const NOT_HTTP_2: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Serves a connection to its end.
pub(super) async fn serve(worker: Arc<Worker>, stream: TcpStream, peer: Peer, waits: Waits, drain: CancellationToken) {
    let counts = Arc::<Counts>::default();
    let io = TokioIo::new(Counted { stream, counts: Arc::clone(&counts) });
    let service = Serving { worker, peer, counts: Arc::clone(&counts) };
    // No `pipeline_flush`: it would hold an answer back while bytes of a next request are there, and lose it when those
    // turn out to be no request. Answers are one piece, hence no `writev`.
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_BUFFER)
        .half_close(true)
        .writev(false)
        .serve_connection(io, service);

    let mut drained = pin!(drain.cancelled());
    let every = LOOK_EVERY.min(waits.header / 2);
    let mut look = pin!(sleep(every));
    let mut patience = Patience::new(waits, Instant::now());
    let mut draining = false;
    let ended = poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut connection).poll(cx) {
                return Poll::Ready(Some(ended));
            }
            if !draining && drained.as_mut().poll(cx).is_ready() {
                draining = true;
                Pin::new(&mut connection).graceful_shutdown();
                continue;
            }
            ready!(look.as_mut().poll(cx));
            if patience.is_over(counts.progress(), Instant::now()) {
                return Poll::Ready(None);
            }
            look.set(sleep(every));
        }
    })
    .await;
    // an error is the peer's doing, and there is nobody else to tell
    let last_word = match ended {
        Some(Err(error)) if error.is_parse_version_h2() => NOT_HTTP_2,
        Some(Err(_)) => &[],
        Some(Ok(())) if counts.body.load(Ordering::Relaxed) => &[],
        _ => return,
    };
    let stream = connection.into_parts().io.into_inner().stream;
    drain.run_until_cancelled(timeout(LINGER, leave(stream, last_word))).await;
}

/// Closes a connection whose peer may still be sending. Closing a socket that holds unread bytes resets it, and a peer
/// that is reset may never see the answer that was on its way.
async fn leave(mut stream: TcpStream, last_word: &[u8]) -> io::Result<()> {
    stream.write_all(last_word).await?;
    stream.shutdown().await?;
    let mut unread = vec![0; 4 << 10];
    let mut left = MOST_UNREAD;
    while left > 0 {
        match stream.read(&mut unread).await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

/// What hyper asks for answers.
struct Serving {
    worker: Arc<Worker>,
    peer: Peer,
    counts: Arc<Counts>,
}

impl Service<Request<Incoming>> for Serving {
    type Response = Answer;
    type Error = Infallible;
    type Future = Infallibly;

    fn call(&self, request: Request<Incoming>) -> Infallibly {
        self.counts.head();
        // a body, if there is one, is of no interest
        let (head, body) = request.into_parts();
        if !body.is_end_stream() {
            self.counts.body.store(true, Ordering::Relaxed);
        }
        Infallibly(self.worker.answer(self.peer, head))
    }
}

/// An answer that always comes.
struct Infallibly(Answering);

impl Future for Infallibly {
    type Output = Result<Answer, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Ok)
    }
}

/// A connection's progress. Only its own task writes, so plain loads and stores do.
#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    heads: AtomicU64,
    reads_at_head: AtomicU64,
    /// Whether a request had a body: bytes of it may still be on their way.
    body: AtomicBool,
}

impl Counts {
    fn read(&self) {
        self.reads.store(self.reads.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn head(&self) {
        self.heads.store(self.heads.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.reads_at_head.store(self.reads.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        Progress {
            reads: self.reads.load(Ordering::Relaxed),
            heads: self.heads.load(Ordering::Relaxed),
            reads_at_head: self.reads_at_head.load(Ordering::Relaxed),
        }
    }
}

/// A socket whose reads are counted.
struct Counted {
    stream: TcpStream,
    counts: Arc<Counts>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.counts.read();
        }
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
