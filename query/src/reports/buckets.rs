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

/// Where the bucket that `instant` is in begins.
pub(crate) fn begin(tz: Tz, interval: Interval, instant: UtcMicros) -> UtcMicros {
    let step = match interval {
        Interval::Minute => 60 * SECOND,
        Interval::Hour => 3_600 * SECOND,
        _ => return start_of(tz, first_of(interval, local_date(tz, instant))).min(instant),
    };
    let offset = offset(tz, instant.0);
    let begin = instant.0 - (instant.0 + offset).rem_euclid(step);
    let moved = self::offset(tz, begin) != offset;
    UtcMicros(if moved { first(begin, instant.0, |instant| self::offset(tz, instant) == offset) } else { begin })
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
mod tests;
