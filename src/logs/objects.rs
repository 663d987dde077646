//! Logs in an object store: `s3://`, `gs://`, `az://`; one object, all below a prefix, or those that match a pattern.
//!
//! Credentials, regions and endpoints come from the environment variables that each store's own tools read
//! (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` …). Keys are taken as
//! they are, not as parts of a URL: an object's name is nobody's escape sequence.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig};
use processor::lake::remote_store;

/// Schemes and the variables that say who is asking.
const SCHEMES: &[(&str, &str)] = &[
    ("s3", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"),
    ("gs", "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS"),
    ("az", "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"),
];
/// A page of a listing, or an object's head, comes within this.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How often and how long the store's own client tries one request.
const REQUEST_TRIES: usize = 4;
const REQUEST_WITHIN: Duration = Duration::from_secs(45);
/// The client's own deadline for a whole answer would cut long objects off: stalls are judged where bytes are read.
const WHOLE_ANSWER_WITHIN: &str = "6h";

/// What an object store said; variants by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectError {
    /// The URL can't name anything.
    #[error("{url}: {why}")]
    Address { url: String, why: String },
    /// There is no such bucket or object.
    #[error("{url}: {why}")]
    NotFound { url: String, why: String },
    /// The store doesn't let us.
    #[error("{url}: the store refuses: {why}; who asks is said by {variables}")]
    Denied { url: String, why: String, variables: &'static str },
    /// The object was replaced while it was read.
    #[error("{url}: was replaced while it was read")]
    Replaced { url: String },
    /// The store doesn't answer, or not whole; trying later may help.
    #[error("{url}: can't be read now: {why}")]
    Unreachable { url: String, why: String },
    /// Its bytes can't be kept on this machine.
    #[error("{url}: can't be spooled: {source}")]
    Spool { url: String, source: std::io::Error },
}

impl ObjectError {
    /// Whether trying again may help.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Spool { .. } | Self::Replaced { .. })
    }

    /// By what the store's client says about `url`.
    pub(super) fn of(url: &str, error: &Error) -> Self {
        let (url, why) = (url.to_owned(), plain(error));
        // of a listing that fails the client tells the status in words only
        let says = |status: &str| why.contains(&format!("status code: {status}"));
        match error {
            _ if matches!(error, Error::NotFound { .. }) || says("404") => {
                Self::NotFound { url, why: format!("there is no such bucket or object: {why}") }
            }
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                let variables = variables(&url);
                Self::Denied { url, why, variables }
            }
            Error::Precondition { .. } => Self::Replaced { url },
            Error::InvalidPath { .. } | Error::NotSupported { .. } | Error::NotImplemented { .. } => {
                Self::Address { url, why }
            }
            _ if says("403") || says("401") || why.to_ascii_lowercase().contains("credential") => {
                let variables = variables(&url);
                Self::Denied { url, why, variables }
            }
            _ => Self::Unreachable { url, why },
        }
    }
}

/// An error in one line of bearable length: clients quote whole XML answers.
fn plain(error: &Error) -> String {
    let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= 400 { text } else { text.chars().take(400).chain("…".chars()).collect() }
}

fn variables(url: &str) -> &'static str {
    let scheme = super::scheme_of(url).unwrap_or_default();
    SCHEMES.iter().find(|(known, _)| *known == scheme).map_or("", |(_, variables)| variables)
}

/// One object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    url: String,
    meta: ObjectMeta,
}

impl Object {
    /// Its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its size in bytes when it was looked at.
    pub(super) fn size(&self) -> u64 {
        self.meta.size
    }

    /// What changes whenever its content does.
    pub(super) fn tag(&self) -> String {
        self.meta.e_tag.clone().unwrap_or_else(|| format!("@{}", self.modified()))
    }

    /// When it was written, microseconds since 1970.
    pub(super) fn modified(&self) -> i64 {
        self.meta.last_modified.timestamp_micros()
    }
}

/// A place in an object store: a bucket and what a URL says of its keys.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    store: Arc<dyn ObjectStore>,
    url: String,
    /// `scheme://bucket/`
    root: String,
    key: String,
}

impl Prefix {
    /// The place that `url` names; nothing is asked of the store yet.
    ///
    /// # Errors
    /// [`ObjectError::Address`] for what is no such URL.
    pub(crate) fn open(url: &str) -> Result<Self, ObjectError> {
        let (scheme, bucket, key) = parts(url)?;
        let root = format!("{scheme}://{bucket}/");
        let wrong = |error: Error| ObjectError::Address { url: url.to_owned(), why: plain(&error) };
        let retry = RetryConfig { max_retries: REQUEST_TRIES, retry_timeout: REQUEST_WITHIN, ..RetryConfig::default() };
        let store = remote_store(&root, WHOLE_ANSWER_WITHIN, retry).map_err(wrong)?;
        Ok(Self { store, url: url.to_owned(), root, key: key.to_owned() })
    }

    /// All objects that the URL names, by their keys. One that ends with `/` names all below it, one with `*`, `?` or
    /// `[…]` all that match, any other a single object.
    ///
    /// # Errors
    /// As [`ObjectError`] says; naming no object is none.
    pub(crate) async fn list(&self) -> Result<Vec<Object>, ObjectError> {
        let pattern = if self.is_pattern() { Some(self.pattern()?) } else { None };
        if pattern.is_none() && !self.key.is_empty() && !self.key.ends_with('/') {
            return self.single().await.map(|object| vec![object]);
        }
        let fixed = self.key.find(['*', '?', '[']).map_or(self.key.as_str(), |at| &self.key[..at]);
        let folder = fixed.rfind('/').map_or("", |at| &fixed[..at]);
        let folder = (!folder.is_empty()).then(|| self.path(folder)).transpose()?;
        let mut pages = self.store.list(folder.as_ref());
        let mut found = Vec::new();
        while let Some(meta) = within(&self.url, pages.try_next()).await? {
            // `*` stays within a folder, as in a shell
            let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
            let fits = pattern.as_ref().is_none_or(|pattern| pattern.matches_with(meta.location.as_ref(), options))
                // a name may have those characters in it
                || meta.location.as_ref() == self.key;
            if fits && meta.size > 0 {
                found.push(self.object(meta));
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// The object whose key this is, whatever is in it.
    async fn single(&self) -> Result<Object, ObjectError> {
        let path = self.path(&self.key)?;
        match within(&self.url, self.store.head(&path)).await {
            Ok(meta) => Ok(self.object(meta)),
            Err(ObjectError::NotFound { .. }) => {
                // told apart: no bucket (the listing fails) or no object, or a folder whose slash was forgotten
                let below = within(&self.url, self.store.list(Some(&path)).try_next()).await?;
                let hint = if below.is_some() { "; to take all below it, let it end with /" } else { "" };
                let why = format!("there is no such object{hint}");
                Err(ObjectError::NotFound { url: self.url.clone(), why })
            }
            Err(other) => Err(other),
        }
    }

    fn object(&self, meta: ObjectMeta) -> Object {
        let url = format!("{}{}", self.root, meta.location);
        Object { store: Arc::clone(&self.store), path: meta.location.clone(), url, meta }
    }

    fn is_pattern(&self) -> bool {
        self.key.contains(['*', '?', '['])
    }

    fn pattern(&self) -> Result<glob::Pattern, ObjectError> {
        glob::Pattern::new(&self.key).map_err(|error| self.wrong(&error))
    }

    fn path(&self, key: &str) -> Result<Path, ObjectError> {
        Path::parse(key).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, why: &dyn std::fmt::Display) -> ObjectError {
        ObjectError::Address { url: self.url.clone(), why: why.to_string() }
    }
}

/// Scheme, bucket and key of a URL.
fn parts(url: &str) -> Result<(&str, &str, &str), ObjectError> {
    let wrong = |why: String| ObjectError::Address { url: url.to_owned(), why };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !SCHEMES.iter().any(|(known, _)| *known == scheme) {
        let known: Vec<String> = SCHEMES.iter().map(|(scheme, _)| format!("{scheme}://")).collect();
        return Err(wrong(format!("{scheme}:// is not known; expected {} or file://", known.join(", "))));
    }
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() || bucket.contains(['*', '?', '[']) {
        return Err(wrong(format!("expected {scheme}://BUCKET/KEY, {scheme}://BUCKET/FOLDER/ or a pattern of keys")));
    }
    Ok((scheme, bucket, key))
}

/// Whether `url` can name objects.
pub(super) fn check(url: &str) -> Result<(), ObjectError> {
    parts(url).map(drop)
}

/// The one object whose address `url` is.
pub(super) async fn at(url: &str) -> Result<Object, ObjectError> {
    Prefix::open(url)?.single().await
}

/// The objects that `url` names, at least one.
pub(super) async fn find(url: &str) -> Result<Vec<Object>, ObjectError> {
    let found = Prefix::open(url)?.list().await?;
    if found.is_empty() {
        return Err(ObjectError::NotFound { url: url.to_owned(), why: "no object matches".to_owned() });
    }
    Ok(found)
}

/// Waits for a store's answer until the deadline.
pub(super) async fn within<T>(
    url: &str,
    work: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, ObjectError> {
    match tokio::time::timeout(ANSWER_WITHIN, work).await {
        Ok(done) => done.map_err(|error| ObjectError::of(url, &error)),
        Err(_) => {
            Err(ObjectError::Unreachable { url: url.to_owned(), why: format!("no answer within {ANSWER_WITHIN:?}") })
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A place in a store of the test's own.
    pub(crate) fn prefix(store: Arc<dyn ObjectStore>, key: &str) -> Prefix {
        Prefix { store, url: format!("s3://bucket/{key}"), root: "s3://bucket/".to_owned(), key: key.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    async fn filled() -> Arc<dyn ObjectStore> {
        let store = Arc::new(InMemory::new());
        for key in ["logs/b.gz", "logs/a.gz", "logs/2026/c.gz", "logs/a.txt", "other/d.gz", "logs/50%25.gz"] {
            store.put(&Path::parse(key).unwrap(), "x".into()).await.unwrap();
        }
        store.put(&Path::from("logs/empty"), "".into()).await.unwrap();
        store
    }

    async fn listed(key: &str) -> Result<Vec<String>, ObjectError> {
        let found = testing::prefix(filled().await, key).list().await?;
        Ok(found.iter().map(|object| object.url().replace("s3://bucket/", "")).collect())
    }

    #[tokio::test]
    async fn a_url_names_one_object_all_below_it_or_what_matches() {
        assert_eq!(listed("logs/a.gz").await.unwrap(), ["logs/a.gz"]);
        assert_eq!(listed("logs/50%25.gz").await.unwrap(), ["logs/50%25.gz"], "a key is taken as it is");
        let all = ["logs/2026/c.gz", "logs/50%25.gz", "logs/a.gz", "logs/a.txt", "logs/b.gz"];
        assert_eq!(listed("logs/").await.unwrap(), all);
        assert_eq!(listed("").await.unwrap().len(), all.len() + 1);
        assert_eq!(listed("logs/[ab].gz").await.unwrap(), ["logs/a.gz", "logs/b.gz"]);
        assert_eq!(
            listed("logs/**/*.gz").await.unwrap(),
            ["logs/2026/c.gz", "logs/50%25.gz", "logs/a.gz", "logs/b.gz"]
        );
        assert_eq!(listed("*/*.gz").await.unwrap(), ["logs/50%25.gz", "logs/a.gz", "logs/b.gz", "other/d.gz"]);
        assert_eq!(listed("nothing/").await.unwrap(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn what_is_not_there_is_said_and_a_forgotten_slash_is_seen() {
        let error = listed("logs").await.unwrap_err();
        assert!(!error.may_pass() && error.to_string().contains("end with /"), "{error}");
        let error = listed("logs/z.gz").await.unwrap_err().to_string();
        assert!(error.starts_with("s3://bucket/logs/z.gz: there is no such object"), "{error}");
        assert!(listed("logs//a.gz").await.is_err());
    }

    #[test]
    fn what_can_be_no_url_is_named() {
        for (url, word) in [("s3://", "BUCKET"), ("s3://b*/x", "BUCKET"), ("http://host/x", "s3://")] {
            let error = Prefix::open(url).unwrap_err().to_string();
            assert!(error.contains(url) && error.contains(word), "{error}");
        }
    }
}
