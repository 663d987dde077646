//! A journal as a partition of the stream.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use schemas::JournalId;
use tokio::sync::watch;

use super::disk::RealDisk;
use super::follow::{Follower, Seen};
use super::handle::{Journal, Progress, View};
use super::reader::{self, Cursor};
use super::segment::Place;
use crate::stream::{Partition, Record, StreamError};

const WAY_OUT: &str = "`highwater journal retire ID` gives it up, and a new generation starts";
/// How often another process's journal is looked at: after news soon, then less and less.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(200);

/// One reader of a journal. It is shown what is synced and nothing more.
///
/// At the end of a sealed journal `read` returns no records at once, and `is_sealed` is true from then on.
#[derive(Debug)]
pub struct JournalPartition {
    name: String,
    source: Source,
    is_sealed: bool,
}

#[derive(Debug)]
enum Source {
    /// A journal of this process, which wakes its readers.
    Own { journal: Journal, progress: watch::Receiver<Progress>, cursor: Option<Cursor> },
    /// One of another process, which is looked at again and again. Behind a lock, since a look that was given up
    /// half-way goes on to its end.
    Followed(Arc<Mutex<Follower>>),
}

/// What a look at another process's journal found.
enum Found {
    Records(Vec<Record>),
    NothingYet,
    End,
}

impl JournalPartition {
    /// A reader of a journal of this process.
    pub fn new(journal: &Journal) -> Self {
        let source = Source::Own { journal: journal.clone(), progress: journal.progress(), cursor: None };
        Self { name: journal.id().to_string(), source, is_sealed: false }
    }

    /// A reader of a journal that another process owns, below the directory of its journals.
    ///
    /// It sees clicks as soon as the owner's next mark stands behind them, and a mark with the one after it.
    pub fn in_directory(journals: &Path, id: JournalId) -> Self {
        let place = Place::new(Arc::new(RealDisk), journals.join(id.to_string()), id);
        let source = Source::Followed(Arc::new(Mutex::new(Follower::new(place))));
        Self { name: id.to_string(), source, is_sealed: false }
    }
}

#[async_trait]
impl Partition for JournalPartition {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&mut self, from: u64, max_bytes: usize) -> Result<Vec<Record>, StreamError> {
        let records = match &mut self.source {
            Source::Own { journal, progress, cursor } => {
                read_own(&self.name, journal, progress, cursor, from, max_bytes).await?
            }
            Source::Followed(follower) => follow(&self.name, follower, from, max_bytes).await?,
        };
        self.is_sealed |= records.is_none();
        Ok(records.unwrap_or_default())
    }

    async fn end(&mut self) -> Result<u64, StreamError> {
        match &self.source {
            Source::Own { progress, .. } => Ok(progress.borrow().synced),
            Source::Followed(follower) => {
                let seen = blocking(follower, Follower::refresh).await;
                seen.map(|seen| seen.synced).map_err(|source| failed(&self.name, source))
            }
        }
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed
    }
}

/// Reads a journal of this process; `None` at the end of a sealed one.
async fn read_own(
    name: &str,
    journal: &Journal,
    progress: &mut watch::Receiver<Progress>,
    cursor: &mut Option<Cursor>,
    from: u64,
    max_bytes: usize,
) -> Result<Option<Vec<Record>>, StreamError> {
    loop {
        let now = *progress.borrow_and_update();
        let view = journal.view(from);
        check(name, from, view.begin, view.end)?;
        if from < now.synced {
            match read_stretch(journal, view, cursor.clone(), from, max_bytes).await {
                Ok((records, after)) => {
                    *cursor = Some(after);
                    return Ok(Some(records));
                }
                // Trimmed, or replaced by another segment, since the view was taken.
                Err(error) if error.kind() == io::ErrorKind::NotFound => tokio::task::yield_now().await,
                Err(error) => return Err(failed(name, error)),
            }
        } else if let Some(damage) = view.damage {
            let message = format!(
                "the journal is damaged: its frames from {} on can't be read, and they were synced up to {}; {WAY_OUT}",
                damage.position, damage.synced
            );
            return Err(failed(name, io::Error::new(io::ErrorKind::InvalidData, message)));
        } else if now.sealed && from == view.end {
            return Ok(None);
        } else if progress.changed().await.is_err() {
            return Err(failed(name, io::ErrorKind::BrokenPipe.into()));
        }
    }
}

/// Reads on a thread that may block. The cursor is a copy: a read that is given up leaves the old one as it was.
async fn read_stretch(
    journal: &Journal,
    view: View,
    cursor: Option<Cursor>,
    from: u64,
    max_bytes: usize,
) -> io::Result<(Vec<Record>, Cursor)> {
    let Some(stretch) = view.stretch else { return Err(io::ErrorKind::NotFound.into()) };
    let journal = journal.clone();
    let read = move || reader::read(journal.place(), cursor, &stretch, from, max_bytes);
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// Reads a journal of another process; `None` at the end of a sealed one.
async fn follow(
    name: &str,
    follower: &Arc<Mutex<Follower>>,
    from: u64,
    max_bytes: usize,
) -> Result<Option<Vec<Record>>, StreamError> {
    let mut wait = FIRST_LOOK;
    loop {
        let (seen, found) = blocking(follower, move |follower| look(follower, from, max_bytes))
            .await
            .map_err(|source| failed(name, source))?;
        check(name, from, seen.begin, seen.end)?;
        match found {
            Found::Records(records) => return Ok(Some(records)),
            Found::End => return Ok(None),
            Found::NothingYet => {}
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LAST_LOOK);
    }
}

fn look(follower: &mut Follower, from: u64, max_bytes: usize) -> io::Result<(Seen, Found)> {
    let mut seen = follower.seen();
    if from < seen.begin || from >= seen.synced {
        seen = follower.refresh()?;
    }
    if from >= seen.begin && from < seen.synced {
        let records = follower.read(from, max_bytes)?;
        let found = if records.is_empty() { Found::NothingYet } else { Found::Records(records) };
        return Ok((follower.seen(), found));
    }
    let is_end = seen.sealed && from == seen.end;
    Ok((seen, if is_end { Found::End } else { Found::NothingYet }))
}

async fn blocking<T: Send + 'static>(
    follower: &Arc<Mutex<Follower>>,
    work: impl FnOnce(&mut Follower) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let follower = Arc::clone(follower);
    let work = move || work(&mut follower.lock().unwrap_or_else(PoisonError::into_inner));
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn check(name: &str, from: u64, begin: u64, end: u64) -> Result<(), StreamError> {
    if from > end {
        return Err(StreamError::BeyondEnd { partition: name.to_owned(), end, stored: from, way_out: WAY_OUT });
    }
    if from < begin {
        return Err(StreamError::Gap { partition: name.to_owned(), begin, wanted: from });
    }
    Ok(())
}

fn failed(name: &str, source: io::Error) -> StreamError {
    StreamError::Io { partition: name.to_owned(), source }
}
