//! A look at a journal from outside, whether it has an owner or not: nothing is locked, cut or changed.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use schemas::{JournalId, UtcMicros};

use super::disk::Looking;
use super::error::JournalError;
use super::frame::{Content, Frame};
use super::lacking::Lacking;
use super::recover::{hole, is_damage, look};
use super::scan::{At, scan};
use super::segment::{Place, list};
use super::stats::Damage;

/// How often a look is taken anew when the owner trims what it was looking at.
const LOOKS: u32 = 5;

/// What a journal holds from some position on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The first position that is left.
    pub begin: u64,
    /// The first position that can't be read: its end, or where it is damaged.
    pub end: u64,
    /// Time of the frame before the position that was asked for, if it is still there.
    pub before: Option<UtcMicros>,
    /// The latest time that anything in it tells.
    pub newest: Option<UtcMicros>,
    /// Where synced frames are gone, if any are.
    pub damage: Option<Damage>,
    /// The clicks from the position on that was asked for, as far as they can be read.
    pub clicks: Lacking,
}

/// Looks at the journal `id` below `journals`: reads every frame from position `from` on and checks it. `None` when it has
/// no folder.
///
/// # Errors
/// When it can't be read, or a segment doesn't belong there.
pub fn inspect(journals: &Path, id: JournalId, from: u64) -> Result<Option<Inspection>, JournalError> {
    let place = Place::new(Arc::new(Looking), journals.join(id.to_string()), id);
    let mut looks = 1..LOOKS;
    loop {
        match inspect_once(&place, from) {
            Err(JournalError::Io { source, .. }) if is_gone(&source) && !place.directory.exists() => return Ok(None),
            Err(JournalError::Io { source, .. }) if is_gone(&source) && looks.next().is_some() => {}
            looked => return looked.map(Some),
        }
    }
}

/// The first position that is left of the journal `id` below `journals`; `None` when it has no folder.
///
/// # Errors
/// When its folder can't be listed.
pub fn first_of(journals: &Path, id: JournalId) -> Result<Option<u64>, JournalError> {
    let directory = journals.join(id.to_string());
    match list(&directory) {
        Err(error) if is_gone(&error) => Ok(None),
        listed => {
            let segments = listed.map_err(JournalError::io("listing", &directory))?;
            Ok(Some(segments.first().map_or(0, |(first, _)| *first)))
        }
    }
}

/// Gives every click event of the journal `id` below `journals` that stands before position `below`, and is still there,
/// to `take`, oldest first; of a segment that is damaged those before the damage.
///
/// # Errors
/// When it can't be read.
pub fn clicks_below(
    journals: &Path,
    id: JournalId,
    below: u64,
    mut take: impl FnMut(&[u8]),
) -> Result<(), JournalError> {
    let place = Place::new(Arc::new(Looking), journals.join(id.to_string()), id);
    let segments = match list(&place.directory) {
        Err(error) if is_gone(&error) => return Ok(()),
        listed => listed.map_err(JournalError::io("listing", &place.directory))?,
    };
    for (first, path) in segments.into_iter().take_while(|(first, _)| *first < below) {
        let file = match File::open(&path) {
            // trimmed since it was listed
            Err(error) if is_gone(&error) => continue,
            opened => opened.map_err(JournalError::io("opening", &path))?,
        };
        let visit = |frame: &Frame<'_>| {
            if let Content::Click(bytes) = frame.content {
                take(bytes);
            }
        };
        scan(&file, place.seed, At::first(first), below, visit).map_err(JournalError::io("reading", &path))?;
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn inspect_once(place: &Place, from: u64) -> Result<Inspection, JournalError> {
    let segments = list(&place.directory).map_err(JournalError::io("listing", &place.directory))?;
    let mut found = Inspection { begin: segments.first().map_or(0, |(first, _)| *first), ..Inspection::default() };
    // the one that holds `from`, and all behind it
    let holds = segments.partition_point(|(first, _)| *first <= from).saturating_sub(1);
    let mut looked = VecDeque::new();
    for (index, (first, path)) in segments.iter().enumerate().skip(holds) {
        let limit = segments.get(index + 1).map_or(u64::MAX, |(next, _)| *next);
        looked.push_back(look(place, *first, path.clone(), limit)?);
    }
    let synced = looked.iter().map(|one| one.synced).max().unwrap_or(0);
    found.newest = looked.iter().filter_map(|one| one.newest).max();
    found.end = looked.back().map_or(0, |last| last.reached());
    let holes = hole(&looked);
    let whole = looked.iter().take(holes.map_or(looked.len(), |at| at + 1));
    found.clicks = whole.map(|one| one.clicks.beyond(from)).fold(Lacking::default(), Lacking::and);
    if let Some(at) = holes {
        found.end = looked[at].reached();
        found.damage = is_damage(&looked, at, synced).then_some(Damage { position: found.end, synced });
    }
    found.before = time_before(place, &segments, from)?;
    Ok(found)
}

/// The time of the frame before `from`.
fn time_before(
    place: &Place,
    segments: &[(u64, std::path::PathBuf)],
    from: u64,
) -> Result<Option<UtcMicros>, JournalError> {
    let after = segments.partition_point(|(first, _)| *first < from);
    let Some((first, path)) = after.checked_sub(1).and_then(|index| segments.get(index)) else { return Ok(None) };
    let file = File::open(path).map_err(JournalError::io("opening", path))?;
    let mut time = None;
    let walked = scan(&file, place.seed, At::first(*first), from, |frame| time = Some(frame.time));
    let (at, _) = walked.map_err(JournalError::io("reading", path))?;
    Ok(time.filter(|_| at.position == from))
}
