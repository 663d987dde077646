//! Logs on this machine: files, folders with all below them, patterns.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use object_store::path::Path as StorePath;

use super::Found;

/// What `path` names; `given` is how it was written, and how errors name it. Files named by a URL keep URLs as names.
pub(super) fn find(given: &str, path: &str) -> anyhow::Result<Vec<Found>> {
    if given == "-" {
        return Ok(vec![Found::Stdin]);
    }
    let place = Path::new(path);
    let mut files = Vec::new();
    match std::fs::metadata(place) {
        Ok(found) if found.is_dir() => {
            files_below(place, &mut files)?;
            if files.is_empty() {
                bail!("{given}: there is no file in this folder");
            }
        }
        // also a pipe, as shells make for <(…)
        Ok(_) => files.push(place.to_owned()),
        Err(error) if !is_missing(&error) => bail!("{given}: can't be looked at: {error}"),
        Err(_) if matched(path, &mut files)? => {}
        Err(_) => bail!("{given}: there is no such file or folder, and nothing matches it as a pattern"),
    }
    let is_url = given != path;
    let one = |path: PathBuf| {
        let name = if is_url { url_of(&path) } else { path.display().to_string() };
        Found::File { path, name }
    };
    Ok(files.into_iter().map(one).collect())
}

/// The files of a watched folder or pattern; a pattern may match none.
pub(super) fn below(place: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let is_pattern = place.contains(['*', '?', '[']);
    if is_pattern && !Path::new(place).exists() {
        matched(place, &mut files)?;
    } else {
        files_below(Path::new(place), &mut files)?;
    }
    Ok(files)
}

/// The path that a `file://` URL stands for.
pub(super) fn path_of_url(url: &str) -> anyhow::Result<String> {
    let rest = url.strip_prefix("file://").unwrap_or(url);
    let Some(path) = rest.strip_prefix("localhost/").or_else(|| rest.strip_prefix('/')) else {
        bail!("{url}: expected file:///FOLDER/FILE, a path on this machine");
    };
    let decoded = StorePath::from_url_path(path).with_context(|| format!("{url} is no path"))?;
    Ok(format!("/{decoded}"))
}

fn url_of(path: &Path) -> String {
    let text = path.display().to_string();
    let escaped = text.chars().map(|c| match c {
        '%' | ' ' | '#' | '?' => format!("%{:02X}", u32::from(c)),
        other => other.to_string(),
    });
    format!("file://{}", escaped.collect::<String>())
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("can't list {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    found.sort();
    for path in found {
        if path.is_dir() {
            files_below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether nothing is there, rather than something that can't be looked at.
fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn matched(pattern: &str, files: &mut Vec<PathBuf>) -> anyhow::Result<bool> {
    let before = files.len();
    for path in glob::glob(pattern).with_context(|| format!("{pattern} is no pattern"))? {
        let path = path?;
        // what can't be looked at is told when it is opened
        if std::fs::metadata(&path).map_or_else(|error| !is_missing(&error), |found| found.is_file()) {
            files.push(path);
        }
    }
    Ok(files.len() > before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_globs_name_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for name in ["b.log", "a.log", "sub/c.log"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let name = |given: &str| dir.path().join(given).display().to_string();
        let names = |given: &str| -> Vec<String> {
            let found = find(given, given).unwrap();
            let short = |name: &str| name.replace(&format!("{}/", dir.path().display()), "");
            found.iter().map(|found| short(found.name())).collect()
        };
        assert_eq!(names(&name("")), ["a.log", "b.log", "sub/c.log"]);
        assert_eq!(names(&name("*.log")), ["a.log", "b.log"]);
        assert_eq!(names("-"), ["standard input"]);
        let nothing = name("*.gz");
        assert!(find(&nothing, &nothing).unwrap_err().to_string().contains("nothing matches"));
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_called_missing() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("loop.log").display().to_string();
        std::os::unix::fs::symlink(&name, &name).unwrap();
        let told = find(&name, &name).unwrap_err().to_string();
        assert!(told.starts_with(&format!("{name}: can't be looked at: ")) && !told.contains("no such"), "{told}");
        let pattern = dir.path().join("*.log").display().to_string();
        assert_eq!(find(&pattern, &pattern).unwrap().len(), 1, "it is told when it is opened");
        let below = format!("{name}.txt/x");
        std::fs::write(format!("{name}.txt"), "").unwrap();
        assert!(find(&below, &below).unwrap_err().to_string().contains("no such file"), "a file holds no others");
    }

    #[test]
    fn a_folder_without_files_names_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let name = dir.path().display().to_string();
        let told = find(&name, &name).unwrap_err().to_string();
        assert_eq!(told, format!("{name}: there is no file in this folder"));
        assert_eq!(below(&name).unwrap().len(), 0, "one that is watched may be filled later");
    }
}
