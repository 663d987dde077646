//! Unpacked bytes with a line end behind every record: as they are, or, where the first bytes show that records are no
//! lines, as [`super::framing`] makes them.

use std::io::{self, Read};

use super::framing::{Framer, Framing, decide};
use super::unpack::{Broken, Packing, Unpack};

/// Bytes read at once where they go through a framer.
const STEP: usize = 64 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug)]
enum Mode {
    /// The first bytes have not been looked at.
    Undecided,
    Lines,
    Objects(Framer),
}

/// A reader of lines' bytes.
#[derive(Debug)]
pub(super) struct Framed<R: Read> {
    source: Unpack<R>,
    mode: Mode,
    /// To be handed out next, from `at` on.
    ready: Vec<u8>,
    at: usize,
    /// What ended the source, once all that came before it has been handed out.
    fault: Option<Broken>,
    ended: bool,
    unpacked: u64,
}

impl<R: Read> Framed<R> {
    pub(super) fn new(reader: R) -> Result<Self, Broken> {
        let source = Unpack::new(reader)?;
        Ok(Self { source, mode: Mode::Undecided, ready: Vec::new(), at: 0, fault: None, ended: false, unpacked: 0 })
    }

    /// Bytes go through as they are, whatever the first ones show.
    pub(super) fn untouched(&mut self) {
        self.mode = Mode::Lines;
    }

    /// Unpacked bytes read so far.
    pub(super) fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// See [`Unpack::raw_bytes`].
    pub(super) fn raw_bytes(&self) -> u64 {
        self.source.raw_bytes()
    }

    /// See [`Unpack::packing`].
    pub(super) fn packing(&self) -> Packing {
        self.source.packing()
    }

    /// See [`Unpack::note`].
    pub(super) fn note(&self) -> Option<&str> {
        self.source.note()
    }

    /// What the bytes are read from.
    pub(super) fn inner(&self) -> &R {
        self.source.inner()
    }

    /// See [`Unpack::finish`].
    pub(super) fn finish(self) -> io::Result<u64> {
        self.source.finish()
    }

    /// Reads bytes; `None` at the end. 0 is not the end: bytes have been read that nothing has come of.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Broken> {
        if matches!(self.mode, Mode::Undecided) {
            self.look();
        }
        let ready = &self.ready[self.at..];
        if !ready.is_empty() {
            let read = ready.len().min(buffer.len());
            buffer[..read].copy_from_slice(&ready[..read]);
            self.at += read;
            return Ok(Some(read));
        }
        if let Some(fault) = self.fault.take() {
            self.ended = true;
            return Err(fault);
        }
        if self.ended {
            return Ok(None);
        }
        (self.ready, self.at) = (Vec::new(), 0);
        if matches!(self.mode, Mode::Objects(_)) {
            let mut step = vec![0; STEP];
            let read = self.fill(&mut step);
            self.frame(&step[..read]);
            return Ok(Some(0));
        }
        let read = self.source.read(buffer)?;
        self.unpacked += read as u64;
        self.ended = read == 0;
        Ok((read > 0).then_some(read))
    }

    /// Reads as many of the first bytes as it takes to know what they are.
    fn look(&mut self) {
        let mut head = Vec::new();
        let framing = loop {
            let whole = self.ended || self.fault.is_some();
            let is_short = !whole && head.len() < BOM.len() && BOM.starts_with(&head);
            if let Some(framing) = decide(head.strip_prefix(BOM).unwrap_or(&head), whole).filter(|_| !is_short) {
                break framing;
            }
            let held = head.len();
            head.resize(held + STEP, 0);
            let read = self.fill(&mut head[held..]);
            head.truncate(held + read);
        };
        if framing == Framing::Lines {
            self.mode = Mode::Lines;
            self.ready = head;
        } else {
            self.mode = Mode::Objects(Framer::new());
            self.frame(head.strip_prefix(BOM).unwrap_or(&head));
        }
    }

    /// Reads unpacked bytes; 0 when there are no more, and then it is noted why.
    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        match self.source.read(buffer) {
            Ok(read) => {
                self.unpacked += read as u64;
                self.ended = read == 0;
                read
            }
            Err(fault) => {
                self.fault = Some(fault);
                0
            }
        }
    }

    /// Makes lines of the next bytes.
    fn frame(&mut self, bytes: &[u8]) {
        let Mode::Objects(framer) = &mut self.mode else { return };
        framer.push(bytes, &mut self.ready);
        if self.ended || self.fault.is_some() {
            framer.finish(&mut self.ready);
        }
    }
}
