//! One partition while it is served: its [log](super::log), who leads it, and whoever waits for its next record.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fluvio_protocol::Encoder;
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::{Batch, RawRecords, ReplicaKey};
use fluvio_protocol::types::SpuId;
use tokio::sync::watch;

use super::log::Log;

/// Larger batches are refused, as by the real broker (its `STORAGE_MAX_BATCH_SIZE`).
pub(super) const MAX_BATCH: usize = 2_097_152;

/// What waits on a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Offset that the next record gets.
    pub(super) end: i64,
    /// Who answers for it; nobody during an election.
    pub(super) leader: Option<SpuId>,
    /// Whom the controller names.
    pub(super) named: SpuId,
    /// Its topic is gone.
    pub(super) is_deleted: bool,
}

/// One partition.
#[derive(Debug)]
pub(super) struct Partition {
    /// Topic and number.
    pub(super) key: ReplicaKey,
    log: Mutex<Log>,
    /// Changes at every append, election and deletion.
    pub(super) now: watch::Sender<Now>,
}

/// What a read found.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Batches as they go over the wire, the last one cut when they were longer than asked for.
    pub(super) bytes: Vec<u8>,
    /// Whether the last batch isn't whole.
    pub(super) is_cut: bool,
}

impl Partition {
    /// Opens or creates its file.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn open(key: ReplicaKey, path: &Path, leader: SpuId) -> io::Result<Self> {
        let log = Log::open(path)?;
        let now = Now { end: log.end(), leader: Some(leader), named: leader, is_deleted: false };
        Ok(Self { key, log: Mutex::new(log), now: watch::Sender::new(now) })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this SPU answers for it.
    pub(super) fn is_led_by(&self, spu: SpuId) -> bool {
        let now = self.now.borrow();
        now.leader == Some(spu) && !now.is_deleted
    }

    /// Appends a batch; gives the offset of its first record.
    ///
    /// # Errors
    /// The real broker's codes for a batch that is too large, and for a disk that fails.
    pub(super) fn append(&self, batch: &mut Batch<RawRecords>) -> Result<i64, ErrorCode> {
        if batch.write_size(0) > MAX_BATCH {
            return Err(ErrorCode::MessageTooLarge);
        }
        let mut log = self.log();
        let base = log.append(batch).map_err(|_| ErrorCode::StorageError)?;
        let end = log.end();
        self.now.send_modify(|now| now.end = end);
        Ok(base)
    }

    /// Reads at most `max_bytes` from the batch that holds `from`, and nothing at the very end. `whole` lets the last
    /// batch be whole, where the real broker cuts it.
    ///
    /// # Errors
    /// The real broker's answers to an offset behind the end and to one that was evicted.
    pub(super) fn read(&self, from: i64, max_bytes: usize, whole: bool) -> Result<Option<Chunk>, ErrorCode> {
        let (start, end, batches) = {
            let log = self.log();
            (log.start(), log.end(), log.batches(from, max_bytes))
        };
        if from > end {
            // it has a code for this, and doesn't use it
            return Err(ErrorCode::Other(format!("start offset: {from} is greater than leo: {end}")));
        }
        if from < start {
            return Err(ErrorCode::OffsetEvicted { offset: from, next_available: start });
        }
        if batches.places.is_empty() {
            return Ok(None);
        }
        let mut bytes = batches.read().map_err(|_| ErrorCode::StorageError)?;
        let is_cut = bytes.len() > max_bytes && !whole;
        if is_cut {
            bytes.truncate(max_bytes);
        }
        Ok(Some(Chunk { bytes, is_cut }))
    }

    /// First offset, end, and bytes.
    pub(super) fn extent(&self) -> (i64, i64, u64) {
        let log = self.log();
        (log.start(), log.end(), log.size())
    }

    /// Lets go of what ends at or before this offset; gives the new start.
    ///
    /// # Errors
    /// When that can't be written down.
    pub(super) fn evict(&self, before: i64) -> io::Result<i64> {
        self.log().evict(before)
    }

    /// Forgets at least this many of the last records; gives how many went. Only before it is served.
    ///
    /// # Errors
    /// When its file can't be cut.
    pub(super) fn forget(&self, records: i64) -> io::Result<i64> {
        let mut log = self.log();
        let gone = log.forget(records)?;
        let end = log.end();
        self.now.send_modify(|now| now.end = end);
        Ok(gone)
    }
}
