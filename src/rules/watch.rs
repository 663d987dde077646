//! Has changed files checked, and puts them in force if they are right.
//!
//! Which file to read again is decided by size and time of change; which text to take, by the text itself. A file that was
//! changed just before it was read may have been changed once more within one tick of the disk's clock: it is read again
//! until it has stood still for a while.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use processor::enrich::Enricher;
use schemas::UtcMicros;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Found, RulesMetrics, Source, Stamp};

/// A change shows in a file's time after at most so long, on any disk.
const TICK: Duration = Duration::from_secs(2);

/// A look that takes longer is told of.
const SLOW: Duration = Duration::from_secs(30);

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
    stamps: Vec<Stamp>,
    read_at: SystemTime,
    /// When a list expires next.
    expiry: Option<UtcMicros>,
    /// Of what is in force.
    in_force: u64,
    /// Of the rules alone.
    rules: u64,
    /// The names of its lists.
    lists: Vec<String>,
    /// Of what is wrong, or of why it can't be read.
    refused: Option<u64>,
}

impl Seen {
    /// Whether the files have to be read.
    fn is_due(&self, stamps: &[Stamp], now: UtcMicros) -> bool {
        let stands = |modified: SystemTime| modified + TICK < self.read_at;
        *stamps != *self.stamps
            || !stamps.iter().filter_map(|stamp| stamp.modified).all(stands)
            || self.expiry.is_some_and(|expiry| expiry < now)
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

impl Seen {
    /// Says what has come into force, and which lists went.
    fn tell(&mut self, found: &Found, version: i32) {
        let lists = found.lists.len();
        match std::mem::replace(&mut self.rules, found.print_of_rules()) == self.rules {
            true => tracing::info!(version, lists, "other lists of networks are in force, by the same rules"),
            false => tracing::info!(version, lists, "other rules are in force"),
        }
        let before = std::mem::replace(&mut self.lists, found.names());
        let gone = found.gone(&before);
        if !gone.is_empty() {
            let gone = gone.join(", ");
            tracing::warn!(gone, "lists of networks that were in force are gone: nothing is judged by them any more");
        }
    }
}

/// Keeps the enricher's rules as the files say, until `stop`. It has those that were `found`.
pub(crate) async fn watch(watched: Watched, found: Found, stop: CancellationToken) {
    let now = UtcMicros::now();
    watched.show(&found, watched.enricher.classifier().version(), now);
    let in_force = watched.source.print(&found, now);
    let expiry = watched.source.next_expiry(&found, now);
    let (stamps, read_at) = (Vec::new(), SystemTime::UNIX_EPOCH);
    let (rules, lists) = (found.print_of_rules(), found.names());
    let mut seen = Seen { stamps, read_at, expiry, in_force, rules, lists, refused: None };
    drop(found);
    let mut ticks = tokio::time::interval(watched.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let again = watched.clone();
        // disks may be slow, and rules take a moment to compile
        let looked = tokio::task::spawn_blocking(move || (again.look(&mut seen, UtcMicros::now()), seen));
        match stop.run_until_cancelled(patient(looked)).await {
            Some(Ok(((), known))) => seen = known,
            Some(Err(error)) => return tracing::error!(%error, "watching rules has ended; those in force stay"),
            // whoever stops doesn't wait for a disk that doesn't answer
            None => return,
        }
    }
}

/// Waits for a look at the files, and says once when it takes strangely long, as on a mount that hangs.
async fn patient<T>(looked: impl Future<Output = T>) -> T {
    tokio::pin!(looked);
    match tokio::time::timeout(SLOW, &mut looked).await {
        Ok(done) => done,
        Err(_) => {
            let seconds = SLOW.as_secs();
            tracing::warn!(
                seconds,
                "the disk of rules and lists of networks doesn't answer; those in force stay until it does"
            );
            looked.await
        }
    }
}

impl Watched {
    fn look(&self, seen: &mut Seen, now: UtcMicros) {
        let stamps = self.source.stamps();
        if !seen.is_due(&stamps, now) {
            return;
        }
        (seen.stamps, seen.read_at) = (stamps, SystemTime::now());
        let read = self.source.read();
        seen.expiry = read.as_ref().ok().and_then(|found| self.source.next_expiry(found, now));
        let print = match &read {
            Ok(found) => self.source.print(found, now),
            Err(error) => print(&crate::explain(error)),
        };
        match seen.judge(print) {
            Word::Known => {}
            Word::Back => {
                self.metrics.as_on_disk();
                tracing::info!("the rules on disk are those in force again");
            }
            Word::New => match read.and_then(|found| Ok((self.source.rules(&found, now)?, found))) {
                Ok((rules, found)) => {
                    let version = rules.classifier.version();
                    self.enricher.put_in_force(rules);
                    (seen.in_force, seen.refused) = (print, None);
                    seen.tell(&found, version);
                    self.show(&found, version, now);
                }
                Err(error) => {
                    seen.refused = Some(print);
                    let error = crate::explain(&error);
                    tracing::warn!(error, "rules were changed and are wrong; the last good ones stay in force");
                    self.metrics.refuse();
                }
            },
        }
    }

    /// Says what is in force, and which lists aren't any more.
    fn show(&self, found: &Found, version: i32, now: UtcMicros) {
        let expired = self.source.expired(found, now);
        self.source.show(&self.metrics, found, version, now);
        if !expired.is_empty() {
            let lists = expired.join(", ");
            tracing::warn!(
                lists,
                "lists of networks are too old to be believed; `highwater networks update` brings new ones"
            );
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
    use processor::enrich::EnrichConfig;
    use processor::networks::{List, Meaning};

    use super::*;
    use crate::config::Config;
    use crate::rules::Lists;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn stamps(size: u64, seconds: u64) -> Vec<Stamp> {
        vec![Stamp { path: "a".into(), size: Some(size), modified: Some(at(seconds)) }]
    }

    fn seen(stamps: Vec<Stamp>, read_at: u64) -> Seen {
        Seen { stamps, read_at: at(read_at), expiry: None, in_force: 1, rules: 0, lists: vec![], refused: None }
    }

    const NOW: UtcMicros = UtcMicros(1_000);

    #[test]
    fn a_file_is_read_when_it_changes_and_until_it_stands_still() {
        assert!(seen(stamps(5, 100), 101).is_due(&stamps(5, 100), NOW), "read within a tick of its change");
        let mut seen = seen(stamps(5, 100), 103);
        assert!(!seen.is_due(&stamps(5, 100), NOW));
        let gone = vec![Stamp { path: "a".into(), size: None, modified: None }];
        for other in [stamps(6, 100), stamps(5, 99), gone.clone(), vec![]] {
            assert!(seen.is_due(&other, NOW), "{other:?}");
        }
        seen.stamps.clone_from(&gone);
        assert!(!seen.is_due(&gone, NOW), "what is missing is said once");
        seen.expiry = Some(NOW);
        assert!(!seen.is_due(&gone, NOW) && seen.is_due(&gone, NOW.plus(Duration::from_secs(1))), "a list expires");
    }

    #[test]
    fn what_is_wrong_is_refused_once_and_forgiven_when_it_is_taken_back() {
        let mut seen = seen(vec![], 0);
        assert_eq!(seen.judge(1), Word::Known);
        assert_eq!(seen.judge(2), Word::New);
        seen.refused = Some(2);
        assert_eq!(seen.judge(2), Word::Known);
        assert_eq!(seen.judge(3), Word::New);
        assert_eq!(seen.judge(1), Word::Back);
        assert_eq!((seen.judge(1), seen.judge(2)), (Word::Known, Word::New));
    }

    fn watched(config: &Config) -> (Watched, Seen) {
        let source = Source::of(config);
        let enricher = Arc::new(Enricher::with_rules(source.load().unwrap(), &EnrichConfig::default()));
        let every = Duration::from_secs(1);
        let in_force = source.print(&source.read().unwrap(), UtcMicros::now());
        (Watched { source, every, enricher, metrics: RulesMetrics::default() }, Seen { in_force, ..seen(vec![], 0) })
    }

    #[test]
    fn good_rules_come_into_force_and_bad_ones_leave_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        config.classify.rules = folder.path().join("own.toml");
        let write = |text: &str| std::fs::write(&config.classify.rules, text).unwrap();
        write("version = 1");
        let (watched, mut seen) = watched(&config);
        let version_of = |watched: &Watched| watched.enricher.classifier().version() % 1_000;
        for (text, version, refused) in [
            ("version = 1", 1, false),
            ("version = 2", 2, false),
            ("version = 3\noff = [\"nothing\"]", 2, true),
            ("version = 2", 2, false),
            ("versio", 2, true),
            ("version = 4", 4, false),
        ] {
            write(text);
            watched.look(&mut seen, UtcMicros::now());
            assert_eq!((version_of(&watched), seen.refused.is_some()), (version, refused), "{text}");
        }
        std::fs::remove_file(&config.classify.rules).unwrap();
        watched.look(&mut seen, UtcMicros::now());
        assert_eq!((version_of(&watched), seen.refused.is_some()), (4, true), "a file that is gone is no other rules");
    }

    #[test]
    fn lists_come_into_force_expire_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().into(), ..Config::default() };
        let (watched, mut seen) = watched(&config);
        let hosting = |watched: &Watched| watched.enricher.hosting("192.0.2.1".parse().unwrap()).is_some();
        let (lists, now) = (Lists::of(&config), UtcMicros::now());
        let (name, source) = ("cloud".to_owned(), "test".to_owned());
        let prefixes = vec!["192.0.2.0/24".parse().unwrap()];
        lists
            .put(&List { name, meaning: Meaning::Hosting, agents: vec![], source, updated_at: now, prefixes })
            .unwrap();
        watched.look(&mut seen, now);
        assert!(hosting(&watched));
        assert_eq!((watched.metrics.lists(), &seen.lists[..]), (1, &["cloud".to_owned()][..]));
        let end = now.plus(config.classify.networks_expire.0);
        watched.look(&mut seen, end);
        assert!(hosting(&watched));
        watched.look(&mut seen, end.plus(Duration::from_secs(1)));
        assert!(!hosting(&watched), "too old");
        assert_eq!(watched.metrics.lists(), 0);
        watched.look(&mut seen, now);
        std::fs::write(lists.folder().join("broken.json"), "{").unwrap();
        lists.remove("cloud").unwrap();
        watched.look(&mut seen, now);
        assert!(seen.refused.is_some());
        std::fs::remove_file(lists.folder().join("broken.json")).unwrap();
        watched.look(&mut seen, now);
        assert!(!hosting(&watched) && seen.refused.is_none());
        assert_eq!(watched.source.read().unwrap().gone(&["cloud".to_owned()]), ["cloud"]);
        assert_eq!((watched.metrics.lists(), seen.lists.len()), (0, 0));
    }
}
