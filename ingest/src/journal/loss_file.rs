//! The file that keeps count of a journal's lost clicks, so that a loss is not forgotten with the process that had it.
//!
//! ```text
//! slot 0 │ slot 1      4 KiB each, written in turn; the valid one with the greater sequence counts
//! slot: "hwloss" │ format u16 │ journal id 16 │ sequence u64 │ count u64 │ at least u64 │ first i64 │ last i64
//!       │ why u8 │ final u8 │ checksum u32
//! ```
//! Clicks are lost when the disk is full, so the file's blocks are taken and written beforehand: writing over them needs
//! no room. Each loss is with the kernel before its redirect is answered, so that a kill takes none back; it is synced
//! once a second, so that a power cut takes no more than a second's. Since nobody can tell afterwards which it was, a
//! count that wasn't made final by a drain is "at least".
//!
//! One writer: the journal's owner. What of it is in table `gaps` is for the lake alone to know.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemas::{JournalId, UtcMicros};

use super::disk::{DiskFile, ReadAt, RealDisk, read_full, write_all};
use super::segment::Place;
use super::stats::{Losses, Refusal};

/// The file's name.
const NAME: &str = "losses";
/// Its name until it is whole.
const DRAFT: &str = "losses.tmp";
/// Bytes of a slot: a block of most file systems, so that no write touches both.
const SLOT: u64 = 4_096;
/// Bytes of a slot that say something.
const ENTRY: usize = 70;
const MAGIC: &[u8; 6] = b"hwloss";
const FORMAT: u16 = 1;
/// How often it is synced while clicks are being lost.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    sequence: u64,
    losses: Losses,
    /// Whether the process that wrote it has come to its end.
    is_final: bool,
}

/// A journal's file of losses, open for its owner.
#[derive(Debug)]
pub(crate) struct LossFile {
    file: Arc<dyn DiskFile>,
    id: JournalId,
    sequence: u64,
    is_dirty: bool,
    last_sync: Option<Instant>,
    /// Set while writing fails: that is logged once.
    is_failing: bool,
}

impl LossFile {
    /// Opens the file of the journal at `place`, made when there is none, and says what is in it.
    ///
    /// # Errors
    /// When the disk fails, or has no room for a new one.
    pub(crate) fn open(place: &Place) -> io::Result<(Self, Losses)> {
        let found = match place.disk.open(&place.directory.join(NAME), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        let id = place.id;
        if let Some(file) = found {
            if let Some(entry) = newest(&*file, id)? {
                let losses = entry.found_by_owner();
                return Ok((Self::new(file.into(), id, entry.sequence), losses));
            }
            tracing::error!(journal = %id, "the file of lost clicks is damaged: losses before now may be forgotten");
        }
        let fresh = Entry { sequence: 1, losses: Losses::default(), is_final: true };
        let draft = place.directory.join(DRAFT);
        let file = place.disk.open(&draft, true)?;
        let mut bytes = vec![0; 2 * SLOT as usize];
        let first = slot_of(fresh.sequence) as usize;
        bytes[first..first + ENTRY].copy_from_slice(&encode(&fresh, id));
        write_all(&*file, &bytes, 0)?;
        // only then are its blocks surely taken
        file.sync()?;
        place.disk.rename(&draft, &place.directory.join(NAME))?;
        place.disk.sync_directory(&place.directory)?;
        Ok((Self::new(file.into(), id, fresh.sequence), fresh.losses))
    }

    fn new(file: Arc<dyn DiskFile>, id: JournalId, sequence: u64) -> Self {
        Self { file, id, sequence, is_dirty: false, last_sync: None, is_failing: false }
    }

    /// Writes `losses` down; `is_final` when no more can come. What fails is logged, and written with the next.
    pub(crate) fn write(&mut self, losses: &Losses, is_final: bool) {
        let entry = Entry { sequence: self.sequence + 1, losses: *losses, is_final };
        match write_all(&*self.file, &encode(&entry, self.id), slot_of(entry.sequence)) {
            Ok(()) => {
                self.sequence = entry.sequence;
                self.is_dirty = true;
                self.is_failing = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, journal = %self.id, "lost clicks can't be written down; a kill would forget them");
                }
            }
        }
    }

    /// Whether it is time for a sync.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.is_dirty && self.last_sync.is_none_or(|last| now.duration_since(last) >= SYNC_EVERY)
    }

    /// What to sync, outside of any lock; `None` when all is on the disk.
    pub(crate) fn begin_sync(&mut self, now: Instant) -> Option<Arc<dyn DiskFile>> {
        self.last_sync = Some(now);
        std::mem::take(&mut self.is_dirty).then(|| Arc::clone(&self.file))
    }

    /// The sync that was begun has failed.
    pub(crate) fn sync_failed(&mut self) {
        self.is_dirty = true;
    }
}

/// What a journal below `journals` has lost so far, for a process that doesn't own it. Nothing when it keeps no count.
///
/// # Errors
/// When its file can't be read.
pub fn losses_of(journals: &Path, id: JournalId) -> io::Result<Losses> {
    match std::fs::File::open(journals.join(id.to_string()).join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Losses::default()),
        // its owner may live: whether a count is final is for the next owner to judge
        opened => Ok(newest(&opened?, id)?.map(|entry| entry.losses).unwrap_or_default()),
    }
}

/// Deletes the count of a closed journal whose losses are all in table `gaps`, so that the journal can be removed.
///
/// # Errors
/// When the disk fails.
pub fn forget_losses(journals: &Path, id: JournalId) -> io::Result<()> {
    use super::disk::Disk as _;
    match RealDisk.remove(&journals.join(id.to_string()).join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Entry {
    /// As the next owner takes it: a count that its process didn't make final may be too small.
    fn found_by_owner(&self) -> Losses {
        let mut losses = self.losses;
        if !self.is_final {
            losses.at_least = losses.count;
        }
        losses
    }
}

/// Where the entry of this sequence stands.
fn slot_of(sequence: u64) -> u64 {
    sequence % 2 * SLOT
}

/// The newest whole entry of a file.
fn newest(file: &(impl ReadAt + ?Sized), id: JournalId) -> io::Result<Option<Entry>> {
    let mut found: Option<Entry> = None;
    for slot in [0, SLOT] {
        let mut bytes = [0; ENTRY];
        let read = read_full(file, &mut bytes, slot)?;
        let entry = decode(&bytes, id).filter(|_| read == ENTRY);
        found = entry.into_iter().chain(found).max_by_key(|entry| entry.sequence);
    }
    Ok(found)
}

fn encode(entry: &Entry, id: JournalId) -> [u8; ENTRY] {
    let losses = &entry.losses;
    let mut bytes = Vec::with_capacity(ENTRY);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(id.0.as_bytes());
    for number in [entry.sequence, losses.count, losses.at_least] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for time in [losses.first, losses.last] {
        bytes.extend_from_slice(&time.unwrap_or_default().0.to_le_bytes());
    }
    bytes.push(losses.why.map_or(0, code_of));
    bytes.push(u8::from(entry.is_final));
    bytes.resize(ENTRY - 4, 0);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    let mut fixed = [0; ENTRY];
    fixed.copy_from_slice(&bytes);
    fixed
}

fn decode(bytes: &[u8; ENTRY], id: JournalId) -> Option<Entry> {
    let (body, checksum) = bytes.split_at(ENTRY - 4);
    let is_ours = body[..6] == *MAGIC && body[6..8] == FORMAT.to_le_bytes() && body[8..24] == *id.0.as_bytes();
    if !is_ours || crc32fast::hash(body).to_le_bytes() != *checksum {
        return None;
    }
    let mut numbers = body[24..64].chunks_exact(8).map(|eight| {
        let mut number = [0; 8];
        number.copy_from_slice(eight);
        u64::from_le_bytes(number)
    });
    let mut next = || numbers.next().unwrap_or_default();
    let (sequence, count, at_least) = (next(), next(), next());
    let (first, last) = (UtcMicros(next() as i64), UtcMicros(next() as i64));
    let time = |time| (count > 0).then_some(time);
    let losses = Losses { count, at_least, first: time(first), last: time(last), why: refusal_of(body[64]) };
    Some(Entry { sequence, losses, is_final: body[65] != 0 })
}

/// The stored number of a refusal; 0 is none.
fn code_of(why: Refusal) -> u8 {
    match why {
        Refusal::NearlyFull => 1,
        Refusal::Full => 2,
        Refusal::Disk => 3,
        Refusal::Sealed => 4,
        Refusal::TooLong => 5,
    }
}

fn refusal_of(code: u8) -> Option<Refusal> {
    use Refusal::{Disk, Full, NearlyFull, Sealed, TooLong};
    [NearlyFull, Full, Disk, Sealed, TooLong].into_iter().find(|why| code_of(*why) == code)
}
