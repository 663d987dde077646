//! Where things are kept: folders, and addresses of storage. What only looks like an address, such as one that has lost a
//! slash, is refused before a folder of that name is made.

use super::Config;
use crate::logs::{lost_slash, scheme_of};

/// Schemes of addresses that a lake may have.
const LAKES: [&str; 4] = ["file", "s3", "gs", "az"];

/// Schemes of addresses that a link store may have.
const LINKS: [&str; 3] = ["postgres", "postgresql", "sqlite"];

/// What is wrong, one line each; empty when nothing is.
pub(super) fn problems(config: &Config) -> Vec<String> {
    [data_dir(config), lake(config), links(config)].into_iter().flatten().collect()
}

fn data_dir(config: &Config) -> Option<String> {
    let given = config.data_dir.to_string_lossy();
    if given.trim().is_empty() {
        return Some(format!("data_dir ({given:?}) names no folder, such as \"./highwater-data\""));
    }
    let is_address = scheme_of(&given).is_some() || lost_slash(&given).is_some();
    is_address
        .then(|| format!("data_dir ({given:?}) must be a folder of this machine; the lake may be elsewhere (lake)"))
}

fn lake(config: &Config) -> Option<String> {
    let given = &config.lake;
    let known = LAKES.map(|scheme| format!("{scheme}://")).join(", ");
    if let Some(scheme) = scheme_of(given).filter(|scheme| !LAKES.contains(scheme)) {
        return Some(format!("lake: storage {scheme}:// is not known; expected a folder or one of {known}"));
    }
    let is_blank = !given.is_empty() && given.trim().is_empty();
    let is_neither = is_blank || lost_slash(given).is_some();
    is_neither.then(|| format!("lake ({given:?}) is neither a folder nor an address that begins with one of {known}"))
}

fn links(config: &Config) -> Option<String> {
    let given = &config.links.url;
    let expected = "expected postgres://user@host/database, or a file's path";
    if let Some(scheme) = scheme_of(given).filter(|scheme| !LINKS.contains(scheme)) {
        return Some(format!("links.url: a link store in {scheme}:// is not known; {expected}"));
    }
    if !given.is_empty() && given.trim().is_empty() {
        return Some(format!("links.url ({given:?}) names no link store; {expected}"));
    }
    // the rest of it may hold a password
    let scheme = lost_slash(given).filter(|scheme| *scheme != "sqlite")?;
    Some(format!("links.url: {scheme}:/ begins no address of a link store; {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        problems(&config).join("\n")
    }

    #[test]
    fn what_is_no_place_is_named_with_its_key() {
        for wrong in ["s3:/bucket", "s3:bucket/lake", "gs:/b/c", "file:/x", "hdfs:/host/x", " "] {
            let told = broken(|c| c.lake = wrong.into());
            assert!(told.starts_with(&format!("lake ({wrong:?})")) && told.contains("s3://"), "{told}");
        }
        assert!(broken(|c| c.lake = "ftp://bucket/lake".into()).contains("s3://"));
        for wrong in ["", " ", "s3:/bucket", "s3://bucket", "file:///data"] {
            assert!(broken(|c| c.data_dir = wrong.into()).starts_with(&format!("data_dir ({wrong:?})")), "{wrong}");
        }
        assert!(broken(|c| c.links.url = "mysql://x/links".into()).contains("links.url: a link store in mysql://"));
        for wrong in ["postgres:/user:secret@host/links", "postgres:user:secret@host"] {
            let told = broken(|c| c.links.url = wrong.into());
            assert!(told.starts_with("links.url: postgres:/ begins no address") && !told.contains("secret"), "{told}");
        }
        assert!(broken(|c| c.links.url = " ".into()).starts_with("links.url (\" \")"));
    }

    #[test]
    fn what_is_a_place_is_taken() {
        for lake in
            ["", "lake", "/data/lake", "./s3:/bucket", "c:/lake", "a/b:/c", "s3://bucket/lake", "file:///data/lake"]
        {
            assert_eq!(broken(|c| c.lake = lake.into()), "", "{lake}");
        }
        for links in
            ["", "./links.sqlite", "sqlite:/data/links", "sqlite:links", "sqlite:///data/links", "postgres://x/links"]
        {
            assert_eq!(broken(|c| c.links.url = links.into()), "", "{links}");
        }
        for folder in [".", "/var/lib/highwater", "a b"] {
            assert_eq!(broken(|c| c.data_dir = folder.into()), "", "{folder}");
        }
    }
}
