//! Reading a journal that another process writes, from its directory alone.
//!
//! Only the owner knows what is synced; it says so in its marks. So two cursors walk: one reads ahead for the
//! greatest `synced` that any mark tells, the other reads records below it. Nothing is kept about where they are:
//! both begin anew from the segments.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use super::frame::Content;
use super::reader::{self, Cursor, Stretch};
use super::scan::{At, scan};
use super::segment::{Place, list};
use crate::stream::Record;

/// A reader of another process's journal. Its calls block.
#[derive(Debug)]
pub(crate) struct Follower {
    place: Place,
    segments: Vec<(u64, PathBuf)>,
    ahead: Option<Ahead>,
    cursor: Option<Cursor>,
    seen: Seen,
}

/// What is known of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The first position that is left.
    pub(crate) begin: u64,
    /// The first position that isn't written.
    pub(crate) end: u64,
    /// Positions below this are synced.
    pub(crate) synced: u64,
    /// Nothing will come after `end`.
    pub(crate) sealed: bool,
}

/// The cursor that looks for marks.
#[derive(Debug)]
struct Ahead {
    first: u64,
    inode: u64,
    file: File,
    at: At,
}

impl Follower {
    /// Of the journal at `place`. Its directory needn't be there yet.
    pub(crate) fn new(place: Place) -> Self {
        Self { place, segments: Vec::new(), ahead: None, cursor: None, seen: Seen::default() }
    }

    /// Looks again at what is written and synced.
    ///
    /// # Errors
    /// When the directory or a segment can't be read.
    pub(crate) fn refresh(&mut self) -> io::Result<Seen> {
        self.segments = match list(&self.place.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        if let Some((begin, _)) = self.segments.first() {
            self.seen.begin = *begin;
        }
        if !self.seen.sealed {
            self.look_ahead()?;
        }
        Ok(self.seen)
    }

    fn look_ahead(&mut self) -> io::Result<()> {
        let Some(mut index) = self.index_ahead()? else { return Ok(()) };
        loop {
            let Some(ahead) = &mut self.ahead else { return Ok(()) };
            let (mut synced, mut sealed) = (self.seen.synced, false);
            let next = self.segments.get(index + 1).map(|(first, _)| *first);
            let (at, _) = scan(&ahead.file, self.place.seed, ahead.at, next.unwrap_or(u64::MAX), |frame| {
                if let Content::Mark(mark) = frame.content {
                    synced = synced.max(mark.synced);
                    sealed |= mark.last;
                }
            })?;
            ahead.at = at;
            self.seen.end = at.position;
            self.seen.synced = synced;
            if sealed {
                self.sync_all()?;
                self.seen.synced = at.position;
                self.seen.sealed = true;
                return Ok(());
            }
            if next.is_none_or(|next| next > at.position) {
                return Ok(());
            }
            index += 1;
            self.ahead = Some(self.open(index)?);
        }
    }

    /// Where to look on for marks, as an index into the segments: where the last look ended, or, when there was none
    /// or its segment is gone, at the newest segment that has a mark.
    fn index_ahead(&mut self) -> io::Result<Option<usize>> {
        if let Some(ahead) = &self.ahead
            && let Some(index) = self.segments.iter().position(|(first, _)| *first == ahead.first)
            && inode(&self.segments[index].1)? == ahead.inode
        {
            return Ok(Some(index));
        }
        for index in (0..self.segments.len()).rev() {
            let ahead = self.open(index)?;
            let mut has_mark = false;
            scan(&ahead.file, self.place.seed, ahead.at, u64::MAX, |frame| {
                has_mark |= matches!(frame.content, Content::Mark(_));
            })?;
            if has_mark || index == 0 {
                self.ahead = Some(ahead);
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn open(&self, index: usize) -> io::Result<Ahead> {
        let (first, path) = &self.segments[index];
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(Ahead { first: *first, inode, file, at: At::first(*first) })
    }

    /// No mark can say of itself that it is synced; so of a seal the reader makes sure on its own.
    fn sync_all(&self) -> io::Result<()> {
        let after = self.segments.partition_point(|(first, _)| *first <= self.seen.synced);
        for (_, path) in &self.segments[after.saturating_sub(1)..] {
            File::open(path)?.sync_data()?;
        }
        File::open(&self.place.directory)?.sync_all()
    }

    /// Reads records from `from` on, which [`Follower::refresh`] has seen to be synced.
    ///
    /// # Errors
    /// When they can't be read, or are damaged.
    pub(crate) fn read(&mut self, from: u64, max_bytes: usize) -> io::Result<Vec<Record>> {
        match self.read_once(from, max_bytes) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                // The owner may have gone on in another segment, or trimmed this one.
                if self.refresh()?.begin > from {
                    return Ok(Vec::new());
                }
                self.read_once(from, max_bytes)
            }
            records => records,
        }
    }

    fn read_once(&mut self, from: u64, max_bytes: usize) -> io::Result<Vec<Record>> {
        let after = self.segments.partition_point(|(first, _)| *first <= from);
        let Some((first, path)) = after.checked_sub(1).map(|index| &self.segments[index]) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let next = self.segments.get(after).map_or(u64::MAX, |(first, _)| *first);
        let stretch =
            Stretch { first: *first, generation: inode(path)?, path: path.clone(), limit: next.min(self.seen.synced) };
        let (records, cursor) = reader::read(&self.place, self.cursor.take(), &stretch, from, max_bytes)?;
        self.cursor = Some(cursor);
        Ok(records)
    }

    /// What was seen last.
    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }
}

fn inode(path: &std::path::Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.ino())
}
