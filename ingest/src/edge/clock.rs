//! Instants as logs write them. One outside [`EARLIEST`] and [`LATEST`] is none: no edge log is older than the web or
//! from another century, and a row of such a time would stay in the lake for good.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeZone};
use chrono_tz::Tz;
use schemas::UtcMicros;
use schemas::time::{DAY, HOUR, SECOND};

const MINUTE: i64 = 60 * SECOND;
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// 1990-01-01T00:00:00Z
pub const EARLIEST: UtcMicros = UtcMicros(631_152_000 * SECOND);
/// 2199-12-31T23:59:59.999999Z
pub const LATEST: UtcMicros = UtcMicros(7_258_118_400 * SECOND - 1);

fn sane(micros: i64) -> Option<UtcMicros> {
    (EARLIEST.0..=LATEST.0).contains(&micros).then_some(UtcMicros(micros))
}

/// `2026-03-14` and `09:26:53`, UTC.
pub fn date_and_time(date: &[u8], time: &[u8]) -> Option<UtcMicros> {
    sane(day(date)? + time_of_day(time)?)
}

/// Seconds since 1970 with or without a fraction: `1773480413.123`. Finer than microseconds is cut off.
pub fn epoch_seconds(text: &[u8]) -> Option<UtcMicros> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(dot) => (&text[..dot], micros(&text[dot + 1..])?),
        None => (text, 0),
    };
    // Twelve digits of seconds are the year 33658: beyond what a date can be.
    if whole.is_empty() || whole.len() > 11 {
        return None;
    }
    let seconds = whole
        .iter()
        .try_fold(0_i64, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))?;
    sane(seconds * SECOND + fraction)
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, with or without a fraction: which, its size tells, as
/// [`EARLIEST`] and [`LATEST`] are less than a factor of a thousand apart. Finer than microseconds is cut off.
pub fn epoch(text: &[u8]) -> Option<UtcMicros> {
    let whole = memchr::memchr(b'.', text).unwrap_or(text.len());
    if !(9..=19).contains(&whole) {
        return None;
    }
    // Digits of a microsecond's worth that stand behind the point.
    let places = match whole {
        9..=11 => 6,
        12..=14 => 3,
        _ => 0,
    };
    let fraction = text.get(whole + 1..).unwrap_or_default();
    let digits = |value: i64, digit: u8| {
        digit.is_ascii_digit().then(|| value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))).flatten()
    };
    let value = text[..whole].iter().try_fold(0_i64, |value, digit| digits(value, *digit))?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let padded = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(places);
    let micros = padded.into_iter().try_fold(value, digits)?;
    sane(if whole >= 18 { micros / 1000 } else { micros })
}

/// RFC 3339: `2026-03-14T10:26:53.123+01:00`, `…Z`, `…+0100`.
pub fn rfc3339(text: &[u8]) -> Option<UtcMicros> {
    if text.len() < 20 || !matches!(text[10], b'T' | b't' | b' ') {
        return None;
    }
    let local = day(&text[..10])? + time_of_day(&text[11..19])?;
    let rest = &text[19..];
    let (fraction, zone) = match rest {
        [b'.' | b',', digits @ ..] => {
            let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
            (micros(&digits[..end])?, &digits[end..])
        }
        _ => (0, rest),
    };
    sane(local + fraction - offset(zone)?)
}

/// The common log format's: `14/Mar/2026:09:26:53 +0000`.
pub fn common_log(text: &[u8]) -> Option<UtcMicros> {
    let (date, zone) = text.split_at_checked(20)?;
    sane(clf_date(date)? - offset(zone.strip_prefix(b" ").filter(|zone| zone.len() == 5)?)?)
}

/// `14/Mar/2026:09:26:53` as microseconds since 1970 on the clock that showed it.
fn clf_date(text: &[u8]) -> Option<i64> {
    if text.len() != 20 || text[2] != b'/' || text[6] != b'/' || text[11] != b':' {
        return None;
    }
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(&text[3..6]))? as u32 + 1;
    let date = NaiveDate::from_ymd_opt(number(&text[7..11])? as i32, month, number(&text[..2])?)?;
    Some(days(date) * DAY + time_of_day(&text[12..20])?)
}

/// A date and time of day without a zone, taken for UTC: `2026/03/14 09:26:53.123`, with or without a fraction.
pub fn wall(text: &[u8]) -> Option<UtcMicros> {
    let (date, time) = (text.get(..10)?, text.get(11..19)?);
    let date = [&date[..4], b"-", &date[5..7], b"-", &date[8..]].concat();
    let fraction = match text.get(19..)? {
        [] => 0,
        [b'.', digits @ ..] => micros(digits)?,
        _ => return None,
    };
    let separated = text[4] == b'/' && text[7] == b'/' && text[10] == b' ';
    sane(separated.then_some(day(&date)? + time_of_day(time)? + fraction)?)
}

/// The common log format's date with milliseconds and no zone, as the clock of a place showed it:
/// `14/Mar/2026:09:26:53.123`.
pub fn local(text: &[u8]) -> Option<NaiveDateTime> {
    let (whole, fraction) = match text.get(20..)? {
        [] => (text, 0),
        [b'.', digits @ ..] => (&text[..20], micros(digits)?),
        _ => return None,
    };
    let micros = clf_date(whole)? + fraction;
    DateTime::from_timestamp_micros(micros).map(|instant| instant.naive_utc())
}

/// When the clocks of `zone` showed `local`. Where they showed it twice, as summer time ended, the first time; `None`
/// where they never did.
pub fn in_zone(local: NaiveDateTime, zone: Tz) -> Option<UtcMicros> {
    sane(zone.from_local_datetime(&local).earliest()?.timestamp_micros())
}

/// Any instant with a zone, or since 1970, that `text` can be.
pub fn any(text: &[u8]) -> Option<UtcMicros> {
    rfc3339(text).or_else(|| epoch(text)).or_else(|| common_log(text))
}

/// `2026-03-14` as microseconds since 1970.
fn day(date: &[u8]) -> Option<i64> {
    if date.len() != 10 || date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(number(&date[..4])? as i32, number(&date[5..7])?, number(&date[8..])?)?;
    Some(days(date) * DAY)
}

fn days(date: NaiveDate) -> i64 {
    /// 1970-01-01 counted from the common era's first day.
    const EPOCH: i32 = 719_163;
    i64::from(date.num_days_from_ce() - EPOCH)
}

/// `09:26:53` as microseconds. A leap second is the next minute's first.
fn time_of_day(time: &[u8]) -> Option<i64> {
    if time.len() != 8 || time[2] != b':' || time[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..])?);
    (hour < 24 && minute < 60 && second <= 60)
        .then(|| i64::from(hour) * HOUR + i64::from(minute) * MINUTE + i64::from(second) * SECOND)
}

/// `Z`, `+01:00`, `+0100`, `+01` as microseconds to take away.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, digits) = match zone {
        [b'Z' | b'z'] => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [_, _] => (digits, &b"00"[..]),
        [_, _, _, _] => digits.split_at(2),
        [_, _, b':', _, _] => (&digits[..2], &digits[3..]),
        _ => return None,
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then(|| sign * (i64::from(hours) * HOUR + i64::from(minutes) * MINUTE))
}

/// The digits after a decimal point as microseconds.
fn micros(digits: &[u8]) -> Option<i64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut value = 0;
    for place in 0..6 {
        value = value * 10 + i64::from(digits.get(place).map_or(0, |digit| digit - b'0'));
    }
    Some(value)
}

/// Up to nine decimal digits.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits.iter().try_fold(0_u32, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(instant: Option<UtcMicros>) -> String {
        instant.map_or_else(|| "none".to_owned(), |instant| instant.to_string())
    }

    #[test]
    fn every_spelling_of_one_instant_is_the_same() {
        let expected = "2026-03-14T09:26:53Z";
        assert_eq!(shown(date_and_time(b"2026-03-14", b"09:26:53")), expected);
        assert_eq!(shown(epoch_seconds(b"1773480413")), expected);
        assert_eq!(shown(epoch_seconds(b"1773480413.000")), expected);
        for text in ["2026-03-14T09:26:53Z", "2026-03-14T10:26:53+01:00", "2026-03-14T03:56:53.000-0530"] {
            assert_eq!(shown(rfc3339(text.as_bytes())), expected, "{text}");
        }
        for text in ["14/Mar/2026:09:26:53 +0000", "14/Mar/2026:11:26:53 +0200", "14/Mar/2026:04:26:53 -0500"] {
            assert_eq!(shown(common_log(text.as_bytes())), expected, "{text}");
        }
    }

    #[test]
    fn fractions_keep_microseconds_and_no_more() {
        assert_eq!(shown(epoch_seconds(b"1773480413.1234567")), "2026-03-14T09:26:53.123456Z");
        assert_eq!(shown(rfc3339(b"2026-03-14T09:26:53.1234567Z")), "2026-03-14T09:26:53.123456Z");
        assert_eq!(shown(epoch_seconds(b"1773480413.5")), "2026-03-14T09:26:53.500Z");
    }

    #[test]
    fn the_unit_since_1970_follows_from_the_size() {
        let expected = "2026-03-14T09:26:53.123456Z";
        for text in ["1773480413.1234567", "1773480413123.4567", "1773480413123456", "1773480413123456.7"] {
            assert_eq!(shown(epoch(text.as_bytes())), expected, "{text}");
        }
        assert_eq!(shown(epoch(b"1773480413123456789")), expected);
        assert_eq!(shown(epoch(b"1773480413123")), "2026-03-14T09:26:53.123Z");
        assert_eq!(shown(epoch(b"1773480413.")), "2026-03-14T09:26:53Z");
        assert_eq!(shown(epoch(b"631152000")), EARLIEST.to_string());
        assert_eq!(shown(epoch(b"7258118399999999999")), LATEST.to_string());
        for text in ["", "0", "12345678", "631151999", "7258118400", "17734804131234", "99999999999999999999"] {
            assert_eq!(shown(epoch(text.as_bytes())), "none", "{text}");
        }
        for text in ["-1773480413", "1773480413.1x", "1773480413,1", "1.773480413e9", "177348041a"] {
            assert_eq!(shown(epoch(text.as_bytes())), "none", "{text}");
        }
    }

    #[test]
    fn a_wall_clock_is_taken_for_utc() {
        assert_eq!(shown(wall(b"2026/03/14 09:26:53")), "2026-03-14T09:26:53Z");
        assert_eq!(shown(wall(b"2026/03/14 09:26:53.123456789")), "2026-03-14T09:26:53.123456Z");
        for text in ["2026-03-14 09:26:53", "2026/03/14T09:26:53", "2026/02/30 09:26:53", "2026/03/14", ""] {
            assert_eq!(shown(wall(text.as_bytes())), "none", "{text}");
        }
    }

    #[test]
    fn a_local_clock_needs_a_zone() {
        let at = |text: &str, zone: Tz| shown(local(text.as_bytes()).and_then(|local| in_zone(local, zone)));
        assert_eq!(at("14/Mar/2026:09:26:53.123", Tz::UTC), "2026-03-14T09:26:53.123Z");
        assert_eq!(at("14/Mar/2026:10:26:53", Tz::Europe__Berlin), "2026-03-14T09:26:53Z");
        assert_eq!(at("14/Jul/2026:11:26:53", Tz::Europe__Berlin), "2026-07-14T09:26:53Z");
        // summer time ends: half past two comes twice; and begins: it never comes
        assert_eq!(at("25/Oct/2026:02:30:00", Tz::Europe__Berlin), "2026-10-25T00:30:00Z");
        assert_eq!(at("29/Mar/2026:02:30:00", Tz::Europe__Berlin), "none");
        for text in ["14/Mar/2026", "14/Mar/2026:09:26:53,1", "14/Mar/2026:09:26:53.x", "32/Mar/2026:09:26:53"] {
            assert_eq!(at(text, Tz::UTC), "none", "{text}");
        }
    }

    #[test]
    fn a_day_border_is_crossed_by_the_zone() {
        assert_eq!(shown(common_log(b"01/Jan/2026:00:30:00 +0100")), "2025-12-31T23:30:00Z");
        assert_eq!(shown(common_log(b"29/Feb/2024:23:59:60 +0000")), "2024-03-01T00:00:00Z");
    }

    #[test]
    fn no_log_is_of_the_year_nought_or_of_another_century() {
        for (date, shows) in [
            ("0000-01-01", false),
            ("1970-01-01", false),
            ("1989-12-31", false),
            ("1990-01-01", true),
            ("2199-12-31", true),
            ("2200-01-01", false),
            ("2999-01-01", false),
        ] {
            let at = |time: &str| date_and_time(date.as_bytes(), time.as_bytes()).is_some();
            assert_eq!((at("00:00:00"), at("23:59:59")), (shows, shows), "{date}");
            assert_eq!(any(format!("{date}T12:00:00Z").as_bytes()).is_some(), shows, "{date}");
            let common = format!("{}/Jan/{}:00:00:00 +0000", &date[8..], &date[..4]);
            assert_eq!(any(common.as_bytes()).is_some(), shows, "{common}");
        }
        for (seconds, shows) in [("0", false), ("631151999.999", false), ("631152000", true), ("7258118400", false)] {
            assert_eq!(epoch_seconds(seconds.as_bytes()).is_some(), shows, "{seconds}");
        }
        assert!(any(b"1990-01-01T00:30:00+01:00").is_none() && any(b"1989-12-31T23:30:00-01:00").is_some());
    }

    #[test]
    fn what_is_no_instant_is_none() {
        for (date, time) in [("2026-02-29", "00:00:00"), ("2026-13-01", "00:00:00"), ("2026-03-14", "24:00:00")] {
            assert_eq!(date_and_time(date.as_bytes(), time.as_bytes()), None, "{date} {time}");
        }
        assert_eq!(date_and_time(b"-", b"-"), None);
        for text in ["", ".5", "12a", "-1", "1773480413123", "1e9"] {
            assert_eq!(epoch_seconds(text.as_bytes()), None, "{text}");
        }
        for text in ["2026-03-14T09:26:53", "2026-03-14T09:26:53+1", "2026-03-14T09:26:53.", "14/Mar/2026:09:26:53"] {
            assert_eq!(any(text.as_bytes()), None, "{text}");
        }
    }
}
