//! The rules in force: the built-in ones, and over them an operator's file, which may change while they are used.
//!
//! ```text
//! file ──Source::read──► text ──check──► Classifier ──put in force──► Enricher of the process
//!   └──looked at every classify.reload (watch): another text, checked before it is taken
//! ```
//! Everything that judges requests gets its rules here: hot path, settler, imports, uploads, posted events, `classify`.
//! A start with a file that is wrong fails and says why; a running process goes on with the last good rules.

mod metrics;
mod watch;

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, ensure};
use processor::classify::Classifier;

use crate::config::Config;

pub(crate) use metrics::RulesMetrics;
pub(crate) use watch::{Watched, watch};

/// The longest rules file, in bytes: the built-in one is a twentieth of it.
const MOST_BYTES: u64 = 1 << 20;

/// Where rules come from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    rules: Option<PathBuf>,
}

/// What a file looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
}

/// What the files hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    rules: Option<String>,
}

impl Source {
    /// As configured.
    pub(crate) fn of(config: &Config) -> Self {
        let rules = &config.classify.rules;
        Self { rules: (!rules.as_os_str().is_empty()).then(|| rules.clone()) }
    }

    /// How the files look; what isn't there has no stamp.
    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.rules.iter().map(|path| stamp(path)).collect()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// When one can't be read; names the key and the path.
    pub(crate) fn read(&self) -> anyhow::Result<Texts> {
        let rules = self.rules.as_deref().map(|path| text(path).with_context(|| key(path))).transpose()?;
        Ok(Texts { rules })
    }

    /// Checks what was read, and makes rules of it.
    ///
    /// # Errors
    /// When the rules are wrong; names the key, the path, and every fault.
    pub(crate) fn rules(&self, texts: &Texts) -> anyhow::Result<Classifier> {
        let Some(text) = &texts.rules else { return Ok(Classifier::builtin()?) };
        Classifier::with_operator(text).with_context(|| self.rules.as_deref().map(key).unwrap_or_default())
    }

    /// Reads, and makes rules.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::rules`].
    pub(crate) fn load(&self) -> anyhow::Result<Classifier> {
        self.rules(&self.read()?)
    }
}

impl Texts {
    /// Tells these from others.
    fn print(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.rules.hash(&mut hash);
        hash.finish()
    }
}

fn key(path: &Path) -> String {
    format!("classify.rules = {:?}", path.display().to_string())
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok()?;
    Some(Stamp { size: file.len(), modified: file.modified().ok() })
}

/// A file's text, unless it is far too long to be one.
fn text(path: &Path) -> anyhow::Result<String> {
    let size = fs::metadata(path)?.len();
    ensure!(size <= MOST_BYTES, "{size} bytes are too many for rules: expected at most {MOST_BYTES}");
    Ok(fs::read_to_string(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_wrong_is_named_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        assert_eq!(Source::of(&config).load().unwrap().version() % 1_000, 0);
        config.classify.rules = folder.path().join("own.toml");
        let said = |config: &Config| crate::explain(&Source::of(config).load().unwrap_err());
        let missing = said(&config);
        assert!(missing.contains("classify.rules = ") && missing.contains("own.toml"), "{missing}");
        fs::write(&config.classify.rules, "version = 1\noff = [\"nothing\"]").unwrap();
        assert!(said(&config).contains("own.toml\": rules are wrong: off: \"nothing\""), "{}", said(&config));
        fs::write(&config.classify.rules, "#".repeat(MOST_BYTES as usize + 1)).unwrap();
        assert!(said(&config).contains("too many"));
        fs::write(&config.classify.rules, "version = 12").unwrap();
        assert_eq!(Source::of(&config).load().unwrap().version() % 1_000, 12);
    }
}
