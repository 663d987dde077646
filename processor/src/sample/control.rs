//! Whether to sample, and how much: lag and its trend in, a cap out. Pure.
//!
//! ```text
//!  lag
//!  limit ├──────────────────────────── promised
//!  7/10  ├──── and not draining: the cap goes down to a quarter, each step
//!  4/10  ├──── and not draining: the cap goes down to a half, each step
//!        │     in between: nothing changes
//!  1/8   ├──── or lower, for a while: the cap doubles; when nothing reaches it any more, sampling ends
//!      0 ┘
//! ```
//! The cap is how many clicks of one link each partition keeps of a second. So what is heavy is thinned first, and what
//! is light is never touched. A step is judged by what came of it: the next one is not before the backlog has been looked at
//! under the new cap. A backlog that drains by itself soon is left alone, however old its events are: after a long stop
//! nothing need be lost for what a minute's work brings in.

use std::time::{Duration, Instant};

/// The cap that sampling begins with, unless it is known that no link comes near it.
const FIRST_CAP: u32 = 256;
/// Looks in the time of the limit.
const LOOKS: u32 = 20;
/// A step up is not before so much of the limit has gone by in calm.
const REST: u32 = 10;

/// What is seen of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The greatest age of an event at the moment when it came into the lake, or that is not in it, since the last look.
    pub lag: Duration,
    /// Records of the stream that are not in the lake.
    pub backlog: u64,
    /// The most clicks of one link and second that a partition had since the last look, as far as they were counted.
    pub heaviest: u32,
}

/// What two looks tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trend {
    is_falling: bool,
    /// How long until nothing is left of the backlog, at this pace; `None`: for ever.
    drain: Option<Duration>,
}

impl Trend {
    /// The backlog shrinks by what is done beyond what is offered.
    fn between(before: &Look, after: &Look, time: Duration) -> Self {
        let drain = match before.backlog.checked_sub(after.backlog) {
            _ if after.backlog == 0 => Some(Duration::ZERO),
            None | Some(0) => None,
            Some(less) => Some(time.mul_f64(after.backlog as f64 / less as f64)),
        };
        Self { is_falling: after.lag < before.lag, drain }
    }
}

/// What a look has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing changes.
    Same,
    /// Sampling begins, with this cap.
    Begin(u32),
    /// Less is kept.
    Down(u32),
    /// More is kept.
    Up(u32),
    /// All is kept again.
    End,
}

/// Keeps lag below a limit.
#[derive(Clone, Debug)]
pub struct Controller {
    limit: Duration,
    low: Duration,
    every: Duration,
    cap: Option<u32>,
    last: Option<(Instant, Look)>,
    calm_since: Option<Instant>,
}

impl Controller {
    /// Of a promised `limit`. `normal` is the lag of a stream without a backlog: below twice that nothing is high.
    pub fn new(limit: Duration, normal: Duration) -> Self {
        let low = (limit / 8).max(2 * normal).min(limit / 3);
        let every = (limit / LOOKS).max(Duration::from_millis(50));
        Self { limit, low, every, cap: None, last: None, calm_since: None }
    }

    /// The cap in force; `None`: all is kept.
    pub fn cap(&self) -> Option<u32> {
        self.cap
    }

    /// When the next look is due; at once before the first.
    pub fn due(&self) -> Option<Instant> {
        self.last.map(|(at, _)| at + self.every)
    }

    /// Takes in what is seen at `now`, once it is due.
    pub fn look(&mut self, now: Instant, look: Look) -> Step {
        let Some((at, before)) = self.last.replace((now, look)) else { return Step::Same };
        let trend = Trend::between(&before, &look, now - at);
        let is_soon = trend.is_falling && trend.drain.is_some_and(|drain| drain <= self.limit / 2);
        let (high, urgent) = (self.limit.mul_f64(0.4), self.limit.mul_f64(0.7));
        if look.lag >= high && !is_soon {
            self.calm_since = None;
            return self.down(&look, if look.lag >= urgent { 4 } else { 2 });
        }
        if look.lag > self.low || self.cap.is_none() {
            self.calm_since = None;
            return Step::Same;
        }
        let since = *self.calm_since.get_or_insert(now);
        if now - since < self.limit / REST {
            return Step::Same;
        }
        self.calm_since = Some(now);
        self.up(&look)
    }

    fn down(&mut self, look: &Look, by: u32) -> Step {
        // a cap above all that comes would change nothing
        let reached = if look.heaviest > 0 { look.heaviest } else { u32::MAX };
        let next = match self.cap {
            None => FIRST_CAP.min(reached / by),
            Some(cap) => cap.min(reached) / by,
        };
        let (before, next) = (self.cap, next.max(1));
        self.cap = Some(next);
        match before {
            None => Step::Begin(next),
            Some(cap) if cap == next => Step::Same,
            Some(_) => Step::Down(next),
        }
    }

    fn up(&mut self, look: &Look) -> Step {
        let next = self.cap.map_or(u32::MAX, |cap| cap.saturating_mul(2));
        if next > look.heaviest {
            self.cap = None;
            return Step::End;
        }
        self.cap = Some(next);
        Step::Up(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);
    const EVERY: u64 = 15;

    fn controller() -> Controller {
        Controller::new(LIMIT, Duration::from_secs(1))
    }

    fn look(lag: u64, backlog: u64, heaviest: u32) -> Look {
        Look { lag: Duration::from_secs(lag), backlog, heaviest }
    }

    /// Looks one after another, each when it is due.
    fn steps(controller: &mut Controller, start: Instant, looks: &[Look]) -> Vec<Step> {
        let at = |n: usize| start + Duration::from_secs(EVERY * n as u64);
        looks.iter().enumerate().map(|(n, look)| controller.look(at(n), *look)).collect()
    }

    #[test]
    fn a_look_is_due_a_twentieth_of_the_limit_after_the_last() {
        let (mut controller, start) = (controller(), Instant::now());
        assert_eq!(controller.due(), None);
        controller.look(start, look(0, 0, 0));
        assert_eq!(controller.due(), Some(start + Duration::from_secs(EVERY)));
    }

    #[test]
    fn nothing_happens_below_four_tenths_or_before_a_trend_is_known() {
        use Step::{Begin, Same};
        let looks = [look(119, 100, 0), look(119, 200, 0), look(119, 300, 0), look(120, 400, 0)];
        assert_eq!(steps(&mut controller(), Instant::now(), &looks), [Same, Same, Same, Begin(256)]);
        assert_eq!(controller().look(Instant::now(), look(9_999, 1, 0)), Same);
    }

    #[test]
    fn the_cap_goes_down_while_the_backlog_does_not_drain_and_faster_when_it_is_urgent() {
        use Step::{Begin, Down, Same};
        let looks = [
            look(120, 100, 0),
            look(125, 200, 0),     // begins
            look(130, 300, 5_000), // heavier than the cap: half of the cap
            look(135, 400, 600),   // half of 128
            look(140, 500, 40),    // nothing reaches 64: half of what comes
            look(210, 600, 40),    // a quarter
            look(215, 600, 40),
            look(220, 600, 40), // no lower than one
        ];
        let expected = [Same, Begin(256), Down(128), Down(64), Down(20), Down(5), Down(1), Same];
        assert_eq!(steps(&mut controller(), Instant::now(), &looks), expected);
    }

    #[test]
    fn a_backlog_that_drains_by_itself_is_left_alone_and_one_that_drains_too_slowly_is_not() {
        // two hours behind after a stop: a tenth less each time, gone within half the limit
        let soon: Vec<Look> = (0..8).map(|n| look(7_200 - 900 * n, 1_000_000 - 100_000 * n, 0)).collect();
        assert!(steps(&mut controller(), Instant::now(), &soon).iter().all(|step| *step == Step::Same));
        let late: Vec<Look> = (0..3).map(|n| look(7_200 - 10 * n, 1_000_000 - 1_000 * n, 0)).collect();
        assert_eq!(steps(&mut controller(), Instant::now(), &late)[1], Step::Begin(256));
        // fewer records, and yet older ones: whatever drains, it isn't what waits longest
        let older: Vec<Look> = (0..3).map(|n| look(150 + n, 1_000 - 200 * n, 0)).collect();
        assert_eq!(steps(&mut controller(), Instant::now(), &older)[1], Step::Begin(256));
    }

    #[test]
    fn after_the_peak_the_cap_doubles_after_each_rest_until_nothing_reaches_it() {
        use Step::{Begin, End, Same, Up};
        let mut controller = controller();
        let start = Instant::now();
        let looks = [look(120, 100, 400), look(120, 200, 400)];
        assert_eq!(steps(&mut controller, start, &looks), [Same, Begin(200)]);
        let calm: Vec<Look> = [900, 900, 900, 900, 900, 700, 300, 300, 300].map(|heaviest| look(3, 0, heaviest)).into();
        let got = steps(&mut controller, start + Duration::from_secs(60), &calm);
        // calm since the first of them; a rest is two looks
        assert_eq!(got, [Same, Same, Up(400), Same, Up(800), Same, End, Same, Same]);
        assert_eq!(controller.cap(), None);
    }

    #[test]
    fn between_low_and_high_nothing_changes_and_calm_begins_anew() {
        let mut controller = controller();
        let start = Instant::now();
        steps(&mut controller, start, &[look(120, 100, 400), look(120, 200, 400)]);
        let looks: Vec<Look> = [3, 3, 60, 3, 3, 60, 100, 119].map(|lag| look(lag, 50, 400)).into();
        let got = steps(&mut controller, start + Duration::from_secs(60), &looks);
        assert!(got.iter().all(|step| *step == Step::Same), "{got:?}");
        assert_eq!(controller.cap(), Some(200));
    }

    #[test]
    fn a_short_limit_knows_what_is_normal() {
        let mut controller = Controller::new(Duration::from_secs(6), Duration::from_millis(800));
        assert_eq!(controller.low, Duration::from_millis(1_600));
        assert_eq!(Controller::new(Duration::from_secs(3), Duration::from_secs(9)).low, Duration::from_secs(1));
        let start = Instant::now();
        let at = |n: u32| start + n * Duration::from_millis(300);
        controller.look(at(0), look(3, 10, 0));
        assert_eq!(controller.look(at(1), look(3, 20, 9)), Step::Begin(4));
        let normal = Look { lag: Duration::from_millis(1_500), backlog: 3, heaviest: 0 };
        assert_eq!(controller.look(at(2), normal), Step::Same);
        assert_eq!(controller.look(at(3), normal), Step::Same);
        assert_eq!(controller.look(at(4), normal), Step::End, "nothing heavy comes any more");
    }
}
