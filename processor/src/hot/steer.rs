//! Keeps lag below its limit: what the committer sees goes to the controller, and the cap that comes of it to the readers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::HotConfig;
use crate::metrics::{Landed, Metrics};
use crate::sample::{Cap, Controller, Look, Step};

/// Clicks of `internal` links, since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Internal {
    kept: u64,
    shed: u64,
}

/// The controller, and what it has been told since it was asked last.
#[derive(Debug)]
pub(super) struct Steering {
    controller: Controller,
    cap: Arc<Cap>,
    limit: Duration,
    /// The age of the oldest click of a group that has landed since the last look.
    landed: Option<Duration>,
    /// Records brought into the lake.
    done: u64,
    internal: Internal,
    /// The share of clicks of `internal` links that was kept of late.
    rate: f64,
    metrics: Metrics,
}

impl Steering {
    /// Steers by `cap`, which the readers go by.
    pub(super) fn new(config: &HotConfig, metrics: Metrics, cap: Arc<Cap>) -> Self {
        metrics.note_sampling(1.0);
        Self {
            controller: Controller::new(config.lag_limit, config.commit_after),
            cap,
            limit: config.lag_limit,
            landed: None,
            done: 0,
            internal: Internal::default(),
            rate: 1.0,
            metrics,
        }
    }

    /// What the readers go by.
    pub(super) fn cap(&self) -> Arc<Cap> {
        Arc::clone(&self.cap)
    }

    /// The share of clicks of `internal` links that is kept; `None` when nothing is sampled.
    pub(super) fn rate(&self) -> Option<f64> {
        self.controller.cap().map(|_| self.rate)
    }

    /// Takes note of a group that has landed: the age of its oldest click, and what became of clicks.
    pub(super) fn landed(&mut self, age: Duration, counts: &Landed) {
        self.landed = Some(age);
        self.internal.kept += counts.internal;
        self.internal.shed += counts.shed.values().sum::<u64>();
    }

    /// Takes note of records that the lake has now.
    pub(super) fn brought(&mut self, records: u64) {
        self.done += records;
    }

    /// When to look next though nothing lands, as nothing is left that could: while clicks are sampled, for that may be what
    /// ends it.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.controller.cap().and(self.controller.due())
    }

    /// Looks, if there is something to see; `backlog`: the records that aren't in the lake. Returns whether something is to
    /// be told of it.
    pub(super) fn look(&mut self, now: Instant, backlog: u64) -> bool {
        let is_idle = backlog == 0 && self.wake_at().is_some_and(|at| at <= now);
        let Some(lag) = self.landed.take().or(is_idle.then_some(Duration::ZERO)) else { return false };
        let look = Look { lag, backlog, done: self.done, heaviest: self.cap.take_heaviest() };
        let (step, limit) = (self.controller.look(now, look), self.limit);
        match step {
            Step::Same => {}
            Step::Begin(cap) => warn!(
                ?lag,
                ?limit,
                backlog,
                cap,
                "lag is high and the backlog doesn't drain: clicks of internal links are sampled; each partition keeps so \
                 many of one link and second"
            ),
            Step::Down(cap) => {
                info!(?lag, ?limit, backlog, cap, "lag is high still: fewer clicks of internal links are kept")
            }
            Step::Up(cap) => info!(?lag, backlog, cap, "lag is low: more clicks of internal links are kept"),
            Step::End => info!(?lag, backlog, "lag is low: all clicks are kept again"),
        }
        if step != Step::Same {
            self.cap.set(self.controller.cap());
        }
        let Internal { kept, shed } = std::mem::take(&mut self.internal);
        if self.controller.cap().is_none() {
            self.rate = 1.0;
        } else if kept + shed > 0 {
            self.rate = kept as f64 / (kept + shed) as f64;
        }
        self.metrics.note_sampling(self.rate);
        step != Step::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lands_is_looked_at_and_what_is_idle() {
        let config = HotConfig { lag_limit: Duration::from_secs(2), ..HotConfig::default() };
        let mut steering = Steering::new(&config, Metrics::default(), Arc::default());
        let start = Instant::now();
        let at = |n: u32| start + n * Duration::from_millis(100);
        for n in 0..20 {
            assert!(!steering.look(at(n), 1_000), "nothing lands");
        }
        let lands = |steering: &mut Steering, n: u32, backlog| {
            steering.landed(Duration::from_secs(3), &Landed::default());
            steering.brought(10);
            steering.look(at(n), backlog)
        };
        assert!(!lands(&mut steering, 20, 1_000));
        assert!(!lands(&mut steering, 21, 2_000));
        assert!(lands(&mut steering, 22, 3_000), "it begins");
        for n in 23..60 {
            assert!(!steering.look(at(n), 2_000) && steering.rate().is_some(), "{n}");
        }
        assert!(steering.wake_at().is_some_and(|wake| wake <= at(60)));
        let ended: Vec<u32> = (60..80).filter(|n| steering.look(at(*n), 0)).collect();
        assert_eq!((ended.len(), steering.rate()), (1, None), "nothing is left");
        assert_eq!(steering.wake_at(), None);
    }
}
