//! The rules in force: the built-in ones, over them an operator's file, and lists of networks. All may change while they are
//! used.
//!
//! ```text
//! classify.rules ───────┐                ┌─► Enricher of the process
//! DATA/networks/*.json ─┴─Source::load──►┤
//!   └── each looked at every classify.reload (watch): what is new and right is put in force
//! ```
//! Everything that judges requests gets its rules here: hot path, settler, imports, uploads, posted events, `classify`.
//! A start with a file that is wrong fails and says why; a running process goes on with what was good before, and takes what
//! else is right.
//!
//! # Files
//! `own` the operator's file · `lists` the folder of lists · `text`, `stamp` files from inside and outside · `watch` following
//! them · `metrics` what is shown · `fetch` where lists are from

mod fetch;
mod lists;
mod metrics;
mod own;
mod stamp;
mod text;
mod watch;

use std::time::Duration;

use processor::classify::Classifier;
use processor::enrich::Rules;
use processor::networks::{List, Networks};
use schemas::UtcMicros;

use crate::config::Config;
use own::Own;

pub(crate) use fetch::fetch;
pub(crate) use lists::{Lists, Looked};
pub(crate) use metrics::RulesMetrics;
pub(crate) use watch::{Kept, watch};

/// Where rules come from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    own: Own,
    lists: Lists,
    /// How long a list is believed.
    expire: Duration,
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
        Self { own: Own::of(config), lists: Lists::of(config), expire: config.classify.networks_expire.0 }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// When one can't be read, or is no list; names the key or the path.
    pub(crate) fn read(&self) -> anyhow::Result<Found> {
        Ok(Found { rules: self.own.text()?, lists: self.lists.read()? })
    }

    /// The rules alone, whatever lists there are.
    ///
    /// # Errors
    /// When they can't be read or are wrong; names the key, the path, and every fault.
    pub(crate) fn classifier(&self) -> anyhow::Result<Classifier> {
        self.own.classifier(self.own.text()?.as_deref())
    }

    /// Checks what was read, and makes rules of it as they are at `now`.
    ///
    /// # Errors
    /// When the rules are wrong; names the key, the path, and every fault.
    pub(crate) fn rules(&self, found: &Found, now: UtcMicros) -> anyhow::Result<Rules> {
        let classifier = self.own.classifier(found.rules.as_deref())?;
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

    /// Shows what is in force in a process that doesn't follow the files yet.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn show(&self, metrics: &RulesMetrics) -> anyhow::Result<()> {
        let (found, now) = (self.read()?, UtcMicros::now());
        metrics.in_force(self.rules(&found, now)?.classifier.version());
        let expired = found.lists.iter().filter(|list| list.is_expired(now, self.expire)).count();
        metrics.lists(found.lists.len() - expired, expired);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::own::MOST_BYTES;
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
