//! Whether to sample, and how much: what has landed in, a cap out. Pure.
//!
//! ```text
//!  strain = lag, or the time that the backlog takes at the pace of late, whichever is less
//!  limit ├──────────────────────────── promised
//!  7/10  ├──── and not draining soon: the cap goes down to a quarter, each step
//!  4/10  ├──── and rising: to a quarter, each step; falling, but not soon gone: to a half
//!        │     in between: nothing changes
//!  1/8   ├──── or lower, for a while: the cap doubles; when nothing reaches it any more, sampling ends
//!      0 ┘
//! ```
//! The cap is how many clicks of one link each partition keeps of a second. So what is heavy is thinned first, and what
//! is light is never touched.
//!
//! One group may tell of what is just passing, so several must agree before sampling begins; and a backlog that drains by
//! itself soon, as after a stop, is left alone, however old its clicks are. A step is judged by what came of it: the next one
//! is not before groups have landed that were read under the new cap. So where none lands, as the lake is away, nothing
//! is thinned: that would help nobody.
//!
//! The pace at which sampling began is what can be borne with every click kept. Once clearly less is offered, all is kept
//! again at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::trend::{Point, Trend, gone_after};

/// The cap that sampling begins with, unless it is known that no link comes near it.
const FIRST_CAP: u32 = 256;
/// Looks in the time of the limit, at most.
const LOOKS: u32 = 20;
/// A step up is not before so much of the limit has gone by in calm.
const REST: u32 = 10;
/// So many looks must agree before sampling begins.
const AGREE: usize = 3;
/// So many before there is less of it.
const AGREE_SOON: usize = 2;
/// Groups that land first after a step were read before it.
const READ_BEFORE: u32 = 1;
/// Looks back that tell where a strain goes.
const BACK: usize = 6;
/// This share of what could be borne surely can be again.
const SURELY: f64 = 0.75;

/// What is seen when a group has landed, or while nothing is left that could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The age of the oldest click of the group at the moment when it came into the lake; 0 without a click.
    pub lag: Duration,
    /// Records of the stream that are not in the lake.
    pub backlog: u64,
    /// Records that have been brought into it, ever, sampled away or not.
    pub done: u64,
    /// The most clicks of one link and second that a partition had since the last look, as far as they were counted.
    pub heaviest: u32,
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
    trend: Trend,
    last: Option<Instant>,
    /// The strain of late, since when it has been high or since the last step.
    high: VecDeque<(Instant, Duration)>,
    /// Groups that are still to come of those that were read before the last step.
    read_before: u32,
    /// The most clicks of one link and second since the last step.
    heaviest: u32,
    /// The pace at which sampling began.
    borne: f64,
    calm_since: Option<Instant>,
}

impl Controller {
    /// Of a promised `limit`. `normal` is the lag of a stream without a backlog: below twice that nothing is high.
    pub fn new(limit: Duration, normal: Duration) -> Self {
        Self {
            limit,
            low: (limit / 8).max(2 * normal).min(limit / 3),
            every: (limit / LOOKS).max(Duration::from_millis(50)),
            cap: None,
            trend: Trend::default(),
            last: None,
            high: VecDeque::with_capacity(BACK),
            read_before: 0,
            heaviest: 0,
            borne: 0.0,
            calm_since: None,
        }
    }

    /// The cap in force; `None`: all is kept.
    pub fn cap(&self) -> Option<u32> {
        self.cap
    }

    /// When to look though nothing lands; at once before the first look.
    pub fn due(&self) -> Option<Instant> {
        self.last.map(|at| at + self.every)
    }

    /// Takes in what is seen at `now`.
    pub fn look(&mut self, now: Instant, look: Look) -> Step {
        let Look { lag, backlog, done, heaviest } = look;
        self.heaviest = self.heaviest.max(heaviest);
        if self.read_before > 0 && backlog > 0 {
            self.read_before -= 1;
            return Step::Same;
        }
        if self.due().is_some_and(|due| now < due) {
            return Step::Same;
        }
        self.last = Some(now);
        self.trend.add(Point { at: now, lag, backlog, done });
        let strain = self.trend.strain(self.low);
        if strain >= self.limit.mul_f64(0.4) {
            self.calm_since = None;
            return self.strained(now, strain);
        }
        self.high.clear();
        if strain > self.low || self.cap.is_none() {
            self.calm_since = None;
            return Step::Same;
        }
        let since = *self.calm_since.get_or_insert(now);
        self.calm(now, now - since)
    }

    /// What a high strain leads to.
    fn strained(&mut self, now: Instant, strain: Duration) -> Step {
        if self.high.len() == BACK {
            self.high.pop_front();
        }
        self.high.push_back((now, strain));
        let is_urgent = strain >= self.limit.mul_f64(0.7);
        // once clicks are sampled anyway, they are until it drains well
        let (agree, soon) = match self.cap {
            None => (AGREE, self.limit),
            Some(_) => (AGREE_SOON, self.limit / 2),
        };
        let gone_after = gone_after(&self.high);
        if self.high.len() < agree || gone_after.is_some_and(|after| after <= soon) {
            return Step::Same;
        }
        if self.cap.is_none() {
            self.borne = self.trend.pace();
        }
        self.down(if is_urgent || gone_after.is_none() { 4 } else { 2 })
    }

    fn down(&mut self, by: u32) -> Step {
        // a cap above all that comes would change nothing
        let reached = if self.heaviest > 0 { self.heaviest } else { u32::MAX };
        let next = match self.cap {
            None => FIRST_CAP.min(reached / by),
            Some(cap) => cap.min(reached) / by,
        };
        let (before, next) = (self.cap, next.max(1));
        self.cap = Some(next);
        self.high.clear();
        // how many records come in, and how long they wait, is another matter from here on
        self.trend = Trend::default();
        (self.read_before, self.heaviest) = (READ_BEFORE, 0);
        match before {
            None => Step::Begin(next),
            Some(cap) if cap == next => Step::Same,
            Some(_) => Step::Down(next),
        }
    }

    /// What so long a calm leads to.
    fn calm(&mut self, now: Instant, calm: Duration) -> Step {
        let is_over = self.trend.offered().is_some_and(|offered| offered <= self.borne * SURELY);
        let (next, rest) = match self.cap.map_or(u32::MAX, |cap| cap.saturating_mul(2)) {
            _ if is_over => (None, self.every),
            next => (Some(next).filter(|next| *next <= self.heaviest), self.limit / REST),
        };
        if calm < rest {
            return Step::Same;
        }
        self.calm_since = Some(now);
        self.trend = Trend::default();
        (self.cap, self.heaviest) = (next, 0);
        next.map_or(Step::End, Step::Up)
    }
}

#[cfg(test)]
mod tests;
