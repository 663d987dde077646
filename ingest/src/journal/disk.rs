//! The few things that a journal asks of a disk, as traits: so that tests can fill it, break it and pull its plug.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Something that bytes can be read from at an offset.
pub(crate) trait ReadAt {
    /// Reads what is there, at most `buffer.len()` bytes; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Bytes in it.
    fn length(&self) -> io::Result<u64>;
}

/// An open file that is written.
pub(crate) trait DiskFile: ReadAt + Send + Sync + Debug {
    /// Writes, in one system call, at most all of `bytes`. Returns how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns when everything written is on the disk.
    fn sync(&self) -> io::Result<()>;

    /// Cuts or grows the file to `length`.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Takes disk space for `length` bytes, as the file's.
    fn allocate(&self, length: u64) -> io::Result<()>;
}

/// A disk.
pub(crate) trait Disk: Send + Sync + Debug {
    /// Opens a file for reading and writing; made, and emptied when `fresh`.
    fn open(&self, path: &Path, fresh: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in place of whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Deletes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns when the names in a directory are on the disk.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Bytes that can still be written.
    fn available(&self, path: &Path) -> io::Result<u64>;
}

/// The disk itself.
#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, fresh: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(fresh).truncate(fresh).open(path)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn available(&self, path: &Path) -> io::Result<u64> {
        fs4::available_space(path)
    }
}

/// The disk of somebody else, to be looked at only: it may be mounted read-only, or another user's.
#[derive(Debug)]
pub(crate) struct Looking;

impl Disk for Looking {
    fn open(&self, path: &Path, _: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn available(&self, path: &Path) -> io::Result<u64> {
        RealDisk.available(path)
    }
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl DiskFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        fs4::fs_std::FileExt::allocate(self, length)
    }
}

/// Writes all of `bytes`.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until `buffer` is full or the file ends. Returns how many bytes.
pub(crate) fn read_full(file: &(impl ReadAt + ?Sized), buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Whether an error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_looks_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segment");
        std::fs::write(&path, b"whole").unwrap();
        let file = Looking.open(&path, true).unwrap();
        let mut found = [0; 5];
        assert_eq!((read_full(&*file, &mut found, 0).unwrap(), &found), (5, b"whole"));
        assert!(file.write_at(b"x", 0).is_err() && Looking.remove(&path).is_err());
        assert!(Looking.rename(&path, folder.path()).is_err() && Looking.sync_directory(folder.path()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }
}
