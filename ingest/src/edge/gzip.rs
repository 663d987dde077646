//! gzip, member by member (RFC 1952), with every check that the format has.
//!
//! By hand around the library's inflate, for what its reader of several members doesn't tell: which member is broken
//! and where, whether what follows a member is padding, and whether data that runs out was cut or damaged.

use std::io::BufRead;

use flate2::{Decompress, FlushDecompress, Status};

use super::unpack::{Fault, next_byte};

/// A member's first two bytes.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];
const DEFLATE: u8 = 8;
/// Flags of a header: its own checksum, more fields, a name, a comment; the upper three are reserved.
const CHECKSUM: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;
/// A file that runs out is whole but damaged, if its last bytes tell a size this near to what came out.
const NEAR: u32 = 256 << 10;

/// Where in a member the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Header,
    Body,
    Trailer,
}

/// Unpacks gzip.
#[derive(Debug)]
pub(super) struct Gzip {
    inflate: Decompress,
    checksum: crc32fast::Hasher,
    at: At,
    /// The last four bytes read: where they are a file's last, a whole member's size.
    last: [u8; 4],
}

impl Gzip {
    pub(super) fn new() -> Self {
        let (inflate, checksum) = (Decompress::new(false), crc32fast::Hasher::new());
        Self { inflate, checksum, at: At::Header, last: [0; 4] }
    }

    /// Whether the next byte begins a member.
    pub(super) fn is_between(&self) -> bool {
        self.at == At::Header
    }

    /// Reads on in a member, which has been found to begin here; 0 when it has ended, and all its checks hold.
    pub(super) fn read(&mut self, source: &mut impl BufRead, out: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match self.at {
                At::Header => {
                    skip_header(source)?;
                    self.inflate.reset(false);
                    self.checksum.reset();
                    self.at = At::Body;
                }
                At::Body => {
                    let made = self.inflate_some(source, out)?;
                    if made > 0 {
                        return Ok(made);
                    }
                }
                At::Trailer => {
                    self.check(source)?;
                    self.at = At::Header;
                    return Ok(0);
                }
            }
        }
    }

    fn inflate_some(&mut self, source: &mut impl BufRead, out: &mut [u8]) -> Result<usize, Fault> {
        let input = source.fill_buf()?;
        let (was_in, was_out) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(input, out, FlushDecompress::None);
        let (took, made) = ((self.inflate.total_in() - was_in) as usize, (self.inflate.total_out() - was_out) as usize);
        let ended = input.is_empty();
        input[took.saturating_sub(4)..took].iter().for_each(|byte| self.take(*byte));
        source.consume(took);
        self.checksum.update(&out[..made]);
        match status {
            Err(_) => Err(Fault::Corrupt("its compressed data makes no sense".to_owned())),
            Ok(Status::StreamEnd) => {
                self.at = At::Trailer;
                Ok(made)
            }
            Ok(_) if made == 0 && ended => Err(self.run_out()),
            Ok(_) if made == 0 && took == 0 => Err(Fault::Corrupt("its compressed data leads nowhere".to_owned())),
            Ok(_) => Ok(made),
        }
    }

    /// A member without its end. Damage can hide the end from the inflater, which then takes checksum and size for data
    /// and runs out: what came out is then none of the log's.
    fn run_out(&self) -> Fault {
        let off = u32::from_le_bytes(self.last).wrapping_sub(self.inflate.total_out() as u32);
        if off.min(off.wrapping_neg()) <= NEAR {
            return Fault::Corrupt("its compressed data runs over its end".to_owned());
        }
        Fault::Truncated
    }

    fn check(&mut self, source: &mut impl BufRead) -> Result<(), Fault> {
        let Some(checksum) = self.number(source)? else { return Err(self.run_out()) };
        if checksum != self.checksum.clone().finalize() {
            return Err(Fault::Corrupt("its checksum doesn't match".to_owned()));
        }
        match self.number(source)? {
            None => Err(Fault::Truncated),
            Some(size) if size == self.inflate.total_out() as u32 => Ok(()),
            Some(_) => Err(Fault::Corrupt("its size doesn't match".to_owned())),
        }
    }

    /// The next four bytes as a number; `None` when there are fewer.
    fn number(&mut self, source: &mut impl BufRead) -> Result<Option<u32>, Fault> {
        for _ in 0..4 {
            let Some(byte) = next_byte(source)? else { return Ok(None) };
            self.take(byte);
        }
        Ok(Some(u32::from_le_bytes(self.last)))
    }

    fn take(&mut self, byte: u8) {
        self.last.rotate_left(1);
        self.last[3] = byte;
    }
}

fn byte(source: &mut impl BufRead) -> Result<u8, Fault> {
    next_byte(source)?.ok_or(Fault::Truncated)
}

/// Reads a header, whose two magic bytes have been read.
fn skip_header(source: &mut impl BufRead) -> Result<(), Fault> {
    let (method, flags) = (byte(source)?, byte(source)?);
    if method != DEFLATE || flags & RESERVED != 0 {
        return Err(Fault::Corrupt("its header is none of gzip's".to_owned()));
    }
    // time, level, system
    for _ in 0..6 {
        byte(source)?;
    }
    if flags & EXTRA != 0 {
        let length = u16::from_le_bytes([byte(source)?, byte(source)?]);
        for _ in 0..length {
            byte(source)?;
        }
    }
    for text in [NAME, COMMENT] {
        while flags & text != 0 && byte(source)? != 0 {}
    }
    if flags & CHECKSUM != 0 {
        byte(source)?;
        byte(source)?;
    }
    Ok(())
}
