//! Lists of networks: each taken when it has changed and is right. One that is wrong keeps no other back, and its last good
//! version stays in force until that expires.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use processor::networks::{List, Networks};
use schemas::UtcMicros;

use super::super::lists::{Lists, Looked};
use super::super::stamp::{Read, Stamp};
use super::{Follow, Kept};

/// What the folder itself is called among what can't be used.
const FOLDER: &str = "";

/// The folder, followed.
#[derive(Debug)]
pub(super) struct WatchedLists {
    kept: Kept,
    lists: Lists,
    /// How long a list is believed.
    expire: Duration,
    read: Read,
    /// The last good version of each that is there, by name.
    good: Vec<List>,
    /// When one of them expires next.
    expiry: Option<UtcMicros>,
    /// Why others can't be used, by the names of their files.
    wrong: BTreeMap<String, String>,
}

impl WatchedLists {
    /// The networks in force are of these lists, as they were believed at `now`.
    pub(super) fn new(kept: Kept, lists: Lists, expire: Duration, good: Vec<List>, now: UtcMicros) -> Self {
        let (read, wrong) = (Read::never(), BTreeMap::new());
        let mut watched = Self { kept, lists, expire, read, good, expiry: None, wrong };
        watched.show(now);
        watched
    }

    /// Puts what is believed of the good lists in force.
    fn put(&mut self, now: UtcMicros) {
        let believed = self.good.iter().filter(|list| !list.is_expired(now, self.expire));
        self.kept.enricher.put_networks_in_force(Networks::new(believed));
        self.show(now);
    }

    /// Says what is in force, and which lists aren't any more.
    fn show(&mut self, now: UtcMicros) {
        let ends = self.good.iter().filter_map(|list| list.expires_at(self.expire));
        self.expiry = ends.filter(|end| *end >= now).min();
        let expired = self.good.iter().filter(|list| list.is_expired(now, self.expire));
        let expired: Vec<&str> = expired.map(|list| list.name.as_str()).collect();
        self.kept.metrics.lists(self.good.len() - expired.len(), expired.len());
        if !expired.is_empty() {
            let lists = expired.join(", ");
            tracing::warn!(
                lists,
                "lists of networks are too old to be believed; `highwater networks update` brings new ones"
            );
        }
    }

    /// Says which lists are wrong, each once, and when none is any more.
    fn refuse(&mut self, wrong: BTreeMap<String, String>) {
        for (name, error) in wrong.iter().filter(|(name, error)| self.wrong.get(*name) != Some(error)) {
            let stays = name == FOLDER || self.good.iter().any(|list| list.name == *name);
            let stays = if stays { "what was good of it stays in force" } else { "nothing is judged by it" };
            tracing::warn!(error, "a list of networks is wrong: {stays}; the others are in force");
        }
        if wrong.is_empty() && !self.wrong.is_empty() {
            tracing::info!("no list of networks is wrong any more");
        }
        self.kept.metrics.refuse_lists(&wrong);
        self.wrong = wrong;
    }

    fn take(&mut self, good: Vec<List>, now: UtcMicros) {
        let before = std::mem::replace(&mut self.good, good);
        self.put(now);
        tracing::info!(lists = self.good.len(), "other lists of networks are in force");
        let is_here = |list: &&List| self.good.iter().any(|known| known.name == list.name);
        let gone: Vec<&str> = before.iter().filter(|list| !is_here(list)).map(|list| list.name.as_str()).collect();
        if !gone.is_empty() {
            let gone = gone.join(", ");
            tracing::warn!(gone, "lists of networks that were in force are gone: nothing is judged by them any more");
        }
    }
}

/// What is good now: the lists that are right, and of those that are wrong what was good `before`.
fn good_of(looked: Vec<List>, wrong: &BTreeMap<String, String>, before: &[List]) -> Vec<List> {
    let stay = before.iter().filter(|list| wrong.contains_key(&list.name));
    let mut good: Vec<List> = looked.into_iter().chain(stay.cloned()).collect();
    good.sort_by(|one, other| one.name.cmp(&other.name));
    good
}

impl Follow for WatchedLists {
    fn look(&mut self, now: UtcMicros) {
        // a folder that can't be read says so when it is read
        let paths = self.lists.paths().unwrap_or_default();
        let stamps: Vec<Stamp> = paths.into_iter().map(Stamp::of).collect();
        let expires = self.expiry.is_some_and(|expiry| expiry < now);
        if !self.read.is_old(&stamps) && !self.wrong.contains_key(FOLDER) {
            if expires {
                self.put(now);
            }
            return;
        }
        self.read = Read::at(stamps, SystemTime::now());
        match self.lists.look() {
            Ok(Looked { lists, wrong }) => {
                let wrong = wrong.into_iter().map(|(name, error)| (name, crate::explain(&error))).collect();
                let good = good_of(lists, &wrong, &self.good);
                match good == self.good {
                    false => self.take(good, now),
                    true if expires => self.put(now),
                    true => {}
                }
                self.refuse(wrong);
            }
            Err(error) => {
                self.refuse(BTreeMap::from([(FOLDER.to_owned(), crate::explain(&error))]));
                if expires {
                    self.put(now);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use processor::enrich::{EnrichConfig, Enricher};
    use processor::networks::Meaning;

    use super::*;
    use crate::config::Config;
    use crate::rules::{RulesMetrics, Source};

    fn list(name: &str, net: &str, updated_at: UtcMicros) -> List {
        let (name, source, prefixes) = (name.to_owned(), "test".to_owned(), vec![net.parse().unwrap()]);
        List { name, meaning: Meaning::Hosting, agents: vec![], source, updated_at, prefixes }
    }

    fn watched(config: &Config) -> WatchedLists {
        let source = Source::of(config);
        let enricher = Arc::new(Enricher::with_rules(source.load().unwrap(), &EnrichConfig::default()));
        let kept = Kept { enricher, metrics: RulesMetrics::default() };
        WatchedLists::new(kept, source.lists, source.expire, Vec::new(), UtcMicros::now())
    }

    fn hosting(watched: &WatchedLists, address: &str) -> bool {
        watched.kept.enricher.hosting(address.parse().unwrap()).is_some()
    }

    #[test]
    fn lists_come_into_force_expire_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().into(), ..Config::default() };
        let (mut watched, lists, now) = (watched(&config), Lists::of(&config), UtcMicros::now());
        lists.put(&list("cloud", "192.0.2.0/24", now)).unwrap();
        watched.look(now);
        assert!(hosting(&watched, "192.0.2.1"));
        assert_eq!(watched.kept.metrics.counts(), (1, 0));
        let end = now.plus(config.classify.networks_expire.0);
        watched.look(end);
        assert!(hosting(&watched, "192.0.2.1"));
        watched.look(end.plus(Duration::from_secs(1)));
        assert!(!hosting(&watched, "192.0.2.1"), "too old");
        assert_eq!(watched.kept.metrics.counts(), (0, 0));
        lists.put(&list("cloud", "192.0.2.0/25", end)).unwrap();
        watched.look(end);
        assert!(hosting(&watched, "192.0.2.1") && !hosting(&watched, "192.0.2.200"), "brought anew");
        lists.remove("cloud").unwrap();
        watched.look(end);
        assert!(!hosting(&watched, "192.0.2.1"));
        assert_eq!((watched.kept.metrics.counts(), watched.good.len()), ((0, 0), 0));
    }

    #[test]
    fn a_list_that_is_wrong_keeps_its_last_good_version_and_no_other_list_back() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().into(), ..Config::default() };
        let (mut watched, lists, now) = (watched(&config), Lists::of(&config), UtcMicros::now());
        lists.put(&list("a", "192.0.2.0/24", now)).unwrap();
        watched.look(now);
        std::fs::write(lists.folder().join("a.json"), "{").unwrap();
        std::fs::write(lists.folder().join("never.json"), "{").unwrap();
        lists.put(&list("b", "198.51.100.0/24", now)).unwrap();
        watched.look(now);
        assert!(hosting(&watched, "192.0.2.1") && hosting(&watched, "198.51.100.1"));
        assert_eq!((watched.kept.metrics.counts(), watched.wrong.len()), ((2, 2), 2));
        assert!(watched.wrong["a"].contains("a.json"), "{:?}", watched.wrong);

        lists.remove("never").unwrap();
        lists.put(&list("a", "203.0.113.0/24", now)).unwrap();
        watched.look(now);
        assert!(!hosting(&watched, "192.0.2.1") && hosting(&watched, "203.0.113.1"));
        assert_eq!(watched.kept.metrics.counts(), (2, 0));

        std::fs::write(lists.folder().join("a.json"), "{").unwrap();
        watched.look(now);
        lists.remove("a").unwrap();
        watched.look(now);
        assert!(!hosting(&watched, "203.0.113.1"), "what is taken away isn't kept for its having been wrong");
        assert_eq!(watched.kept.metrics.counts(), (1, 0));
    }

    #[test]
    fn a_folder_that_can_not_be_read_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().into(), ..Config::default() };
        let (mut watched, lists, now) = (watched(&config), Lists::of(&config), UtcMicros::now());
        lists.put(&list("a", "192.0.2.0/24", now)).unwrap();
        watched.look(now);
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(lists.folder(), &elsewhere).unwrap();
        std::fs::write(lists.folder(), "no folder").unwrap();
        watched.look(now);
        assert!(hosting(&watched, "192.0.2.1"));
        assert_eq!(watched.kept.metrics.counts(), (1, 1));
        std::fs::remove_file(lists.folder()).unwrap();
        std::fs::rename(&elsewhere, lists.folder()).unwrap();
        watched.look(now);
        assert_eq!((hosting(&watched, "192.0.2.1"), watched.kept.metrics.counts()), (true, (1, 0)));
    }
}
