//! What lines are cut from: a file's bytes, or, where it is a Parquet file, its rows as lines of JSON.

use std::fmt;
use std::io::{self, Read};

use parquet::file::reader::ChunkReader;

use super::rows::{self, Rows};

/// A file's contents, read from the beginning.
pub enum Contents<R> {
    /// Its bytes.
    Bytes(R),
    /// Its rows.
    Rows(Box<Rows>),
}

impl<R: Read + ChunkReader + 'static> Contents<R> {
    /// Looks at the first and last bytes. `reader` is at the beginning of the file.
    ///
    /// # Errors
    /// When they can't be read, or are those of a Parquet file that can't.
    pub fn of(reader: R) -> io::Result<Self> {
        if rows::is_parquet(&reader)? {
            return Ok(Self::Rows(Box::new(Rows::open(reader)?)));
        }
        Ok(Self::Bytes(reader))
    }
}

impl<R> Contents<R> {
    /// For rows: how much of the file they are so far, in bytes.
    pub(super) fn rows_read(&self) -> Option<u64> {
        match self {
            Self::Bytes(_) => None,
            Self::Rows(rows) => Some(rows.position()),
        }
    }
}

impl<R: Read> Read for Contents<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read(buffer),
            Self::Rows(rows) => rows.read(buffer),
        }
    }
}

impl<R> fmt::Debug for Contents<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes(_) => "Bytes",
            Self::Rows(_) => "Rows",
        })
    }
}
