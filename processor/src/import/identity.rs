//! What makes two imports the same: the content's hash, known before the first line is read.
//!
//! A file is read once for its hash and again for its lines, a stream is spooled to disk in between. So a repeat
//! is recognised without unpacking anything, and a killed import finds where it stopped. A damaged
//! file is found out before any of its lines lands: by whoever reads its lines, where they can wait for that (`drafts`),
//! else by unpacking it once more while the first of them are parsed.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ingest::edge::{Contents, IdMode, LineReader, ReadError, ReadLimits};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use sha2::{Digest, Sha256};

use super::ahead::Ahead;
use super::options::{Body, ImportOptions, UnknownCodes};
use super::run::ID_DIGITS;

/// An input whose content is known.
#[derive(Debug)]
pub struct Hashed {
    file: Arc<File>,
    /// Bytes of it.
    pub(crate) bytes: u64,
    /// SHA-256 of them.
    pub(crate) sha256: [u8; 32],
}

impl Hashed {
    /// Reads the input from its beginning; several may at once.
    pub(crate) fn reader(&self) -> Reader {
        Reader { file: Arc::clone(&self.file), at: 0, end: self.bytes }
    }
}

/// Reads a file from a position of its own, no further than it was hashed: it may be growing.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Length for Reader {
    fn len(&self) -> u64 {
        self.end
    }
}

/// Where a file is read by its rows, which are anywhere in it.
impl ChunkReader for Reader {
    type T = BufReader<Self>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(Self { file: Arc::clone(&self.file), at: start.min(self.end), end: self.end }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // looked at before anything is made room for: it may be the file that says how much
        if start.checked_add(length as u64).is_none_or(|end| end > self.end) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} of {}", self.end)));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

const BUFFER_BYTES: usize = 256 << 10;

/// Reads the whole input once, if that hasn't been done. Blocking.
///
/// # Errors
/// When it can't be read or spooled.
pub(super) fn read(body: Body, spool_dir: &Path) -> io::Result<Ahead> {
    let hashed = match body {
        Body::Ahead(ahead) => return Ok(*ahead),
        Body::File(file) if file.metadata()?.is_file() => {
            let mut reader = Reader { file: Arc::new(file), at: 0, end: u64::MAX };
            let (sha256, bytes) = copy(&mut reader, &mut io::sink())?;
            Hashed { file: reader.file, bytes, sha256 }
        }
        Body::File(pipe) => spool(pipe, spool_dir)?,
        Body::Stream(stream) => spool(stream, spool_dir)?,
    };
    Ok(Ahead { hashed, begun: None, may_draft: true })
}

/// The spool has no name: it is gone with the process, however that ends.
fn spool(mut stream: impl Read, spool_dir: &Path) -> io::Result<Hashed> {
    let mut file = tempfile::tempfile_in(spool_dir)?;
    let (sha256, bytes) = copy(&mut stream, &mut file)?;
    Ok(Hashed { file: Arc::new(file), bytes, sha256 })
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<([u8; 32], u64)> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok((hash.finalize().into(), bytes)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        bytes += read as u64;
    }
}

/// Unpacks the whole input without looking at its lines: what is damaged must not come into the lake, and where it is
/// packed that may show at its very end. Blocking.
///
/// # Errors
/// When it can't be read or unpacked, or is damaged.
pub(crate) fn check(reader: Reader, limits: ReadLimits) -> Result<(), ReadError> {
    LineReader::new(Contents::of(reader)?, limits)?.skim().map(drop)
}

/// The name of an import's transactions: `file/` and the content's hash in hex.
///
/// What decides which lines are clicks is part of it: a tenant's file says something else than the same bytes
/// from an operator, and a file taken in again with unknown codes kept is no repeat. With the defaults the hash is
/// that of the content alone.
pub(crate) fn key(sha256: &[u8; 32], options: &ImportOptions) -> String {
    let keep = options.unknown_codes == UnknownCodes::Keep && options.workspace.is_none();
    if keep && options.id == IdMode::Auto && options.events.is_none() {
        return hex(sha256);
    }
    let workspace = options.workspace.as_deref().unwrap_or_default();
    let unknown_codes = if keep { "keep" } else { "ignore" };
    match &options.events {
        None => hash_of(sha256, &[workspace, unknown_codes, &options.id.to_string()]),
        Some(events) => {
            hash_of(sha256, &[workspace, unknown_codes, "events", &events.stand().to_string(), events.provider()])
        }
    }
}

/// Hash of bytes and words, in lower-case hexadecimal.
pub(crate) fn hash_of(bytes: &[u8], words: &[&str]) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    for word in words {
        hash.update((word.len() as u64).to_le_bytes());
        hash.update(word);
    }
    hex(&hash.finalize().into())
}

/// What names an import of this content, in summaries and rows: the beginning of its transactions' name.
pub fn import_id(sha256: &[u8; 32], options: &ImportOptions) -> String {
    let mut id = key(sha256, options);
    id.truncate(ID_DIGITS);
    id
}

/// The names that the same content has where its lines are known in another way, with the id mode of each: an operator's
/// and those of the tenant at hand, whatever became of unknown codes.
pub(crate) fn keys_of_other_modes(sha256: &[u8; 32], options: &ImportOptions) -> Vec<(IdMode, String)> {
    let mut keys = Vec::new();
    for id in [IdMode::Auto, IdMode::Trusted, IdMode::StatusOnly] {
        for unknown_codes in [UnknownCodes::Keep, UnknownCodes::Ignore] {
            for workspace in [None, options.workspace.clone()] {
                let other = ImportOptions { id, unknown_codes, workspace, ..options.clone() };
                let named = (id, key(sha256, &other));
                if id != options.id && !keys.contains(&named) {
                    keys.push(named);
                }
            }
        }
    }
    keys
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8; 32]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // writing into a String can't fail
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use ingest::events::{Naming, Stand};

    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_and_a_stream_of_the_same_bytes_are_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "abc").unwrap();
        let inputs = [Body::File(File::open(&path).unwrap()), Body::Stream(Box::new(io::Cursor::new(b"abc".to_vec())))];
        for body in inputs {
            let hashed = read(body, dir.path()).unwrap().hashed;
            assert_eq!(hex(&hashed.sha256), ABC);
            assert_eq!(hashed.bytes, 3);
            let mut text = String::new();
            hashed.reader().read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc", "and it can be read from its beginning");
            std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"d").unwrap();
            text.clear();
            hashed.reader().read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc", "what has come since is no part of it");
            std::fs::write(&path, "abc").unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the spool leaves nothing behind");
    }

    #[test]
    fn the_key_is_the_contents_hash_unless_the_options_change_its_meaning() {
        let sha256 = read(Body::Stream(Box::new(&b"abc"[..])), &std::env::temp_dir()).unwrap().hashed.sha256;
        let defaults = ImportOptions::default();
        assert_eq!(key(&sha256, &defaults), ABC);
        assert_eq!(key(&sha256, &ImportOptions { source: Some("s".into()), ..defaults.clone() }), ABC);
        let others = [
            ImportOptions { workspace: Some("w".into()), ..defaults.clone() },
            ImportOptions { workspace: Some("v".into()), ..defaults.clone() },
            ImportOptions { unknown_codes: UnknownCodes::Ignore, ..defaults.clone() },
            ImportOptions { id: IdMode::StatusOnly, ..defaults.clone() },
            ImportOptions { events: Naming::new(Stand::Origin, "nginx").ok(), ..defaults.clone() },
            ImportOptions { events: Naming::new(Stand::Import, "nginx").ok(), ..defaults.clone() },
            ImportOptions { events: Naming::new(Stand::Import, "bunny").ok(), ..defaults },
        ];
        let mut keys: Vec<String> = others.iter().map(|options| key(&sha256, options)).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len());
        assert!(!keys.contains(&ABC.to_owned()));
    }
}
