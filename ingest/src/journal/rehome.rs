//! Syncing, and what follows when it fails.
//!
//! After a failed sync the kernel may have dropped what it couldn't write, and says so only once: the next sync of
//! the same file would succeed without the bytes. So the unsynced frames are read back, checked, and written under
//! the same positions to a new segment, which takes over from there. Frames that can't be read back any more are
//! counted as lost; marks take their positions, so that no later position moves. The same is done on opening with
//! what isn't known to be synced, since the process before may have been killed after a failed sync.

use std::io;
use std::sync::Arc;

use schemas::UtcMicros;

use super::budget::Budget;
use super::disk::{DiskFile, is_full, read_full, write_all};
use super::frame::{self, Mark, Seed};
use super::scan::{At, scan};
use super::segment::{Draft, Place, Segment};
use super::stats::Refusal;
use super::writer::Writer;

/// How much is copied at a time.
const BLOCK: u64 = 1 << 20;

/// A segment that a sync round syncs, as it was when the round began.
#[derive(Debug)]
pub(crate) struct Dirty {
    first: u64,
    generation: u64,
    named: bool,
    file: Arc<dyn DiskFile>,
    end: At,
}

impl Dirty {
    /// Syncs it, and its name if it is new.
    pub(crate) fn flush(&self, place: &Place) -> io::Result<()> {
        self.file.sync()?;
        if self.named { Ok(()) } else { place.disk.sync_directory(&place.directory) }
    }
}

/// A segment whose unsynced frames must move.
#[derive(Debug)]
pub(crate) struct Suspect {
    first: u64,
    generation: u64,
    file: Arc<dyn DiskFile>,
    from: At,
    end: At,
    born: UtcMicros,
}

/// The segment that they move to.
#[derive(Debug)]
pub(crate) struct Copy {
    file: Box<dyn DiskFile>,
    seed: Seed,
    /// Where the copy ends.
    at: At,
    /// How far the source was copied.
    copied: u64,
    /// Up to where the journal is synced.
    synced: u64,
    /// Time of the last frame copied.
    time: UtcMicros,
    /// Whether the source could no longer be read on.
    broken: bool,
    lost: u64,
}

impl Copy {
    /// Begins the copy with what was there when `suspect` was taken.
    pub(crate) fn begin(place: &Place, suspect: &Suspect) -> io::Result<Self> {
        let first = suspect.from.position;
        let mut copy = Self {
            file: place.draft(Draft::Copy, first, suspect.born)?,
            seed: place.seed,
            at: At::first(first),
            copied: suspect.from.offset,
            synced: first,
            time: suspect.born,
            broken: false,
            lost: 0,
        };
        copy.go_on(&*suspect.file, suspect.end)?;
        Ok(copy)
    }

    /// Copies up to `end` of the source.
    fn go_on(&mut self, source: &dyn DiskFile, end: At) -> io::Result<()> {
        if !self.broken {
            let from = At { position: self.at.position, offset: self.copied };
            let mut time = self.time;
            let (reached, _) = scan(source, self.seed, from, end.position, |frame| time = frame.time)?;
            self.copy(source, reached.offset)?;
            self.time = time;
            self.at.position = reached.position;
            self.broken = reached.position < end.position;
        }
        if self.broken { self.fill(end.position) } else { Ok(()) }
    }

    fn copy(&mut self, source: &dyn DiskFile, end: u64) -> io::Result<()> {
        let mut block = vec![0; BLOCK.min(end - self.copied) as usize];
        while self.copied < end {
            let wanted = (end - self.copied).min(block.len() as u64) as usize;
            if read_full(source, &mut block[..wanted], self.copied)? < wanted {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            write_all(&*self.file, &block[..wanted], self.at.offset)?;
            self.copied += wanted as u64;
            self.at.offset += wanted as u64;
        }
        Ok(())
    }

    /// Takes the positions of lost frames with marks. Their time is true of the last frame that is left.
    fn fill(&mut self, end: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        while self.at.position < end {
            let mark = Mark { synced: self.synced, last: false };
            frame::encode_mark(&mut bytes, self.seed, self.at.position, self.time, mark);
            write_all(&*self.file, &bytes, self.at.offset)?;
            self.at = At { position: self.at.position + 1, offset: self.at.offset + bytes.len() as u64 };
            self.lost += 1;
        }
        Ok(())
    }
}

impl Writer {
    /// What a sync round has to sync, in order.
    pub(crate) fn dirty(&self) -> Vec<Dirty> {
        let dirty = self.segments.iter().filter(|segment| segment.is_dirty());
        dirty
            .filter_map(|segment| {
                Some(Dirty {
                    first: segment.first,
                    generation: segment.generation,
                    named: segment.named,
                    file: Arc::clone(segment.file.as_ref()?),
                    end: segment.end,
                })
            })
            .collect()
    }

    /// Syncs everything, on opening. Suspect frames move first; on a full disk that has no room for them syncing
    /// must do.
    pub(crate) fn make_durable(&mut self, budget: &Budget) -> io::Result<()> {
        while let Some(suspect) = self.suspect() {
            let moved = budget.with_reserve(|| {
                let copy = Copy::begin(&self.place, &suspect)?;
                self.take_over(&suspect, copy, budget)
            });
            match (moved, self.place_of(suspect.first, suspect.generation)) {
                (Ok(()), _) => {}
                (Err(error), Some(index)) if is_full(&error) => self.segments[index].suspect = false,
                (Err(error), _) => return Err(error),
            }
        }
        for dirty in self.dirty() {
            dirty.flush(&self.place)?;
            self.flushed(&dirty);
        }
        self.synced = self.end;
        Ok(())
    }

    /// Takes note that `dirty`, and all before it, is synced.
    pub(crate) fn flushed(&mut self, dirty: &Dirty) {
        let last = self.segments.len().saturating_sub(1);
        let Some(index) = self.place_of(dirty.first, dirty.generation) else { return };
        let segment = &mut self.segments[index];
        segment.synced = dirty.end;
        segment.named = true;
        if index < last && !segment.is_dirty() {
            segment.file = None;
        }
        self.synced = self.synced.max(dirty.end.position);
    }

    /// Takes note that a sync of `dirty` failed.
    pub(crate) fn doubt(&mut self, dirty: &Dirty) {
        if let Some(index) = self.place_of(dirty.first, dirty.generation) {
            self.segments[index].suspect = true;
        }
    }

    /// A segment whose unsynced frames must move before anything is synced again.
    pub(crate) fn suspect(&self) -> Option<Suspect> {
        let segment = self.segments.iter().find(|segment| segment.suspect)?;
        Some(Suspect {
            first: segment.first,
            generation: segment.generation,
            file: Arc::clone(segment.file.as_ref()?),
            from: segment.synced,
            end: segment.end,
            born: segment.born,
        })
    }

    /// Copies what has come since, and lets the copy take over.
    pub(crate) fn take_over(&mut self, suspect: &Suspect, mut copy: Copy, budget: &Budget) -> io::Result<()> {
        let Some(index) = self.place_of(suspect.first, suspect.generation) else { return Ok(()) };
        copy.go_on(&*suspect.file, self.segments[index].end)?;
        let first = suspect.from.position;
        self.place.name(Draft::Copy, first)?;
        self.generation += 1;
        let file = Some(Arc::from(copy.file));
        let bytes = copy.at.offset;
        let fresh = Segment::fresh(first, copy.at, bytes, file, self.generation, suspect.born);
        budget.take_anyway(bytes);
        let old = &mut self.segments[index];
        if old.first == first {
            budget.give(old.bytes);
            *old = fresh;
        } else {
            old.end = old.synced;
            old.suspect = false;
            old.file = None;
            self.segments.insert(index + 1, fresh);
        }
        if copy.lost > 0 {
            let time = self.last_time;
            self.lose(copy.lost, time, Refusal::Disk);
        }
        Ok(())
    }

    fn place_of(&self, first: u64, generation: u64) -> Option<usize> {
        self.segments.iter().position(|segment| segment.first == first && segment.generation == generation)
    }
}
