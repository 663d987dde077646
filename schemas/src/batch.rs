//! The bytes of a record of the topic: a batch of a journal's clicks that belong to one partition. Version 1.
//!
//! ```text
//! version u8 │ flags u8 │ head length u16 │ checksum u32 │ journal 16 │ from u64 │ to u64 │ mark i64 │ since i64 │ clicks u32
//! then clicks: position − from u32 │ length u32 │ bytes (`wire`)
//! ```
//! Numbers are little-endian. A batch says: of this journal, all frames from `from` up to before `to` that belong to this
//! partition are in here. So batches of one partition that follow each other without a hole cover the journal, whatever
//! was sent twice. The checksum is of all other bytes. A reader skips forward: what the head holds beyond its own knowledge,
//! flags that it doesn't know, and what stands behind the clicks. A writer of a later version may add all three; it raises
//! `version` only when old readers must not read on.

use uuid::Uuid;

use crate::ids::{ClickId, JournalId};
use crate::time::UtcMicros;

/// The version this code writes, and the newest that it reads.
pub const VERSION: u8 = 1;
/// Bytes of the head.
pub const HEAD_BYTES: usize = 60;
/// Bytes of a click beyond its own.
pub const CLICK_HEAD_BYTES: usize = 8;

const HAS_MARK: u8 = 1;
const ENDED: u8 = 2;
const LOST: u8 = 4;

/// What a batch says of its journal and its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The journal.
    pub journal: JournalId,
    /// The first position that it covers.
    pub from: u64,
    /// The first position behind those that it covers.
    pub to: u64,
    /// The time of the last mark among them: every event of the journal before it stands before `to`.
    pub mark: Option<UtcMicros>,
    /// The journal ends at `to`, and nothing will be added to it.
    pub ended: bool,
    /// Set when what these positions held is nowhere any more, instead of clicks: none of it was before this instant, nor
    /// after the mark.
    pub lost: Option<UtcMicros>,
}

/// Why bytes are not a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Written by a newer release, which must be installed to read it.
    #[error("batch version {0} is newer than {VERSION}")]
    NewerVersion(u8),
    /// Cut, changed, or not a batch.
    #[error("batch is cut or corrupt at byte {0}")]
    Corrupt(usize),
}

/// The partition, of so many, to which all records of an id belong. Never changes: it decides who judges an id.
pub fn partition_of(id: ClickId, partitions: u32) -> u32 {
    let number = id.as_u128();
    // ids are hashes, or random in their last half: one multiplication spreads both
    let mixed = (number as u64 ^ (number >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (((mixed >> 32) * u64::from(partitions)) >> 32) as u32
}

/// Puts a batch together.
#[derive(Debug)]
pub struct BatchWriter {
    from: u64,
    bytes: Vec<u8>,
    clicks: u32,
}

impl BatchWriter {
    /// Of a batch that covers positions from `from` on.
    pub fn new(from: u64) -> Self {
        Self { from, bytes: Vec::new(), clicks: 0 }
    }

    /// Where it begins.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Bytes that the batch would have now.
    pub fn size(&self) -> usize {
        HEAD_BYTES + self.bytes.len()
    }

    /// Clicks added.
    pub fn clicks(&self) -> u32 {
        self.clicks
    }

    /// Adds the click at `position`, which is later than those added before. `false` when it is too far from the batch's
    /// begin to stand in it.
    #[must_use]
    pub fn push(&mut self, position: u64, click: &[u8]) -> bool {
        let Ok(ahead) = u32::try_from(position - self.from) else { return false };
        self.bytes.extend_from_slice(&ahead.to_le_bytes());
        self.bytes.extend_from_slice(&(click.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(click);
        self.clicks += 1;
        true
    }

    /// The batch's bytes, which cover what `cover` says, from the begin of this writer on.
    pub fn finish(self, cover: Cover) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        let flag = |flag, is_set| if is_set { flag } else { 0 };
        let flags = flag(HAS_MARK, cover.mark.is_some()) | flag(ENDED, cover.ended) | flag(LOST, cover.lost.is_some());
        out.extend_from_slice(&[VERSION, flags]);
        out.extend_from_slice(&(HEAD_BYTES as u16).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(cover.journal.0.as_bytes());
        out.extend_from_slice(&self.from.to_le_bytes());
        out.extend_from_slice(&cover.to.to_le_bytes());
        for instant in [cover.mark, cover.lost] {
            out.extend_from_slice(&instant.unwrap_or(UtcMicros(0)).0.to_le_bytes());
        }
        out.extend_from_slice(&self.clicks.to_le_bytes());
        out.extend_from_slice(&self.bytes);
        let sum = checksum(&out);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

/// A batch as read: what it covers, and its clicks.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// What it says.
    pub cover: Cover,
    clicks: u32,
    rest: &'a [u8],
}

/// Reads a batch. Its clicks have been counted and found to be whole when this succeeds.
///
/// # Errors
/// When the bytes are cut, changed, of a newer version, or say what can't be.
pub fn decode(bytes: &[u8]) -> Result<Batch<'_>, BatchError> {
    let version = *bytes.first().ok_or(BatchError::Corrupt(0))?;
    if version > VERSION {
        return Err(BatchError::NewerVersion(version));
    }
    if version == 0 || bytes.len() < HEAD_BYTES {
        return Err(BatchError::Corrupt(bytes.len().min(HEAD_BYTES)));
    }
    if u32::from_le_bytes(array(bytes, 4)) != checksum(bytes) {
        return Err(BatchError::Corrupt(4));
    }
    let flags = bytes[1];
    let instant = |flag, at| (flags & flag != 0).then(|| UtcMicros(i64::from_le_bytes(array(bytes, at))));
    let cover = Cover {
        journal: JournalId(Uuid::from_bytes(array(bytes, 8))),
        from: u64::from_le_bytes(array(bytes, 24)),
        to: u64::from_le_bytes(array(bytes, 32)),
        mark: instant(HAS_MARK, 40),
        ended: flags & ENDED != 0,
        lost: instant(LOST, 48),
    };
    if cover.from > cover.to {
        return Err(BatchError::Corrupt(24));
    }
    let head = usize::from(u16::from_le_bytes(array(bytes, 2))).max(HEAD_BYTES);
    let rest = bytes.get(head..).ok_or(BatchError::Corrupt(2))?;
    let batch = Batch { cover, clicks: u32::from_le_bytes(array(bytes, 56)), rest };
    let mut walk = batch.clicks();
    while walk.left > 0 {
        if walk.next().is_none() {
            return Err(BatchError::Corrupt(bytes.len() - walk.rest.len()));
        }
    }
    Ok(batch)
}

impl<'a> Batch<'a> {
    /// How many clicks it has.
    pub fn len(&self) -> usize {
        self.clicks as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.clicks == 0
    }

    /// Each click's position in the journal, and its bytes (`wire`).
    pub fn clicks(&self) -> Clicks<'a> {
        Clicks { from: self.cover.from, left: self.clicks, rest: self.rest }
    }
}

/// The clicks of a batch, in order.
#[derive(Clone, Debug)]
pub struct Clicks<'a> {
    from: u64,
    left: u32,
    rest: &'a [u8],
}

impl<'a> Iterator for Clicks<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.rest.len() < CLICK_HEAD_BYTES {
            return None;
        }
        let ahead = u32::from_le_bytes(array(self.rest, 0));
        let length = u32::from_le_bytes(array(self.rest, 4)) as usize;
        let click = self.rest[CLICK_HEAD_BYTES..].get(..length)?;
        self.rest = &self.rest[CLICK_HEAD_BYTES + length..];
        self.left -= 1;
        Some((self.from.checked_add(u64::from(ahead))?, click))
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes[..4]);
    sum.update(&bytes[8..]);
    sum.finalize()
}

/// `N` bytes at `at`, which the caller has checked to be there.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests;
