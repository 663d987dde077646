//! Where an address is, by a geography database in MaxMind's format (MMDB), whoever made it.
//!
//! ```text
//! address ─tree─► offset of a record ─known─► place      (met for the first time: the record is decoded)
//! ```
//! The file is read once and looked at again: a newer one takes its place once it has been checked, and a bad one leaves
//! the last good one in force. Many networks share a record, so what has been decoded is kept by its offset.
//!
//! # Failure
//! Without a file every place is unknown. A file that is named and can't be used is an error at the start, a complaint
//! later ([`Geo::look`]). An address that a damaged tree can't answer for is somewhere unknown.

mod file;
mod known;
mod record;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tree;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use file::{Database, Stamp};

pub use record::Place;

/// Why a geography database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum GeoError {
    /// It can't be read.
    #[error("{path} can't be read: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no such database, or damaged.
    #[error("{path} is no geography database in MMDB format that can be used: {why}", path = .path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// What is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// What its maker calls it.
    pub kind: String,
    /// When it was made, seconds since 1970.
    pub made: u64,
}

/// A geography database that may be replaced at any moment, or none.
#[derive(Debug, Default)]
pub struct Geo {
    path: Option<PathBuf>,
    now: RwLock<Option<Database>>,
    looked: Mutex<Looked>,
}

/// What has been seen of the file.
#[derive(Debug, Default)]
struct Looked {
    /// As it was when it was last taken, or found bad.
    judged: Option<Stamp>,
    /// As it was at the last look, if not so.
    changing: Option<Stamp>,
    /// Why it could not be looked at, the last time.
    why: Option<String>,
}

impl Geo {
    /// None: every place is unknown.
    pub fn none() -> Self {
        Self::default()
    }

    /// The database in a file.
    ///
    /// # Errors
    /// [`GeoError`] when there is none, or none that can be used.
    pub fn open(path: &Path) -> Result<Self, GeoError> {
        let stamp = Stamp::of(path)?;
        let database = Database::read(path)?;
        let looked = Looked { judged: Some(stamp), ..Looked::default() };
        Ok(Self { path: Some(path.to_owned()), now: RwLock::new(Some(database)), looked: Mutex::new(looked) })
    }

    /// Whether there is a file.
    pub fn is_some(&self) -> bool {
        self.path.is_some()
    }

    /// What is in force, if anything is.
    pub fn in_force(&self) -> Option<InForce> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Database::describe)
    }

    /// Looks whether the file has changed, and takes it if it is good: then says what is in force now. A file is only
    /// read when it looks the same as the last time, so that one that is just being written isn't. Reads a whole file:
    /// not for a thread that others wait for.
    ///
    /// # Errors
    /// [`GeoError`], once for each such file; what was in force still is.
    pub fn look(&self) -> Result<Option<InForce>, GeoError> {
        let Some(path) = &self.path else { return Ok(None) };
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match Stamp::of(path) {
            Ok(stamp) => stamp,
            // as good as a bad file, and said once
            Err(error) if looked.why.as_ref() == Some(&error.to_string()) => return Ok(None),
            Err(error) => {
                *looked = Looked { why: Some(error.to_string()), ..Looked::default() };
                return Err(error);
            }
        };
        if looked.judged == Some(stamp) {
            looked.changing = None;
            return Ok(None);
        }
        if looked.changing.replace(stamp) != Some(stamp) {
            return Ok(None);
        }
        *looked = Looked { judged: Some(stamp), ..Looked::default() };
        let database = Database::read(path)?;
        let said = database.describe();
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Some(database);
        Ok(Some(said))
    }

    /// Where an address is; `None` when that isn't known.
    pub fn place(&self, address: IpAddr) -> Option<Place> {
        self.path.as_ref()?;
        self.now.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.place(address)
    }
}

#[cfg(test)]
mod tests;
