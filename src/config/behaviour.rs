//! `[behaviour]`: requests that several others show to be no person's.

use std::time::Duration;

use processor::settle::BehaviourConfig;
use serde::{Deserialize, Serialize};

use super::Span;

/// Requests farther apart than that are not looked at together: a visitor's hash is of a day, and memory bounded.
const LONGEST: Duration = Duration::from_secs(300);

/// `[behaviour]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Behaviour {
    /// A request from a hosting network within so long of its link's creation is a scanner's; zero: never.
    pub(crate) new_link: Span,
    /// A visitor on so many links within `within` is a scanner; zero: none is.
    pub(crate) many_links: usize,
    /// Whether codes that grow letter by letter are those of a link being typed.
    pub(crate) keystrokes: bool,
    /// Requests farther apart have nothing to do with each other.
    pub(crate) within: Span,
}

impl Default for Behaviour {
    fn default() -> Self {
        let BehaviourConfig { new_link, many_links, keystrokes, within } = BehaviourConfig::default();
        Self { new_link: Span(new_link), many_links, keystrokes, within: Span(within) }
    }
}

impl Behaviour {
    /// As the settler takes it.
    pub(crate) fn config(&self) -> BehaviourConfig {
        BehaviourConfig {
            new_link: self.new_link.0,
            many_links: self.many_links,
            keystrokes: self.keystrokes,
            within: self.within.0,
        }
    }

    /// What is wrong, one line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, span) in [("within", &self.within), ("new_link", &self.new_link)] {
            if span.0 > LONGEST {
                wrong.push(format!("behaviour.{key} ({span}) must be at most {}", Span(LONGEST)));
            }
        }
        if self.within.0.is_zero() && (self.many_links > 0 || self.keystrokes) {
            wrong.push("behaviour.within must be more than 0s while many_links or keystrokes are on".to_owned());
        }
        if (1..3).contains(&self.many_links) {
            wrong.push(format!(
                "behaviour.many_links ({}) must be at least 3, or 0 to switch it off: people open two links at once",
                self.many_links
            ));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_mean_nothing_are_named() {
        assert!(Behaviour::default().problems().is_empty());
        let off = Behaviour {
            new_link: Span(Duration::ZERO),
            many_links: 0,
            keystrokes: false,
            within: Span(Duration::ZERO),
        };
        assert!(off.problems().is_empty() && off.config().is_off());
        let wrong =
            Behaviour { new_link: Span(LONGEST * 2), many_links: 2, keystrokes: true, within: Span(Duration::ZERO) };
        let told = wrong.problems().join("\n");
        for name in ["behaviour.new_link", "behaviour.within", "behaviour.many_links"] {
            assert!(told.contains(name), "{told}");
        }
    }
}
