//! A database's file: reading it whole, and judging it before it is taken.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use maxminddb::{MaxMindDbError, Reader};

use super::known::Known;
use super::record::{Node, Place};
use super::tree::Tree;
use super::{GeoError, InForce};

/// Networks that are looked at before a file is taken.
const PROBED: usize = 10_000;
/// The largest file that is read, since all of it stays in memory: several times what the largest of cities has.
pub(super) const MAX_BYTES: u64 = 1 << 30;

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
    reader: Reader<Bytes>,
    tree: Tree,
    known: Known,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("kind", &self.reader.metadata().database_type).finish_non_exhaustive()
    }
}

impl Database {
    /// Reads a file, and looks whether its records are of places.
    pub(super) fn read(path: &Path) -> Result<Self, GeoError> {
        Self::read_up_to(path, MAX_BYTES)
    }

    /// As [`Self::read`], of a file of at most `most` bytes.
    pub(super) fn read_up_to(path: &Path, most: u64) -> Result<Self, GeoError> {
        let unfit = |why: String| GeoError::Unfit { path: path.to_owned(), why };
        let read = whole(path, most).map_err(|source| GeoError::Read { path: path.to_owned(), source })?;
        let bytes = read.ok_or_else(|| {
            unfit(format!("it is larger than {most} bytes, which are the most that are read into memory"))
        })?;
        let reader = Reader::from_source(bytes.clone()).map_err(|error| unfit(error.to_string()))?;
        let knows_places = probe(&reader).map_err(|error| unfit(error.to_string()))?;
        let meta = reader.metadata();
        if !knows_places {
            let kind = &meta.database_type;
            return Err(unfit(format!("its records, of type {kind:?}, tell no country under any name known here")));
        }
        let tree = Tree::new(bytes, meta.node_count, meta.record_size, meta.ip_version);
        let tree = tree.ok_or_else(|| unfit(format!("its tree has records of {} bits", meta.record_size)))?;
        Ok(Self { reader, tree, known: Known::default() })
    }

    /// What its maker says of it.
    pub(super) fn describe(&self) -> InForce {
        let meta = self.reader.metadata();
        InForce { kind: meta.database_type.clone(), made: meta.build_epoch }
    }

    /// Where an address is; `None` where that isn't known, or the file is damaged.
    pub(super) fn place(&self, address: IpAddr) -> Option<Place> {
        let offset = self.tree.find(address)?;
        self.known.place(offset, || Place::of(&self.reader.lookup(address).ok()?.decode::<Node<'_>>().ok()??))
    }
}

/// The bytes of a file; `None` when there are more than `most`.
fn whole(path: &Path, most: u64) -> io::Result<Option<Bytes>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // it may grow meanwhile
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then(|| bytes.into()))
}

/// Whether any of the first records tells a country.
fn probe(reader: &Reader<Bytes>) -> Result<bool, MaxMindDbError> {
    let mut knows = false;
    for found in reader.networks(Default::default())?.take(PROBED) {
        if let Some(record) = found?.decode::<Node<'_>>()? {
            knows |= Place::of(&record).is_some();
        }
    }
    Ok(knows)
}
