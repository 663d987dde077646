//! Walking over the frames of a segment.

use std::io;

use schemas::UtcMicros;

use super::disk::{ReadAt, read_full};
use super::frame::{self, Frame, Parsed, Seed};
use super::segment::HEADER;

/// How much is read at a time.
const BLOCK: usize = 1 << 20;

/// A place between two frames of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// Position of the frame that begins here.
    pub(crate) position: u64,
    /// Where in the file.
    pub(crate) offset: u64,
}

impl At {
    /// Where the first frame of a segment begins.
    pub(crate) fn first(position: u64) -> Self {
        Self { position, offset: HEADER }
    }
}

/// What follows the last good frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing, or the limit was reached.
    Clean,
    /// The beginning of a frame: its append hadn't returned.
    Partial,
    /// Bytes that are no frame.
    Bad,
}

/// Walks over the frames from `from` to position `limit`, as long as they are good.
///
/// # Errors
/// When the file can't be read.
pub(crate) fn scan(
    file: &(impl ReadAt + ?Sized),
    seed: Seed,
    from: At,
    limit: u64,
    mut visit: impl FnMut(&Frame<'_>),
) -> io::Result<(At, Tail)> {
    let mut at = from;
    let mut wanted = BLOCK;
    loop {
        let left = file.length()?.saturating_sub(at.offset);
        let mut block = vec![0; wanted.min(left as usize)];
        let read = read_full(file, &mut block, at.offset)?;
        let mut rest = &block[..read];
        loop {
            if at.position >= limit {
                return Ok((at, Tail::Clean));
            }
            match frame::parse(rest, seed, at.position) {
                Parsed::Frame(frame) => {
                    visit(&frame);
                    rest = &rest[frame.bytes..];
                    at = At { position: at.position + 1, offset: at.offset + frame.bytes as u64 };
                }
                Parsed::Bad => return Ok((at, Tail::Bad)),
                Parsed::Short(_) if read as u64 == left => {
                    return Ok((at, if rest.is_empty() { Tail::Clean } else { Tail::Partial }));
                }
                Parsed::Short(needed) => {
                    wanted = needed.max(BLOCK);
                    break;
                }
            }
        }
    }
}

/// What the marks tell that stand anywhere from `offset` on, among whatever other bytes: the greatest `synced` and the
/// latest time.
///
/// # Errors
/// When the file can't be read.
pub(crate) fn salvage(file: &(impl ReadAt + ?Sized), seed: Seed, offset: u64) -> io::Result<Option<(u64, UtcMicros)>> {
    let finder = memchr::memmem::Finder::new(&frame::MARK_PATTERN);
    let mut told: Option<(u64, UtcMicros)> = None;
    let mut offset = offset;
    loop {
        let mut block = vec![0; BLOCK];
        let read = read_full(file, &mut block, offset)?;
        let block = &block[..read];
        for found in finder.find_iter(block).filter(|found| *found >= 4) {
            if let Some((mark, time)) = frame::parse_mark_anywhere(&block[found - 4..], seed) {
                let before = told.unwrap_or((mark.synced, time));
                told = Some((before.0.max(mark.synced), before.1.max(time)));
            }
        }
        if read < BLOCK {
            return Ok(told);
        }
        // A mark that the block's end cuts is whole in the next.
        offset += (BLOCK - frame::MARK_BYTES) as u64;
    }
}
