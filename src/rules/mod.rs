//! The rules in force: the built-in ones, over them an operator's file, and lists of networks. All may change while they are
//! used.
//!
//! ```text
//! classify.rules ────────┐
//! DATA/networks/*.json ──┴─Source::read──► Found ──check──► Rules ──put in force──► Enricher of the process
//!   └──looked at every classify.reload (watch): something else, checked before it is taken
//! ```
//! Everything that judges requests gets its rules here: hot path, settler, imports, uploads, posted events, `classify`.
//! A start with a file that is wrong fails and says why; a running process goes on with the last good rules.

mod fetch;
mod lists;
mod metrics;
mod text;
mod watch;

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use processor::classify::Classifier;
use processor::enrich::Rules;
use processor::networks::{List, Networks};
use schemas::UtcMicros;

use crate::config::Config;
use text::text;

pub(crate) use fetch::fetch;
pub(crate) use lists::Lists;
pub(crate) use metrics::RulesMetrics;
pub(crate) use watch::{Watched, watch};

/// The longest rules file, in bytes: the built-in one is a twentieth of it.
const MOST_BYTES: u64 = 1 << 20;

/// Where rules come from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    rules: Option<PathBuf>,
    lists: Lists,
    /// How long a list is believed.
    expire: Duration,
}

/// What a file looks like from outside; one that isn't there has no size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    path: PathBuf,
    size: Option<u64>,
    modified: Option<SystemTime>,
}

/// What the files hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    rules: Option<String>,
    lists: Vec<List>,
}

impl Source {
    /// As configured.
    pub(crate) fn of(config: &Config) -> Self {
        let rules = &config.classify.rules;
        Self {
            rules: (!rules.as_os_str().is_empty()).then(|| rules.clone()),
            lists: Lists::of(config),
            expire: config.classify.networks_expire.0,
        }
    }

    /// How the files look.
    fn stamps(&self) -> Vec<Stamp> {
        // a folder that can't be read says so when it is read
        let lists = self.lists.paths().unwrap_or_default();
        self.rules.iter().cloned().chain(lists).map(Stamp::of).collect()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// When one can't be read, or is no list; names the key or the path.
    pub(crate) fn read(&self) -> anyhow::Result<Found> {
        Ok(Found { rules: self.own()?, lists: self.lists.read()? })
    }

    /// The text of the operator's file.
    fn own(&self) -> anyhow::Result<Option<String>> {
        self.rules.as_deref().map(|path| text(path, MOST_BYTES).with_context(|| key(path))).transpose()
    }

    /// The rules alone, whatever lists there are.
    ///
    /// # Errors
    /// When they can't be read or are wrong; names the key, the path, and every fault.
    pub(crate) fn classifier(&self) -> anyhow::Result<Classifier> {
        let found = Found { rules: self.own()?, lists: Vec::new() };
        Ok(self.rules(&found, UtcMicros::now())?.classifier)
    }

    /// Checks what was read, and makes rules of it as they are at `now`.
    ///
    /// # Errors
    /// When the rules are wrong; names the key, the path, and every fault.
    pub(crate) fn rules(&self, found: &Found, now: UtcMicros) -> anyhow::Result<Rules> {
        let classifier = match &found.rules {
            None => Classifier::builtin()?,
            Some(text) => {
                Classifier::with_operator(text).with_context(|| self.rules.as_deref().map(key).unwrap_or_default())?
            }
        };
        let believed = found.lists.iter().filter(|list| !list.is_expired(now, self.expire));
        Ok(Rules { classifier, networks: Networks::new(believed) })
    }

    /// Reads, and makes rules.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::rules`].
    pub(crate) fn load(&self) -> anyhow::Result<Rules> {
        self.rules(&self.read()?, UtcMicros::now())
    }

    /// The names of lists that are too old to be believed.
    fn expired<'a>(&self, found: &'a Found, now: UtcMicros) -> Vec<&'a str> {
        let expired = found.lists.iter().filter(|list| list.is_expired(now, self.expire));
        expired.map(|list| list.name.as_str()).collect()
    }

    /// Shows what is in force, of rules with this version.
    pub(crate) fn show(&self, metrics: &RulesMetrics, found: &Found, version: i32, now: UtcMicros) {
        let expired = self.expired(found, now).len();
        metrics.in_force(version, found.lists.len() - expired, expired);
    }

    /// When the next list expires.
    fn next_expiry(&self, found: &Found, now: UtcMicros) -> Option<UtcMicros> {
        let ends = found.lists.iter().filter_map(|list| list.expires_at(self.expire));
        ends.filter(|end| *end >= now).min()
    }

    /// Tells what was found, as it is at `now`, from anything else.
    fn print(&self, found: &Found, now: UtcMicros) -> u64 {
        let mut hash = DefaultHasher::new();
        (&found.rules, &found.lists, self.expired(found, now)).hash(&mut hash);
        hash.finish()
    }
}

impl Stamp {
    fn of(path: PathBuf) -> Self {
        let file = fs::metadata(&path).ok();
        let modified = file.as_ref().and_then(|file| file.modified().ok());
        Self { path, size: file.map(|file| file.len()), modified }
    }
}

fn key(path: &Path) -> String {
    format!("classify.rules = {:?}", path.display().to_string())
}

impl Found {
    /// The names of lists of `before` that are here no more.
    fn gone<'a>(&self, before: &'a [String]) -> Vec<&'a str> {
        let is_here = |name: &&String| self.lists.iter().any(|list| list.name == **name);
        before.iter().filter(|name| !is_here(name)).map(String::as_str).collect()
    }

    fn names(&self) -> Vec<String> {
        self.lists.iter().map(|list| list.name.clone()).collect()
    }

    /// Tells rules from other rules.
    fn print_of_rules(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.rules.hash(&mut hash);
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_wrong_is_named_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        assert_eq!(Source::of(&config).load().unwrap().classifier.version() % 1_000, 0);
        config.classify.rules = folder.path().join("own.toml");
        let said = |config: &Config| crate::explain(&Source::of(config).load().unwrap_err());
        let missing = said(&config);
        assert!(missing.contains("classify.rules = ") && missing.contains("own.toml"), "{missing}");
        fs::write(&config.classify.rules, "version = 1\noff = [\"nothing\"]").unwrap();
        assert!(said(&config).contains("own.toml\": rules are wrong: off: \"nothing\""), "{}", said(&config));
        fs::write(&config.classify.rules, "#".repeat(MOST_BYTES as usize + 1)).unwrap();
        assert!(said(&config).contains("too many bytes"));
        fs::write(&config.classify.rules, "version = 12").unwrap();
        assert_eq!(Source::of(&config).load().unwrap().classifier.version() % 1_000, 12);
        let lists = Lists::of(&config);
        fs::create_dir_all(lists.folder()).unwrap();
        fs::write(lists.folder().join("broken.json"), "{").unwrap();
        assert!(said(&config).contains("broken.json"), "{}", said(&config));
        let alone = Source::of(&config).classifier().unwrap();
        assert_eq!(alone.version() % 1_000, 12, "updates of lists need rules only: a broken list stops none");
    }
}
