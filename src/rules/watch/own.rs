//! The operator's rules: taken when they have changed and are right.

use std::hash::{DefaultHasher, Hasher as _};
use std::time::SystemTime;

use processor::classify::Classifier;
use schemas::UtcMicros;

use super::super::own::Own;
use super::super::stamp::{Read, Stamp};
use super::{Follow, Kept};

/// What to do about the file. Pure.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// It holds what is in force, or what was refused before.
    Known,
    /// It holds again what is in force, after something that was refused.
    Back,
    /// It holds something else.
    New,
}

/// What is known of the file's text.
#[derive(Debug, Default)]
struct Seen {
    /// Of what is in force.
    in_force: u64,
    /// Of what is wrong, or of why it can't be read.
    refused: Option<u64>,
}

impl Seen {
    /// What to do about a text with this print, or about an error with it.
    fn judge(&mut self, print: u64) -> Word {
        match self.refused {
            Some(refused) if refused == print => Word::Known,
            refused if print == self.in_force => {
                self.refused = None;
                if refused.is_some() { Word::Back } else { Word::Known }
            }
            _ => Word::New,
        }
    }
}

/// The file, followed.
#[derive(Debug)]
pub(super) struct WatchedOwn {
    kept: Kept,
    own: Own,
    read: Read,
    seen: Seen,
}

impl WatchedOwn {
    /// The rules in force are of this text.
    pub(super) fn new(kept: Kept, own: Own, text: Option<&str>) -> Self {
        kept.metrics.in_force(kept.enricher.classifier().version());
        Self { kept, own, read: Read::never(), seen: Seen { in_force: print(&text), refused: None } }
    }

    fn take(&mut self, print: u64, classifier: Classifier) {
        let version = classifier.version();
        self.kept.enricher.put_in_force(classifier);
        self.kept.metrics.in_force(version);
        self.seen = Seen { in_force: print, refused: None };
        tracing::info!(version, "other rules are in force");
    }
}

impl Follow for WatchedOwn {
    fn is_any(&self) -> bool {
        self.own.path().is_some()
    }

    fn look(&mut self, _: UtcMicros) {
        let stamps: Vec<Stamp> = self.own.path().map(|path| Stamp::of(path.to_owned())).into_iter().collect();
        if !self.read.is_old(&stamps) {
            return;
        }
        self.read = Read::at(stamps, SystemTime::now());
        let text = self.own.text();
        let print = match &text {
            Ok(text) => print(&text.as_deref()),
            Err(error) => print(&crate::explain(error)),
        };
        match self.seen.judge(print) {
            Word::Known => {}
            Word::Back => {
                self.kept.metrics.as_on_disk();
                tracing::info!("the rules on disk are those in force again");
            }
            Word::New => match text.and_then(|text| self.own.classifier(text.as_deref())) {
                Ok(classifier) => self.take(print, classifier),
                Err(error) => {
                    self.seen.refused = Some(print);
                    let error = crate::explain(&error);
                    tracing::warn!(error, "rules were changed and are wrong; the last good ones stay in force");
                    self.kept.metrics.refuse(&error);
                }
            },
        }
    }
}

fn print(text: &impl std::hash::Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use processor::enrich::{EnrichConfig, Enricher};

    use super::*;
    use crate::config::Config;
    use crate::rules::{RulesMetrics, Source};

    #[test]
    fn what_is_wrong_is_refused_once_and_forgiven_when_it_is_taken_back() {
        let mut seen = Seen { in_force: 1, refused: None };
        assert_eq!(seen.judge(1), Word::Known);
        assert_eq!(seen.judge(2), Word::New);
        seen.refused = Some(2);
        assert_eq!(seen.judge(2), Word::Known);
        assert_eq!(seen.judge(3), Word::New);
        assert_eq!(seen.judge(1), Word::Back);
        assert_eq!((seen.judge(1), seen.judge(2)), (Word::Known, Word::New));
    }

    #[test]
    fn good_rules_come_into_force_and_bad_ones_leave_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        config.classify.rules = folder.path().join("own.toml");
        let write = |text: &str| std::fs::write(&config.classify.rules, text).unwrap();
        write("version = 1");
        let source = Source::of(&config);
        let enricher = Arc::new(Enricher::with_rules(source.load().unwrap(), &EnrichConfig::default()));
        let kept = Kept { enricher, metrics: RulesMetrics::default() };
        let mut watched = WatchedOwn::new(kept, source.own, Some("version = 1"));
        let mut look = || {
            watched.look(UtcMicros::now());
            (watched.kept.enricher.classifier().version() % 1_000, watched.seen.refused.is_some())
        };
        for (text, version, refused) in [
            ("version = 1", 1, false),
            ("version = 2", 2, false),
            ("version = 3\noff = [\"nothing\"]", 2, true),
            ("version = 2", 2, false),
            ("versio", 2, true),
            ("version = 4", 4, false),
        ] {
            write(text);
            assert_eq!(look(), (version, refused), "{text}");
        }
        std::fs::remove_file(&config.classify.rules).unwrap();
        assert_eq!(look(), (4, true), "a file that is gone is no other rules");
    }
}
