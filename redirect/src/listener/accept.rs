//! A worker's thread: takes connections from its own socket until told to stop, then lets them finish.
//!
//! The socket shares its port with those of the other workers (`SO_REUSEPORT`): the kernel spreads connections, and no
//! worker waits for another. More connections than may be open wait in the kernel's queue. When the system refuses one
//! (no descriptors left), the worker pauses instead of spinning; those it has go on.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use super::patience::Waits;
use super::worker::Worker;

/// How many connections wait in the kernel to be taken, a worker.
const BACKLOG: i32 = 4_096;
/// The longest pause after the system has refused a connection.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What bounds a worker's connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    /// The most that are open at once.
    pub(super) connections: usize,
    pub(super) waits: Waits,
    /// How long they may take to finish once the listener stops.
    pub(super) drain: Duration,
}

/// One socket for each of `workers`, all on one address. A port 0 is the same free one for all.
///
/// # Errors
/// When the address can't be had, also when it is shared by another process that would share it.
pub(super) fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<StdListener>> {
    if address.port() != 0 {
        // Another process of this user that shares its port too would get a part of our connections, unnoticed.
        bound(address, false)?;
    }
    let first = listening(address)?;
    let address = first.local_addr()?;
    let rest = (1..workers).map(|_| listening(address));
    std::iter::once(Ok(first)).chain(rest).collect()
}

fn listening(address: SocketAddr) -> io::Result<StdListener> {
    let socket = bound(address, true)?;
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Runs a worker on this thread until `stop`, and its connections until they are done or the time for that is over.
///
/// # Errors
/// When the thread's runtime can't be set up.
pub(super) fn run(
    worker: Arc<Worker>,
    listener: StdListener,
    limits: ConnectionLimits,
    stop: &CancellationToken,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let taker = Taker { worker, limits, connections: TaskTracker::new(), drain: stop.child_token() };
        taker.take(listener).await;
        taker.finish().await;
        Ok(())
    })
}

struct Taker {
    worker: Arc<Worker>,
    limits: ConnectionLimits,
    connections: TaskTracker,
    /// A token of this worker's own: its connections look at it often, and other threads need not.
    drain: CancellationToken,
}

impl Taker {
    async fn take(&self, listener: TcpListener) {
        let open = Arc::new(Semaphore::new(self.limits.connections));
        let mut pause = Pause::default();
        let next = async || {
            // closed by nobody
            let permit = Arc::clone(&open).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        while let Some((permit, taken)) = self.drain.run_until_cancelled(next()).await {
            match taken {
                Ok((stream, peer)) => {
                    pause.over();
                    self.serve(stream, peer, permit);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    let pause = pause.next();
                    if pause == Pause::FIRST {
                        tracing::warn!(%error, "no connection can be taken; those that are open go on");
                    }
                    self.drain.run_until_cancelled(sleep(pause)).await;
                }
            }
        }
        // what the kernel has taken already would be reset with the socket
        while let Ok(Ok((stream, peer))) = timeout(Duration::ZERO, listener.accept()).await {
            self.serve(stream, peer, None);
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, permit: Option<tokio::sync::OwnedSemaphorePermit>) {
        // answers are written whole, so waiting for more to send would only delay them
        let _ = stream.set_nodelay(true);
        let worker = Arc::clone(&self.worker);
        let peer = worker.peer(peer.ip());
        let (waits, drain) = (self.limits.waits, self.drain.clone());
        self.connections.spawn(async move {
            worker.cells().opened();
            connection::serve(Arc::clone(&worker), stream, peer, waits, drain).await;
            worker.cells().closed();
            drop(permit);
        });
    }

    async fn finish(&self) {
        self.connections.close();
        if timeout(self.limits.drain, self.connections.wait()).await.is_err() {
            tracing::warn!(open = self.connections.len(), "connections cut off at the end of the drain");
        }
    }
}

/// Whether an error of accepting says something of that connection only.
fn is_of_one_connection(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, TimedOut};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | TimedOut)
}

/// Pauses that double while they don't help.
#[derive(Debug, Default)]
struct Pause(Option<Duration>);

impl Pause {
    const FIRST: Duration = Duration::from_millis(10);

    fn next(&mut self) -> Duration {
        let pause = self.0.map_or(Self::FIRST, |last| (last * 2).min(LONGEST_PAUSE));
        self.0 = Some(pause);
        pause
    }

    fn over(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port_that_nobody_else_can_share() {
        let ours = bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = ours[0].local_addr().unwrap();
        assert!(ours.iter().all(|listener| listener.local_addr().unwrap() == address));
        assert_eq!(bind(address, 1).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(ours);
        bind(address, 2).unwrap();
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let other = StdListener::bind("127.0.0.1:0").unwrap();
        let error = bind(other.local_addr().unwrap(), 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn pauses_grow_to_a_second_and_begin_anew() {
        let mut pause = Pause::default();
        let pauses: Vec<_> = (0..9).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        pause.over();
        assert_eq!(pause.next(), Pause::FIRST);
    }
}
