//! What makes two imports the same: the content's hash, known before the first line is read.
//!
//! A file is read once for its hash and again for its lines, a stream is spooled to disk in between. So a repeat
//! is recognised without parsing anything, and a killed import finds where it stopped.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use ingest::edge::IdMode;
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

const BUFFER_BYTES: usize = 256 << 10;

/// Reads the whole input once. Blocking.
///
/// # Errors
/// When it can't be read, or spooled.
pub(crate) fn hash(body: Body, spool_dir: &Path) -> io::Result<Hashed> {
    match body {
        Body::File(file) if file.metadata()?.is_file() => hash_file(file),
        Body::File(pipe) => spool(pipe, spool_dir),
        Body::Stream(stream) => spool(stream, spool_dir),
    }
}

fn hash_file(mut file: File) -> io::Result<Hashed> {
    file.seek(SeekFrom::Start(0))?;
    let (sha256, bytes) = copy(&mut file, &mut io::sink())?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Hashed { file, bytes, sha256 })
}

/// The spool has no name: it is gone with the process, however that ends.
fn spool(mut stream: impl Read, spool_dir: &Path) -> io::Result<Hashed> {
    let mut file = tempfile::tempfile_in(spool_dir)?;
    let (sha256, bytes) = copy(&mut stream, &mut file)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Hashed { file, bytes, sha256 })
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
