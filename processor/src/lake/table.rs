//! A table at one version, and how it goes on to the next.

use std::sync::Arc;

use schemas::UtcMicros;
use schemas::tables::Table;

use super::log::{DataFile, State};
use super::place::Place;
use super::replay::{self, Entry};
use super::whole::{self, Sight};
use super::{Lake, LakeError, create};

/// Removed files are remembered up to this many before the oldest are forgotten.
const DEAD_BEFORE_PRUNING: usize = 10_000;

/// A table at one version, for one task. It changes only by [`TableHandle::refresh`] and [`TableHandle::commit`].
#[derive(Clone, Debug)]
pub struct TableHandle {
    pub(super) lake: Lake,
    pub(super) place: Place,
    pub(super) state: State,
}

/// What a handle has gone through on its way to the newest version.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// The entries read, oldest first.
    pub(super) entries: Vec<Entry>,
    /// Set when older entries were gone and the state was loaded anew: `entries` then tells nothing.
    pub(super) reloaded: bool,
}

impl TableHandle {
    pub(super) async fn open(lake: Lake, table: Table) -> Result<Self, LakeError> {
        let place = Place::new(&lake, table)?;
        let state = match replay::load(&place).await? {
            Some(state) => state,
            None => create::create(&place, &lake).await?,
        };
        let handle = Self { lake, place, state };
        handle.note_files();
        Ok(handle)
    }

    pub(super) fn note_files(&self) {
        self.lake.metrics().note_files(self.table(), self.files().len());
    }

    /// Which table this is.
    pub fn table(&self) -> Table {
        self.place.table
    }

    /// The lake that it belongs to.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// The version that this handle shows.
    pub fn version(&self) -> i64 {
        self.state.version
    }

    /// The live files, oldest commit first.
    pub fn files(&self) -> &[Arc<DataFile>] {
        &self.state.files
    }

    /// The live files that may hold rows between `from` and `to`, both included.
    pub fn files_between(&self, from: UtcMicros, to: UtcMicros) -> impl Iterator<Item = &Arc<DataFile>> {
        self.state.files.iter().filter(move |file| file.may_hold(from, to))
    }

    /// The version of an application transaction; `None` when it was never set.
    pub fn txn(&self, app_id: &str) -> Option<i64> {
        self.state.txns.get(app_id).copied()
    }

    /// All application transactions whose id begins with `prefix`, in order of their ids.
    pub fn txns_with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, i64)> {
        let from = self.state.txns.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.take_while(move |(id, _)| id.starts_with(prefix)).map(|(id, version)| (id.as_str(), *version))
    }

    /// Goes on to the newest version. Returns whether there was a newer one.
    ///
    /// # Errors
    /// As [`LakeError`] says; the handle shows a version that was once whole, the one before or a newer one.
    pub async fn refresh(&mut self) -> Result<bool, LakeError> {
        let before = self.version();
        self.catch_up().await?;
        Ok(self.version() > before)
    }

    /// Goes on to the newest version and tells what was passed.
    pub(super) async fn catch_up(&mut self) -> Result<Passed, LakeError> {
        let mut passed = Passed::default();
        let mut looks = 0..replay::LOOKS;
        loop {
            let before = self.version();
            match replay::follow(&self.place, &mut self.state, |entry| passed.entries.push(entry)).await? {
                Sight::Newest { .. } => break,
                // a clean-up has taken the next entry, and left a newer checkpoint
                Sight::Covered => {
                    self.reload().await?;
                    passed = Passed { entries: Vec::new(), reloaded: true };
                }
                _ if self.version() > before => {}
                Sight::Gap { missing, known } if looks.next().is_none() => {
                    return Err(whole::error(&self.place, missing, known));
                }
                Sight::Behind if looks.next().is_none() => {
                    return Err(whole::error(&self.place, before + 1, before + 1));
                }
                // others may be at it: not a gap unless it stays
                Sight::Behind | Sight::Gap { .. } => tokio::time::sleep(replay::BETWEEN_LOOKS).await,
            }
        }
        self.forget_dead();
        self.note_files();
        Ok(passed)
    }

    /// Loads the newest version, which is no older than this one.
    pub(super) async fn reload(&mut self) -> Result<(), LakeError> {
        match replay::load(&self.place).await? {
            Some(state) if state.version >= self.version() => {
                self.state = state;
                Ok(())
            }
            _ => Err(whole::error(&self.place, self.version(), self.version())),
        }
    }

    /// Keeps what is known of removed files within bounds. A file forgotten here was removed so long ago that the
    /// age of the file itself says enough.
    fn forget_dead(&mut self) {
        if self.state.dead.len() > DEAD_BEFORE_PRUNING {
            let keep = self.lake.options().keep.as_millis() as i64;
            let cut = UtcMicros::now().0 / 1_000 - 2 * keep;
            self.state.dead.retain(|_, at| *at > cut);
        }
    }
}
