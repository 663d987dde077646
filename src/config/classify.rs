//! `[classify]`: an operator's own rules of who is a person.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Config, Span, seconds};

/// `[classify]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Classify {
    /// The operator's rules over the built-in ones; empty: none.
    pub(crate) rules: PathBuf,
    /// How often it is looked whether files have changed.
    pub(crate) reload: Span,
    /// How long a list of networks is believed.
    pub(crate) networks_expire: Span,
}

impl Default for Classify {
    fn default() -> Self {
        Self { rules: PathBuf::new(), reload: seconds(10), networks_expire: seconds(90 * 24 * 3600) }
    }
}

/// What is wrong, one line each. What the file holds is checked by whoever uses it, and by `config check`: a node that
/// judges nobody need not have it.
pub(super) fn problems(config: &Config) -> Vec<String> {
    let mut wrong = Vec::new();
    let reload = config.classify.reload;
    if !(Duration::from_millis(100)..=Duration::from_secs(24 * 3600)).contains(&reload.0) {
        wrong.push(format!("classify.reload ({reload}) must be from 100ms to 24h"));
    }
    let expire = config.classify.networks_expire;
    if expire.0 < Duration::from_secs(24 * 3600) {
        wrong.push(format!("classify.networks_expire ({expire}) must be at least 1d"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_names_its_key() {
        let mut config = Config::default();
        assert_eq!(problems(&config), [""; 0]);
        config.classify.reload = Span(Duration::from_millis(99));
        assert!(problems(&config).join("\n").contains("classify.reload (99ms)"));
        config.classify.networks_expire = Span(Duration::from_secs(3600));
        assert!(problems(&config).join("\n").contains("classify.networks_expire (1h)"));
    }
}
