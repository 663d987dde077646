//! Zstandard, frame by frame (RFC 8878).
//!
//! By hand around the library's decoder, to know where frames begin: what follows one may be padding. A frame has a
//! checksum only if its writer wanted one (the command line does); without it, damage that decodes is not noticed.

use std::fmt;
use std::io::{self, BufRead};

use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

use super::unpack::Fault;

/// A frame's first four bytes.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Unpacks Zstandard.
pub(super) struct Zstandard {
    decoder: Decoder<'static>,
    inside: bool,
}

impl fmt::Debug for Zstandard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstandard").field("inside", &self.inside).finish_non_exhaustive()
    }
}

/// Whether these are the first four bytes of a frame, of data or of something to skip.
pub(super) fn begins_frame(magic: [u8; 4]) -> bool {
    magic == MAGIC || (magic[0] & 0xf0 == 0x50 && magic[1..] == [0x2a, 0x4d, 0x18])
}

impl Zstandard {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { decoder: Decoder::new()?, inside: false })
    }

    /// Whether the next byte begins a frame.
    pub(super) fn is_between(&self) -> bool {
        !self.inside
    }

    /// Begins a frame, whose first four bytes have been read.
    pub(super) fn begin(&mut self, magic: [u8; 4]) -> Result<(), Fault> {
        self.decoder.reinit()?;
        self.inside = true;
        let mut nowhere = [0; 0];
        self.run(&magic, &mut nowhere).map(drop)
    }

    /// Reads on in a frame; 0 when it has ended, and all its checks hold.
    pub(super) fn read(&mut self, source: &mut impl BufRead, out: &mut [u8]) -> Result<usize, Fault> {
        while self.inside {
            let input = source.fill_buf()?;
            let ended = input.is_empty();
            let (took, made) = self.run(input, out)?;
            source.consume(took);
            if made > 0 {
                return Ok(made);
            }
            if ended && self.inside {
                return Err(Fault::Truncated);
            }
        }
        Ok(0)
    }

    fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), Fault> {
        let (mut input, mut out) = (InBuffer::around(input), OutBuffer::around(out));
        let more = self.decoder.run(&mut input, &mut out).map_err(|e| Fault::Corrupt(e.to_string()))?;
        self.inside = more != 0;
        Ok((input.pos(), out.pos()))
    }
}
