//! Reports of what was sampled: how many there were and how sure that is, and visitors from sketches.

use std::collections::HashSet;

use schemas::time::{DAY, HOUR};
use schemas::{Class, Click, UtcMicros};

use super::{Report, Row, ask, from, of_class};
use crate::testlake::{TestLake, at, click, operator, tenant};

const DATE: &str = "2026-03-14T00:00:00Z";

/// A number that is as good as random, and always the same for `n`.
fn mixed(n: u64) -> u64 {
    let mut mixed = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The `n`th click, of a visitor, somewhere in that hour.
fn visit(n: u64, hour: i64, visitor: u64) -> Click {
    let time = at(DATE).0 + hour * HOUR + (mixed(n) % HOUR as u64) as i64;
    Click { visitor: Some(mixed(visitor) as i64), ..click(n, UtcMicros(time)) }
}

/// Those that are kept at `rate`, with their weight, and those that aren't.
pub(super) fn sampled(clicks: &[Click], rate: f64) -> (Vec<Click>, Vec<Click>) {
    let is_kept = |click: &Click| (mixed(click.click_id.as_u128() as u64 ^ 1) as f64) < rate * 2f64.powi(64);
    let (kept, shed): (Vec<Click>, Vec<Click>) = clicks.iter().cloned().partition(is_kept);
    (kept.into_iter().map(|click| Click { weight: 1.0 / rate, ..click }).collect(), shed)
}

/// A lake in which `clicks` were sampled.
fn lake(clicks: &[Click], rate: f64) -> TestLake {
    let (kept, shed) = sampled(clicks, rate);
    let lake = TestLake::with(&kept);
    lake.add_shed(&shed, rate);
    lake
}

/// Visitors, once a UTC day.
fn visitors<'a>(clicks: impl Iterator<Item = &'a Click>) -> u64 {
    clicks.map(|click| (click.event_time.day(), click.visitor)).collect::<HashSet<_>>().len() as u64
}

#[track_caller]
fn assert_close(told: Option<u64>, truth: u64) {
    let told = told.expect("a number");
    assert!((told as f64 / truth as f64 - 1.0).abs() < 0.03, "{told} instead of {truth}");
}

#[track_caller]
fn assert_held(counts: &super::Counts, truth: usize) {
    let truth = truth as u64;
    assert!(counts.clicks_low <= truth && truth <= counts.clicks_high, "{truth} not in {counts:?}");
    assert!(counts.clicks_low < counts.clicks && counts.clicks < counts.clicks_high);
}

fn of_visitors(report: &Report) -> Vec<Option<u64>> {
    report.data.iter().map(|row| row.counts().visitors).collect()
}

/// 100,000 visitors on two UTC days, of whom many come again, in another hour or on the other day.
#[tokio::test]
async fn at_a_tenth_visitors_are_within_three_percent() {
    let hour = |n: u64| [9, 10, 11, 25][(mixed(n ^ 2) % 4) as usize];
    let clicks: Vec<Click> = (0..220_000).map(|n| visit(n, hour(n), mixed(n ^ 3) % 100_000)).collect();
    let lake = lake(&clicks, 0.1);
    let report = ask(&lake, &tenant("a"), "start=2026-03-14&end=2026-03-15&interval=hour").await;
    assert_held(&report.totals.counts, clicks.len());
    assert_close(report.totals.counts.visitors, visitors(clicks.iter()));
    let meta = &report.meta;
    assert!(meta.sampled && meta.lowest_rate == 0.1 && meta.confidence == 0.95);
    let said = "estimated with a standard error of 0.8 %, by sketches of what was sampled away; counted once a UTC day";
    assert_eq!(meta.visitors, said);
    for (row, number) in report.data.iter().zip(0..) {
        let of_hour: Vec<&Click> =
            clicks.iter().filter(|click| (click.event_time.0 - at(DATE).0) / HOUR == number).collect();
        match of_hour.len() {
            0 => assert_eq!((row.counts().clicks_high, row.counts().visitors), (0, Some(0))),
            truth => {
                assert_held(row.counts(), truth);
                assert_close(row.counts().visitors, visitors(of_hour.into_iter()));
            }
        }
    }
    // a day in Berlin has parts of two UTC days; a day in Kathmandu begins within a UTC hour in which nobody came
    for zone in ["Europe/Berlin", "Asia/Kathmandu"] {
        let days =
            ask(&lake, &tenant("a"), &format!("start=2026-03-14&end=2026-03-15&interval=day&timezone={zone}")).await;
        let told: u64 = of_visitors(&days).into_iter().flatten().sum();
        assert_close(Some(told), visitors(clicks.iter()));
    }
    let by_code = ask(&lake, &tenant("a"), "group_by=code").await;
    assert_eq!(by_code.data[0].counts().visitors, report.totals.counts.visitors);
    assert_close(by_code.totals.counts.visitors, visitors(clicks.iter()));
}

/// What hours don't know is null, and it is said why; the rest is a number.
#[tokio::test]
async fn visitors_that_cannot_be_known_are_null() {
    let of_hour = |hour: i64| (0..1_500).map(move |n| from(Some("NL"), visit(hour as u64 * 2_000 + n, hour, n)));
    let lake = lake(&of_hour(10).collect::<Vec<_>>(), 0.1);
    lake.add(&of_hour(15).collect::<Vec<_>>());
    let asked = async |query: &str| ask(&lake, &tenant("a"), &format!("start=2026-03-14&end=2026-03-14&{query}")).await;

    let by_country = asked("group_by=country").await;
    assert_eq!(of_visitors(&by_country), [None]);
    assert!(by_country.totals.counts.visitors.is_some());
    assert!(by_country.meta.visitors.ends_with("; not known by country"), "{}", by_country.meta.visitors);

    let only = asked("country=NL").await;
    assert_eq!(only.totals.counts.visitors, None);
    assert_eq!(only.meta.visitors, "not counted: visitors of what was sampled away are not known by country");

    let half = asked("interval=hour&timezone=Asia/Kolkata").await;
    let told = of_visitors(&half);
    // 10:00 to 11:00 UTC is the second half of one hour there and the first of the next
    let null: Vec<usize> = (0..24).filter(|hour| told[*hour].is_none()).collect();
    assert_eq!(null, [15, 16]);
    assert!(half.totals.counts.visitors.is_some());
    assert!(half.meta.visitors.contains("not known of buckets that cut a UTC hour"), "{}", half.meta.visitors);

    let cut = ask(&lake, &tenant("a"), "start=2026-03-14T10:30:00Z&end=2026-03-14T16:00:00Z&interval=hour").await;
    assert_eq!(cut.totals.counts.visitors, None);
    assert!(cut.meta.visitors.starts_with("not counted: the span cuts a UTC hour"), "{}", cut.meta.visitors);
    let later = ask(&lake, &tenant("a"), "start=2026-03-14T11:00:00Z&end=2026-03-14T16:00:00Z").await;
    assert_eq!((later.totals.counts.visitors, later.meta.sampled), (Some(1_500), false), "the hour cut is not touched");
}

/// Of a link and of a class of which nothing was sampled all stays exact beside others.
#[tokio::test]
async fn what_was_not_sampled_stays_exact_beside_what_was() {
    let heavy: Vec<Click> = (0..4_000).map(|n| visit(n, 10, n % 3_000)).collect();
    let light: Vec<Click> = (4_000..4_040).map(|n| Click { code: "y".into(), ..visit(n, 10, n) }).collect();
    let robots = (4_040..4_050).map(|n| of_class(Class::Crawler, visit(n, 10, n)));
    let lake = lake(&heavy, 0.05);
    lake.add(&light.iter().cloned().chain(robots).collect::<Vec<_>>());
    let report = ask(&lake, &tenant("a"), "group_by=code").await;
    assert_held(report.data[0].counts(), 4_000);
    assert_close(report.data[0].counts().visitors, 3_000);
    let exact = super::Counts { clicks: 40, clicks_low: 40, clicks_high: 40, visitors: Some(40) };
    assert_eq!(*report.data[1].counts(), exact);
    assert_held(&report.totals.counts, 4_040);
    assert_close(report.totals.counts.visitors, 3_040);
    let of_y = ask(&lake, &tenant("a"), "code=y").await;
    assert_eq!(of_y.totals.counts, exact);
    assert!(!of_y.meta.sampled && of_y.meta.lowest_rate == 1.0 && of_y.meta.visitors.starts_with("exact"));
    let crawlers = ask(&lake, &tenant("a"), "class=crawler").await;
    assert_eq!(
        crawlers.totals.counts,
        super::Counts { clicks: 10, clicks_low: 10, clicks_high: 10, visitors: Some(10) }
    );
    assert!(!crawlers.meta.sampled);
    // country is not known of the hours, so any of them may have been thinned
    let by_country = ask(&lake, &tenant("a"), "group_by=country&code=x&code=y").await;
    let (other, unknown) = (by_country.other, by_country.unknown);
    assert!(unknown.clicks_low < unknown.clicks && unknown.clicks < unknown.clicks_high);
    assert_eq!((other.clicks, other.clicks_low), (0, 0));
    assert!(other.clicks_high > 0, "none was kept that has another one: there may have been some");
}

/// Nothing was kept of an hour: its number isn't known to be nought.
#[tokio::test]
async fn an_hour_of_which_nothing_was_kept_has_an_upper_end() {
    let clicks: Vec<Click> = (0..40).map(|n| visit(n, 10, n)).collect();
    let lake = TestLake::new();
    lake.add_shed(&clicks, 0.02);
    let report = ask(&lake, &tenant("a"), "start=2026-03-14T09:00:00Z&end=2026-03-14T12:00:00Z&interval=hour").await;
    let ends: Vec<(u64, u64, u64)> = report
        .data
        .iter()
        .map(|row| (row.counts().clicks, row.counts().clicks_low, row.counts().clicks_high))
        .collect();
    let high = report.totals.counts.clicks_high;
    assert!((170..200).contains(&high), "{high}");
    assert_eq!(ends, [(0, 0, 0), (0, 0, high), (0, 0, 0)]);
    assert_eq!(of_visitors(&report), [Some(0), Some(40), Some(0)]);
    assert!(report.meta.sampled && report.meta.lowest_rate == 0.02);
}

/// Sketches that were written twice, by a replay, or united, by a merge, tell the same.
#[tokio::test]
async fn sketches_written_again_or_united_change_no_answer() {
    let clicks: Vec<Click> = (0..30_000).map(|n| visit(n, 10 + (n % 3) as i64, mixed(n) % 20_000)).collect();
    let (kept, shed) = sampled(&clicks, 0.1);
    let queries = ["start=2026-03-14&end=2026-03-14&interval=hour", "group_by=class&class=all"];
    let mut answers: Vec<Vec<(Vec<Row>, super::Totals, String)>> = Vec::new();
    for way in 0..3 {
        let lake = TestLake::with(&kept);
        match way {
            0 => shed.chunks(5_000).for_each(|part| drop(lake.add_shed(part, 0.1))),
            1 => shed.chunks(5_000).rev().chain(shed.chunks(9_000)).for_each(|part| drop(lake.add_shed(part, 0.1))),
            _ => drop(lake.add_shed(&shed, 0.1)),
        }
        let mut told = Vec::new();
        for query in queries {
            let report = ask(&lake, &tenant("a"), query).await;
            told.push((report.data, report.totals, report.meta.visitors));
        }
        answers.push(told);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

/// Neither that another workspace was sampled nor how many visitors it had is told.
#[tokio::test]
async fn hours_of_another_workspace_are_not_seen() {
    let own: Vec<Click> = (0..50).map(|n| visit(n, 10, n)).collect();
    let others: Vec<Click> =
        (50..5_000).map(|n| Click { workspace: "b".into(), ..visit(n, 10 + (n % 20) as i64, n) }).collect();
    let lake = lake(&others, 0.1);
    lake.add(&own);
    let day = "start=2026-03-14&end=2026-03-15&interval=hour";
    let a = ask(&lake, &tenant("a"), day).await;
    assert!(!a.meta.sampled && a.meta.visitors.starts_with("exact"));
    assert_eq!((a.totals.counts.clicks_high, a.totals.counts.visitors), (50, Some(50)));
    let both = ask(&lake, &operator(), day).await;
    assert_held(&both.totals.counts, 5_000);
    assert_close(both.totals.counts.visitors, 5_000);
    assert!(at(DATE).0 % DAY == 0);
}
