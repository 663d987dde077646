//! Listeners and the connections they have accepted.

use std::future::{Future, pending};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::broker::Broker;
use super::tls::Socket;
use crate::free_port;

/// How long a port may be in use by one that has just been closed.
const IN_USE: Duration = Duration::from_secs(5);

/// Listens on this port of loopback, or on any free one when it is 0.
///
/// # Errors
/// When it is taken.
pub(super) async fn listen(port: u16) -> io::Result<(TcpListener, u16)> {
    // not one of those that the system gives to outgoing connections: a restart wants it back
    let port = if port == 0 { free_port()? } else { port };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let begin = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            // a child that another thread is just starting holds all that is open until it runs its program
            Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < IN_USE => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            listener => return Ok((listener?, port)),
        }
    }
}

/// Accepts connections and runs each by `serve`, until `stop` says so; then none is left.
pub(super) async fn run<S, F>(broker: Arc<Broker>, listener: TcpListener, mut stop: watch::Receiver<bool>, serve: S)
where
    S: Fn(Arc<Broker>, Socket) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut knobs = broker.knobs.subscribe();
    let mut drops = broker.drops.subscribe();
    let Ok(port) = listener.local_addr().map(|address| address.port()) else { return };
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        if knobs.borrow_and_update().away {
            listener = None;
            connections.shutdown().await;
        } else if listener.is_none() {
            // whoever took the port in the meantime keeps it; the next change of a knob tries again
            listener = listen(port).await.ok().map(|(listener, _)| listener);
        }
        tokio::select! {
            _ = stop.changed() => break,
            _ = knobs.changed() => {}
            _ = drops.changed() => connections.shutdown().await,
            Some(_) = connections.join_next() => {}
            accepted = accept(listener.as_ref()) => if let Ok((socket, _)) = accepted {
                let (serving, serve) = (Arc::clone(&broker), serve.clone());
                let connection = async move { serve(Arc::clone(&serving), serving.encryption.begin(socket).await?).await };
                connections.spawn(live_or_dead(Arc::clone(&broker), connection));
            },
        }
    }
    connections.shutdown().await;
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => pending().await,
    }
}

/// Runs a connection until it ends or dies. A dead one keeps its socket, and nobody reads or writes it any more.
async fn live_or_dead(broker: Arc<Broker>, connection: impl Future<Output = io::Result<()>> + Send) {
    let mut cuts = broker.cuts.subscribe();
    let mut connection = Box::pin(connection);
    if !broker.knobs.borrow().half_open {
        tokio::select! {
            biased;
            _ = cuts.changed() => {}
            // how a client leaves is its own business
            _left = &mut connection => return,
        }
    }
    pending::<()>().await;
}
