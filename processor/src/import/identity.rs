//! What makes two imports the same: the content's hash, known before the first line is read.
//!
//! A file is read once for its hash and again for its lines, a stream is spooled to disk in between. So a repeat
//! is recognised without parsing anything, a killed import finds where it stopped, and a damaged file is found out
//! before any of its lines is believed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use ingest::edge::{IdMode, LineReader, ReadError, ReadLimits};
use sha2::{Digest, Sha256};

use super::options::{Body, ImportOptions, UnknownCodes};

/// An input whose content is known.
#[derive(Debug)]
pub(crate) struct Hashed {
    /// The bytes, from their beginning.
    pub(crate) file: File,
    /// How many there are.
    pub(crate) bytes: u64,
    /// SHA-256 of them.
    pub(crate) sha256: [u8; 32],
}

/// Reads the whole input once, and unpacks it: what is damaged must not come into the lake, and where it is packed that
/// may show at its very end. Blocking.
///
/// # Errors
/// When it can't be read, unpacked or spooled, or is damaged.
pub(crate) fn hash(body: Body, spool_dir: &Path) -> Result<Hashed, ReadError> {
    match body {
        Body::File(file) if file.metadata()?.is_file() => hash_file(file),
        Body::File(pipe) => spool(pipe, spool_dir),
        Body::Stream(stream) => spool(stream, spool_dir),
    }
}

fn hash_file(mut file: File) -> Result<Hashed, ReadError> {
    file.seek(SeekFrom::Start(0))?;
    let (sha256, bytes) = LineReader::new(&mut file, ReadLimits::default())?.skim()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Hashed { file, bytes, sha256 })
}

/// The spool has no name: it is gone with the process, however that ends.
fn spool(stream: impl Read, spool_dir: &Path) -> Result<Hashed, ReadError> {
    let mut file = tempfile::tempfile_in(spool_dir)?;
    let copied = Copied { from: stream, to: &mut file };
    let (sha256, bytes) = LineReader::new(copied, ReadLimits::default())?.skim()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Hashed { file, bytes, sha256 })
}

/// Keeps what is read.
struct Copied<'a, R> {
    from: R,
    to: &'a mut File,
}

impl<R: Read> Read for Copied<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.to.write_all(&buffer[..read])?;
        Ok(read)
    }
}

/// The name of an import's transactions: `file/` and the content's hash in hex.
///
/// What decides which lines are clicks is part of it: a tenant's file says something else than the same bytes
/// from an operator, and a file taken in again with unknown codes kept is no repeat. With the defaults the hash is
/// that of the content alone.
pub(crate) fn key(sha256: &[u8; 32], options: &ImportOptions) -> String {
    let keep = options.unknown_codes == UnknownCodes::Keep && options.workspace.is_none();
    if keep && options.id == IdMode::Auto {
        return hex(sha256);
    }
    let mut hash = Sha256::new();
    hash.update(sha256);
    let id = options.id.to_string();
    for part in [options.workspace.as_deref().unwrap_or_default(), if keep { "keep" } else { "ignore" }, id.as_str()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize().into())
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
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_and_a_stream_of_the_same_bytes_are_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "abc").unwrap();
        let inputs = [Body::File(File::open(&path).unwrap()), Body::Stream(Box::new(io::Cursor::new(b"abc".to_vec())))];
        for body in inputs {
            let mut hashed = hash(body, dir.path()).unwrap();
            assert_eq!(hex(&hashed.sha256), ABC);
            assert_eq!(hashed.bytes, 3);
            let mut text = String::new();
            hashed.file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc", "and it can be read from its beginning");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the spool leaves nothing behind");
    }

    #[test]
    fn the_key_is_the_contents_hash_unless_the_options_change_its_meaning() {
        let sha256 = hash(Body::Stream(Box::new(&b"abc"[..])), &std::env::temp_dir()).unwrap().sha256;
        let defaults = ImportOptions::default();
        assert_eq!(key(&sha256, &defaults), ABC);
        assert_eq!(key(&sha256, &ImportOptions { source: Some("s".into()), ..defaults.clone() }), ABC);
        let others = [
            ImportOptions { workspace: Some("w".into()), ..defaults.clone() },
            ImportOptions { workspace: Some("v".into()), ..defaults.clone() },
            ImportOptions { unknown_codes: UnknownCodes::Ignore, ..defaults.clone() },
            ImportOptions { id: IdMode::StatusOnly, ..defaults },
        ];
        let mut keys: Vec<String> = others.iter().map(|options| key(&sha256, options)).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len());
        assert!(!keys.contains(&ABC.to_owned()));
    }
}
