//! The file that comes next: hashed while another is taken in, and parsed from its beginning as soon as the lines of
//! that one all are.
//!
//! ```text
//! file 1: hash ─ parse ══════════╗ land ═══════════════╗
//! file 2:        hash            ╚► parse (a guess) ═══╩═► look at the lake ─ the guess holds: land ═══
//!                                                                          └ it doesn't: parse anew
//! ```
//! How lines are taken follows from the lake, which the import before is still changing. So the next file is guessed to
//! be taken as that one, if it holds the same sort of lines; when its turn comes this is looked up as if nothing had
//! been begun. What was begun is bounded, as every import is, by its blocks and one chunk, and ends when it is dropped.
//! Whoever parses it knows the links that were looked up for the file before.

use ingest::edge::unpack::Packing;
use tokio::sync::{mpsc, watch};

use super::drafts::{Check, MOST_BYTES};
use super::error::Failure;
use super::identity::{self, Hashed};
use super::opened::{Content, Opened};
use super::pipeline::{Chunk, Chunks, Retired};
use super::reading::Reading;
use super::run::{ID_DIGITS, Run};

/// A file that [`Importer::read_ahead`](super::Importer::read_ahead) has read.
#[derive(Debug)]
pub struct Ahead {
    pub(super) hashed: Hashed,
    pub(super) begun: Option<Begun>,
    /// Whether its chunks may be drafted: not again where that came to nothing.
    pub(super) may_draft: bool,
}

/// A file whose lines are being parsed before its turn.
#[derive(Debug)]
pub(super) struct Begun {
    import_id: String,
    way: Way,
    parsing: Parsing,
}

/// What a file's lines are, and how they are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) content: Content,
    pub(super) reading: Reading,
}

/// A file on its way through the parsers.
#[derive(Debug)]
pub(super) struct Parsing {
    /// Its chunks, in order.
    pub(super) chunks: mpsc::Receiver<Result<Chunk, Failure>>,
    pub(super) check: Check,
    /// Turns true when the last line is parsed.
    pub(super) ended: watch::Receiver<bool>,
    /// Who has parsed them, then.
    pub(super) retired: Retired,
}

/// What the parsers of the import under way are doing.
#[derive(Clone, Debug, Default)]
pub(super) enum Parsers {
    /// There is none, or nothing is known of it.
    #[default]
    Idle,
    /// It needs them.
    Busy,
    /// They have parsed its last line; this is how its lines were taken.
    Free(Box<Way>, Retired),
}

impl Begun {
    /// What was begun, if it was under this id and in this way.
    pub(super) fn parsing(self, import_id: &str, way: &Way) -> Option<Parsing> {
        (self.import_id == import_id && self.way == *way).then_some(self.parsing)
    }
}

impl Run {
    /// Begins to parse a file before its turn, if its lines may be guessed to be taken in this way. Whatever is wrong
    /// with it is said when its turn comes.
    pub(super) fn begin(&self, name: &str, hashed: &Hashed, way: Way, retired: &Retired) -> Option<Begun> {
        let opened = self.open(name, hashed).ok()??;
        if opened.content != way.content {
            return None;
        }
        let key = identity::key(&hashed.sha256, &self.options);
        let import_id = key[..ID_DIGITS].to_owned();
        let parsing = self.parse(opened, hashed, way.reading.clone(), &import_id, retired).ok()?;
        Some(Begun { import_id, way, parsing })
    }

    /// Whether a file's chunks are to be drafted until its reader has found it sound.
    fn drafts(&self, opened: &Opened, hashed: &Hashed, reading: &Reading) -> bool {
        let is_packed = opened.lines.packing() != Packing::Plain;
        is_packed && hashed.bytes <= MOST_BYTES && reading.meets_nothing() && !self.options.dry_run
    }

    /// Parses a file, and finds out whether it is sound, unless that can wait.
    pub(super) fn parse(
        &self,
        opened: Opened,
        hashed: &Hashed,
        reading: Reading,
        import_id: &str,
        before: &Retired,
    ) -> Result<Parsing, Failure> {
        let (whole, limits) = (hashed.reader(), self.shared.config.limits);
        let mut check = Check::Due(whole, limits);
        if !self.drafts(&opened, hashed, &reading) {
            check = check.start();
        }
        let made_ids = reading.makes_ids_for();
        let workers = self.workers(reading, import_id, before);
        let (retired, chunk_lines) = (Retired::default(), self.shared.config.chunk_lines);
        let chunks = Chunks::start(opened.lines, opened.parser, workers, &retired, made_ids, chunk_lines)?;
        let (chunks, ended) = chunks.collect();
        Ok(Parsing { chunks, check, ended, retired })
    }
}
