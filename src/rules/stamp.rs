//! How files look from outside: what tells whether they have to be read again.
//!
//! A file's place on the disk and the time of its last change of any kind tell one from another that was put in its place
//! with the same size and time (`cp -p`, an archive unpacked). A file that was changed just before it was read may have been
//! changed once more within one tick of the disk's clock: it is read again until it has stood still for a while.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A change shows in a file's times after at most so long, on any disk.
const TICK: Duration = Duration::from_secs(2);

/// What a file looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    path: PathBuf,
    /// `None` where there is none.
    file: Option<File>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct File {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds since 1970; may be set to anything.
    modified: (i64, i64),
    /// The same; may not.
    changed: (i64, i64),
}

impl Stamp {
    /// Of the file at a path, or where a link there leads to.
    pub(super) fn of(path: PathBuf) -> Self {
        let file = fs::metadata(&path).ok().map(|meta| File {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        });
        Self { path, file }
    }

    fn changed(&self) -> Option<SystemTime> {
        let (seconds, nanos) = self.file?.changed;
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

/// How files looked when they were read.
#[derive(Debug)]
pub(super) struct Read {
    stamps: Vec<Stamp>,
    at: SystemTime,
}

impl Read {
    /// Never yet.
    pub(super) fn never() -> Self {
        Self { stamps: Vec::new(), at: SystemTime::UNIX_EPOCH }
    }

    /// At that moment. The look at them came before, so that what changes meanwhile is seen the next time.
    pub(super) fn at(stamps: Vec<Stamp>, at: SystemTime) -> Self {
        Self { stamps, at }
    }

    /// Whether they have to be read again, as they look now.
    pub(super) fn is_old(&self, stamps: &[Stamp]) -> bool {
        let stands = |changed: SystemTime| changed + TICK < self.at;
        *stamps != *self.stamps || !stamps.iter().filter_map(Stamp::changed).all(stands)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use super::*;

    fn stamp(size: u64, modified: i64, changed: i64) -> Vec<Stamp> {
        let (modified, changed) = ((modified, 0), (changed, 0));
        vec![Stamp { path: "a".into(), file: Some(File { device: 1, inode: 2, size, modified, changed }) }]
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_file_is_read_when_it_changes_and_until_it_stands_still() {
        assert!(Read::at(stamp(5, 9, 100), at(101)).is_old(&stamp(5, 9, 100)), "read within a tick of its change");
        let read = Read::at(stamp(5, 9, 100), at(103));
        assert!(!read.is_old(&stamp(5, 9, 100)));
        let gone = vec![Stamp { path: "a".into(), file: None }];
        for other in [stamp(6, 9, 100), stamp(5, 8, 100), stamp(5, 9, 99), gone.clone(), vec![]] {
            assert!(read.is_old(&other), "{other:?}");
        }
        assert!(!Read::at(gone.clone(), at(103)).is_old(&gone), "what is missing is said once");
        assert!(Read::never().is_old(&gone));
    }

    #[test]
    fn one_of_the_same_size_and_time_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let write = |path: &PathBuf, text: &str| {
            fs::write(path, text).unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_times(FileTimes::new().set_modified(at(1_000))).unwrap();
        };
        write(&path, "one");
        let before = Stamp::of(path.clone());
        assert_eq!(before, Stamp::of(path.clone()));
        write(&other, "two");
        fs::rename(&other, &path).unwrap();
        assert_ne!(before, Stamp::of(path));
    }
}
