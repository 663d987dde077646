//! What a request's purpose headers say: whether a browser fetches ahead of a click.

use std::sync::Arc;

use schemas::Class;

use super::rules::HeaderRule;

/// A header's rule, ready to judge.
#[derive(Debug)]
pub(super) struct CompiledHeader {
    name: String,
    begins: Vec<String>,
    pub(super) class: Class,
    pub(super) agent: Arc<str>,
    pub(super) reason: Arc<str>,
    /// Names the apps it holds for; `None`: for any agent.
    app: Option<Vec<String>>,
}

impl CompiledHeader {
    pub(super) fn new(rule: &HeaderRule) -> Self {
        Self {
            name: rule.name.to_ascii_lowercase(),
            begins: rule.begins.clone(),
            class: rule.class,
            agent: rule.agent.as_str().into(),
            reason: rule.id.as_str().into(),
            app: (!rule.apps.is_empty()).then(|| rule.apps.clone()),
        }
    }

    /// Whether one of the `name: value` lines of `purpose` is this rule's.
    pub(super) fn holds(&self, purpose: &str, agent: &str) -> bool {
        let said = purpose.lines().any(|line| {
            let Some((name, value)) = line.split_once(':') else { return false };
            let value = value.trim();
            name.trim().eq_ignore_ascii_case(&self.name)
                && self
                    .begins
                    .iter()
                    .any(|begin| value.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin)))
        });
        said && self.app.as_ref().is_none_or(|apps| apps.iter().any(|app| agent.contains(app.as_str())))
    }
}
