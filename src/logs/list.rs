//! What is there to be taken in below a watched prefix, with what tells one version of a log from the next.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::objects::Prefix;
use super::{local, scheme_of};

/// A log that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Path or URL.
    pub(crate) object: String,
    /// Bytes.
    pub(crate) size: u64,
    /// What changes whenever its content does.
    pub(crate) tag: String,
    /// When it was written, microseconds since 1970.
    pub(crate) modified: i64,
    /// Whether it may be being written; an object of a store is whole.
    pub(crate) may_grow: bool,
}

/// A place that can be looked into again and again: a folder, a pattern, or an object store's prefix or pattern.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On this machine.
    Files(String),
    /// In an object store.
    Objects(Prefix),
}

impl Place {
    /// The place that a path or URL names; an object store's is a folder whether it ends with a slash or not.
    ///
    /// # Errors
    /// When it can be none.
    pub(crate) fn open(prefix: &str) -> anyhow::Result<Self> {
        Ok(match scheme_of(prefix) {
            Some("file") => Self::Files(local::path_of_url(prefix)?),
            Some(_) if prefix.ends_with('/') || prefix.contains(['*', '?', '[']) => {
                Self::Objects(Prefix::open(prefix)?)
            }
            Some(_) => Self::Objects(Prefix::open(&format!("{prefix}/"))?),
            None => Self::Files(prefix.to_owned()),
        })
    }

    /// All logs in it. Empty ones, and files that begin with a dot, as those that are being copied do, are none.
    ///
    /// # Errors
    /// When it can't be looked into.
    pub(crate) async fn list(&self) -> anyhow::Result<Vec<Listed>> {
        match self {
            Self::Files(place) => files(place),
            Self::Objects(prefix) => objects(prefix).await,
        }
    }
}

async fn objects(prefix: &Prefix) -> anyhow::Result<Vec<Listed>> {
    let found = prefix.list().await?;
    let one = |object: super::Object| Listed {
        size: object.size(),
        tag: object.tag(),
        modified: object.modified(),
        may_grow: false,
        object: object.url().to_owned(),
    };
    Ok(found.into_iter().map(one).collect())
}

fn files(place: &str) -> anyhow::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for path in local::below(place)? {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // one that has gone meanwhile is no failure, and a name that is no text can't be told
        let (Ok(metadata), Some(object)) = (std::fs::metadata(&path), path.to_str()) else { continue };
        if !hidden && metadata.is_file() && metadata.len() > 0 {
            listed.push(of(object, &metadata));
        }
    }
    Ok(listed)
}

fn of(object: &str, metadata: &std::fs::Metadata) -> Listed {
    let modified = metadata.mtime() * 1_000_000 + metadata.mtime_nsec() / 1_000;
    let tag = format!("{}@{modified}", metadata.ino());
    Listed { object: absolute(object), size: metadata.len(), tag, modified, may_grow: true }
}

/// As another folder's process would name it.
fn absolute(path: &str) -> String {
    let whole = std::path::absolute(Path::new(path)).ok();
    whole.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn list(place: &str) -> anyhow::Result<Vec<Listed>> {
        Place::open(place)?.list().await
    }

    #[tokio::test]
    async fn files_are_listed_with_what_changes_when_they_do() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for (name, text) in [("a.log", "1"), ("sub/b.log", "22"), (".part", "x"), ("empty", "")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let place = dir.path().to_str().unwrap();
        let first = list(place).await.unwrap();
        let names: Vec<String> = first.iter().map(|log| log.object.replace(place, "")).collect();
        assert_eq!(names, ["/a.log", "/sub/b.log"]);
        assert_eq!(list(&format!("file://{place}/*.log")).await.unwrap().len(), 1);
        assert_eq!(list(place).await.unwrap(), first);
        std::fs::write(dir.path().join("a.log"), "12").unwrap();
        assert_ne!(list(place).await.unwrap()[0], first[0]);
        assert_eq!(list(&format!("{place}/*.gz")).await.unwrap(), [], "a pattern may match later");
        assert!(list(&format!("{place}/nowhere")).await.is_err(), "a folder must be there");
    }
}
