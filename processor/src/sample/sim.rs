//! The controller and the thinner against a processor that can do only so much: whatever comes, lag stays below the limit as
//! long as `billed` links alone can be borne, nothing is thinned without need, and all is kept again after the peak.
//!
//! ```text
//! queue ──read, judged by the cap──► buffer: what two groups may hold ──► group: its time, uneven ──► landed: a look
//! ```
//! As with the real thing, what is read ahead was judged by the cap of then, a group takes the longer the more it holds, and
//! nothing is seen but when one has landed.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use schemas::time::SECOND;
use schemas::{JournalId, LinkId, UtcMicros};

use super::{Cap, Controller, Look, Step, Thinner, second_of};

/// What judging a click by its head costs, in clicks that are brought into the lake.
const SHED_COST: f64 = 0.05;
/// Clicks of a light link in a second.
const LIGHT: u32 = 1;
/// Links that are light.
const LIGHTS: u128 = 3;
/// Parts of a second that clicks come in.
const PARTS: u64 = 5;
/// How long clicks wait for others at most, in seconds.
const COMMIT_AFTER: f64 = 0.4;

/// What is offered, and what can be borne.
#[derive(Clone, Debug)]
struct Load {
    /// In seconds, as all times here.
    limit: u64,
    /// Clicks that the lake takes in in a second.
    capacity: f64,
    /// Clicks of `billed` links in a second.
    billed: u32,
    /// Clicks of heavy `internal` links in a second, at the peak.
    heavy: Vec<u32>,
    peak: Range<u64>,
    /// How long a group takes that is full, and how long one that holds hardly anything.
    group: (f64, f64),
    /// By how much a group may take longer or less long than it would.
    uneven: f64,
    /// When nothing comes into the lake.
    out: Range<u64>,
    /// Every ten seconds so many clicks come that are as old as the limit.
    old: u32,
    seed: u64,
}

impl Load {
    /// Nothing out of the ordinary, of one heavy link.
    fn steady(limit: u64, capacity: f64, billed: u32, heavy: u32) -> Self {
        let heavy = vec![heavy];
        let group = (limit as f64 / 40.0, 0.1);
        Self { limit, capacity, billed, heavy, peak: 0..12 * limit, group, uneven: 0.3, out: 0..0, old: 0, seed: 1 }
    }

    fn offered(&self) -> f64 {
        f64::from(self.billed + self.heavy.iter().sum::<u32>() + LIGHT * LIGHTS as u32)
    }
}

#[derive(Debug, Default)]
struct Outcome {
    most_lag: f64,
    /// Whether a light link was thinned.
    thinned_light: bool,
    /// When sampling was on.
    on: Vec<u64>,
    /// When the cap was brought in, or down.
    downs: Vec<u64>,
    kept: f64,
    came: f64,
}

/// A link's clicks of a part of a second.
#[derive(Clone, Copy, Debug)]
struct Part {
    time: UtcMicros,
    /// 0: `billed`.
    of: u128,
    clicks: u32,
    is_counted: bool,
}

impl Part {
    fn new(time: f64, of: u128, clicks: u32) -> Self {
        Self { time: UtcMicros((time * SECOND as f64) as i64), of, clicks, is_counted: false }
    }
}

/// What has been read of a part, and how much of that is kept.
#[derive(Clone, Copy, Debug)]
struct Held {
    time: UtcMicros,
    clicks: u32,
    kept: f64,
}

fn link(n: u128) -> LinkId {
    LinkId(uuid::Uuid::from_u128(n))
}

struct Sim<'a> {
    load: &'a Load,
    now: f64,
    /// Parts of seconds that have come.
    come: u64,
    queue: VecDeque<Part>,
    buffer: VecDeque<Held>,
    thinner: Thinner,
    cap: Cap,
    outcome: Outcome,
    random: u64,
}

impl Sim<'_> {
    /// A number from -1 to 1.
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }

    /// Lets time go by, up to a moment.
    fn pass(&mut self, until: f64) {
        self.now = until;
        while self.come as f64 / PARTS as f64 <= self.now {
            let (time, part) = (self.come as f64 / PARTS as f64, self.come % PARTS);
            self.come += 1;
            let load = self.load;
            // of so many a second, those of one of its parts
            let of = |clicks: u32| (u64::from(clicks) * (part + 1) / PARTS - u64::from(clicks) * part / PARTS) as u32;
            if load.old > 0 && time > load.limit as f64 && self.come.is_multiple_of(10 * PARTS) {
                self.queue.push_back(Part::new(time - load.limit as f64, 0, load.old));
            }
            self.queue.push_back(Part::new(time, 0, of(load.billed)));
            self.queue.extend((1..=LIGHTS).map(|n| Part::new(time, n, of(LIGHT))));
            if load.peak.contains(&(time as u64)) {
                self.queue.extend(load.heavy.iter().zip(100..).map(|(clicks, n)| Part::new(time, n, of(*clicks))));
            }
        }
    }

    /// What a group has room for, in clicks that are kept.
    fn room(&self) -> f64 {
        (self.load.group.0 * self.load.capacity).max(1.0)
    }

    /// Reads while there is room beside what is `under_way`.
    fn read(&mut self, under_way: f64) {
        let journal = JournalId(uuid::Uuid::from_u128(1));
        let mut room = 2.0 * self.room() - under_way - self.buffer.iter().map(|held| held.kept).sum::<f64>();
        while room > 0.0
            && let Some(part) = self.queue.pop_front()
        {
            let Part { time, of, clicks, is_counted } = part;
            let is_judged = self.thinner.begin(self.cap.get()) && of != 0;
            let mut rate = 1.0;
            if is_judged {
                (0..clicks).filter(|_| !is_counted).for_each(|_| self.thinner.count(link(of), time));
                rate = self.thinner.rate(journal, link(of), time, &self.cap);
            }
            self.thinner.ended(journal, UtcMicros(second_of(time) * SECOND));
            self.outcome.thinned_light |= (1..=LIGHTS).contains(&of) && rate < 1.0;
            let taken = clicks.min((room / rate).ceil() as u32);
            let kept = f64::from(taken) * rate;
            room -= kept;
            self.buffer.push_back(Held { time, clicks: taken, kept });
            if taken < clicks {
                self.queue.push_front(Part { clicks: clicks - taken, is_counted: is_counted || is_judged, ..part });
            }
        }
    }

    /// Brings a group into the lake. Returns the age of its oldest click.
    fn commit(&mut self) -> f64 {
        let (mut group, mut room) = (Vec::new(), self.room());
        while room > 0.0
            && let Some(held) = self.buffer.pop_front()
        {
            room -= held.kept;
            group.push(held);
        }
        let kept: f64 = group.iter().map(|held| held.kept).sum();
        let came: f64 = group.iter().map(|held| f64::from(held.clicks)).sum();
        let work = (kept + (came - kept) * SHED_COST) / self.load.capacity;
        // one that is full takes what its clicks take, one that is not takes something too
        let fixed = self.load.group.1 * (1.0 - kept / self.room()).max(0.0);
        let takes = (fixed + work) * (1.0 + self.load.uneven * self.chance());
        let (before, out) = (self.now, self.load.out.clone());
        let mut end = before + takes;
        if before < out.end as f64 && end > out.start as f64 {
            end = out.end as f64 + takes;
        }
        self.pass(end);
        self.read(kept);
        self.outcome.kept += kept;
        self.outcome.came += came;
        let oldest = group.iter().filter(|held| held.clicks > 0).map(|held| held.time.0).min();
        oldest.map_or(0.0, |oldest| (self.now - oldest as f64 / SECOND as f64).max(0.0))
    }

    fn backlog(&self) -> u64 {
        let queued: u64 = self.queue.iter().map(|part| u64::from(part.clicks)).sum();
        queued + self.buffer.iter().map(|held| u64::from(held.clicks)).sum::<u64>()
    }
}

/// Runs until twenty times the limit after the peak, group by group.
fn run(load: &Load) -> Outcome {
    let mut controller = Controller::new(Duration::from_secs(load.limit), Duration::from_secs_f64(COMMIT_AFTER));
    let start = Instant::now();
    let mut sim = Sim {
        load,
        now: 0.0,
        come: 0,
        queue: VecDeque::new(),
        buffer: VecDeque::new(),
        thinner: Thinner::default(),
        cap: Cap::default(),
        outcome: Outcome::default(),
        random: load.seed,
    };
    while sim.now < (load.peak.end + 20 * load.limit) as f64 {
        sim.pass(sim.now);
        sim.read(0.0);
        if sim.backlog() == 0 {
            sim.pass(sim.now + 0.1);
            continue;
        }
        if sim.buffer.iter().map(|held| held.kept).sum::<f64>() < sim.room() {
            sim.pass(sim.now + COMMIT_AFTER);
            sim.read(0.0);
        }
        let (lag, backlog) = (sim.commit(), sim.backlog());
        sim.outcome.most_lag = sim.outcome.most_lag.max(lag);
        let at = start + Duration::from_secs_f64(sim.now);
        let (lag, done) = (Duration::from_secs_f64(lag), sim.outcome.came as u64);
        let step = controller.look(at, Look { lag, backlog, done, heaviest: sim.cap.take_heaviest() });
        sim.cap.set(controller.cap());
        if matches!(step, Step::Begin(_) | Step::Down(_)) {
            sim.outcome.downs.push(sim.now as u64);
        }
        if sim.cap.get().is_some() {
            sim.outcome.on.push(sim.now as u64);
        }
    }
    sim.outcome
}

fn limits() -> impl Strategy<Value = u64> {
    prop_oneof![Just(10u64), Just(60), Just(300)]
}

fn loads() -> impl Strategy<Value = Load> {
    let heavy = proptest::collection::vec(1u32..400, 1..5);
    let group = (5f64..60.0, 0f64..0.3, 0f64..0.5);
    let shares = (1u32..60, 1u32..=100);
    (limits(), 200f64..600.0, shares, heavy, 1u64..10, group, any::<u64>()).prop_map(
        |(limit, capacity, (billed, share), heavy, peak, (part, fixed, uneven), seed)| {
            let billed = capacity * f64::from(billed) / 100.0;
            // what is sampled away costs something too, and the second that has begun when sampling begins stays whole
            let most = ((capacity * 0.8 - billed) / SHED_COST).min(capacity * (limit as f64 / 10.0).clamp(3.0, 6.0));
            let times = most / 400.0 * f64::from(share) / 100.0 / heavy.len() as f64;
            Load {
                billed: billed as u32,
                heavy: heavy.iter().map(|clicks| (f64::from(*clicks) * times) as u32 + 1).collect(),
                peak: limit..limit + limit * peak,
                // from one that is rare and large to many small ones
                group: (limit as f64 / (10.0 + part), fixed),
                uneven,
                seed,
                ..Load::steady(limit, capacity, 0, 0)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn lag_stays_below_the_limit_and_all_is_kept_again_after_the_peak(load in loads()) {
        let outcome = run(&load);
        prop_assert!(outcome.most_lag < load.limit as f64, "{outcome:?}");
        prop_assert!(!outcome.thinned_light, "{outcome:?}");
        let end = load.peak.end + 20 * load.limit;
        prop_assert!(outcome.on.last().is_none_or(|last| *last < end - load.limit), "still on at the end");
        if load.offered() < load.capacity * 0.85 {
            prop_assert!(outcome.on.is_empty() && outcome.kept == outcome.came, "thinned without need: {outcome:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn what_a_stop_has_left_is_not_thinned_if_it_drains_within_half_the_limit(
        limit in limits(), share in 5u32..36, stop in 1u64..10, uneven in 0f64..0.5, part in 10f64..60.0, seed: u64,
    ) {
        let load = Load::steady(limit, 1_000.0, 5 * share, 5 * share);
        let out = 2 * limit..2 * limit + (stop * limit / 10).max(1);
        let outcome = run(&Load { out, uneven, seed, group: (limit as f64 / part, 0.1), ..load });
        prop_assert!(outcome.on.is_empty(), "{outcome:?}");
    }

    #[test]
    fn some_old_clicks_thin_nothing(limit in limits(), old in 1u32..60, uneven in 0f64..0.5, seed: u64) {
        let outcome = run(&Load { old, uneven, seed, ..Load::steady(limit, 1_000.0, 400, 450) });
        prop_assert!(outcome.on.is_empty(), "{outcome:?}");
    }

    #[test]
    fn while_nothing_comes_into_the_lake_the_cap_stays(limit in limits(), long in 1u64..4, uneven in 0f64..0.5, seed: u64) {
        let out = 4 * limit..(4 + long) * limit;
        let outcome = run(&Load { out: out.clone(), uneven, seed, ..Load::steady(limit, 500.0, 200, 700) });
        let within = outcome.downs.iter().filter(|at| (out.start + 1..out.end).contains(at)).count();
        prop_assert!(!outcome.on.is_empty() && within == 0, "{outcome:?}");
    }

    #[test]
    fn groups_that_take_a_third_of_the_limit_are_sampled_too(
        limit in limits(), times in 3f64..6.0, uneven in 0f64..0.6, seed: u64,
    ) {
        let load = Load::steady(limit, 500.0, 100, (500.0 * times) as u32 - 100);
        let outcome = run(&Load { group: (limit as f64 / 3.0, 0.3), uneven, seed, ..load });
        prop_assert!(!outcome.on.is_empty() && outcome.most_lag < 3.0 * limit as f64, "{outcome:?}");
    }
}

#[test]
fn after_a_peak_all_is_kept_again_soon() {
    let load = Load { peak: 300..1_500, ..Load::steady(300, 500.0, 100, 4_000) };
    let outcome = run(&load);
    let drained = 1_500 + 300;
    assert!(outcome.on.last().is_some_and(|last| *last < drained + 60), "{:?}", outcome.on.last());
}

#[test]
fn what_can_be_borne_is_made_use_of() {
    let load = Load { heavy: vec![300, 400, 50], peak: 300..3_300, ..Load::steady(300, 500.0, 250, 0) };
    let outcome = run(&load);
    assert!(!outcome.on.is_empty() && outcome.most_lag < 300.0, "{outcome:?}");
    let heavy = 3_000.0 * 750.0;
    let kept = (outcome.kept - (outcome.came - heavy)) / heavy;
    // a third could be kept all the time
    assert!(kept > 0.15, "{kept}");
}
