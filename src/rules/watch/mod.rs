//! Has changed files checked, and puts them in force if they are right: the operator's rules, and beside them lists of
//! networks, so that neither waits for the other's disk.
//!
//! Which file to read again is decided by how it looks from outside (`stamp`); what to take, by what is in it.

mod lists;
mod own;

use std::sync::Arc;
use std::time::Duration;

use processor::enrich::Enricher;
use schemas::UtcMicros;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Found, RulesMetrics, Source};
use lists::WatchedLists;
use own::WatchedOwn;

/// A look that takes longer is told of.
const SLOW: Duration = Duration::from_secs(30);

/// Who is kept to the files.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Who judges by them.
    pub(crate) enricher: Arc<Enricher>,
    /// Where it is shown.
    pub(crate) metrics: RulesMetrics,
}

/// Keeps rules and networks as the files of `source` say, looking `every` so often, until `stop`. Those in force are of what
/// was `found`.
pub(crate) async fn watch(kept: Kept, source: Source, found: Found, every: Duration, stop: CancellationToken) {
    let Source { own, lists, expire } = source;
    let rules = WatchedOwn::new(kept.clone(), own, found.rules.as_deref());
    let lists = WatchedLists::new(kept, lists, expire, found.lists, UtcMicros::now());
    tokio::join!(
        follow(rules, "the disk of the rules doesn't answer; those in force stay until it does", every, &stop),
        follow(
            lists,
            "the disk of the lists of networks doesn't answer; those in force stay until it does",
            every,
            &stop
        ),
    );
}

/// Files that are followed.
trait Follow: Send + 'static {
    /// Whether there is anything to look at.
    fn is_any(&self) -> bool {
        true
    }

    /// Looks at them, on a thread that may wait for a disk.
    fn look(&mut self, now: UtcMicros);
}

async fn follow(mut files: impl Follow, is_slow: &'static str, every: Duration, stop: &CancellationToken) {
    if !files.is_any() {
        return;
    }
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        // disks may be slow, and rules take a moment to compile
        let looked = tokio::task::spawn_blocking(move || {
            files.look(UtcMicros::now());
            files
        });
        match stop.run_until_cancelled(patient(looked, is_slow)).await {
            Some(Ok(known)) => files = known,
            Some(Err(error)) => return tracing::error!(%error, "watching rules has ended; those in force stay"),
            // whoever stops doesn't wait for a disk that doesn't answer
            None => return,
        }
    }
}

/// Waits for a look at files, and says once when it takes strangely long, as on a mount that hangs.
async fn patient<T>(looked: impl Future<Output = T>, is_slow: &'static str) -> T {
    tokio::pin!(looked);
    match tokio::time::timeout(SLOW, &mut looked).await {
        Ok(done) => done,
        Err(_) => {
            tracing::warn!(seconds = SLOW.as_secs(), "{is_slow}");
            looked.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Stands for a disk that doesn't answer until the other side is gone.
    struct Hung(mpsc::Receiver<()>);

    impl Follow for Hung {
        fn look(&mut self, _: UtcMicros) {
            let _gone = self.0.recv();
        }
    }

    /// Stops all when it has been looked at twice.
    struct Quick(u32, CancellationToken);

    impl Follow for Quick {
        fn look(&mut self, _: UtcMicros) {
            self.0 += 1;
            if self.0 == 2 {
                self.1.cancel();
            }
        }
    }

    #[tokio::test]
    async fn a_disk_that_hangs_holds_up_neither_the_other_nor_a_stop() {
        let (stop, every, (held, hung)) = (CancellationToken::new(), Duration::from_millis(1), mpsc::channel());
        let quick = Quick(0, stop.clone());
        tokio::join!(follow(Hung(hung), "", every, &stop), follow(quick, "", every, &stop));
        drop(held);
    }
}
