//! Has changed files checked, and puts them in force if they are right.
//!
//! Which file to read again is decided by size and time of change; which text to take, by the text itself. A file that was
//! changed just before it was read may have been changed once more within one tick of the disk's clock: it is read again
//! until it has stood still for a while.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use processor::enrich::Enricher;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{RulesMetrics, Source, Stamp, Texts};

/// A change shows in a file's time after at most so long, on any disk.
const TICK: Duration = Duration::from_secs(2);

/// Rules that are watched, and who uses them.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// Where they come from.
    pub(crate) source: Source,
    /// How often it is looked.
    pub(crate) every: Duration,
    /// Who uses them.
    pub(crate) enricher: Arc<Enricher>,
    /// Where it is shown.
    pub(crate) metrics: RulesMetrics,
}

/// What to do about the files. Pure.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// They hold what is in force, or what was refused before.
    Known,
    /// They hold again what is in force, after something that was refused.
    Back,
    /// They hold something else.
    New,
}

/// What is known of the files.
#[derive(Debug)]
struct Seen {
    stamps: Vec<Option<Stamp>>,
    read_at: SystemTime,
    /// Of the texts in force.
    in_force: u64,
    /// Of texts that are wrong, or of why they can't be read.
    refused: Option<u64>,
}

impl Seen {
    /// Whether the files have to be read.
    fn is_due(&self, stamps: &[Option<Stamp>]) -> bool {
        let stands = |stamp: &Stamp| stamp.modified.is_some_and(|modified| modified + TICK < self.read_at);
        *stamps != *self.stamps || !stamps.iter().flatten().all(stands)
    }

    /// What to do about texts with this print, or about an error with it.
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

/// Keeps the enricher's rules as the files say, until `stop`.
pub(crate) async fn watch(watched: Watched, texts: Texts, stop: CancellationToken) {
    watched.metrics.in_force(watched.enricher.classifier().version());
    let mut seen = Seen { stamps: Vec::new(), read_at: SystemTime::UNIX_EPOCH, in_force: texts.print(), refused: None };
    let mut ticks = tokio::time::interval(watched.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let again = watched.clone();
        // disks may be slow, and rules take a moment to compile
        match tokio::task::spawn_blocking(move || (again.look(&mut seen), seen)).await {
            Ok(((), known)) => seen = known,
            Err(error) => return tracing::error!(%error, "watching rules has ended; those in force stay"),
        }
    }
}

impl Watched {
    fn look(&self, seen: &mut Seen) {
        let stamps = self.source.stamps();
        if !seen.is_due(&stamps) {
            return;
        }
        (seen.stamps, seen.read_at) = (stamps, SystemTime::now());
        let read = self.source.read();
        let print = match &read {
            Ok(texts) => texts.print(),
            Err(error) => print(&crate::explain(error)),
        };
        match seen.judge(print) {
            Word::Known => {}
            Word::Back => {
                self.metrics.as_on_disk();
                tracing::info!("the rules on disk are those in force again");
            }
            Word::New => match read.and_then(|texts| self.source.rules(&texts)) {
                Ok(rules) => {
                    let version = rules.version();
                    self.enricher.put_in_force(rules);
                    (seen.in_force, seen.refused) = (print, None);
                    self.metrics.in_force(version);
                    tracing::info!(version, "other rules are in force");
                }
                Err(error) => {
                    seen.refused = Some(print);
                    self.metrics.refuse();
                    let error = crate::explain(&error);
                    tracing::warn!(error, "rules were changed and are wrong; the last good ones stay in force");
                }
            },
        }
    }
}

fn print(text: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use processor::enrich::EnrichConfig;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn stamps(size: u64, seconds: u64) -> Vec<Option<Stamp>> {
        vec![Some(Stamp { size, modified: Some(at(seconds)) })]
    }

    #[test]
    fn a_file_is_read_when_it_changes_and_until_it_stands_still() {
        let mut seen = Seen { stamps: stamps(5, 100), read_at: at(101), in_force: 1, refused: None };
        assert!(seen.is_due(&stamps(5, 100)), "read within a tick of its change");
        seen.read_at = at(103);
        assert!(!seen.is_due(&stamps(5, 100)));
        for other in [stamps(6, 100), stamps(5, 99), vec![None], vec![]] {
            assert!(seen.is_due(&other), "{other:?}");
        }
        seen.stamps = vec![None];
        assert!(!seen.is_due(&[None]), "what is missing is said once");
    }

    #[test]
    fn what_is_wrong_is_refused_once_and_forgiven_when_it_is_taken_back() {
        let mut seen = Seen { stamps: vec![], read_at: at(0), in_force: 1, refused: None };
        assert_eq!(seen.judge(1), Word::Known);
        assert_eq!(seen.judge(2), Word::New);
        seen.refused = Some(2);
        assert_eq!(seen.judge(2), Word::Known);
        assert_eq!(seen.judge(3), Word::New);
        assert_eq!(seen.judge(1), Word::Back);
        assert_eq!((seen.judge(1), seen.judge(2)), (Word::Known, Word::New));
    }

    fn version_of(watched: &Watched) -> i32 {
        watched.enricher.classifier().version() % 1_000
    }

    #[test]
    fn good_rules_come_into_force_and_bad_ones_leave_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.classify.rules = folder.path().join("own.toml");
        let write = |text: &str| std::fs::write(&config.classify.rules, text).unwrap();
        write("version = 1");
        let source = Source::of(&config);
        let enricher = Enricher::with_classifier(source.load().unwrap(), &EnrichConfig::default());
        let every = Duration::from_secs(1);
        let watched = Watched { source, every, enricher: Arc::new(enricher), metrics: RulesMetrics::default() };
        let in_force = watched.source.read().unwrap().print();
        let mut seen = Seen { stamps: vec![], read_at: at(0), in_force, refused: None };
        for (text, version, refused) in [
            ("version = 1", 1, false),
            ("version = 2", 2, false),
            ("version = 3\noff = [\"nothing\"]", 2, true),
            ("version = 2", 2, false),
            ("versio", 2, true),
            ("version = 4", 4, false),
        ] {
            write(text);
            watched.look(&mut seen);
            assert_eq!((version_of(&watched), seen.refused.is_some()), (version, refused), "{text}");
        }
        std::fs::remove_file(&config.classify.rules).unwrap();
        watched.look(&mut seen);
        assert_eq!((version_of(&watched), seen.refused.is_some()), (4, true), "a file that is gone is no other rules");
    }
}
