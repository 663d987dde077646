use super::*;
use chrono::{SecondsFormat, Timelike};
use proptest::prelude::*;

fn at(text: &str) -> UtcMicros {
    UtcMicros::from(DateTime::parse_from_rfc3339(text).unwrap().to_utc())
}

fn shown(zone: &str, interval: Interval, start: &str, end: &str) -> Vec<String> {
    let tz: Tz = zone.parse().unwrap();
    let ends = ends(tz, interval, at(start), at(end)).unwrap();
    let text = |&end: &i64| utc(end).with_timezone(&tz).to_rfc3339_opts(SecondsFormat::Secs, false);
    ends.iter().map(text).collect()
}

#[test]
fn an_hour_that_comes_twice_is_two_buckets() {
    assert_eq!(
        shown("Europe/Berlin", Interval::Hour, "2026-10-25T01:00:00+02:00", "2026-10-25T04:00:00+01:00"),
        [
            "2026-10-25T01:00:00+02:00",
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T03:00:00+01:00",
            "2026-10-25T04:00:00+01:00",
        ]
    );
}

#[test]
fn an_hour_that_is_skipped_has_no_bucket() {
    assert_eq!(
        shown("America/New_York", Interval::Hour, "2026-03-08T00:30:00-05:00", "2026-03-08T04:00:00-04:00"),
        [
            "2026-03-08T00:30:00-05:00",
            "2026-03-08T01:00:00-05:00",
            "2026-03-08T03:00:00-04:00",
            "2026-03-08T04:00:00-04:00",
        ]
    );
}

#[test]
fn half_hours_are_kept_and_a_half_hour_change_cuts() {
    assert_eq!(
        shown("Asia/Kolkata", Interval::Hour, "2026-01-01T00:00:00+05:30", "2026-01-01T02:00:00+05:30"),
        ["2026-01-01T00:00:00+05:30", "2026-01-01T01:00:00+05:30", "2026-01-01T02:00:00+05:30"]
    );
    assert_eq!(
        shown("Australia/Lord_Howe", Interval::Hour, "2026-04-05T01:00:00+11:00", "2026-04-05T03:00:00+10:30"),
        [
            "2026-04-05T01:00:00+11:00",
            "2026-04-05T01:30:00+10:30",
            "2026-04-05T02:00:00+10:30",
            "2026-04-05T03:00:00+10:30",
        ]
    );
}

#[test]
fn a_day_without_midnight_begins_when_its_clock_does() {
    assert_eq!(
        shown("America/Sao_Paulo", Interval::Day, "2018-11-03T00:00:00-03:00", "2018-11-06T00:00:00-02:00"),
        [
            "2018-11-03T00:00:00-03:00",
            "2018-11-04T01:00:00-02:00",
            "2018-11-05T00:00:00-02:00",
            "2018-11-06T00:00:00-02:00",
        ]
    );
}

#[test]
fn a_day_that_a_zone_skips_has_no_bucket() {
    assert_eq!(
        shown("Pacific/Apia", Interval::Day, "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00"),
        ["2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"]
    );
}

#[test]
fn weeks_begin_on_monday_months_on_the_first_and_edges_are_cut() {
    assert_eq!(
        shown("UTC", Interval::Week, "2026-01-01T12:00:00Z", "2026-01-13T00:00:00Z"),
        [
            "2026-01-01T12:00:00+00:00",
            "2026-01-05T00:00:00+00:00",
            "2026-01-12T00:00:00+00:00",
            "2026-01-13T00:00:00+00:00"
        ]
    );
    assert_eq!(
        shown("Europe/London", Interval::Month, "2026-02-15T00:00:00Z", "2026-04-02T00:00:00+01:00"),
        [
            "2026-02-15T00:00:00+00:00",
            "2026-03-01T00:00:00+00:00",
            "2026-04-01T00:00:00+01:00",
            "2026-04-02T00:00:00+01:00"
        ]
    );
}

#[test]
fn five_thousand_are_enough() {
    let start = at("2026-01-01T00:00:00Z");
    let minutes = |n: i64| ends(Tz::UTC, Interval::Minute, start, UtcMicros(start.0 + n * 60 * SECOND));
    assert_eq!(minutes(5_000).unwrap().len(), 5_001);
    assert_eq!(minutes(5_001), Err(TooMany));
}

/// What the wall clock says of the bucket that an instant belongs to, by chrono-tz alone.
fn label(tz: Tz, interval: Interval, instant: i64) -> (NaiveDateTime, i32) {
    let local = utc(instant).with_timezone(&tz);
    let (naive, offset) = (local.naive_local(), local.offset().fix().local_minus_utc());
    let hour = naive.date().and_hms_opt(naive.hour(), 0, 0).unwrap();
    let day = |date: NaiveDate| (date.and_time(NaiveTime::MIN), 0);
    match interval {
        Interval::Minute => (hour.with_minute(naive.minute()).unwrap(), offset),
        Interval::Hour => (hour, offset),
        Interval::Day => day(naive.date()),
        Interval::Week => day(naive.date().week(chrono::Weekday::Mon).first_day()),
        Interval::Month => day(naive.date().with_day(1).unwrap()),
    }
}

fn interval() -> impl Strategy<Value = Interval> {
    (0..Interval::ALL.len()).prop_map(|index| Interval::ALL[index].1)
}

fn spans() -> impl Strategy<Value = (Tz, Interval, i64, i64)> {
    let zone = prop_oneof![
        (0..chrono_tz::TZ_VARIANTS.len()).prop_map(|index| chrono_tz::TZ_VARIANTS[index]),
        prop_oneof![
            Just(chrono_tz::Europe::Berlin),
            Just(chrono_tz::Australia::Lord_Howe),
            Just(chrono_tz::Asia::Kathmandu),
            Just(chrono_tz::America::Sao_Paulo),
            Just(chrono_tz::Pacific::Apia),
            Just(chrono_tz::America::St_Johns),
            Just(chrono_tz::Africa::Cairo),
            Just(chrono_tz::Pacific::Kwajalein),
        ],
    ];
    // 1972 to 2037: offsets in whole minutes
    (zone, interval(), 63_072_000i64..2_145_916_800, 1i64..4_000).prop_map(|(tz, interval, start, length)| {
        let unit = match interval {
            Interval::Minute => 30,
            Interval::Hour => 1_800,
            _ => 40_000,
        };
        (tz, interval, start * SECOND, (start + length * unit) * SECOND)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn two_instants_share_a_bucket_exactly_when_the_clock_says_so(
        (tz, interval, start, end) in spans(),
        picks in proptest::collection::vec((0.0f64..1.0, -7_200i64..7_200), 20),
    ) {
        let ends = ends(tz, interval, UtcMicros(start), UtcMicros(end)).unwrap();
        prop_assert_eq!((ends[0], ends[ends.len() - 1]), (start, end));
        prop_assert!(ends.is_sorted_by(|a, b| a < b));
        for (share, near) in picks {
            // somewhere, and then near an end of a bucket, where faults live
            let some = start + ((end - start - 1) as f64 * share) as i64;
            let edge = ends[index(&ends, some).unwrap()];
            for instant in [some, edge, edge - 1, edge + near * SECOND] {
                if instant < start || instant >= end || folded(tz, interval, instant) {
                    continue;
                }
                let bucket = index(&ends, instant).unwrap();
                prop_assert!(ends[bucket] <= instant && instant < ends[bucket + 1]);
                prop_assert_eq!(label(tz, interval, instant), label(tz, interval, ends[bucket]));
                if bucket > 0 && !folded(tz, interval, ends[bucket] - 1) {
                    prop_assert_ne!(label(tz, interval, ends[bucket] - 1), label(tz, interval, ends[bucket]));
                }
            }
        }
    }
}

/// Whether the date on the wall has been later before: a clock put back over midnight. Such an instant belongs to
/// the later date, so that days don't come back.
fn folded(tz: Tz, interval: Interval, instant: i64) -> bool {
    if matches!(interval, Interval::Minute | Interval::Hour) {
        return false;
    }
    let date = local(tz, instant).date();
    (0..300).any(|minutes| local(tz, instant - minutes * 60 * SECOND).date() > date)
        || local(tz, instant - 24 * 3_600 * SECOND).date() >= date
}
