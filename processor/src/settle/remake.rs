//! Files of a table made anew by a function from rows to rows, and swapped for what they were in one commit.
//!
//! ```text
//! live files ──look (few columns)──► those that come out otherwise ──make──► new files, nowhere yet
//!      ▲                                                                         │
//!      └── somebody has removed one meanwhile: forget it, look at what is new    └──► one commit, fenced
//! ```
//! File by file, so that memory holds a few batches and one packed file, however many there are. A file in which nothing
//! changes is left alone; one that is made anew keeps its rows' order, and spans as much time as before. Files that were
//! appended while others were looked at are none of this commit's, unless another look is needed anyway.
//!
//! Failure: until the commit lands nothing has changed. Files that were made are deleted when the work is given up before its
//! commit, or when that surely hasn't landed; where it may have, or may yet, and when the work was killed, they stay: those
//! that nobody names then are cleaned up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use futures::StreamExt as _;
use schemas::UtcMicros;
use schemas::tables::Table;
use tokio_util::sync::CancellationToken;

use super::desk::TRIES;
use super::error::SettleError;
use super::upkeep::exchange;
use crate::lake::{Change, DataFile, Growing, NewFile, Span, TableHandle};

/// What is made of rows.
pub(crate) trait Work: Sync {
    /// What is noted of a file.
    type Note: Default + Send;

    /// The columns that [`Work::look`] needs.
    fn columns(&self) -> &'static [&'static str];

    /// Whether a file is to be looked at.
    fn concerns(&self, file: &DataFile) -> bool;

    /// Whether any row of a batch, which has the columns asked for, comes out otherwise; and notes what there is to be said.
    fn look(&self, rows: &RecordBatch, note: &mut Self::Note) -> Result<bool, ArrowError>;

    /// A batch with all columns as it is to be: its rows in their order, all of them or fewer.
    fn made(&self, rows: RecordBatch) -> Result<RecordBatch, ArrowError>;
}

/// How far a look at files is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Files looked at.
    pub files: usize,
    /// Of so many, as far as is known.
    pub of: usize,
    /// Rows in those that were looked at.
    pub rows: u64,
}

/// Where a look is told of.
pub(crate) type Watch<'a> = &'a mut (dyn FnMut(Looked) + Send);

/// A file that was looked at.
#[derive(Debug)]
struct Part<N> {
    file: Arc<DataFile>,
    note: N,
    changes: bool,
    /// What takes its place, once it is made.
    instead: Option<(UtcMicros, Vec<NewFile>)>,
}

/// All that were, by their paths; and what was made of those that are gone.
#[derive(Debug)]
pub(crate) struct Parts<N>(HashMap<String, Part<N>>, Vec<NewFile>);

impl<N> Default for Parts<N> {
    fn default() -> Self {
        Self(HashMap::new(), Vec::new())
    }
}

impl<N> Parts<N> {
    /// What was noted of each file.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &N> {
        self.0.values().map(|part| &part.note)
    }

    /// The paths of the files looked at.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Files looked at.
    pub(crate) fn files(&self) -> usize {
        self.0.len()
    }

    /// The files that change.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Arc<DataFile>> {
        self.0.values().filter(|part| part.changes).map(|part| &part.file)
    }

    /// Forgets files that are no longer live. Returns whether one that changes was among them.
    fn forget_gone(&mut self, live: &[Arc<DataFile>]) -> bool {
        let live: HashSet<&str> = live.iter().map(|file| file.path.as_str()).collect();
        let mut gone = false;
        self.0.retain(|path, part| {
            let is_live = live.contains(path.as_str());
            gone |= !is_live && part.changes;
            if !is_live {
                self.1.extend(part.instead.take().into_iter().flat_map(|(_, files)| files));
            }
            is_live
        });
        gone
    }

    /// All files that were made.
    fn made(&self) -> impl Iterator<Item = &NewFile> {
        self.0.values().filter_map(|part| part.instead.as_ref()).flat_map(|(_, files)| files).chain(&self.1)
    }
}

/// Looks at the files of a table, as the work says, and makes nothing.
///
/// # Errors
/// When the table can't be read.
pub(crate) async fn look<W: Work>(
    table: &mut TableHandle,
    work: &W,
    parts: &mut Parts<W::Note>,
    watch: Watch<'_>,
) -> Result<(), SettleError> {
    go_over(table, work, parts, None, watch).await
}

/// Looks at the files of a table, and makes those anew that change, until all of them are live; or until `stop`.
///
/// # Errors
/// When the table can't be read or written; [`SettleError::TooLong`] when the first are too old to be committed;
/// [`SettleError::Stopped`].
pub(crate) async fn prepare<W: Work>(
    table: &mut TableHandle,
    work: &W,
    parts: &mut Parts<W::Note>,
    (watch, stop): (Watch<'_>, &CancellationToken),
) -> Result<(), SettleError> {
    let prepared = make_all(table, work, parts, watch, stop).await;
    or_give_back(prepared, table, parts).await
}

/// What was `done` before the files that change are named by a commit; when it failed, they are given back: a disk that is
/// full needs their room.
///
/// # Errors
/// The failure.
pub(crate) async fn or_give_back<T, N>(
    done: Result<T, SettleError>,
    table: &TableHandle,
    parts: &mut Parts<N>,
) -> Result<T, SettleError> {
    if done.is_err() {
        table.discard(parts.made()).await;
        *parts = Parts::default();
    }
    done
}

async fn make_all<W: Work>(
    table: &mut TableHandle,
    work: &W,
    parts: &mut Parts<W::Note>,
    watch: Watch<'_>,
    stop: &CancellationToken,
) -> Result<(), SettleError> {
    for _ in 0..TRIES {
        go_over(table, work, parts, Some(stop), watch).await?;
        table.refresh().await?;
        let is_any_gone = parts.forget_gone(table.files());
        // of an earlier try, which surely hasn't landed, or of this one
        table.discard(parts.1.iter()).await;
        parts.1.clear();
        if !is_any_gone {
            return check_age(table, parts);
        }
    }
    Err(SettleError::Busy { tries: TRIES })
}

/// Swaps the files that change for what was made of them, and sets `txns`. Returns whether it landed; if not, somebody has
/// removed one.
///
/// # Errors
/// When the table can't be written; what was made is given back then, if that surely hasn't landed.
pub(crate) async fn swap_in<N>(
    table: &mut TableHandle,
    parts: &mut Parts<N>,
    txns: &[(String, i64)],
) -> Result<bool, SettleError> {
    let changed: Vec<&Part<N>> = parts.0.values().filter(|part| part.changes).collect();
    let remove = changed.iter().map(|part| Arc::clone(&part.file)).collect();
    let add = changed.iter().flat_map(|part| part.instead.iter().flat_map(|(_, files)| files)).cloned().collect();
    let swapped = exchange(table, Change { add, remove, txns: txns.to_vec(), ..Change::default() }).await;
    let is_over = match &swapped {
        Ok(_) => false,
        Err(SettleError::Lake(failure)) => {
            let made: Vec<&NewFile> = parts.made().collect();
            table.is_surely_not_landed(failure, &made).await
        }
        // it was tried on a version that was no longer the newest, each time
        Err(_) => true,
    };
    if is_over { or_give_back(swapped, table, parts).await } else { swapped }
}

/// All of it for a table of which nothing needs to be said: looked at, made, and swapped. Returns what was found.
///
/// # Errors
/// As [`prepare`], and [`SettleError::Busy`].
pub(crate) async fn remake<W: Work>(table: &mut TableHandle, work: &W) -> Result<Parts<W::Note>, SettleError> {
    let (mut parts, never) = (Parts::default(), CancellationToken::new());
    for _ in 0..TRIES {
        prepare(table, work, &mut parts, (&mut |_| {}, &never)).await?;
        if parts.changed().next().is_none() || swap_in(table, &mut parts, &[]).await? {
            return Ok(parts);
        }
    }
    or_give_back(Err(SettleError::Busy { tries: TRIES }), table, &mut parts).await
}

/// Makes files anew too until it is told to stop, where it `makes` any.
async fn go_over<W: Work>(
    table: &mut TableHandle,
    work: &W,
    parts: &mut Parts<W::Note>,
    makes: Option<&CancellationToken>,
    watch: Watch<'_>,
) -> Result<(), SettleError> {
    table.refresh().await?;
    parts.forget_gone(table.files());
    let new = table.files().iter().filter(|file| work.concerns(file) && !parts.0.contains_key(&file.path));
    let new: Vec<Arc<DataFile>> = new.cloned().collect();
    let mut seen = Looked { files: parts.0.len(), of: parts.0.len() + new.len(), rows: 0 };
    seen.rows = parts.0.values().map(|part| part.file.rows).sum();
    for file in new {
        if makes.is_some_and(CancellationToken::is_cancelled) {
            return Err(SettleError::Stopped);
        }
        let mut part = looked_at(table, file, work).await?;
        if makes.is_some() && part.changes {
            let began = UtcMicros::now();
            let made = made_anew(table, &part.file, |rows| work.made(rows)).await?;
            part.instead = Some((began, made));
        }
        (seen.files, seen.rows) = (seen.files + 1, seen.rows + part.file.rows);
        parts.0.insert(part.file.path.clone(), part);
        check_age(table, parts)?;
        watch(seen);
    }
    Ok(())
}

/// Files that are made may be committed for half the time that files which nobody names are kept; a part of it is left for
/// the commit.
fn check_age<N>(table: &TableHandle, parts: &Parts<N>) -> Result<(), SettleError> {
    let made = parts.0.values().filter_map(|part| part.instead.as_ref().map(|(began, _)| *began));
    let keep = table.lake().options().keep;
    let (limit, now) = ((keep / 2).max(std::time::Duration::from_secs(10)) * 9 / 10, UtcMicros::now());
    match made.min().filter(|oldest| now.since(*oldest) > limit) {
        Some(_) => Err(SettleError::TooLong { limit }),
        None => Ok(()),
    }
}

async fn looked_at<W: Work>(table: &TableHandle, file: Arc<DataFile>, work: &W) -> Result<Part<W::Note>, SettleError> {
    let (mut note, mut changes) = (W::Note::default(), false);
    let mut batches = table.batches(&file, work.columns()).await?;
    while let Some(batch) = batches.next().await.transpose()? {
        changes |= work.look(&batch, &mut note).map_err(|source| unfit(table, source))?;
    }
    Ok(Part { file, note, changes, instead: None })
}

fn unfit(table: &TableHandle, source: ArrowError) -> SettleError {
    SettleError::Rows { table: table.table(), source }
}

/// Files with what becomes of a file's rows, in their order; none when nothing is left of them.
///
/// # Errors
/// When the table can't be read or written.
pub(crate) async fn made_anew(
    table: &TableHandle,
    file: &DataFile,
    mut made: impl FnMut(RecordBatch) -> Result<RecordBatch, ArrowError>,
) -> Result<Vec<NewFile>, SettleError> {
    let mut batches = table.batches(file, &[]).await?;
    if table.table() != Table::Clicks {
        let mut all = Vec::new();
        while let Some(batch) = batches.next().await.transpose()? {
            all.push(made(batch).map_err(|source| unfit(table, source))?);
        }
        return Ok(table.write_spanning(&all, Span::Day).await?);
    }
    let span = if file.is_one_hour() { Span::Hour } else { Span::Day };
    let mut growing = None::<Growing>;
    while let Some(batch) = batches.next().await.transpose()? {
        let rows = made(batch).map_err(|source| unfit(table, source))?;
        match &mut growing {
            _ if rows.num_rows() == 0 => {}
            Some(growing) => growing.push(&rows).map_err(|error| unfit(table, error.into()))?,
            None => growing = Some(table.grow(&rows, span, file.rows)?),
        }
    }
    match growing {
        Some(growing) => Ok(vec![table.finish(growing).await?]),
        None => Ok(Vec::new()),
    }
}
