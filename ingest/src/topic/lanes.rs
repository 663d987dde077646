//! The ways into all partitions, and the room that what is on its way may take.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::cut::Piece;
use super::health::TopicHealth;
use super::lane::{Lane, Outgoing};

/// Bytes on their way to the broker and not yet acknowledged, at most: what is read from journals beyond that waits there.
const ROOM: usize = 4 << 20;
/// Bytes of one permit of the room.
const PERMIT: usize = 256;
/// Batches waiting for one lane; the room is the real bound.
const WAITING: usize = 1_024;

/// The ways into all partitions of a topic. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    ways: Vec<mpsc::Sender<Outgoing>>,
    room: Arc<Semaphore>,
}

impl Lanes {
    /// Opens a lane for each of so many partitions, in tasks of `tasks`.
    pub(super) fn open(cluster: &Cluster, partitions: u32, health: &TopicHealth, tasks: &mut JoinSet<()>) -> Self {
        let open = |partition| {
            let (way, incoming) = mpsc::channel(WAITING);
            tasks.spawn(Lane { cluster: cluster.clone(), partition, incoming, health: health.clone() }.run());
            way
        };
        Self { ways: (0..partitions).map(open).collect(), room: Arc::new(Semaphore::new(ROOM / PERMIT)) }
    }

    /// Hands batches over, in order, as there is room.
    pub(super) async fn send_all(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            let permits = (piece.bytes.len() / PERMIT + 1).min(ROOM / PERMIT) as u32;
            let Ok(room) = Arc::clone(&self.room).acquire_many_owned(permits).await else { return };
            let Some(way) = self.ways.get(piece.partition as usize) else { continue };
            // a lane ends only when all that send are gone
            let _gone = way.send(Outgoing { bytes: Bytes::from(piece.bytes), _room: room }).await;
        }
    }

    /// Whether all that was handed over is acknowledged.
    pub(super) fn are_empty(&self) -> bool {
        self.room.available_permits() == ROOM / PERMIT
    }
}
