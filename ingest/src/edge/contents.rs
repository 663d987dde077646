//! What lines are cut from: a file's bytes, or, where it is a Parquet file, its rows as lines of JSON.

use std::fmt;
use std::io::{self, Read};

use parquet::file::reader::ChunkReader;

use super::rows::{self, Rows};

/// A file's contents, read from the beginning.
pub enum Contents<F: ChunkReader> {
    /// Its bytes.
    Bytes(F::T),
    /// Its rows.
    Rows(Box<Rows>),
}

impl<F: ChunkReader + 'static> Contents<F> {
    /// Looks at the first and last bytes, and begins to read, wherever the file stands.
    ///
    /// # Errors
    /// When they can't be read, or are those of a Parquet file that can't.
    pub fn of(file: F) -> io::Result<Self> {
        if rows::is_parquet(&file)? {
            return Ok(Self::Rows(Box::new(Rows::open(file)?)));
        }
        // A reader of its own: looking at a file's end may have moved it there.
        file.get_read(0).map(Self::Bytes).map_err(io::Error::other)
    }
}

impl<F: ChunkReader> Contents<F> {
    /// For rows: how much of the file they are so far, in bytes.
    pub(super) fn rows_read(&self) -> Option<u64> {
        match self {
            Self::Bytes(_) => None,
            Self::Rows(rows) => Some(rows.position()),
        }
    }
}

impl<F: ChunkReader> Read for Contents<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes.read(buffer),
            Self::Rows(rows) => rows.read(buffer),
        }
    }
}

impl<F: ChunkReader> fmt::Debug for Contents<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes(_) => "Bytes",
            Self::Rows(_) => "Rows",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_is_read_from_its_beginning_wherever_it_stands() {
        let log = b"a line that is longer than the shortest table\nand another\n";
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(log).unwrap();
        let mut read = Vec::new();
        Contents::<File>::of(file).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, log);
        for short in [&b""[..], b"PAR1", b"x\n"] {
            let mut read = Vec::new();
            Contents::of(bytes::Bytes::from_static(short)).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, short);
        }
    }
}
