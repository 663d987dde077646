//! The ordered, partitioned log that processors read, behind one narrow interface. Embedded, the journals
//! themselves are its partitions (`journal::JournalPartition`); past one machine it is a topic.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use schemas::batch::Cover;
use schemas::{JournalId, UtcMicros};

use crate::ports::Generation;

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A click event in wire format (`schemas::wire`).
    Click(Bytes),
    /// A mark: every event of `journal` before `time` stands before this record.
    Mark(UtcMicros),
    /// Clicks of `journal` that belong to this partition, and which of its positions they are all of (`schemas::batch`).
    Batch(Cover, Bytes),
    /// What can't be read: why, in a word, and its bytes.
    Unreadable(&'static str, Bytes),
}

/// One record of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position. Contiguous within a journal; in a topic those that the broker has lost are skipped, and what they held
    /// is known by the coverage of journals to be missing.
    pub offset: u64,
    /// The journal that it was first written to; all zeros when that can't be read.
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

/// Which partition of which topic one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPart {
    /// The topic's life.
    pub generation: Arc<Generation>,
    /// The partition's number.
    pub number: u32,
}

/// One partition, read by one task.
#[async_trait]
pub trait Partition: Send + Debug {
    /// The name under which the lake keeps the position: an application transaction's id.
    fn name(&self) -> &str;

    /// The partition of a topic that this is; `None` when it is a journal.
    fn part(&self) -> Option<&TopicPart> {
        None
    }

    /// Waits until there are records from `from` on, and returns them in order, not much more than `max_bytes` of them: all
    /// that there are up to the last one returned. Cancel-safe.
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
