//! Reports whose parts cut an hour of which something was sampled away: exact where no second of theirs was thinned.

use schemas::time::{HOUR, SECOND};
use schemas::{Class, Click, Principal, UtcMicros};

use super::sampled::sampled;
use super::{Counts, Report, ask, from, of_class};
use crate::testlake::{Rate, TestLake, at, click, operator, tenant};

const TEN: &str = "2026-03-14T10:00:00Z";
const SPAN: &str = "start=2026-03-14T10:00:00Z&end=2026-03-14T11:00:00Z";

/// The second so many after ten.
fn second(number: i64) -> i64 {
    at(TEN).0 / SECOND + number
}

/// The `n`th click, in a second so many after ten.
fn visit(n: u64, number: i64) -> Click {
    click(n, UtcMicros(second(number) * SECOND + 999_999))
}

fn exact(clicks: u64, visitors: u64) -> Counts {
    Counts { clicks, clicks_low: clicks, clicks_high: clicks, visitors: Some(visitors) }
}

/// Of the buckets with more than nothing, the number, whether they are exact, and whether their visitors are known.
fn told(report: &Report) -> Vec<(usize, bool, bool)> {
    let counts = report.data.iter().map(super::Row::counts).enumerate();
    let some = counts.filter(|(_, counts)| counts.clicks_high > 0 || counts.visitors != Some(0));
    some.map(|(number, counts)| {
        let is_exact = counts.clicks_low == counts.clicks_high;
        assert!(counts.clicks_low <= counts.clicks && counts.clicks <= counts.clicks_high);
        (number, is_exact, counts.visitors.is_some())
    })
    .collect()
}

/// A link with 400 clicks in the seconds 125 and 1,999 each, thinned then, and with one every minute.
fn lake() -> TestLake {
    let heavy: Vec<Click> = (0..800).map(|n| visit(n, if n % 2 == 0 { 125 } else { 1_999 })).collect();
    let (kept, shed) = sampled(&heavy, 0.1);
    let lake = TestLake::with(&kept);
    lake.add_shed(&shed, 0.1);
    lake.add(&(0..60).map(|n| visit(1_000 + n, n as i64 * 60)).collect::<Vec<_>>());
    lake
}

fn rates(lake: &TestLake) {
    // of the second the lowest counts
    lake.add_rates(&[("a", "x", second(125), 0.5), ("a", "x", second(125), 0.1)]);
    lake.add_rates(&[("a", "x", second(1_999), 0.1), ("a", "y", second(3_000), 0.01), ("b", "x", second(3_060), 0.01)]);
}

#[tokio::test]
async fn minutes_without_a_thinned_second_are_exact() {
    let lake = lake();
    let asked = async |principal: Principal| ask(&lake, &principal, &format!("{SPAN}&interval=minute")).await;
    // by hours alone any minute may have been thinned
    let by_hours = asked(tenant("a")).await;
    assert!(told(&by_hours).iter().all(|(_, is_exact, is_known)| !is_exact && !is_known));
    rates(&lake);
    for principal in [tenant("a"), operator()] {
        let report = asked(principal).await;
        let thinned: Vec<(usize, bool, bool)> = (0..60).map(|n| (n, n != 2 && n != 33, n != 2 && n != 33)).collect();
        assert_eq!(told(&report), thinned);
        assert_eq!(*report.data[3].counts(), exact(1, 1));
        for minute in [2, 33] {
            let counts = report.data[minute].counts();
            assert!(counts.clicks_low < 401 && 401 < counts.clicks_high, "{counts:?}");
        }
        let meta = &report.meta;
        assert!(meta.sampled && meta.lowest_rate == 0.1 && meta.visitors.starts_with("estimated"), "{meta:?}");
        assert!(meta.visitors.ends_with("where clicks were sampled away in their part of it"), "{}", meta.visitors);
        assert_eq!(report.totals.counts, by_hours.totals.counts, "the whole cuts no hour");
    }
}

#[tokio::test]
async fn a_span_that_cuts_an_hour_is_exact_if_nothing_was_thinned_in_its_part() {
    let lake = lake();
    rates(&lake);
    let asked = async |ends: &str, more: &str| ask(&lake, &tenant("a"), &format!("{ends}{more}")).await;
    let clean = "start=2026-03-14T10:02:06Z&end=2026-03-14T10:33:19Z";
    for more in ["", "&interval=hour", "&group_by=code", "&group_by=class", "&group_by=country"] {
        let report = asked(clean, more).await;
        assert_eq!(report.totals.counts, exact(31, 31), "{more}");
        let meta = &report.meta;
        assert!(!meta.sampled && meta.lowest_rate == 1.0 && meta.visitors.starts_with("exact"), "{more} {meta:?}");
        assert!(report.data.iter().all(|row| *row.counts() == exact(31, 31)), "{more}");
        assert_eq!((report.other.clicks_high, report.unknown.clicks_low), (0, report.unknown.clicks_high));
    }
    // a second is touched by whoever has some of it
    for touched in [
        "start=2026-03-14T10:02:05.999999Z&end=2026-03-14T10:33:19Z",
        "start=2026-03-14T10:02:06Z&end=2026-03-14T10:33:19.000001Z",
    ] {
        for more in ["&interval=day", "&group_by=code", "&group_by=country"] {
            let report = asked(touched, more).await;
            assert!(report.totals.counts.clicks_high > report.totals.counts.clicks, "{touched}{more}");
            let unknown = report.data.iter().all(|row| row.counts().visitors.is_none());
            assert!(report.totals.counts.visitors.is_none() && unknown, "{touched}{more}");
            let why = "not counted: the span cuts a UTC hour, and clicks were sampled away in its part of it";
            assert!(report.meta.visitors.starts_with(why), "{}", report.meta.visitors);
        }
    }
}

/// A line is sampled in its second, and takes its event's time when that comes.
#[tokio::test]
async fn a_row_that_has_moved_out_of_a_thinned_second_says_that_it_stands_for_more() {
    let lake = lake();
    rates(&lake);
    let asked = async || {
        let query = "start=2026-03-14T10:03:00Z&end=2026-03-14T10:34:00Z&interval=minute";
        ask(&lake, &tenant("a"), query).await
    };
    assert_eq!(told(&asked().await).iter().filter(|(_, is_exact, is_known)| !is_exact || !is_known).count(), 1);
    lake.add(&[Click { weight: 10.0, ..visit(3_000, 240) }]);
    let report = asked().await;
    assert_eq!(told(&report)[1], (1, false, false));
    let whole = ask(&lake, &tenant("a"), &format!("{SPAN}&interval=hour")).await;
    assert!(whole.totals.counts.visitors.is_some() && whole.meta.visitors.ends_with("once a UTC day"));
    lake.add(&[Click { weight: 10.0, ..visit(3_001, 3_600) }]);
    let two = ask(&lake, &tenant("a"), "start=2026-03-14T10:00:00Z&end=2026-03-14T12:00:00Z&interval=hour").await;
    assert!(two.totals.counts.visitors.is_some() && two.data[1].counts().visitors.is_none());
    assert!(two.meta.visitors.ends_with("; not known where the time of sampled clicks was corrected"), "{two:?}");
}

/// The sketch of an hour that is cut where nothing was thinned isn't of the part.
#[tokio::test]
async fn visitors_of_whole_hours_are_counted_beside_a_part_of_which_nothing_is_missing() {
    let heavy: Vec<Click> = (0..2_000).map(|n| visit(n, if n < 1_000 { 5 } else { 3_605 })).collect();
    let (kept, shed) = sampled(&heavy, 0.1);
    let lake = TestLake::with(&kept);
    lake.add_shed(&shed, 0.1);
    lake.add(&[visit(5_000, 600)]);
    lake.add_rates(&[("a", "x", second(5), 0.1), ("a", "x", second(3_605), 0.1)]);
    let day = "start=2026-03-14T10:05:00Z&end=2026-03-14T12:00:00Z";
    for more in ["", "&interval=day", "&group_by=code"] {
        let report = ask(&lake, &tenant("a"), &format!("{day}{more}")).await;
        for counts in report.data.iter().map(super::Row::counts).chain([&report.totals.counts]) {
            let visitors = counts.visitors.unwrap();
            assert!(visitors.abs_diff(1_001) < 20, "{more} {visitors}");
            assert!(counts.clicks_low < 1_001 && 1_001 < counts.clicks_high);
        }
    }
}

/// A link's rates may be gone while its hours are still there; those of another don't stand for them.
#[tokio::test]
async fn without_rates_of_a_link_all_of_its_hour_may_have_been_thinned() {
    let lake = lake();
    let of_y = |n: u64| Click { code: "y".into(), ..visit(2_000 + n, 3_000) };
    lake.add_shed(&(0..90).map(of_y).collect::<Vec<_>>(), 0.01);
    let gone = [("a", "x", second(125), 0.1), ("a", "x", second(1_999), 0.1)];
    lake.add_rates(&gone);
    let query = format!("{SPAN}&interval=minute");
    let both = ask(&lake, &tenant("a"), &query).await;
    assert!(told(&both).iter().all(|(_, is_exact, is_known)| !is_exact && !is_known));
    assert_eq!(
        told(&ask(&lake, &tenant("a"), &format!("{query}&code=x")).await).iter().filter(|one| one.1).count(),
        58
    );
    // a rate of another hour is none of this one
    lake.add_rates(&[("a", "y", second(3_600), 0.01), ("b", "y", second(3_000), 0.01)]);
    assert_eq!(told(&ask(&lake, &tenant("a"), &query).await), told(&both));
    lake.add_rates(&[("a", "y", second(3_000), 0.01)]);
    let told = told(&ask(&lake, &tenant("a"), &query).await);
    assert_eq!(told.iter().filter(|one| !one.1).map(|one| one.0).collect::<Vec<_>>(), [2, 33, 50]);
}

/// A second weighs no more than what was sampled away of the link in its hour, by class too.
#[tokio::test]
async fn a_second_weighs_no_more_than_its_hour_of_the_classes_asked_for() {
    let lake = TestLake::new();
    let robots: Vec<Click> = (0..50).map(|n| of_class(Class::Crawler, from(Some("NL"), visit(n, 60)))).collect();
    lake.add_shed(&robots, 0.01);
    lake.add_shed(&(50..60).map(|n| visit(n, 61)).collect::<Vec<_>>(), 0.5);
    let seconds: Vec<Rate<'_>> = vec![("a", "x", second(60), 0.01), ("a", "x", second(61), 0.5)];
    lake.add_rates(&seconds);
    let high = async |class: &str| {
        let report = ask(&lake, &tenant("a"), &format!("{SPAN}&interval=minute&class={class}")).await;
        let high: Vec<u64> = report.data.iter().map(|row| row.counts().clicks_high).collect();
        assert!(high.iter().enumerate().all(|(minute, high)| (*high > 0) == (minute == 1)), "{class}");
        high[1]
    };
    assert!(high("human").await < 10 && high("crawler").await > 300);
    assert_eq!(at(TEN).0 % HOUR, 0);
}

/// There is a bound to what is looked at: beyond it hours tell.
#[tokio::test]
async fn of_too_many_links_hours_tell() {
    let lake = TestLake::new();
    let codes: Vec<String> = (0..4_097).map(|n| format!("{n}")).collect();
    let shed = codes.iter().zip(0..).map(|(code, n)| Click { code: code.as_str().into(), ..visit(n, 125) });
    lake.add_shed(&shed.collect::<Vec<_>>(), 0.1);
    lake.add_rates(&codes.iter().map(|code| ("a", code.as_str(), second(125), 0.1)).collect::<Vec<_>>());
    let query = format!("{SPAN}&interval=minute");
    assert_eq!(told(&ask(&lake, &tenant("a"), &query).await), (0..60).map(|n| (n, false, false)).collect::<Vec<_>>());
    let few = ask(&lake, &tenant("a"), &format!("{query}&not_code=4096")).await;
    assert_eq!(told(&few), [(2, false, false)]);
}
