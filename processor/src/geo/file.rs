//! A database's file: reading it whole, and judging it before it is taken.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use maxminddb::{MaxMindDbError, Reader};

use super::record::{Node, Place};
use super::{GeoError, InForce, Record};

/// Networks that are looked at before a file is taken.
const PROBED: usize = 10_000;

/// How a file looks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Its place on the disk, and its last change of any kind: one put here with the size and time of that before is another.
    place: (u64, u64),
    changed: (i64, i64),
    modified: SystemTime,
    bytes: u64,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Result<Self, GeoError> {
        // a pipe would block whoever opens it, and a device need not end
        let looked = std::fs::metadata(path).and_then(|meta| match meta.is_file() {
            true => Ok((meta.modified()?, meta)),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no regular file: expected one, or a link to one",
            )),
        });
        let (modified, meta) = looked.map_err(|source| GeoError::Read { path: path.to_owned(), source })?;
        let (place, changed) = ((meta.dev(), meta.ino()), (meta.ctime(), meta.ctime_nsec()));
        Ok(Self { place, changed, modified, bytes: meta.len() })
    }
}

/// A database in memory.
pub(super) struct Database {
    /// Tells its records from those of the others that this process has read.
    number: u64,
    reader: Reader<Vec<u8>>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("kind", &self.reader.metadata().database_type).finish_non_exhaustive()
    }
}

impl Database {
    /// Reads a file, and looks whether its records are of places.
    pub(super) fn read(path: &Path) -> Result<Self, GeoError> {
        static READ: AtomicU64 = AtomicU64::new(0);
        let unfit = |why: String| GeoError::Unfit { path: path.to_owned(), why };
        let bytes = std::fs::read(path).map_err(|source| GeoError::Read { path: path.to_owned(), source })?;
        let reader = Reader::from_source(bytes).map_err(|error| unfit(error.to_string()))?;
        let knows_places = probe(&reader).map_err(|error| unfit(error.to_string()))?;
        if !knows_places {
            let kind = &reader.metadata().database_type;
            return Err(unfit(format!("its records, of type {kind:?}, tell no country under any name known here")));
        }
        Ok(Self { number: READ.fetch_add(1, Ordering::Relaxed), reader })
    }

    /// What its maker says of it.
    pub(super) fn describe(&self) -> InForce {
        let meta = self.reader.metadata();
        InForce { kind: meta.database_type.clone(), made: meta.build_epoch }
    }

    /// The record of an address; `None` too where the tree is damaged.
    pub(super) fn find(&self, address: IpAddr) -> Option<Record> {
        let found = self.reader.lookup(address).ok()?;
        Some(Record { of: self.number, offset: found.offset()? })
    }

    /// What the record of `address` says.
    pub(super) fn decode(&self, address: IpAddr) -> Option<Arc<Place>> {
        let place = Place::of(&self.reader.lookup(address).ok()?.decode::<Node<'_>>().ok()??);
        place.country.is_some().then(|| Arc::new(place))
    }
}

/// Whether any of the first records tells a country.
fn probe(reader: &Reader<Vec<u8>>) -> Result<bool, MaxMindDbError> {
    let mut knows = false;
    for found in reader.networks(Default::default())?.take(PROBED) {
        if let Some(record) = found?.decode::<Node<'_>>()? {
            knows |= Place::of(&record).country.is_some();
        }
    }
    Ok(knows)
}
