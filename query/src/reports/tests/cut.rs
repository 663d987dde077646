//! Reports of a link or two that were thinned at any seconds, cut anywhere, compared with what was sampled away of each part.

use std::collections::HashSet;

use chrono::DateTime;
use proptest::prelude::*;
use schemas::time::{HOUR, SECOND};
use schemas::{Click, UtcMicros};

use super::{Counts, Row, request};
use crate::testlake::{TestLake, at, click, tenant};

const LINKS: [&str; 2] = ["x", "y"];
const RATES: [f64; 3] = [0.5, 0.25, 0.02];
const TEN: &str = "2026-03-14T10:00:00Z";

/// A second in which a link was thinned.
#[derive(Clone, Debug)]
struct Thinned {
    link: usize,
    second: i64,
    rate: f64,
    shed: u64,
    kept: u64,
}

/// Seconds of three hours, and clicks that were kept for certain: link and instant, in microseconds after ten.
fn world() -> impl Strategy<Value = (Vec<Thinned>, Vec<(usize, i64)>)> {
    // near the ends of minutes and hours as a rule
    let second = || prop_oneof![(0i64..180, -2i64..2).prop_map(|(minute, off)| minute * 60 + off), 0i64..10_800];
    let thinned = (0usize..2, second(), 0usize..3, 1u64..4, 0u64..3);
    let thinned =
        thinned.prop_map(|(link, second, rate, shed, kept)| Thinned { link, second, rate: RATES[rate], shed, kept });
    let whole = (0usize..2, 0i64..10_800_000_000);
    (proptest::collection::vec(thinned, 0..6), proptest::collection::vec(whole, 0..12))
}

/// Where a span may begin or end: a choice of how, and a number.
fn end() -> impl Strategy<Value = (u8, i64)> {
    (0u8..4, 0i64..10_800_000)
}

/// The same in milliseconds after ten: about a thinned second, about the full hour, or anywhere.
fn placed((how, number): (u8, i64), thinned: &[Thinned]) -> i64 {
    let about = number % 3_001 - 1_500;
    match (how, thinned) {
        (0 | 1, [_, ..]) => thinned[number as usize % thinned.len()].second * 1_000 + about,
        (2, _) => number / 3_600_000 * 3_600_000 + about.clamp(-1, 1),
        _ => number,
    }
}

/// All clicks that came, and whether each was sampled away.
fn clicks((thinned, whole): &(Vec<Thinned>, Vec<(usize, i64)>)) -> Vec<(Click, bool)> {
    let mut clicks = Vec::new();
    let mut add = |link: usize, micros: i64, weight: f64, is_away: bool| {
        let n = clicks.len() as u64;
        let one = click(n, UtcMicros(at(TEN).0 + micros));
        // some come again
        let visitor = Some((n % 7) as i64);
        clicks.push((Click { code: LINKS[link].into(), weight, visitor, ..one }, is_away));
    };
    for one in thinned {
        for n in 0..one.shed + one.kept {
            let is_away = n < one.shed;
            add(one.link, one.second * SECOND + n as i64, if is_away { 1.0 } else { 1.0 / one.rate }, is_away);
        }
    }
    whole.iter().for_each(|(link, micros)| add(*link, *micros, 1.0, false));
    clicks
}

fn lake(thinned: &[Thinned], clicks: &[(Click, bool)]) -> TestLake {
    let kept: Vec<Click> = clicks.iter().filter(|(_, is_away)| !is_away).map(|(click, _)| click.clone()).collect();
    let lake = TestLake::with(&kept);
    for rate in RATES {
        let is_of = |click: &Click| {
            let second = (click.event_time.0 - at(TEN).0).div_euclid(SECOND);
            thinned.iter().any(|one| one.rate == rate && one.second == second && LINKS[one.link] == &*click.code)
        };
        let away = clicks.iter().filter(|(click, is_away)| *is_away && is_of(click));
        lake.add_shed(&away.map(|(click, _)| click.clone()).collect::<Vec<_>>(), rate);
    }
    let second = |one: &Thinned| at(TEN).0 / SECOND + one.second;
    if !thinned.is_empty() {
        lake.add_rates(&thinned.iter().map(|one| ("a", LINKS[one.link], second(one), one.rate)).collect::<Vec<_>>());
    }
    lake
}

/// Whether something may be missing in `start..end` of links, and whether in a part of an hour.
fn missing(thinned: &[Thinned], codes: &[&str], (start, end): (i64, i64)) -> (bool, bool) {
    let of_links = thinned.iter().filter(|one| codes.contains(&LINKS[one.link]));
    of_links.fold((false, false), |(any, cut), one| {
        let second = at(TEN).0 + one.second * SECOND;
        let hour = second.div_euclid(HOUR) * HOUR;
        let is_whole = start <= hour && hour + HOUR <= end;
        let meets = second < end && second + SECOND > start;
        (any || is_whole || meets, cut || !is_whole && meets)
    })
}

/// What a part's counts must be.
fn check(
    counts: &Counts,
    (thinned, clicks): (&[Thinned], &[(Click, bool)]),
    codes: &[&str],
    (start, end): (i64, i64),
) -> Result<(), TestCaseError> {
    let of_part =
        |click: &&(Click, bool)| (start..end).contains(&click.0.event_time.0) && codes.contains(&&*click.0.code);
    let all: Vec<&(Click, bool)> = clicks.iter().filter(of_part).collect();
    let away = all.iter().filter(|(_, is_away)| *is_away).count();
    let visitors = all.iter().map(|(click, _)| click.visitor).collect::<HashSet<_>>().len() as u64;
    let (any, cut) = missing(thinned, codes, (start, end));
    let is_exact = counts.clicks_low == counts.clicks && counts.clicks == counts.clicks_high;
    prop_assert!(any || away == 0);
    prop_assert_eq!(is_exact, !any, "{:?} {:?}", counts, (start, end));
    prop_assert!(any || counts.clicks == all.len() as u64);
    prop_assert_eq!(counts.visitors, (!cut).then_some(visitors), "{:?} {:?}", counts, (start, end));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_part_is_exact_just_when_nothing_of_it_can_be_missing(
        world in world(),
        ends in (end(), end()),
        whole_seconds: bool,
        zone in prop_oneof![Just("UTC"), Just("Asia/Kathmandu"), Just("Asia/Kolkata")],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let clicks = clicks(&world);
        let truth = (&*world.0, &*clicks);
        let lake = lake(&world.0, &clicks);
        let service = lake.service();
        let unit = if whole_seconds { SECOND } else { SECOND / 1_000 };
        let ends = [placed(ends.0, &world.0), placed(ends.1, &world.0)].map(|end| at(TEN).0 + end * 1_000 / unit * unit);
        let (start, end) = (ends[0].min(ends[1]), ends[0].max(ends[1]) + unit);
        let text = |instant: i64| UtcMicros(instant).to_datetime().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let span = format!("start={}&end={}", text(start), text(end));
        let instant = |text: &str| DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros();
        for more in ["interval=minute", "interval=hour&code=y", "group_by=code"] {
            let query = format!("{span}&timezone={zone}&{more}");
            let report = runtime.block_on(service.report(&tenant("a"), &request(&query))).unwrap();
            let codes = if more.ends_with('y') { &LINKS[1..] } else { &LINKS[..] };
            check(&report.totals.counts, truth, codes, (start, end))?;
            for row in &report.data {
                match row {
                    Row::Bucket { start, end, counts } => check(counts, truth, codes, (instant(start), instant(end)))?,
                    Row::Group { value, counts } => check(counts, truth, &[value.as_str()], (start, end))?,
                }
            }
        }
    }
}
