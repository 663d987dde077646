//! What is found when a journal is opened.
//!
//! Positions follow from the segments alone. Only the newest are read: a mark tells what was synced, and what lies
//! below it in older segments needs no look. Then, from the first hole on:
//!
//! * nothing there was synced (a kill in the middle of a write, a power cut): it is cut off, and counted;
//! * a mark says that it *was* synced: that is damage, nothing is cut, and the journal takes no more events.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use schemas::UtcMicros;

use super::disk::DiskFile;
use super::error::JournalError;
use super::frame::Content;
use super::lacking::Clicks;
use super::scan::{At, Tail, salvage, scan};
use super::segment::{Draft, HEADER, Place, Segment, list, read_header};
use super::stats::{Damage, Torn};

/// A journal as found, cut where it must be. What isn't known to be synced is marked suspect: the process before
/// may have been killed after a sync had failed, and then syncing alone wouldn't bring it to the disk.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// In order; none when the journal is new.
    pub(crate) segments: VecDeque<Segment>,
    /// Time of the last frame.
    pub(crate) last_time: Option<UtcMicros>,
    /// Whether the last frame is a seal.
    pub(crate) sealed: bool,
    /// What was cut off.
    pub(crate) torn: Torn,
    /// Where synced frames are gone.
    pub(crate) damage: Option<Damage>,
    /// Which of its frames are clicks.
    pub(super) clicks: Clicks,
}

/// A segment that was read.
pub(super) struct Looked {
    first: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    bytes: u64,
    end: At,
    tail: Tail,
    /// Time of its header, when that is good.
    born: Option<UtcMicros>,
    /// Time of its last frame, else of its header.
    time: Option<UtcMicros>,
    /// The latest time known of it: `time`, or that of a mark behind its tail.
    pub(super) newest: Option<UtcMicros>,
    sealed: bool,
    /// Greatest `synced` of its marks, those behind its tail too.
    pub(super) synced: u64,
    pub(super) clicks: Clicks,
}

impl Looked {
    /// The position up to which it can be read.
    pub(super) fn reached(&self) -> u64 {
        if self.born.is_some() { self.end.position } else { self.first }
    }
}

/// Opens what is there.
///
/// # Errors
/// When the disk fails, or a segment doesn't belong here.
pub(crate) fn recover(place: &Place) -> Result<Recovered, JournalError> {
    for draft in Draft::ALL {
        // Usually there is none, and one that stays is written over.
        let _ = place.disk.remove(&place.draft_path(draft));
    }
    let listed = list(&place.directory).map_err(JournalError::io("listing", &place.directory))?;
    let mut looked: VecDeque<Looked> = VecDeque::new();
    let mut limit = u64::MAX;
    let mut synced = 0;
    let mut unread = listed.len();
    while unread > 0 && (synced < limit || looked.front().is_none_or(|front| front.born.is_none())) {
        unread -= 1;
        let (first, path) = &listed[unread];
        let found = look(place, *first, path.clone(), limit)?;
        synced = synced.max(found.synced);
        limit = *first;
        looked.push_front(found);
    }
    let since = looked.front().map_or(0, |front| front.first);
    let mut recovered = Recovered { clicks: Clicks::since(since), ..Recovered::default() };
    for (index, (first, path)) in listed[..unread].iter().enumerate() {
        let bytes = std::fs::metadata(path).map_err(JournalError::io("reading", path))?.len();
        recovered.segments.push_back(Segment::complete(*first, listed[index + 1].0, bytes));
    }
    match hole(&looked) {
        Some(at) if is_damage(&looked, at, synced) => {
            let position = looked[at].reached();
            tracing::error!(journal = %place.id, position, synced, "the journal is damaged: synced frames are gone");
            recovered.damage = Some(Damage { position, synced });
            // What can be read is kept for reading, and what follows is kept as it is.
            looked.truncate(if looked[at].born.is_some() { at + 1 } else { at });
        }
        Some(at) => recovered.torn = cut(place, &mut looked, at)?,
        None => {}
    }
    recovered.adopt(place, looked, synced)?;
    Ok(recovered)
}

/// Reads one segment up to where the next begins.
pub(super) fn look(place: &Place, first: u64, path: PathBuf, limit: u64) -> Result<Looked, JournalError> {
    let file: Arc<dyn DiskFile> = place.disk.open(&path, false).map_err(JournalError::io("opening", &path))?.into();
    let born = read_header(&*file, &path, place.id, first)?;
    let reading = |error| JournalError::io("reading", &path)(error);
    let bytes = file.length().map_err(reading)?;
    let (mut time, mut sealed, mut synced, mut clicks) = (born, false, 0, Clicks::default());
    let (end, tail) = scan(&*file, place.seed, At::first(first), limit, |frame| {
        time = Some(frame.time);
        sealed = false;
        match frame.content {
            Content::Mark(mark) => {
                sealed = mark.last;
                synced = synced.max(mark.synced);
            }
            Content::Click(_) => clicks.add(frame.position, frame.time),
            Content::Newer(_) => {}
        }
    })
    .map_err(|error| JournalError::io("reading", &path)(error))?;
    let mut newest = time;
    if tail != Tail::Clean {
        let found = salvage(&*file, place.seed, end.offset);
        let found = found.map_err(|error| JournalError::io("reading", &path)(error))?;
        synced = synced.max(found.map_or(0, |(synced, _)| synced));
        newest = newest.max(found.map(|(_, time)| time));
    }
    if born.is_none() && end.position > first {
        // The header is synced before any frame counts, so frames behind a bad one were.
        synced = synced.max(first + 1);
    }
    Ok(Looked { first, path, file, bytes, end, tail, born, time, newest, sealed, synced, clicks })
}

/// The first segment that doesn't reach up to the next, or the last one if something follows its last frame.
pub(super) fn hole(looked: &VecDeque<Looked>) -> Option<usize> {
    (0..looked.len()).find(|index| {
        let this = &looked[*index];
        let whole = match looked.get(index + 1) {
            Some(next) => this.end.position == next.first,
            None => this.tail == Tail::Clean,
        };
        !(whole && this.born.is_some())
    })
}

/// Whether synced frames are gone. A segment is trimmed only when the next one's header is synced, so if the oldest
/// that is left has none, more than an unsynced tail is missing; unless it is the first of all.
pub(super) fn is_damage(looked: &VecDeque<Looked>, at: usize, synced: u64) -> bool {
    looked[at].reached() < synced || (at == 0 && looked[0].born.is_none() && looked[0].first > 0)
}

/// Cuts off what follows the hole in segment `at`, the newest first, so that a kill in between leaves no new hole.
fn cut(place: &Place, looked: &mut VecDeque<Looked>, at: usize) -> Result<Torn, JournalError> {
    let keeps_frames = looked[at].born.is_some();
    let mut torn = Torn::default();
    for gone in looked.drain(if keeps_frames { at + 1 } else { at }..).rev() {
        torn.bytes += gone.bytes.saturating_sub(HEADER);
        torn.frames_lost |= gone.bytes > HEADER;
        place.disk.remove(&gone.path).map_err(JournalError::io("removing", &gone.path))?;
    }
    if keeps_frames && let Some(last) = looked.back_mut() {
        torn.bytes += last.bytes.saturating_sub(last.end.offset);
        torn.frames_lost |= last.tail == Tail::Bad || last.synced > last.end.position;
        last.file.set_length(last.end.offset).map_err(JournalError::io("cutting", &last.path))?;
        last.bytes = last.end.offset;
    }
    tracing::warn!(journal = %place.id, torn.bytes, torn.frames_lost, "cut off a torn tail");
    place.disk.sync_directory(&place.directory).map_err(JournalError::io("syncing", &place.directory))?;
    Ok(torn)
}

impl Recovered {
    /// Takes over what was read; marks say that it is synced up to `synced`.
    fn adopt(&mut self, place: &Place, looked: VecDeque<Looked>, synced: u64) -> Result<(), JournalError> {
        let last = looked.len().saturating_sub(1);
        for (index, found) in looked.into_iter().enumerate() {
            self.last_time = self.last_time.max(found.time);
            self.clicks.extend(found.clicks);
            self.sealed = index == last && found.sealed;
            let start = At::first(found.first);
            let reading = JournalError::io("reading", &found.path);
            let (known, _) =
                scan(&*found.file, place.seed, start, synced.min(found.end.position), |_| {}).map_err(reading)?;
            let mut segment = Segment::fresh(
                found.first,
                found.end,
                found.bytes,
                Some(found.file),
                0,
                found.born.unwrap_or_default(),
            );
            segment.synced = known;
            segment.named = known.position > found.first;
            segment.suspect = known.position < found.end.position;
            self.segments.push_back(segment);
        }
        Ok(())
    }
}
