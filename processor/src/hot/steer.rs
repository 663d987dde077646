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
    /// The greatest age seen since the last look; `None` when nothing was.
    lag: Option<Duration>,
    /// What the last look had.
    last_lag: Duration,
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
            lag: None,
            last_lag: Duration::ZERO,
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
        self.lag = self.lag.max(Some(age));
        self.internal.kept += counts.internal;
        self.internal.shed += counts.shed.values().sum::<u64>();
    }

    /// When to look next though nothing happens: while clicks are sampled, as nothing may be what ends it.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.controller.cap().and(self.controller.due())
    }

    /// Looks, if it is time; `age` is that of the oldest click that is buffered, `backlog` the records that aren't in the
    /// lake. Returns whether something is to be told of it.
    pub(super) fn look(&mut self, now: Instant, age: Option<Duration>, backlog: u64) -> bool {
        self.lag = self.lag.max(age);
        if self.controller.due().is_some_and(|due| now < due) {
            return false;
        }
        // between two groups nothing is seen of a backlog's age: that is none that is low
        let unseen = if backlog > 0 { self.last_lag } else { Duration::ZERO };
        let lag = self.lag.take().unwrap_or(unseen);
        self.last_lag = lag;
        let look = Look { lag, backlog, heaviest: self.cap.take_heaviest() };
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
    fn a_backlog_of_which_nothing_is_seen_for_a_while_is_as_old_as_it_was() {
        let config = HotConfig { lag_limit: Duration::from_secs(2), ..HotConfig::default() };
        let mut steering = Steering::new(&config, Metrics::default(), Arc::default());
        let (start, old) = (Instant::now(), Some(Duration::from_secs(3)));
        let at = |n: u32| start + n * Duration::from_millis(100);
        assert!(!steering.look(at(0), old, 100));
        assert!(steering.look(at(1), old, 200), "it begins");
        for n in 2..20 {
            steering.look(at(n), None, 200);
            assert!(steering.rate().is_some(), "{n}");
        }
        let ended: Vec<u32> = (20..40).filter(|n| steering.look(at(*n), None, 0)).collect();
        assert_eq!((ended.len(), steering.rate()), (1, None), "nothing is left");
    }
}
