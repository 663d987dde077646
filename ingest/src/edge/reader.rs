//! The file as blocks of whole lines: unpacked, counted, hashed, bounded in every direction. Records that are no lines
//! have been made into some (`framing`), so that a line's number is its record's.
//!
//! A line over the limit is skipped without being held. Packed data that ends in the middle keeps what came before;
//! damaged data is an error, which [`LineReader::skim`] finds before any line is used. Where blocks end depends on the
//! unpacked bytes and the limits alone.

use std::io::{self, Read};

use bytes::Bytes;
use parquet::file::reader::ChunkReader;

use super::block::{Block, Tail};
use super::contents::Contents;
use super::framed::Framed;
use super::unpack::{Broken, Packing};

/// How much of a line over the limit is kept, to show what it was.
pub const KEPT_OF_LONG_LINE: usize = 4 * 1024;
/// The limit on the ratio holds once this much has come out: small files may be as repetitive as they like.
const RATIO_FROM: u64 = 64 << 20;
/// Bytes unpacked at once: what gzip copies from before a step's beginning takes it longer.
const STEP: usize = 256 * 1024;
/// Unpacked bytes held at once where nobody wants them.
const SKIMMED: usize = 256 * 1024;
const TRUNCATED: &str = "the packed data ends in the middle";
const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a file may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Longest line, bytes: what is longer is a line that can't be read.
    pub line: usize,
    /// Size of a block, bytes; at least four lines. What may be resumed must be read with the same.
    pub block: usize,
    /// Most unpacked bytes.
    pub unpacked: u64,
    /// Most unpacked bytes for each raw byte, once 64 MiB have come out.
    pub ratio: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { line: 64 << 10, block: 2 << 20, unpacked: 1 << 40, ratio: 500 }
    }
}

/// Why a file can't be read on. Packed data that ends in the middle is none of these: see [`Ending::truncated`].
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The raw bytes can't be read.
    #[error("can't be read: {0}")]
    Io(#[from] io::Error),
    /// It is packed in a way that isn't unpacked here.
    #[error("it is packed with {packing}; only gzip and zstd are unpacked")]
    Unsupported {
        /// The packing's name.
        packing: &'static str,
    },
    /// It is damaged: lines out of it may never have been written.
    #[error("the {packing} data is corrupt, noticed at byte {at} of the file, in member {member}: {why}")]
    Corrupt {
        /// How it is packed.
        packing: Packing,
        /// Which member or frame, from 1.
        member: u64,
        /// The raw byte at which it was noticed; the damage is there or before.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// It holds something, of which not a line is left.
    #[error("nothing of it can be read: {why}")]
    Nothing {
        /// Why.
        why: String,
    },
    /// It unpacks to more than is allowed.
    #[error("unpacks to more than {limit} bytes, the limit")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It unpacks to more for each byte than any log does.
    #[error("unpacks to more than {limit} times its size, the limit: no log does")]
    Ratio {
        /// The limit.
        limit: u64,
    },
}

impl ReadError {
    fn of(broken: Broken) -> Self {
        match broken {
            Broken::Io(error) => Self::Io(error),
            // where this matters it was told apart before
            Broken::Truncated => Self::Io(io::ErrorKind::UnexpectedEof.into()),
            Broken::Corrupt { packing, member, at, why } => Self::Corrupt { packing, member, at, why },
            Broken::Unsupported(packing) => Self::Unsupported { packing },
        }
    }
}

/// What is known of a file when it has been read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Raw bytes.
    pub raw_bytes: u64,
    /// Unpacked bytes.
    pub bytes: u64,
    /// Lines, or records where these are no lines.
    pub lines: u64,
    /// How it is packed.
    pub packing: Packing,
    /// That the packed data ends in the middle, or what follows it isn't any. What came before was read.
    pub truncated: Option<String>,
}

/// Reads a file as blocks of lines.
#[derive(Debug)]
pub struct LineReader<R: Read> {
    source: Framed<R>,
    limits: ReadLimits,
    /// The beginning of the next block: a line whose end hasn't come yet.
    carry: Vec<u8>,
    /// Inside a line over the limit, the rest of which is thrown away.
    skipping: bool,
    ended: bool,
    truncated: bool,
    next_line: u64,
    /// No block has been read yet.
    first: bool,
    peeked: Option<Block>,
}

impl<R: Read> LineReader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// When the first bytes can't be read, or are of a packing that isn't supported.
    pub fn new(reader: R, limits: ReadLimits) -> Result<Self, ReadError> {
        let line = limits.line.max(1);
        let limits = ReadLimits { line, block: limits.block.max(line * 4), ..limits };
        Ok(Self {
            source: Framed::new(reader).map_err(ReadError::of)?,
            limits,
            carry: Vec::new(),
            skipping: false,
            ended: false,
            truncated: false,
            next_line: 1,
            first: true,
            peeked: None,
        })
    }

    /// How the file is packed.
    pub fn packing(&self) -> Packing {
        self.source.packing()
    }

    /// The beginning of the file, unpacked: the bytes of its first block. Nothing is taken.
    ///
    /// # Errors
    /// As [`LineReader::next_block`].
    pub fn head(&mut self) -> Result<&[u8], ReadError> {
        if self.peeked.is_none() {
            self.peeked = self.read_block()?;
        }
        Ok(self.peeked.as_ref().map_or(&[], |block| &block.bytes))
    }

    /// Reads the whole file without its lines, with all checks. Returns its number of raw bytes.
    ///
    /// # Errors
    /// As [`LineReader::next_block`].
    pub fn skim(mut self) -> Result<u64, ReadError> {
        self.source.untouched();
        let mut buffer = vec![0; SKIMMED];
        while !self.ended {
            self.fill(&mut buffer, 0)?;
        }
        Ok(self.source.finish()?)
    }

    /// The next block; `None` at the end of the file, or where its packed data ends in the middle.
    ///
    /// # Errors
    /// As [`ReadError`] says; then the file is of no use any more.
    pub fn next_block(&mut self) -> Result<Option<Block>, ReadError> {
        match self.peeked.take() {
            Some(block) => Ok(Some(block)),
            None => self.read_block(),
        }
    }

    /// Reads what raw bytes are left, and says what is known of the file.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn finish(self) -> io::Result<Ending> {
        let packing = self.source.packing();
        let truncated = if self.truncated { Some(TRUNCATED.to_owned()) } else { self.source.note().map(str::to_owned) };
        let (bytes, lines) = (self.source.unpacked(), self.next_line - 1);
        let raw_bytes = self.source.finish()?;
        Ok(Ending { raw_bytes, bytes, lines, packing, truncated })
    }

    fn read_block(&mut self) -> Result<Option<Block>, ReadError> {
        let first = std::mem::take(&mut self.first);
        while !self.ended {
            let mut buffer = std::mem::take(&mut self.carry);
            let held = buffer.len();
            buffer.resize(self.limits.block.max(held), 0);
            let filled = self.fill(&mut buffer, held)?;
            buffer.truncate(filled);
            if first && buffer.starts_with(BOM) {
                buffer.drain(..BOM.len());
            }
            if self.skipping {
                let rest = memchr::memchr(b'\n', &buffer).map(|end| end + 1);
                self.skipping = rest.is_none();
                buffer.drain(..rest.unwrap_or(filled));
            }
            if let Some(block) = self.cut(buffer) {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Fills `buffer` from `filled` on, until it is full or the file ends.
    fn fill(&mut self, buffer: &mut [u8], mut filled: usize) -> Result<usize, ReadError> {
        while filled < buffer.len() && !self.ended {
            let end = buffer.len().min(filled + STEP);
            match self.source.read(&mut buffer[filled..end]) {
                Ok(None) => self.ended = true,
                Ok(Some(read)) => {
                    filled += read;
                    self.check_size()?;
                }
                Err(Broken::Truncated) => {
                    self.truncated = true;
                    self.ended = true;
                }
                Err(other) => return Err(ReadError::of(other)),
            }
        }
        Ok(filled)
    }

    fn check_size(&mut self) -> Result<(), ReadError> {
        let ReadLimits { unpacked, ratio, .. } = self.limits;
        let bytes = self.source.unpacked();
        if bytes > unpacked {
            return Err(ReadError::TooLarge { limit: unpacked });
        }
        if bytes > RATIO_FROM && bytes / ratio.max(1) > self.source.raw_bytes() {
            return Err(ReadError::Ratio { limit: ratio });
        }
        Ok(())
    }

    /// Cuts a block of whole lines off `buffer`, and keeps the rest for the next one.
    fn cut(&mut self, mut buffer: Vec<u8>) -> Option<Block> {
        let whole = memchr::memrchr(b'\n', &buffer).map_or(0, |end| end + 1);
        let rest = buffer.len() - whole;
        let tail = if rest == 0 {
            Tail::Whole
        } else if self.ended {
            // a member that is left out may hold the line's rest
            if self.truncated || self.source.note().is_some() { Tail::CutShort } else { Tail::Unterminated }
        } else if rest > self.limits.line + 1 {
            // One more than the limit, as a carriage return before the line end doesn't count.
            buffer.truncate(whole + rest.min(KEPT_OF_LONG_LINE));
            self.skipping = true;
            Tail::TooLong
        } else {
            self.carry = buffer.split_off(whole);
            Tail::Whole
        };
        if buffer.is_empty() {
            return None;
        }
        let bytes = Bytes::from(buffer);
        let block = Block::new(bytes, self.next_line, tail, self.limits.line);
        self.next_line += block.line_count();
        Some(block)
    }
}

impl<F: ChunkReader> LineReader<Contents<F>> {
    /// How much of the file has been read, in bytes, for a progress bar.
    pub fn raw_bytes(&self) -> u64 {
        self.source.inner().rows_read().unwrap_or_else(|| self.source.raw_bytes())
    }
}

#[cfg(test)]
mod tests;
