//! The controller and the thinner against a processor that can do only so much: whatever comes, lag stays below the limit as
//! long as `billed` links alone can be borne, nothing is thinned without need, and all is kept again after the peak.

use std::collections::VecDeque;
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

/// What is offered, and what can be borne.
#[derive(Clone, Debug)]
struct Load {
    limit: u64,
    /// Clicks that the lake takes in in a second.
    capacity: f64,
    /// Clicks of `billed` links in a second.
    billed: u32,
    /// Clicks of heavy `internal` links in a second, at the peak.
    heavy: Vec<u32>,
    /// When the peak begins and ends, in seconds.
    peak: (u64, u64),
    /// How long a commit takes, in tenths of a second.
    commit: u64,
}

#[derive(Debug, Default)]
struct Outcome {
    most_lag: f64,
    /// Whether a light link was thinned.
    thinned_light: bool,
    /// When sampling was on.
    on: Vec<u64>,
    kept: f64,
    came: f64,
}

/// A link's clicks of a second.
#[derive(Clone, Copy, Debug)]
struct Part {
    second: u64,
    /// 0: `billed`.
    of: u128,
    clicks: u32,
    is_counted: bool,
}

impl Part {
    fn new(second: u64, of: u128, clicks: u32) -> Self {
        Self { second, of, clicks, is_counted: false }
    }
}

fn link(n: u128) -> LinkId {
    LinkId(uuid::Uuid::from_u128(n))
}

/// Runs until an hour after the peak, tenth by tenth.
fn run(load: &Load) -> Outcome {
    let (mut thinner, cap) = (Thinner::default(), Cap::default());
    let mut controller = Controller::new(Duration::from_secs(load.limit), Duration::from_millis(load.commit * 100));
    let start = Instant::now();
    let (mut queue, mut work, mut outcome): (VecDeque<Part>, f64, Outcome) = Default::default();
    let (mut since_commit, mut lag_seen) = (0, 0.0f64);
    for tenth in 0..(load.peak.1 + 20 * load.limit) * 10 {
        let (now, second) = (tenth as f64 / 10.0, tenth / 10);
        if tenth % 10 == 0 {
            queue.push_back(Part::new(second, 0, load.billed));
            queue.extend((1..=LIGHTS).map(|n| Part::new(second, n, LIGHT)));
            if (load.peak.0..load.peak.1).contains(&second) {
                queue.extend(load.heavy.iter().zip(100..).map(|(clicks, n)| Part::new(second, n, *clicks)));
            }
        }
        let oldest = |queue: &VecDeque<Part>| queue.front().map_or(0.0, |part| (now - part.second as f64).max(0.0));
        work = (work + load.capacity / 10.0).min(load.capacity * load.commit as f64 / 10.0);
        since_commit += 1;
        if since_commit >= load.commit {
            since_commit = 0;
            lag_seen = lag_seen.max(oldest(&queue));
            take(&mut queue, &mut work, &mut thinner, &cap, &mut outcome);
        }
        let lag = oldest(&queue);
        outcome.most_lag = outcome.most_lag.max(lag);
        lag_seen = lag_seen.max(lag);
        let at = start + Duration::from_millis(tenth * 100);
        if controller.due().is_none_or(|due| due <= at) {
            let backlog = queue.iter().map(|part| u64::from(part.clicks)).sum();
            let look = Look { lag: Duration::from_secs_f64(lag_seen), backlog, heaviest: cap.take_heaviest() };
            if controller.look(at, look) != Step::Same {
                cap.set(controller.cap());
            }
            lag_seen = 0.0;
        }
        if cap.get().is_some() && tenth % 10 == 0 {
            outcome.on.push(second);
        }
    }
    outcome
}

/// Takes out of the queue what the work done so far is enough for.
fn take(queue: &mut VecDeque<Part>, work: &mut f64, thinner: &mut Thinner, cap: &Cap, outcome: &mut Outcome) {
    let journal = JournalId(uuid::Uuid::from_u128(1));
    while let Some(part) = queue.pop_front() {
        let Part { second, of, clicks, is_counted } = part;
        let time = UtcMicros(second as i64 * SECOND);
        let is_judged = thinner.begin(cap.get()) && of != 0;
        let mut rate = 1.0;
        if is_judged {
            (0..clicks).filter(|_| !is_counted).for_each(|_| thinner.count(link(of), time));
            rate = thinner.rate(journal, link(of), time, cap);
        }
        thinner.ended(journal, UtcMicros(second_of(time) * SECOND));
        outcome.thinned_light |= (1..=LIGHTS).contains(&of) && rate < 1.0;
        let cost = rate + (1.0 - rate) * SHED_COST;
        let done = ((*work / cost) as u32).min(clicks);
        *work -= f64::from(done) * cost;
        outcome.kept += f64::from(done) * rate;
        outcome.came += f64::from(done);
        if done < clicks {
            queue.push_front(Part { clicks: clicks - done, is_counted: is_counted || is_judged, ..part });
            return;
        }
    }
}

fn load() -> impl Strategy<Value = Load> {
    let heavy = proptest::collection::vec(1u32..400, 1..5);
    (prop_oneof![Just(6u64), Just(60), Just(300)], 200f64..600.0, 1u32..60, heavy, 1u64..10, 1u64..4).prop_map(
        |(limit, capacity, billed_share, heavy, peak, commit)| {
            let billed = (capacity * f64::from(billed_share) / 100.0) as u32;
            let peak = (limit, limit + limit * peak);
            // a commit is short beside the limit
            Load { limit, capacity, billed, heavy, peak, commit: commit * if limit > 6 { 5 } else { 1 } }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn lag_stays_below_the_limit_and_all_is_kept_again_after_the_peak(load in load()) {
        let outcome = run(&load);
        prop_assert!(outcome.most_lag < load.limit as f64, "{outcome:?}");
        prop_assert!(!outcome.thinned_light, "{outcome:?}");
        let end = load.peak.1 + 20 * load.limit;
        prop_assert!(outcome.on.last().is_none_or(|last| *last < end - load.limit), "still on at the end");
        let offered = f64::from(load.billed + load.heavy.iter().sum::<u32>() + LIGHT * LIGHTS as u32);
        if offered < load.capacity * 0.95 {
            prop_assert!(outcome.on.is_empty() && outcome.kept == outcome.came, "thinned without need: {outcome:?}");
        }
    }
}

#[test]
fn what_can_be_borne_is_made_use_of() {
    let load =
        Load { limit: 300, capacity: 500.0, billed: 250, heavy: vec![300, 400, 50], peak: (300, 3_300), commit: 5 };
    let outcome = run(&load);
    assert!(!outcome.on.is_empty() && outcome.most_lag < 300.0, "{outcome:?}");
    let heavy = 3_000.0 * 750.0;
    let kept = (outcome.kept - (outcome.came - heavy)) / heavy;
    // a third could be kept all the time
    assert!(kept > 0.15, "{kept}");
}
