//! The operator's own file of rules.

use std::path::{Path, PathBuf};

use anyhow::Context;
use processor::classify::Classifier;

use super::text::text;
use crate::config::Config;

/// The longest rules file, in bytes: the built-in one is a twentieth of it.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// The file, if there is one.
#[derive(Clone, Debug)]
pub(super) struct Own(Option<PathBuf>);

impl Own {
    /// As configured.
    pub(super) fn of(config: &Config) -> Self {
        let path = &config.classify.rules;
        Self((!path.as_os_str().is_empty()).then(|| path.clone()))
    }

    /// Where it is.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Its text.
    ///
    /// # Errors
    /// When it can't be read; names the key and the path.
    pub(super) fn text(&self) -> anyhow::Result<Option<String>> {
        self.path().map(|path| text(path, MOST_BYTES).with_context(|| key(path))).transpose()
    }

    /// The built-in rules, and over them those of this text.
    ///
    /// # Errors
    /// When they are wrong; names the key, the path, and every fault.
    pub(super) fn classifier(&self, text: Option<&str>) -> anyhow::Result<Classifier> {
        match text {
            None => Ok(Classifier::builtin()?),
            Some(text) => Classifier::with_operator(text).with_context(|| self.path().map(key).unwrap_or_default()),
        }
    }
}

fn key(path: &Path) -> String {
    format!("classify.rules = {:?}", path.display().to_string())
}
