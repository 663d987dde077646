//! A run of whole lines, as the reader cuts them.

use bytes::Bytes;

use super::request::Reject;

/// How the last line of a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With its line end.
    Whole,
    /// With the file.
    Unterminated,
    /// It was longer than the limit: what is here is its beginning, the rest was skipped.
    TooLong,
    /// The packed data broke off inside it.
    CutShort,
}

/// Lines of a file, in order.
#[derive(Clone, Debug)]
pub struct Block {
    /// The lines with their ends.
    pub bytes: Bytes,
    /// Number of the first one, from 1.
    pub first_line: u64,
    /// How the last one ends.
    pub tail: Tail,
    /// Longest line, in bytes without its end.
    pub line_limit: usize,
    /// Counted once: several want to know.
    lines: u64,
}

/// A line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLine<'a> {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Where it begins in the block.
    pub start: usize,
    /// Its bytes without the line end.
    pub bytes: &'a [u8],
    /// Why it isn't to be parsed.
    pub fault: Option<Reject>,
}

impl Block {
    /// A block of these lines, the first of which has this number.
    pub fn new(bytes: Bytes, first_line: u64, tail: Tail, line_limit: usize) -> Self {
        let ends = memchr::memchr_iter(b'\n', &bytes).count() as u64;
        let lines = ends + u64::from(tail != Tail::Whole);
        Self { bytes, first_line, tail, line_limit, lines }
    }

    /// How many lines there are.
    pub fn line_count(&self) -> u64 {
        self.lines
    }

    /// The lines, in order.
    pub fn lines(&self) -> Lines<'_> {
        Lines { block: self, next: 0, number: self.first_line }
    }
}

impl RawLine<'_> {
    /// Where its bytes end in the block.
    pub fn end(&self) -> usize {
        self.start + self.bytes.len()
    }
}

/// Iterator over the lines of a [`Block`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    block: &'a Block,
    next: usize,
    number: u64,
}

impl<'a> Iterator for Lines<'a> {
    type Item = RawLine<'a>;

    fn next(&mut self) -> Option<RawLine<'a>> {
        let start = self.next;
        let rest = self.block.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let (bytes, ended) = match memchr::memchr(b'\n', rest) {
            Some(end) => (&rest[..end], true),
            None => (rest, false),
        };
        self.next = start + bytes.len() + usize::from(ended);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let fault = match self.block.tail {
            Tail::TooLong if !ended => Some(Reject::TOO_LONG),
            _ if bytes.len() > self.block.line_limit => Some(Reject::TOO_LONG),
            Tail::CutShort if !ended => Some(Reject::CUT_SHORT),
            _ => None,
        };
        let number = self.number;
        self.number += 1;
        Some(RawLine { number, start, bytes, fault })
    }
}
