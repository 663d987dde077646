//! Where a journal was made: told by a file in its folder that knows which file it is.
//!
//! ```text
//! home: journal id │ its own inode │ when the file was born      a copy of the file is another file
//! ```
//! A copied folder, of a machine that was set up from another's or restored beside it, holds a journal that may be written
//! elsewhere: two that go on with it give the same positions to different clicks, and whoever reads them takes one of each.
//! A copy of the whole disk, block by block, is the same file to it: no file can tell.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use schemas::JournalId;

/// The file's name.
const NAME: &str = "home";
/// Its name until it is whole.
const DRAFT: &str = "home.tmp";

/// Says that the journal lives in `directory`, unless the folder says already where it lives.
///
/// # Errors
/// When the disk fails or is full.
pub(super) fn settle(directory: &Path, id: JournalId) -> io::Result<()> {
    if directory.join(NAME).try_exists()? {
        return Ok(());
    }
    let draft = directory.join(DRAFT);
    let mut file = File::create(&draft)?;
    let metadata = file.metadata()?;
    writeln!(file, "{id} {} {}", metadata.ino(), born(&metadata))?;
    file.sync_all()?;
    std::fs::rename(&draft, directory.join(NAME))
}

/// Whether `directory` is a copy of the one that the journal lives in. One that doesn't say is taken for the journal's own.
///
/// # Errors
/// When the file can't be read.
pub(super) fn is_copy(directory: &Path, id: JournalId) -> io::Result<bool> {
    let mut file = match File::open(directory.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    let mut text = String::new();
    io::Read::read_to_string(&mut file, &mut text)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [told, inode, told_birth] = words[..] else { return Ok(false) };
    let (Ok(inode), Ok(told_birth)) = (inode.parse::<u64>(), told_birth.parse::<u128>()) else { return Ok(false) };
    let now_born = born(&metadata);
    // a file system that doesn't tell says 0
    let is_same_birth = told_birth == 0 || now_born == 0 || told_birth == now_born;
    Ok(told != id.to_string() || inode != metadata.ino() || !is_same_birth)
}

/// When a file was made, in nanoseconds since 1970; 0 when nobody knows.
fn born(metadata: &Metadata) -> u128 {
    let since = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_told_from_the_folder_itself() {
        let root = tempfile::tempdir().unwrap();
        let (home, copy, moved) = (root.path().join("home"), root.path().join("copy"), root.path().join("moved"));
        std::fs::create_dir(&home).unwrap();
        std::fs::create_dir(&copy).unwrap();
        let id = JournalId::new();
        assert!(!is_copy(&home, id).unwrap(), "one of before there was such a file");
        settle(&home, id).unwrap();
        std::fs::copy(home.join(NAME), copy.join(NAME)).unwrap();
        settle(&copy, id).unwrap();
        assert!(is_copy(&copy, id).unwrap(), "however often it is opened");
        settle(&home, id).unwrap();
        assert!(!is_copy(&home, id).unwrap());
        std::fs::rename(&home, &moved).unwrap();
        assert!(!is_copy(&moved, id).unwrap(), "moved is not copied");
        std::fs::write(copy.join(NAME), "torn").unwrap();
        assert!(!is_copy(&copy, id).unwrap());
    }
}
