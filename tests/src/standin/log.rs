//! The batches of one partition.
//!
//! A file of [frames](super::frames): a batch as it goes over the wire with its offset in it, or the mark that the
//! partition now starts later. Where each batch lies is kept in memory, the bytes are read from the file.
//!
//! Invariant: offsets follow each other without a gap; the first is 0 and never comes back.

use std::io::{Cursor, Error, ErrorKind, Result};
use std::path::Path;

use fluvio_protocol::Encoder;
use fluvio_protocol::record::{Batch, RawRecords};

use super::frames::{Frames, Reader};

const BATCH: u8 = 0;
const START: u8 = 1;

/// Where a batch lies, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset of its first record.
    pub(super) base: i64,
    /// Offset behind its last record.
    pub(super) end: i64,
    at: u64,
    length: usize,
}

/// One partition's batches.
#[derive(Debug)]
pub(super) struct Log {
    frames: Frames,
    batches: Vec<Place>,
    start: i64,
    end: i64,
}

impl Log {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// When it can't be read, or holds something else.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut batches = Vec::new();
        let mut start = 0;
        let frames = Frames::open(path, |at, body| {
            match entry(body)? {
                Entry::Batch(batch) => batches.push(place(at + 1, batch)?),
                Entry::Start(offset) => start = offset,
            }
            Ok(())
        })?;
        let end = batches.last().map_or(0, |batch| batch.end);
        batches.retain(|batch| batch.end > start);
        Ok(Self { frames, batches, start, end })
    }

    /// Appends a batch and gives the offset of its first record, which is written into it.
    ///
    /// # Errors
    /// When it can't be written; then nothing has changed.
    pub(super) fn append(&mut self, batch: &mut Batch<RawRecords>) -> Result<i64> {
        batch.set_base_offset(self.end);
        let mut body = vec![BATCH];
        batch.encode(&mut body, 0)?;
        let at = self.frames.append(&body)? + 1;
        let place = Place { base: self.end, end: batch.computed_last_offset(), at, length: body.len() - 1 };
        self.batches.push(place);
        self.end = place.end;
        Ok(place.base)
    }

    /// Lets go of all batches that end at or before this offset, and gives the new start.
    ///
    /// # Errors
    /// When that can't be written down.
    pub(super) fn evict(&mut self, before: i64) -> Result<i64> {
        let kept = self.batches.partition_point(|batch| batch.end <= before);
        let start = self.batches.get(kept).map_or(self.end, |batch| batch.base);
        self.write_start(start)?;
        self.batches.drain(..kept);
        self.start = start;
        Ok(start)
    }

    fn write_start(&mut self, start: i64) -> Result<()> {
        let mut body = vec![START];
        body.extend_from_slice(&start.to_be_bytes());
        self.frames.append(&body).map(drop)
    }

    /// Forgets the last batches, until at least this many records are gone, as a broker that never wrote them to its
    /// disk. Gives how many went.
    ///
    /// # Errors
    /// When the file can't be cut.
    pub(super) fn forget(&mut self, records: i64) -> Result<i64> {
        let end = self.end;
        while end - self.end < records
            && let Some(last) = self.batches.pop()
        {
            self.frames.cut(last.at - 1)?;
            self.end = last.base;
        }
        if self.start > 0 {
            // the cut may have taken the mark
            self.write_start(self.start)?;
        }
        Ok(end - self.end)
    }

    /// Offset of the first record that is still there, or would be.
    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// Offset that the next record gets.
    pub(super) fn end(&self) -> i64 {
        self.end
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.frames.size()
    }

    /// The batches from the one that holds `from`, until `bytes` are reached or there are no more.
    pub(super) fn batches(&self, from: i64, bytes: usize) -> Batches {
        let first = self.batches.partition_point(|batch| batch.end <= from);
        let mut total = 0;
        let places = self.batches[first..].iter().copied().take_while(|batch| {
            let is_wanted = total < bytes;
            total += batch.length;
            is_wanted
        });
        Batches { places: places.collect(), reader: self.frames.reader() }
    }
}

/// Some batches that follow each other, still to be read.
#[derive(Debug)]
pub(super) struct Batches {
    /// Where they lie.
    pub(super) places: Vec<Place>,
    reader: Reader,
}

impl Batches {
    /// Their bytes, as they go over the wire.
    ///
    /// # Errors
    /// When they can't be read.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.places.iter().map(|place| place.length).sum());
        for place in &self.places {
            self.reader.read(place.at, place.length, &mut bytes)?;
        }
        Ok(bytes)
    }
}

/// What a frame holds.
#[derive(Debug)]
pub(super) enum Entry<'a> {
    /// A batch as it goes over the wire.
    Batch(&'a [u8]),
    /// The offset that the partition starts at from then on.
    Start(i64),
}

/// Reads a frame's body.
///
/// # Errors
/// When it holds something else.
pub(super) fn entry(body: &[u8]) -> Result<Entry<'_>> {
    match body.split_first() {
        Some((&BATCH, batch)) => Ok(Entry::Batch(batch)),
        Some((&START, offset)) => Ok(Entry::Start(i64::from_be_bytes(offset.try_into().map_err(not_ours)?))),
        _ => Err(not_ours("an unknown kind of frame")),
    }
}

fn place(at: u64, bytes: &[u8]) -> Result<Place> {
    let mut batch = Batch::<RawRecords>::default();
    batch.decode_from_file_buf(&mut Cursor::new(bytes), 0)?;
    Ok(Place { base: batch.base_offset, end: batch.computed_last_offset(), at, length: bytes.len() })
}

fn not_ours(why: impl ToString) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not a partition of the stand-in: {}", why.to_string()))
}

#[cfg(test)]
mod tests;
