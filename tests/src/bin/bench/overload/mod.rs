//! For long more clicks than the processor can bring in: how old the oldest gets, and what becomes of each link.
//!
//! What can be done is measured first, without sampling, and so many times that is offered then; `billed` links are half of
//! what can be done: all of them are to be brought in. What bounds the processor is either the store, which takes in only so
//! many bytes a second, so that what can be done doesn't follow from the machine; or its own time, of which it gets a small part.

mod bound;
mod judge;
mod load;
mod pair;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::bound::Bound;
use self::judge::judge;
use self::load::Load;
use self::pair::{Pair, Way};
use crate::{Setup, table::Table};

/// The lag that is promised. Sampling begins at a part of it, and the second that has begun by then stays whole: what that
/// takes to be brought in, so many times too much as is offered, must go into the rest.
const LIMIT: Duration = Duration::from_secs(30);
/// A limit that is never reached: nothing is sampled.
const NEVER: Duration = Duration::from_secs(3_600);
/// So many times what can be done is offered.
const TIMES: f64 = 4.0;

/// Each way that clicks go, and each bound, whose name contains `only`.
pub(crate) async fn run(setup: &Setup, lasts: Duration, only: &str, table: &mut Table) -> Result<()> {
    for (way, bound) in [(Way::Journals, Bound::Store), (Way::Topic, Bound::Store), (Way::Topic, Bound::Time)] {
        let name = format!("{way}, {bound}");
        if name.contains(only) {
            one(setup, way, bound, lasts, table).await.context(name)?;
        }
    }
    Ok(())
}

/// Measures what can be done, then offers so many times that for `lasts`.
async fn one(setup: &Setup, way: Way, bound: Bound, lasts: Duration, table: &mut Table) -> Result<()> {
    let capacity = capacity(setup, way, bound).await.context("measuring what can be done")?;
    let mut pair = Pair::start(setup, way, bound, LIMIT).await?;
    let clicks = Load::start(pair.redirect.redirect, capacity * TIMES, u64::MAX);
    let (begin, mut most, mut most_told, mut lowest) = (Instant::now(), Duration::ZERO, Duration::ZERO, 1.0f64);
    while begin.elapsed() < lasts {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (lag, told) = pair.lag().await?;
        (most, most_told) = (most.max(lag), most_told.max(told));
        lowest = lowest.min(pair.gauge("highwater_sampling_rate").await?);
    }
    let answered = clicks.end().await?;
    let all: u64 = answered.values().sum();
    pair.until_landed(all).await?;
    let offered = all as f64 / lasts.as_secs_f64();
    let what = format!(
        "{:.1} times what can be done ({capacity:.0}/s) through {way}, {bound}, for {} s",
        offered / capacity,
        lasts.as_secs()
    );
    let lag = format!("lag at most {:.1} s, {:.1} s as told", most.as_secs_f64(), most_told.as_secs_f64());
    let bar = format!("lag < {} s{}", LIMIT.as_secs(), if most < LIMIT { ": met" } else { ": MISSED" });
    table.row(&what, &lag, &format!("{all} clicks, kept at {lowest:.3} at least"), "", &bar);
    if most >= LIMIT {
        eprintln!("{}", pair.process.log());
    }
    for (code, truth) in answered {
        judge(&pair.redirect, code, truth, table)?;
    }
    pair.stop().await?;
    pair.redirect.ok(&["verify"]).map(drop)
}

/// Clicks a second that the processor brings in when nothing is sampled, and more come than it can.
async fn capacity(setup: &Setup, way: Way, bound: Bound) -> Result<f64> {
    let mut pair = Pair::start(setup, way, bound, NEVER).await?;
    let (measured, fast) = bound.measured();
    let clicks = tokio::spawn(Load::start(pair.redirect.redirect, fast, measured).wait());
    let mut first = pair.landed().await?;
    while first == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        first = pair.landed().await?;
    }
    let begin = Instant::now();
    let all = clicks.await??.values().sum();
    pair.until_landed(all).await?;
    let capacity = (all - first) as f64 / begin.elapsed().as_secs_f64();
    pair.stop().await?;
    Ok(capacity)
}
