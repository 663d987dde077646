//! A file of frames that is only ever appended to.
//!
//! ```text
//! frame: length of the body (u32, little endian) | CRC-32 of the body (u32) | body
//! ```
//! Invariant: what [`Frames::append`] has returned for is in the kernel, so `kill -9` can't take it back. A power cut
//! can; the stand-in doesn't model one.
//! Failure: a torn or damaged tail is cut off when the file is opened; a write that fails is taken back.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const HEAD: usize = 8;
/// A longer body is damage, not data: the broker takes no request of this size.
const MAX_BODY: usize = 64 << 20;

/// An open file of frames.
#[derive(Debug)]
pub(super) struct Frames {
    file: Arc<File>,
    size: u64,
}

impl Frames {
    /// Opens or creates the file, shows `each` body with its place, and cuts off what isn't whole.
    ///
    /// # Errors
    /// When the file can't be read or cut, or when `each` fails.
    pub(super) fn open(path: &Path, each: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let size = scan(&file, each)?;
        file.set_len(size)?;
        Ok(Self { file: Arc::new(file), size })
    }

    /// Appends a body and gives its place.
    ///
    /// # Errors
    /// When it can't be written; then the file is as it was.
    pub(super) fn append(&mut self, body: &[u8]) -> Result<u64> {
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_BODY);
        let length = length.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "a frame's body is too long"))?;
        let mut frame = Vec::with_capacity(HEAD + body.len());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
        frame.extend_from_slice(body);
        if let Err(error) = (&*self.file).write_all(&frame) {
            self.file.set_len(self.size)?;
            return Err(error);
        }
        let at = self.size + HEAD as u64;
        self.size += frame.len() as u64;
        Ok(at)
    }

    /// Cuts off the frame whose body is at this place, and all behind it.
    ///
    /// # Errors
    /// When the file can't be cut.
    pub(super) fn cut(&mut self, at: u64) -> Result<()> {
        self.size = at - HEAD as u64;
        self.file.set_len(self.size)
    }

    /// Reads bodies while others append.
    pub(super) fn reader(&self) -> Reader {
        Reader(Arc::clone(&self.file))
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// Reads from a file of frames.
#[derive(Clone, Debug)]
pub(super) struct Reader(Arc<File>);

impl Reader {
    /// Appends the body, or its first bytes, to `into`.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) -> Result<()> {
        let begin = into.len();
        into.resize(begin + length, 0);
        self.0.read_exact_at(&mut into[begin..], at)
    }
}

/// Shows `each` body with its place, up to the first that isn't whole, and gives the bytes up to there.
///
/// # Errors
/// When the file can't be read, or when `each` fails.
pub(super) fn scan(file: &File, mut each: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<u64> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut body = Vec::new();
    let mut size = 0;
    while read_frame(&mut reader, &mut body)? {
        each(size + HEAD as u64, &body)?;
        size += (HEAD + body.len()) as u64;
    }
    Ok(size)
}

/// Whether there was another whole frame.
fn read_frame(reader: &mut impl Read, body: &mut Vec<u8>) -> Result<bool> {
    let mut head = [0; HEAD];
    if !is_whole(reader.read_exact(&mut head))? {
        return Ok(false);
    }
    let [a, b, c, d, e, f, g, h] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > MAX_BODY {
        return Ok(false);
    }
    body.resize(length, 0);
    Ok(is_whole(reader.read_exact(body))? && crc32fast::hash(body) == u32::from_le_bytes([e, f, g, h]))
}

fn is_whole(read: Result<()>) -> Result<bool> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(path: &Path) -> (Frames, Vec<Vec<u8>>) {
        let mut bodies = Vec::new();
        let frames = Frames::open(path, |_, body| {
            bodies.push(body.to_vec());
            Ok(())
        });
        (frames.unwrap(), bodies)
    }

    #[test]
    fn a_torn_tail_is_cut_wherever_it_was_torn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames");
        let (mut frames, _) = bodies(&path);
        frames.append(b"first").unwrap();
        let whole = frames.size();
        frames.append(b"second").unwrap();
        let all = std::fs::read(&path).unwrap();
        for torn in whole as usize..all.len() {
            std::fs::write(&path, &all[..torn]).unwrap();
            let (mut frames, found) = bodies(&path);
            assert_eq!((frames.size(), found), (whole, vec![b"first".to_vec()]), "torn at {torn}");
            frames.append(b"third").unwrap();
            assert_eq!(bodies(&path).1, [b"first", b"third"]);
        }
    }

    #[test]
    fn damage_ends_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames");
        let (mut frames, _) = bodies(&path);
        let first = frames.append(b"first").unwrap();
        let second = frames.append(b"second").unwrap();
        let mut read = Vec::new();
        frames.reader().read(second, 6, &mut read).unwrap();
        assert_eq!(read, b"second");
        let mut all = std::fs::read(&path).unwrap();
        all[second as usize] ^= 1;
        std::fs::write(&path, &all).unwrap();
        let (mut frames, found) = bodies(&path);
        assert_eq!(found, [b"first"]);
        frames.cut(first).unwrap();
        assert_eq!(bodies(&path).1, Vec::<Vec<u8>>::new());
    }
}
