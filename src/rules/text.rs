//! Reading a file that an operator has put there, whatever it turns out to be.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use anyhow::ensure;

/// The text of a file of at most so many bytes, whatever it says of its size. Only of a regular file: a pipe would block
/// whoever opens it, and a device need not end.
///
/// # Errors
/// When it is another kind of file, too long, no UTF-8, or can't be read.
pub(super) fn text(path: &Path, most: u64) -> anyhow::Result<String> {
    ensure!(fs::metadata(path)?.is_file(), "it is no regular file: expected one, or a link to one");
    let mut text = String::new();
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= most, "it has too many bytes: expected at most {most}");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_no_more_of_them_than_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "12345").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(text(&link, 5).unwrap(), "12345");
        assert!(text(&path, 4).unwrap_err().to_string().contains("too many bytes: expected at most 4"));
        for other in ["/dev/zero", "/dev/null", "/"] {
            assert!(text(Path::new(other), 5).unwrap_err().to_string().contains("no regular file"), "{other}");
        }
        let pipe = folder.path().join("pipe");
        if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
            assert!(text(&pipe, 5).unwrap_err().to_string().contains("no regular file"), "a pipe that nobody writes");
        }
        // says that it is empty, and isn't
        if Path::new("/proc/self/status").exists() {
            assert!(text(Path::new("/proc/self/status"), 5).unwrap_err().to_string().contains("too many bytes"));
        }
    }
}
