//! The side of a journal that writes: what an append does, under the journal's lock.
//!
//! Invariants: frames stand one behind the other from the first segment's header to `end`; a frame counts when its
//! `write(2)` has returned for all of its bytes; what a failed write left behind is cut off, or, when the disk
//! refuses that too, left behind for good by going on in a new segment.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use schemas::{Analytics, UtcMicros};

use super::budget::Budget;
use super::disk::{is_full, write_all};
use super::frame::{self, Mark};
use super::lacking::Clicks;
use super::loss_file::LossFile;
use super::recover::Recovered;
use super::scan::At;
use super::segment::{Draft, HEADER, Place, Segment};
use super::stats::{Damage, Losses, Refusal, Torn};

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The event is with the kernel: no kill of this process can lose it.
    Written {
        /// Its position.
        offset: u64,
    },
    /// An event that may be sampled was not written; counted.
    Dropped(Refusal),
    /// A billed click was not written; counted, with its time. The redirect answers all the same.
    Lost(Refusal),
}

/// When a new segment begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// From this many bytes on.
    pub(crate) bytes: u64,
    /// And from this age on, so that a quiet journal doesn't keep addresses for long.
    pub(crate) age: Duration,
}

/// A journal's state, behind its lock.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) place: Place,
    pub(crate) limits: Limits,
    /// In order. Never empty unless damaged; the last is written to.
    pub(crate) segments: VecDeque<Segment>,
    /// The first position that isn't written.
    pub(crate) end: u64,
    pub(crate) synced: u64,
    pub(crate) last_time: UtcMicros,
    pub(crate) last_mark: Option<UtcMicros>,
    /// Clicks written so far, and how many of them are synced.
    pub(crate) clicks: u64,
    pub(crate) clicks_synced: u64,
    /// Which frames they are.
    pub(super) written: Clicks,
    pub(crate) generation: u64,
    pub(crate) sealed: bool,
    pub(crate) damage: Option<Damage>,
    pub(crate) torn: Torn,
    pub(crate) dropped: Losses,
    pub(crate) lost: Losses,
    /// Where `lost` is kept; `None` when the disk had no room for it.
    pub(crate) loss_file: Option<LossFile>,
    pub(crate) sync_errors: u64,
    pub(crate) sync_failing_since: Option<UtcMicros>,
    /// Trimmed segments whose files are still to be deleted.
    pub(crate) doomed: Vec<(PathBuf, u64)>,
    /// Set while writes fail, and while billed clicks are lost: each is logged once.
    failing: bool,
    losing: bool,
    buffer: Vec<u8>,
}

impl Writer {
    /// Goes on where `recovered` ends, or begins a new journal; all of it is synced then. No time is before `floor`.
    /// `kept` is the journal's file of losses and what is in it.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn new(
        place: Place,
        limits: Limits,
        recovered: Recovered,
        floor: UtcMicros,
        kept: Option<(LossFile, Losses)>,
        budget: &Budget,
    ) -> io::Result<Self> {
        let (loss_file, lost) = kept.map_or((None, Losses::default()), |(file, lost)| (Some(file), lost));
        let bytes = recovered.segments.iter().map(|segment| segment.bytes).sum();
        budget.take_anyway(bytes);
        let end = recovered.segments.back().map(|last| last.end.position);
        let end = end.or(recovered.damage.map(|damage| damage.position)).unwrap_or(0);
        let last_time = recovered.last_time.unwrap_or(floor).max(floor);
        let mut writer = Self {
            place,
            limits,
            segments: recovered.segments,
            end,
            synced: end,
            last_time,
            last_mark: None,
            clicks: 0,
            clicks_synced: 0,
            written: recovered.clicks,
            generation: 0,
            sealed: recovered.sealed || recovered.damage.is_some(),
            damage: recovered.damage,
            torn: recovered.torn,
            dropped: Losses::default(),
            lost,
            loss_file,
            sync_errors: 0,
            sync_failing_since: None,
            doomed: Vec::new(),
            failing: false,
            losing: false,
            buffer: Vec::with_capacity(4 << 10),
        };
        match writer.begin_or_go_on(budget) {
            Ok(()) => Ok(writer),
            Err(error) => {
                budget.give(writer.bytes());
                Err(error)
            }
        }
    }

    fn begin_or_go_on(&mut self, budget: &Budget) -> io::Result<()> {
        if self.segments.is_empty() && !self.sealed {
            budget.with_reserve(|| self.roll(budget))?;
        }
        if self.damage.is_some() {
            // Its files are evidence: they are synced, but no frame of them moves.
            self.segments.iter_mut().for_each(|segment| segment.suspect = false);
        }
        self.make_durable(budget)
    }

    /// The first position that is left.
    pub(crate) fn begin(&self) -> u64 {
        self.segments.front().map_or(self.end, |segment| segment.first)
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum::<u64>()
            + self.doomed.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Writes an event. `now` is the clock's time, to which the event's is held as far as it doesn't go back.
    pub(crate) fn append(
        &mut self,
        promise: Analytics,
        now: UtcMicros,
        budget: &Budget,
        encode: impl FnOnce(UtcMicros, &mut Vec<u8>),
    ) -> Appended {
        let time = now.max(self.last_time);
        if self.sealed {
            return self.refuse(promise, time, Refusal::Sealed);
        }
        if promise != Analytics::Billed && !budget.admits_unbilled() {
            return self.refuse(promise, time, Refusal::NearlyFull);
        }
        frame::begin(&mut self.buffer);
        encode(time, &mut self.buffer);
        if self.buffer.len() > frame::HEAD + frame::MAX_PAYLOAD {
            return self.refuse(promise, time, Refusal::TooLong);
        }
        frame::finish_click(&mut self.buffer, self.place.seed, self.end, time);
        let bytes = self.buffer.len() as u64;
        if let Err(refusal) = budget.take(bytes, promise) {
            return self.refuse(promise, time, refusal);
        }
        if let Err(error) = self.write(promise == Analytics::Billed, budget) {
            budget.give(bytes);
            let refusal =
                if is_full(&error) && promise != Analytics::Billed { Refusal::NearlyFull } else { Refusal::Disk };
            return self.refuse(promise, time, refusal);
        }
        self.clicks += 1;
        self.written.add(self.end - 1, time);
        self.last_time = time;
        self.failing = false;
        if promise == Analytics::Billed && std::mem::take(&mut self.losing) {
            tracing::warn!(journal = %self.place.id, lost = self.lost.count, "billed clicks are taken again");
        }
        Appended::Written { offset: self.end - 1 }
    }

    /// Counts an event that isn't written.
    fn refuse(&mut self, promise: Analytics, time: UtcMicros, why: Refusal) -> Appended {
        if promise == Analytics::Billed {
            self.lose(1, time, why);
            if !std::mem::replace(&mut self.losing, true) {
                tracing::error!(journal = %self.place.id, why = why.as_str(), "billed clicks are being lost");
            }
            Appended::Lost(why)
        } else {
            self.dropped.add(1, time, why);
            Appended::Dropped(why)
        }
    }

    /// Counts billed clicks that are gone, where a kill can't take the count back.
    pub(crate) fn lose(&mut self, count: u64, time: UtcMicros, why: Refusal) {
        self.lost.add(count, time, why);
        if let Some(file) = &mut self.loss_file {
            file.write(&self.lost, false);
        }
    }

    /// Writes a mark, even beyond the budget: without marks `complete_through` would stand still.
    ///
    /// # Errors
    /// When the disk refuses it; the next one will say the same.
    pub(crate) fn mark(&mut self, now: UtcMicros, last: bool, budget: &Budget) -> io::Result<()> {
        let time = now.max(self.last_time);
        let mark = Mark { synced: self.synced, last };
        frame::encode_mark(&mut self.buffer, self.place.seed, self.end, time, mark);
        self.write(last, budget)?;
        budget.take_anyway(frame::MARK_BYTES as u64);
        self.last_time = time;
        self.last_mark = Some(time);
        Ok(())
    }

    /// Writes the frame in `buffer` at `end`. When the disk is full and `uses_reserve`, as much of the reserve is
    /// given back as it takes; any other error is answered once with a new segment.
    fn write(&mut self, uses_reserve: bool, budget: &Budget) -> io::Result<()> {
        let mut has_rolled = false;
        loop {
            let Err(error) = self.write_once(budget) else { return Ok(()) };
            if is_full(&error) {
                if !(uses_reserve && budget.release()) {
                    return Err(error);
                }
            } else if has_rolled {
                return Err(error);
            } else {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::error!(%error, journal = %self.place.id, "writing to the journal fails");
                }
                has_rolled = true;
                if let Some(active) = self.segments.back_mut() {
                    active.torn = true;
                }
            }
        }
    }

    fn write_once(&mut self, budget: &Budget) -> io::Result<()> {
        self.make_room(budget)?;
        let Some(active) = self.segments.back_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let Some(file) = &active.file else { return Err(io::ErrorKind::NotFound.into()) };
        if let Err(error) = write_all(&**file, &self.buffer, active.end.offset) {
            // Part of it may have been written: cut, so that the segment ends with a whole frame.
            active.torn |= file.set_length(active.end.offset).is_err();
            return Err(error);
        }
        let bytes = self.buffer.len() as u64;
        active.end = At { position: self.end + 1, offset: active.end.offset + bytes };
        active.bytes += bytes;
        self.end += 1;
        Ok(())
    }

    /// Begins a new segment when the active one is full, or can't be written any more.
    fn make_room(&mut self, budget: &Budget) -> io::Result<()> {
        let Some(active) = self.segments.back() else { return Ok(()) };
        if active.torn {
            return self.roll(budget);
        }
        if active.end.offset >= self.limits.bytes && active.end.position > active.first {
            // Too big is better than not written: the next append tries again.
            let _ = self.roll(budget);
        }
        Ok(())
    }

    /// Begins a new segment when the active one is old and has frames.
    pub(crate) fn roll_if_old(&mut self, now: UtcMicros, budget: &Budget) {
        let is_old = self
            .segments
            .back()
            .is_some_and(|active| active.end.position > active.first && now.since(active.born) >= self.limits.age);
        if is_old && !self.sealed {
            let _ = self.roll(budget);
        }
    }

    /// Begins a new segment at `end`.
    fn roll(&mut self, budget: &Budget) -> io::Result<()> {
        let file = self.place.draft(Draft::Next, self.end, self.last_time)?;
        self.place.name(Draft::Next, self.end)?;
        budget.take_anyway(HEADER);
        self.generation += 1;
        let at = At::first(self.end);
        let fresh = Segment::fresh(self.end, at, HEADER, Some(file.into()), self.generation, self.last_time);
        match self.segments.back_mut() {
            Some(active) if active.first == self.end => {
                // It had no frame, and its file has just been replaced.
                budget.give(active.bytes);
                *active = fresh;
            }
            _ => self.segments.push_back(fresh),
        }
        Ok(())
    }

    /// Takes whole segments below `committed` out of the journal, never the active one nor what isn't synced. The
    /// next segment must be on the disk, or a power cut would leave none that tells where positions go on.
    /// Returns the files to delete, oldest first.
    pub(crate) fn trim(&mut self, committed: u64) -> Vec<(PathBuf, u64)> {
        self.written.forget(committed);
        let mut files = std::mem::take(&mut self.doomed);
        while self.segments.len() > 1
            && let Some(first) = self.segments.front()
            && first.end.position <= committed.min(self.synced)
            && self.segments[1].named
            && let Some(gone) = self.segments.pop_front()
        {
            files.push((self.place.path_of(gone.first), gone.bytes));
        }
        files
    }
}
