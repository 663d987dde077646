//! Redirects while the broker does wrong: each fault in turn and random mixes, against quiet runs in between.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tests::standin::{Command, Knobs, Refusal};
use tests::usage::processor_time;

use super::rig::{Rig, at, millis};
use crate::{Setup, table::Table};

/// Pairs of a quiet run and one with the fault; the median counts.
const PAIRS: usize = 3;
/// Random mixes.
const MIXES: u64 = 3;
/// A mix changes as often.
const CHANGES: Duration = Duration::from_millis(700);
/// Answers are warm after that.
const WARM: Duration = Duration::from_secs(2);

/// Something that goes wrong.
enum Fault {
    Knobs(Knobs),
    /// Leaders that go, and others that come.
    Elections,
    /// Anything, by chance.
    Mix(Box<StdRng>),
}

fn faults() -> Vec<(String, Fault)> {
    let knobs = [
        ("refuses", Knobs { refuse: Some(Refusal::NotLeader), ..Knobs::default() }),
        ("is full", Knobs { refuse: Some(Refusal::PartitionFull), ..Knobs::default() }),
        ("stalls", Knobs { stall: true, ..Knobs::default() }),
        ("is half open", Knobs { half_open: true, ..Knobs::default() }),
        ("is away", Knobs { away: true, ..Knobs::default() }),
        ("acknowledges late", Knobs { ack_delay_ms: 400, ..Knobs::default() }),
        ("stores twice", Knobs { duplicates: u32::MAX, ..Knobs::default() }),
        ("loses answers", Knobs { lost_acks: u32::MAX, ..Knobs::default() }),
    ];
    let mut faults: Vec<(String, Fault)> =
        knobs.into_iter().map(|(name, knobs)| (name.to_owned(), Fault::Knobs(knobs))).collect();
    faults.push(("changes leaders".to_owned(), Fault::Elections));
    faults.extend((1..=MIXES).map(|seed| (format!("mix {seed}"), Fault::Mix(Box::new(StdRng::seed_from_u64(seed))))));
    faults
}

/// Measures each fault whose name contains `only`, in runs of `lasts` each.
pub(super) async fn run(setup: &Setup, lasts: Duration, only: &str, table: &mut Table) -> Result<()> {
    for (name, mut fault) in faults().into_iter().filter(|(name, _)| name.contains(only)) {
        one(setup, &name, &mut fault, lasts, table).await.context(name)?;
    }
    Ok(())
}

async fn one(setup: &Setup, name: &str, fault: &mut Fault, lasts: Duration, table: &mut Table) -> Result<()> {
    let rig = Rig::start(setup).await?;
    let clicks = rig.load();
    tokio::time::sleep(WARM).await;
    let mut runs = Vec::new();
    for _ in 0..PAIRS {
        let quiet = Instant::now();
        tokio::time::sleep(lasts).await;
        let faulty = Instant::now();
        fault.happen(&rig, lasts).await?;
        runs.push((quiet, faulty, Instant::now()));
        rig.recover().await?;
        tokio::time::sleep(WARM).await;
    }
    let ledger = rig.end(clicks).await?;
    let mut pairs: Vec<(Duration, Duration)> = runs
        .iter()
        .map(|(quiet, faulty, end)| (at(&ledger.times(*quiet, *faulty), 0.99), at(&ledger.times(*faulty, *end), 0.99)))
        .collect();
    pairs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (quiet, faulty) = pairs[PAIRS / 2];
    let ours = format!("p99 {}; {} clicks, each once", millis(faulty), ledger.answered.len());
    let is_met = faulty <= quiet.mul_f64(1.5) || faulty <= quiet + Duration::from_millis(2);
    let bar = if is_met { "<= 1.5 or + 2 ms: met" } else { "<= 1.5 or + 2 ms: MISSED" };
    let what = format!("redirects while the broker {name}");
    table.row(&what, &ours, &format!("quiet p99 {}", millis(quiet)), &format!("{:.2}", ratio(&(quiet, faulty))), bar);
    Ok(())
}

fn ratio((quiet, faulty): &(Duration, Duration)) -> f64 {
    faulty.as_secs_f64() / quiet.as_secs_f64().max(1e-6)
}

impl Fault {
    async fn happen(&mut self, rig: &Rig, lasts: Duration) -> Result<()> {
        let begin = Instant::now();
        match self {
            Self::Knobs(knobs) => {
                rig.broker.turn(knobs.clone()).await?;
                tokio::time::sleep(lasts).await;
            }
            Self::Elections => {
                while begin.elapsed() < lasts {
                    rig.broker.change_leaders(CHANGES / 2).await?;
                    tokio::time::sleep(CHANGES).await;
                }
            }
            Self::Mix(chance) => {
                while begin.elapsed() < lasts {
                    rig.broker.turn(Knobs::any(chance)).await?;
                    if chance.random_bool(0.2) {
                        rig.broker.tell(Command::Drop).await?;
                    }
                    if chance.random_bool(0.2) {
                        rig.broker.change_leaders(CHANGES / 2).await?;
                    }
                    tokio::time::sleep(CHANGES).await;
                }
            }
        }
        Ok(())
    }
}

/// What a redirect that nobody asks for anything uses while the broker stalls, with clicks that can't be sent.
pub(super) async fn idle(setup: &Setup, lasts: Duration, table: &mut Table) -> Result<()> {
    let rig = Rig::start(setup).await?;
    let clicks = rig.load();
    clicks.more(1_000).await?;
    rig.broker.turn(Knobs { stall: true, ..Knobs::default() }).await?;
    clicks.more(4_000).await?;
    let ledger = clicks.end().await?;
    tokio::time::sleep(WARM).await;
    let pid = rig.redirect.pid().context("it doesn't run")?;
    let used = || processor_time(pid).context("it has ended");
    let (before, begin) = (used()?, Instant::now());
    tokio::time::sleep(lasts).await;
    let share = (used()? - before).as_secs_f64() / begin.elapsed().as_secs_f64();
    rig.recover().await?;
    tests::clicks::all_once(&rig.redirect, &ledger, Duration::from_secs(60)).await?;
    table.row(
        "an idle redirect while the broker stalls",
        &format!("{:.1} % of a core", share * 100.0),
        "",
        "",
        "< 5 %",
    );
    Ok(())
}
