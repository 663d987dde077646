//! What is wrong with the way to the topic, for `/readyz`, status and whoever looks.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// What is wrong, by the part that says so. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct TopicHealth(watch::Sender<BTreeMap<String, String>>);

impl TopicHealth {
    /// What is in the way, if anything is: of the first part that has something to say.
    pub fn problem(&self) -> Option<String> {
        self.0.borrow().values().next().cloned()
    }

    /// Part `part` is well. Returns whether it wasn't.
    pub(super) fn well(&self, part: &str) -> bool {
        self.0.send_if_modified(|problems| problems.remove(part).is_some())
    }

    /// Part `part` isn't well. Returns whether that is news.
    pub(super) fn ill(&self, part: &str, why: &dyn std::fmt::Display) -> bool {
        let mut is_news = false;
        self.0.send_modify(|problems| is_news = problems.insert(part.to_owned(), why.to_string()).is_none());
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_ill_is_named_until_it_is_well() {
        let health = TopicHealth::default();
        assert!(health.ill("partition 1", &"no answer") && !health.ill("partition 1", &"still no answer"));
        assert_eq!(health.clone().problem().as_deref(), Some("still no answer"));
        assert!(health.well("partition 1") && !health.well("partition 1"));
        assert_eq!(health.problem(), None);
    }
}
