//! What can go wrong on demand, and what is counted.

use std::sync::atomic::{AtomicU64, Ordering};

use fluvio_protocol::api::RequestKind;
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::ReplicaKey;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// States of the broker. All off: it does what a healthy one does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    /// Produce is answered with this error, and nothing is appended.
    pub refuse: Option<Refusal>,
    /// The data ports handle nothing and send nothing; once it is off they go on where they were.
    pub stall: bool,
    /// Connections stay open but are dead: those that there are, for good, and those made while it is on.
    /// On and off again is a cut that only the connections of before don't survive.
    pub half_open: bool,
    /// All connections are dropped, and new ones refused.
    pub away: bool,
    /// Produce is answered this much later, in milliseconds; what it appended can be read at once.
    pub ack_delay_ms: u64,
    /// So many more batches are appended twice, as when an answer is lost and the client sends again. The answer
    /// tells the offset of the second.
    pub duplicates: u32,
    /// So many more produce requests are appended, but their connection is dropped before they are answered.
    pub lost_acks: u32,
    /// Answers end with a whole batch. Off, as in the real broker, they are cut at the client's `max_bytes`.
    pub whole_batches: bool,
}

impl Knobs {
    /// Any state, each fault now and then, and often several at once.
    pub fn any(chance: &mut impl Rng) -> Self {
        let refusals = [Refusal::NotLeader, Refusal::PartitionFull, Refusal::TimedOut, Refusal::Storage];
        Self {
            refuse: chance.random_bool(0.2).then(|| refusals[chance.random_range(0..refusals.len())]),
            stall: chance.random_bool(0.2),
            half_open: chance.random_bool(0.15),
            away: chance.random_bool(0.15),
            ack_delay_ms: if chance.random_bool(0.3) { chance.random_range(1..1_500) } else { 0 },
            duplicates: if chance.random_bool(0.3) { chance.random_range(1..20) } else { 0 },
            lost_acks: if chance.random_bool(0.3) { chance.random_range(1..5) } else { 0 },
            whole_batches: chance.random_bool(0.5),
        }
    }
}

/// Why produce is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Another SPU leads the partition.
    NotLeader,
    /// The partition has reached its size.
    PartitionFull,
    /// The batch is too large.
    TooLarge,
    /// The replicas did not follow in time.
    TimedOut,
    /// The disk failed.
    Storage,
}

impl Refusal {
    /// The code on the wire.
    pub(super) fn code(self, key: &ReplicaKey) -> ErrorCode {
        match self {
            Self::NotLeader => ErrorCode::NotLeaderForPartition,
            Self::PartitionFull => ErrorCode::PartitionFull { replica_key: key.clone() },
            Self::TooLarge => ErrorCode::MessageTooLarge,
            Self::TimedOut => ErrorCode::RequestTimedOut { timeout_ms: 1_500, kind: RequestKind::Produce },
            Self::Storage => ErrorCode::StorageError,
        }
    }
}

/// What has been done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections to the controller.
    pub controller_connections: u64,
    /// Connections to the data ports.
    pub data_connections: u64,
    /// Produce requests read.
    pub produce_requests: u64,
    /// Batches appended.
    pub batches: u64,
    /// Records appended.
    pub records: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Batches refused.
    pub refused: u64,
    /// Streams opened.
    pub streams: u64,
    /// Answers sent in streams.
    pub chunks: u64,
    /// Of these, such that were cut inside a batch.
    pub cut_chunks: u64,
    /// Bytes of batches sent in streams.
    pub bytes_sent: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// [`Counts`] while they grow.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: Counter,)*
        }

        impl Counters {
            /// What they are now.
            pub(super) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters!(
    controller_connections,
    data_connections,
    produce_requests,
    batches,
    records,
    bytes,
    refused,
    streams,
    chunks,
    cut_chunks,
    bytes_sent
);

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub(super) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }
}
