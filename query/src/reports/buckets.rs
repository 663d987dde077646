//! Cutting a span of time into buckets by the clock on a zone's wall.
//!
//! A bucket is an interval of instants; its ends are where the wall clock reads a full minute or hour, or where a day,
//! week (from Monday) or month begins. Where the clock is moved, minutes and hours are cut there too, so that an hour
//! that comes twice is two buckets. A day begins with the first instant whose date is not before it: a day that has no
//! midnight begins when its clock does, and a day that a zone skips has no bucket. The first and the last bucket are
//! cut to the span: numbers are of what is asked, not of what surrounds it.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Utc};
use chrono_tz::Tz;
use schemas::UtcMicros;
use schemas::time::{DAY, SECOND};
use serde::{Deserialize, Serialize};

/// Most buckets of one series.
pub(crate) const MAX_BUCKETS: usize = 5_000;

/// The width of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interval {
    /// A minute of the wall clock.
    Minute,
    /// An hour of the wall clock.
    Hour,
    /// A date.
    Day,
    /// Monday to Sunday.
    Week,
    /// A calendar month.
    Month,
}

impl Interval {
    pub(crate) const ALL: &'static [(&'static str, Self)] = &[
        ("minute", Self::Minute),
        ("hour", Self::Hour),
        ("day", Self::Day),
        ("week", Self::Week),
        ("month", Self::Month),
    ];

    /// The word that is written and shown.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, interval)| *interval == self).map_or("", |(word, _)| word)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Interval {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, interval)| *interval).ok_or(())
    }
}

/// There would be more than [`MAX_BUCKETS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The ends of the buckets of `[start, end)`: `n` buckets have `n + 1` ends, rising, from `start` to `end`.
pub(crate) fn ends(tz: Tz, interval: Interval, start: UtcMicros, end: UtcMicros) -> Result<Vec<i64>, TooMany> {
    let mut ends = vec![start.0];
    match interval {
        Interval::Minute => by_clock(tz, 60 * SECOND, end.0, &mut ends)?,
        Interval::Hour => by_clock(tz, 3_600 * SECOND, end.0, &mut ends)?,
        _ => by_calendar(tz, interval, start, end.0, &mut ends)?,
    }
    push(&mut ends, end.0)?;
    Ok(ends)
}

/// The bucket that `instant` is in.
pub(crate) fn index(ends: &[i64], instant: i64) -> Option<usize> {
    let after = ends.partition_point(|&end| end <= instant);
    (after > 0 && after < ends.len()).then(|| after - 1)
}

fn push(ends: &mut Vec<i64>, end: i64) -> Result<(), TooMany> {
    if ends.len() > MAX_BUCKETS {
        return Err(TooMany);
    }
    if ends.last().is_none_or(|&last| last < end) {
        ends.push(end);
    }
    Ok(())
}

fn by_clock(tz: Tz, step: i64, end: i64, ends: &mut Vec<i64>) -> Result<(), TooMany> {
    while let Some(&at) = ends.last() {
        let offset = offset(tz, at);
        let local = at + offset;
        let mut next = local - local.rem_euclid(step) + step - offset;
        if self::offset(tz, next) != offset {
            next = first(at, next, |instant| self::offset(tz, instant) != offset);
        }
        if next >= end {
            break;
        }
        push(ends, next)?;
    }
    Ok(())
}

fn by_calendar(tz: Tz, interval: Interval, start: UtcMicros, end: i64, ends: &mut Vec<i64>) -> Result<(), TooMany> {
    let mut date = first_of(interval, local_date(tz, start));
    while let Some(next) = following(interval, date) {
        date = next;
        let instant = start_of(tz, date).0;
        if instant >= end {
            break;
        }
        push(ends, instant)?;
    }
    Ok(())
}

/// The first date of the day, week or month that `date` is in.
fn first_of(interval: Interval, date: NaiveDate) -> NaiveDate {
    match interval {
        Interval::Week => date - Days::new(u64::from(date.weekday().num_days_from_monday())),
        Interval::Month => date - Days::new(u64::from(date.day0())),
        _ => date,
    }
}

fn following(interval: Interval, date: NaiveDate) -> Option<NaiveDate> {
    match interval {
        Interval::Week => date.checked_add_days(Days::new(7)),
        Interval::Month => date.checked_add_months(Months::new(1)),
        _ => date.checked_add_days(Days::new(1)),
    }
}

/// The date on the wall at `instant`.
pub(crate) fn local_date(tz: Tz, instant: UtcMicros) -> NaiveDate {
    local(tz, instant.0).date()
}

/// The first instant whose date on the wall is not before `date`.
pub(crate) fn start_of(tz: Tz, date: NaiveDate) -> UtcMicros {
    let midnight = date.and_time(NaiveTime::MIN);
    let instant = match tz.from_local_datetime(&midnight) {
        chrono::LocalResult::Single(instant) | chrono::LocalResult::Ambiguous(instant, _) => instant.timestamp_micros(),
        // The clock jumps over it, by less than two days in any zone there is.
        chrono::LocalResult::None => {
            let near = midnight.and_utc().timestamp_micros();
            first(near - 2 * DAY, near + 2 * DAY, |instant| local(tz, instant) >= midnight)
        }
    };
    UtcMicros(instant)
}

/// The first instant after `from`, up to `to`, for which `holds`; it holds at `to`, and from some point on.
fn first(from: i64, to: i64, holds: impl Fn(i64) -> bool) -> i64 {
    let (mut not, mut yes) = (from, to);
    while yes - not > 1 {
        let middle = not + (yes - not) / 2;
        if holds(middle) { yes = middle } else { not = middle }
    }
    yes
}

fn utc(instant: i64) -> DateTime<Utc> {
    UtcMicros(instant).to_datetime()
}

fn local(tz: Tz, instant: i64) -> NaiveDateTime {
    utc(instant).with_timezone(&tz).naive_local()
}

/// The zone's distance from UTC at `instant`, in microseconds.
fn offset(tz: Tz, instant: i64) -> i64 {
    i64::from(tz.offset_from_utc_datetime(&utc(instant).naive_utc()).fix().local_minus_utc()) * SECOND
}

#[cfg(test)]
mod tests {
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
}
