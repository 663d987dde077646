//! A segment: a file of frames, named by its first position.
//!
//! ```text
//! header: "hwjrnl" │ format u16 │ journal id 16 │ first position u64 │ time i64 │ checksum u32, then frames
//! ```
//! `time` is that of the last frame before the segment, so that times go on from it when all older segments have
//! been trimmed. A segment ends where the next one begins: bytes beyond that (a torn write, frames that were
//! copied onwards when a sync failed) don't count.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemas::{JournalId, UtcMicros};
use uuid::Uuid;

use super::disk::{Disk, DiskFile, ReadAt, read_full, write_all};
use super::error::JournalError;
use super::frame::Seed;
use super::scan::At;

/// Bytes before the first frame.
pub(crate) const HEADER: u64 = 44;
const MAGIC: &[u8; 6] = b"hwjrnl";
const FORMAT: u16 = 1;
const EXTENSION: &str = "seg";

/// What a segment is called until it is finished. Two may be under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Draft {
    /// The next one, made under the writer's lock.
    Next,
    /// One that frames move to, made in a sync round.
    Copy,
}

impl Draft {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::Next, Self::Copy];

    fn file_name(self) -> &'static str {
        match self {
            Self::Next => "next.tmp",
            Self::Copy => "copy.tmp",
        }
    }
}
/// Where a journal lives.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The disk.
    pub(crate) disk: Arc<dyn Disk>,
    /// The journal's directory.
    pub(crate) directory: PathBuf,
    /// Its identity.
    pub(crate) id: JournalId,
    /// What its checksums begin with.
    pub(crate) seed: Seed,
}

impl Place {
    /// The place of journal `id`.
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: PathBuf, id: JournalId) -> Self {
        Self { disk, directory, id, seed: Seed::of(id) }
    }

    /// The file of the segment that begins at `first`.
    pub(crate) fn path_of(&self, first: u64) -> PathBuf {
        self.directory.join(format!("{first:020}.{EXTENSION}"))
    }

    /// Makes an empty segment under a passing name; [`Place::name`] makes it count. Its bytes and its name are
    /// with the kernel, not yet on the disk: whoever counts its frames as synced syncs both first.
    pub(crate) fn draft(&self, draft: Draft, first: u64, time: UtcMicros) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.open(&self.draft_path(draft), true)?;
        write_all(&*file, &header(self.id, first, time), 0)?;
        Ok(file)
    }

    /// Gives the drafted segment its name, in place of one that begins at the same position.
    pub(crate) fn name(&self, draft: Draft, first: u64) -> io::Result<()> {
        self.disk.rename(&self.draft_path(draft), &self.path_of(first))
    }

    /// The passing name of a segment that isn't finished.
    pub(crate) fn draft_path(&self, draft: Draft) -> PathBuf {
        self.directory.join(draft.file_name())
    }
}

/// The segments in a directory, by first position. What isn't named like one is left alone.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(first) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            found.push((first, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn header(id: JournalId, first: u64, time: UtcMicros) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER as usize);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(id.0.as_bytes());
    bytes.extend_from_slice(&first.to_le_bytes());
    bytes.extend_from_slice(&time.0.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Reads a segment's header and checks that it belongs here. Returns its time; `None` when it is cut or damaged.
///
/// # Errors
/// `Misplaced` and `Newer` as they say; `Io` when it can't be read.
pub(crate) fn read_header(
    file: &(impl ReadAt + ?Sized),
    path: &Path,
    id: JournalId,
    first: u64,
) -> Result<Option<UtcMicros>, JournalError> {
    let mut bytes = [0; HEADER as usize];
    let read = read_full(file, &mut bytes, 0).map_err(JournalError::io("reading", path))?;
    let (body, checksum) = bytes.split_at(bytes.len() - 4);
    if read < bytes.len() || body[..6] != *MAGIC || crc32fast::hash(body).to_le_bytes() != *checksum {
        return Ok(None);
    }
    let mut fields = body[8..].chunks_exact(8).map(|eight| {
        let mut number = [0; 8];
        number.copy_from_slice(eight);
        number
    });
    let mut next = || fields.next().unwrap_or_default();
    let (high, low) = (next(), next());
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&high);
    identity[8..].copy_from_slice(&low);
    let (found, begins, time) = (JournalId(Uuid::from_bytes(identity)), u64::from_le_bytes(next()), next());
    let version = u16::from_le_bytes([body[6], body[7]]);
    if version > FORMAT {
        return Err(JournalError::Newer { path: path.to_owned(), version, known: FORMAT });
    }
    if found != id || begins != first {
        return Err(JournalError::Misplaced { path: path.to_owned(), found, first: begins });
    }
    Ok(Some(UtcMicros(i64::from_le_bytes(time))))
}

/// A segment as the writer knows it.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Its first position.
    pub(crate) first: u64,
    /// Where its frames end.
    pub(crate) end: At,
    /// Up to where they are synced.
    pub(crate) synced: At,
    /// Bytes of its file.
    pub(crate) bytes: u64,
    /// Open while it may have to be written or synced.
    pub(crate) file: Option<Arc<dyn DiskFile>>,
    /// Tells it from one of the same name that it has replaced.
    pub(crate) generation: u64,
    /// Whether its name is on the disk.
    pub(crate) named: bool,
    /// Whether a sync of it has failed: what the disk holds of its unsynced frames is unknown.
    pub(crate) suspect: bool,
    /// Whether a write left bytes behind that couldn't be cut off.
    pub(crate) torn: bool,
    /// When it was begun.
    pub(crate) born: UtcMicros,
}

impl Segment {
    /// One that is complete and synced, and wasn't read.
    pub(crate) fn complete(first: u64, end: u64, bytes: u64) -> Self {
        let end = At { position: end, offset: bytes };
        Self { file: None, named: true, synced: end, ..Self::fresh(first, end, bytes, None, 0, UtcMicros::default()) }
    }

    /// A new one.
    pub(crate) fn fresh(
        first: u64,
        end: At,
        bytes: u64,
        file: Option<Arc<dyn DiskFile>>,
        generation: u64,
        born: UtcMicros,
    ) -> Self {
        let synced = At::first(first);
        Self { first, end, synced, bytes, file, generation, named: false, suspect: false, torn: false, born }
    }

    /// Whether a sync round has something to do for it.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.named || self.synced.position < self.end.position
    }
}
