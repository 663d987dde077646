//! Where edge logs come from: files, folders, patterns, standard input, and object stores by their URL.
//!
//! ```text
//! "access.log" "logs/" "logs/*.gz" "-"     ──local──┐
//! "s3://bucket/logs/" "gs://…" "az://…"  ──objects──┼──► Found, in the order given ──input──► processor::import
//!                                          (fetch)──┘
//! ```
//! * `local`: what a path of this machine names; `objects`: what an object store's URL names
//! * `list`: what is there below a watched prefix; `fetch`: an object's bytes into the import's spool
//!
//! Invariants: what one path names comes in the order of its names; an object's bytes are never held in memory as a
//! whole, and those of two versions of an object are never mixed.
//!
//! Failure: a path that names nothing is an error that says so, and so is a store that refuses; what may pass is tried
//! again within bounds.

mod fetch;
mod list;
mod local;
mod objects;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use processor::import::Input;

pub(crate) use list::{Listed, Place};
pub(crate) use objects::{Object, ObjectError};

/// One log that a path names.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Standard input.
    Stdin,
    /// A file, and how it was named.
    File { path: PathBuf, name: String },
    /// An object.
    Object(Object),
}

impl Found {
    /// Its name, for people.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Stdin => "standard input",
            Self::File { name, .. } => name,
            Self::Object(object) => object.url(),
        }
    }

    /// Its bytes, to take in. An object's come into a file without a name in `spool_dir` first; `fetched` is told how
    /// many are there, and of how many.
    ///
    /// # Errors
    /// When it can't be opened or fetched.
    pub(crate) async fn input(&self, spool_dir: &Path, fetched: impl FnMut(u64, u64)) -> anyhow::Result<Input> {
        match self {
            Self::Stdin => Ok(Input::stream(self.name(), std::io::stdin())),
            Self::File { path, name } => {
                let input = Input::open(path).with_context(|| format!("can't open {name}"))?;
                Ok(Input { name: name.clone(), ..input })
            }
            Self::Object(object) => {
                let file = fetch::fetch(object, spool_dir, fetched).await?;
                Ok(Input::file(object.url(), file).with_location(object.url()))
            }
        }
    }
}

/// The logs that `paths` name, in the order given; those of a folder, prefix or pattern by their names.
///
/// # Errors
/// Names each path that names nothing, or can't be looked into; then none is taken.
pub(crate) async fn find(paths: &[String]) -> anyhow::Result<Vec<Found>> {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for path in paths {
        match find_one(path).await {
            Ok(logs) => found.extend(logs),
            Err(error) => wrong.push(crate::explain(&error)),
        }
    }
    if wrong.len() < paths.len() && !wrong.is_empty() {
        wrong.push("nothing was taken in, of the other paths neither".to_owned());
    }
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(found)
}

async fn find_one(path: &str) -> anyhow::Result<Vec<Found>> {
    match scheme_of(path) {
        Some("file") => local::find(path, &local::path_of_url(path)?),
        Some(_) => Ok(objects::find(path).await?.into_iter().map(Found::Object).collect()),
        None if is_no_address(path) => anyhow::bail!("{path}: {NO_ADDRESS}"),
        None => local::find(path, path),
    }
}

/// The one log at a path or URL that was found before: no part of it is a pattern.
///
/// # Errors
/// When an object store doesn't have it. A file that is gone shows when it is opened.
pub(crate) async fn at(location: &str) -> anyhow::Result<Found> {
    let file = |path: String| Found::File { path: path.into(), name: location.to_owned() };
    Ok(match scheme_of(location) {
        Some("file") => file(local::path_of_url(location)?),
        Some(_) => Found::Object(objects::at(location).await?),
        None => file(location.to_owned()),
    })
}

/// Whether `prefix` can be watched; nothing is looked at yet.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), String> {
    match scheme_of(prefix) {
        _ if prefix.is_empty() || prefix == "-" => Err(format!("{prefix:?} is no folder, pattern or URL")),
        Some("file") => local::path_of_url(prefix).map(drop).map_err(|error| error.to_string()),
        Some(_) => objects::check(prefix).map_err(|error| error.to_string()),
        None if is_no_address(prefix) => Err(format!("{prefix:?}: {NO_ADDRESS}")),
        None if prefix.trim().is_empty() => Err(format!("{prefix:?} is no folder, pattern or URL")),
        None => Ok(()),
    }
}

/// The scheme of a URL; none for a path.
pub(crate) fn scheme_of(path: &str) -> Option<&str> {
    let (scheme, _) = path.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    is_scheme.then_some(scheme)
}

/// What is said of an address that isn't one.
const NO_ADDRESS: &str = "there is nothing of that name, and an address begins with s3://, gs://, az:// or file://";

/// Whether what is there no file or folder of was meant as an address.
fn is_no_address(path: &str) -> bool {
    lost_slash(path).is_some() && !Path::new(path).exists()
}

/// The scheme of what would be a URL with a slash more, such as `s3:/bucket`; also with two more, where the scheme is one
/// that something here is kept in.
pub(crate) fn lost_slash(path: &str) -> Option<&str> {
    const KNOWN: [&str; 6] = ["s3", "gs", "az", "file", "postgres", "postgresql"];
    let (scheme, rest) = path.split_once(':')?;
    let mut letters = scheme.bytes();
    let is_scheme = scheme.len() > 1
        && letters.next().is_some_and(|b| b.is_ascii_lowercase())
        && letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+.-".contains(&b));
    let has_lost = !rest.starts_with("//") && (rest.starts_with('/') || KNOWN.contains(&scheme));
    (is_scheme && has_lost).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use processor::import::Body;

    #[tokio::test]
    async fn other_schemes_are_named_with_those_that_are_known() {
        let error = find(&["ftp://host/logs/".into()]).await.unwrap_err().to_string();
        assert!(error.contains("ftp://host/logs/") && error.contains("s3://"), "{error}");
        let error = find(&["s3:/bucket/logs/".into()]).await.unwrap_err().to_string();
        assert!(error.contains("s3:/bucket/logs/") && error.contains("begins with s3://"), "{error}");
        assert!(check_prefix("s3:/bucket").is_err() && check_prefix(" ").is_err() && check_prefix("a:b").is_ok());
        assert_eq!(scheme_of("a b://c"), None);
        assert_eq!(scheme_of("s3://bucket/a"), Some("s3"));
    }

    #[tokio::test]
    async fn every_path_that_names_nothing_is_named_and_none_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a.log", "b.log", "c.log"].map(|name| dir.path().join(name).display().to_string());
        std::fs::write(&a, "x").unwrap();
        let told = find(&[b.clone(), a.clone(), c.clone()]).await.unwrap_err().to_string();
        assert!(told.contains(&format!("{b}: there is no such")) && told.contains(&c) && !told.contains(&a), "{told}");
        assert!(told.ends_with("nothing was taken in, of the other paths neither"), "{told}");
        assert!(!find(&[b]).await.unwrap_err().to_string().contains("nothing was taken in"), "that is plain of one");
    }

    #[tokio::test]
    async fn a_file_url_is_a_path_and_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a b.log"), "x").unwrap();
        let url = format!("file://{}/a%20b.log", dir.path().display());
        let found = find(std::slice::from_ref(&url)).await.unwrap();
        assert_eq!(found.iter().map(Found::name).collect::<Vec<_>>(), [url.as_str()]);
        let Body::File(mut file) = found[0].input(dir.path(), |_, _| {}).await.unwrap().body else { panic!() };
        let mut text = String::new();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        assert_eq!(text, "x");

        let folder = format!("file://{}/", dir.path().display());
        let names: Vec<String> = find(&[folder]).await.unwrap().iter().map(|f| f.name().to_owned()).collect();
        assert_eq!(names, [format!("file://{}/a%20b.log", dir.path().display())]);
        assert!(find(&["file://elsewhere/x.log".into()]).await.unwrap_err().to_string().contains("file:///"));
    }
}
