//! The ordered, partitioned log that processors read, behind one narrow interface. Embedded, the journals
//! themselves are its partitions (`journal::JournalPartition`); past one machine it is a topic.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use schemas::{JournalId, UtcMicros};

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A click event in wire format (`schemas::wire`).
    Click(Bytes),
    /// A mark: every event of `journal` before `time` stands before this record.
    Mark(UtcMicros),
}

/// One record of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position; contiguous within a partition.
    pub offset: u64,
    /// The journal that it was first written to.
    pub journal: JournalId,
    /// What it holds.
    pub body: Body,
}

/// Why a partition can't be read on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The lake holds a position that the partition doesn't reach: it was cut, or is another one.
    #[error("partition {partition} ends at {end}, but the lake holds its records up to {stored}; {way_out}")]
    BeyondEnd {
        /// Which partition.
        partition: String,
        /// First position after its last record.
        end: u64,
        /// First position that the lake lacks.
        stored: u64,
        /// What an operator can do.
        way_out: &'static str,
    },
    /// Records that the lake lacks are gone.
    #[error("partition {partition} begins at {begin}, but the lake lacks its records from {wanted}")]
    Gap {
        /// Which partition.
        partition: String,
        /// First position that is left.
        begin: u64,
        /// First position that the lake lacks.
        wanted: u64,
    },
    /// Storage or network failed; trying again may help.
    #[error("partition {partition}: {source}")]
    Io {
        /// Which partition.
        partition: String,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
}

/// One partition, read by one task.
#[async_trait]
pub trait Partition: Send + Debug {
    /// The name under which the lake keeps the position: an application transaction's id.
    fn name(&self) -> &str;

    /// Waits until there are records from `from` on, and returns them: contiguous, in order, not much more than
    /// `max_bytes` of them. Cancel-safe.
    ///
    /// # Errors
    /// As [`StreamError`] says; `Io` may be tried again.
    async fn read(&mut self, from: u64, max_bytes: usize) -> Result<Vec<Record>, StreamError>;

    /// The first position after the last record that can be read now.
    ///
    /// # Errors
    /// When it can't be found out.
    async fn end(&mut self) -> Result<u64, StreamError>;

    /// Whether no record will ever be added.
    fn is_sealed(&self) -> bool;
}
