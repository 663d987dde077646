//! Reading frames of one segment as records: big blocks, every checksum checked, payloads sliced, not copied.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use schemas::JournalId;

use super::disk::{ReadAt, read_full};
use super::frame::{self, Content, Parsed, Seed};
use super::scan::{At, scan};
use super::segment::Place;
use crate::stream::{Body, Record};

/// The least and the most that is read at once.
const SMALLEST_BLOCK: usize = 64 << 10;
const LARGEST_BLOCK: usize = 8 << 20;

/// Which segment to read, and how far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The segment's first position.
    pub(crate) first: u64,
    /// Tells it from another of the same name.
    pub(crate) generation: u64,
    /// Its file.
    pub(crate) path: PathBuf,
    /// The position to stop at: where the next segment begins, or what isn't visible yet.
    pub(crate) limit: u64,
}

/// Where the last read of a reader ended, so that the next goes on there.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    first: u64,
    generation: u64,
    file: Arc<File>,
    at: At,
}

impl Cursor {
    /// A cursor at `position`: the given one moved forward if it can be, else a new one.
    fn find(cursor: Option<Self>, stretch: &Stretch, seed: Seed, position: u64) -> io::Result<Self> {
        let is_same = |cursor: &Self| (cursor.first, cursor.generation) == (stretch.first, stretch.generation);
        let mut cursor = match cursor.filter(|cursor| is_same(cursor) && cursor.at.position <= position) {
            Some(cursor) => cursor,
            None => Self {
                first: stretch.first,
                generation: stretch.generation,
                file: Arc::new(File::open(&stretch.path)?),
                at: At::first(stretch.first),
            },
        };
        if cursor.at.position < position {
            let (at, _) = scan(&*cursor.file, seed, cursor.at, position, |_| {})?;
            cursor.at = at;
            if at.position < position {
                return Err(cursor.corrupt());
            }
        }
        Ok(cursor)
    }

    fn corrupt(&self) -> io::Error {
        let message = format!(
            "the frame at position {} (byte {} of segment {:020}) can't be read: it is damaged; \
             `highwater journal retire` gives the journal up",
            self.at.position, self.at.offset, self.first
        );
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}

/// Reads records from position `from` on, about `max_bytes` of them. At least one, since the caller knows that
/// there is one.
///
/// # Errors
/// `InvalidData` when the next frame is damaged or of a newer release; others when the file can't be read.
pub(crate) fn read(
    place: &Place,
    cursor: Option<Cursor>,
    stretch: &Stretch,
    from: u64,
    max_bytes: usize,
) -> io::Result<(Vec<Record>, Cursor)> {
    let mut cursor = Cursor::find(cursor, stretch, place.seed, from)?;
    let mut wanted = max_bytes.clamp(SMALLEST_BLOCK, LARGEST_BLOCK);
    loop {
        let left = cursor.file.length()?.saturating_sub(cursor.at.offset);
        let mut block = vec![0; wanted.min(usize::try_from(left).unwrap_or(wanted))];
        let filled = read_full(&*cursor.file, &mut block, cursor.at.offset)?;
        block.truncate(filled);
        let block = Bytes::from(block);
        let (records, stop) = records(&block, place, &mut cursor.at, stretch.limit);
        if !records.is_empty() {
            return Ok((records, cursor));
        }
        match stop {
            Stop::Short(needed) if needed > filled && (filled as u64) < left => wanted = needed,
            Stop::Newer(kind) => {
                let message = format!("the frame at position {from} has kind {kind}, which a newer release wrote");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            _ => return Err(cursor.corrupt()),
        }
    }
}

/// Why no more records were taken from a block.
enum Stop {
    Short(usize),
    Newer(u8),
    Bad,
    Limit,
}

fn records(block: &Bytes, place: &Place, at: &mut At, limit: u64) -> (Vec<Record>, Stop) {
    let mut records = Vec::with_capacity(block.len() / 256);
    let mut rest = &block[..];
    while at.position < limit {
        let frame = match frame::parse(rest, place.seed, at.position) {
            Parsed::Frame(frame) => frame,
            Parsed::Short(needed) => return (records, Stop::Short(needed)),
            Parsed::Bad => return (records, Stop::Bad),
        };
        let body = match frame.content {
            Content::Click(payload) => Body::Click(block.slice_ref(payload)),
            Content::Mark(_) => Body::Mark(frame.time),
            Content::Newer(kind) => return (records, Stop::Newer(kind)),
        };
        records.push(record(at.position, place.id, body));
        rest = &rest[frame.bytes..];
        *at = At { position: at.position + 1, offset: at.offset + frame.bytes as u64 };
    }
    (records, Stop::Limit)
}

fn record(offset: u64, journal: JournalId, body: Body) -> Record {
    Record { offset, journal, body }
}
