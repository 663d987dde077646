//! The span of time that a report is about: as asked, and as instants.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate};
use chrono_tz::Tz;
use schemas::UtcMicros;

use super::buckets::{local_date, start_of};
use crate::error::FieldError;

/// One end of a span as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// An instant; as an end it is not part of the span.
    Instant(UtcMicros),
    /// A date in the report's zone; as an end it is part of the span.
    Date(NaiveDate),
}

/// Years that a report can be about; calendars and clocks are well behaved between them.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2200;

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected an RFC 3339 instant with its offset, or a date as 2026-03-14".to_owned();
        let (bound, year) = if let Ok(date) = text.parse::<NaiveDate>() {
            (Self::Date(date), date.year())
        } else {
            // an unescaped plus sign arrives as a space
            let text = text.replace(' ', "+");
            let instant = DateTime::parse_from_rfc3339(&text).map_err(|_| expected())?;
            (Self::Instant(UtcMicros::from(instant.to_utc())), instant.year())
        };
        if YEARS.contains(&year) {
            Ok(bound)
        } else {
            Err(format!("the year must be from {} to {}", YEARS.start(), YEARS.end()))
        }
    }
}

/// A span by name, up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The last 24 hours.
    Day,
    /// Today and the dates before it, this many together.
    Days(u32),
    /// Today and the year before it.
    Year,
    /// From the first of the month.
    MonthToDate,
    /// From the first of the quarter.
    QuarterToDate,
    /// From the first of January.
    YearToDate,
    /// From the first click to the last.
    All,
}

const PRESETS: &[(&str, Preset)] = &[
    ("24h", Preset::Day),
    ("7d", Preset::Days(7)),
    ("30d", Preset::Days(30)),
    ("90d", Preset::Days(90)),
    ("1y", Preset::Year),
    ("mtd", Preset::MonthToDate),
    ("qtd", Preset::QuarterToDate),
    ("ytd", Preset::YearToDate),
    ("all", Preset::All),
];

impl FromStr for Preset {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = || PRESETS.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let preset = PRESETS.iter().find(|(known, _)| *known == word).map(|(_, preset)| *preset);
        preset.ok_or_else(|| format!("expected one of {}", known()))
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PRESETS.iter().find(|(_, preset)| preset == self).map_or("", |(word, _)| word))
    }
}

/// A span as asked. Nothing given: from the first click to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Where it begins; the first click when not given.
    pub start: Option<Bound>,
    /// Where it ends; now when not given.
    pub end: Option<Bound>,
    /// Instead of both.
    pub preset: Option<Preset>,
}

/// `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: UtcMicros,
    pub(crate) end: UtcMicros,
}

impl Period {
    /// Whether the ends depend on what clicks there are.
    pub(crate) fn needs_extent(&self) -> bool {
        match self.preset {
            Some(preset) => preset == Preset::All,
            None => self.start.is_none(),
        }
    }

    /// The instants meant, in `tz` at `now`. `extent`: first and last click, where that matters.
    pub(crate) fn resolve(
        &self,
        tz: Tz,
        now: UtcMicros,
        extent: Option<(UtcMicros, UtcMicros)>,
    ) -> Result<Span, FieldError> {
        let today = local_date(tz, now);
        let from = |date: NaiveDate| Span { start: start_of(tz, date), end: now };
        let all = match extent {
            // clicks of clocks that are ahead, or of logs from elsewhere, are part of all there is
            Some((first, last)) => Span { start: first.min(now), end: now.max(UtcMicros(last.0.saturating_add(1))) },
            None => Span { start: now, end: now },
        };
        let span = match self.preset {
            Some(Preset::Day) => Span { start: UtcMicros(now.0 - schemas::time::DAY), end: now },
            Some(Preset::Days(days)) => from(today - Days::new(u64::from(days.saturating_sub(1)))),
            Some(Preset::Year) => from(today - Months::new(12) + Days::new(1)),
            Some(Preset::MonthToDate) => from(today - Days::new(u64::from(today.day0()))),
            Some(Preset::QuarterToDate) => {
                let first = today - Days::new(u64::from(today.day0()));
                from(first - Months::new(first.month0() % 3))
            }
            Some(Preset::YearToDate) => from(today - Days::new(u64::from(today.ordinal0()))),
            Some(Preset::All) => all,
            None => {
                let start = self.start.map_or(all.start, |bound| begin(tz, bound));
                let end = match (self.end, self.start) {
                    (Some(bound), _) => finish(tz, bound)?,
                    (None, Some(_)) => now,
                    (None, None) => all.end,
                };
                // the first click may be later than an end that was given
                Span { start: if self.start.is_none() { start.min(end) } else { start }, end }
            }
        };
        match (self.start, self.end) {
            (Some(_), _) | (_, Some(_)) if self.preset.is_none() && self.start.is_some() && span.start >= span.end => {
                let field = if self.end.is_some() { "end" } else { "start" };
                let wanted = if self.end.is_some() { "must be after start" } else { "must be before now" };
                Err(FieldError::new(field, wanted))
            }
            _ => Ok(span),
        }
    }
}

fn begin(tz: Tz, bound: Bound) -> UtcMicros {
    match bound {
        Bound::Instant(instant) => instant,
        Bound::Date(date) => start_of(tz, date),
    }
}

fn finish(tz: Tz, bound: Bound) -> Result<UtcMicros, FieldError> {
    match bound {
        Bound::Instant(instant) => Ok(instant),
        Bound::Date(date) => {
            let next = date.checked_add_days(Days::new(1));
            next.map(|next| start_of(tz, next)).ok_or_else(|| FieldError::new("end", "too late a date"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UtcMicros {
        UtcMicros::from(DateTime::parse_from_rfc3339(text).unwrap().to_utc())
    }

    fn resolved(period: Period, zone: &str) -> (String, String) {
        let tz: Tz = zone.parse().unwrap();
        let now = at("2026-05-20T10:30:00Z");
        let span = period.resolve(tz, now, Some((at("2026-01-05T00:00:01Z"), at("2026-05-20T11:00:00Z")))).unwrap();
        let text = |instant: UtcMicros| instant.to_datetime().with_timezone(&tz).to_rfc3339();
        (text(span.start), text(span.end))
    }

    fn preset(word: &str, zone: &str) -> String {
        resolved(Period { preset: Some(word.parse().unwrap()), ..Period::default() }, zone).0
    }

    #[test]
    fn presets_begin_with_a_date_of_the_zone() {
        assert_eq!(preset("24h", "UTC"), "2026-05-19T10:30:00+00:00");
        assert_eq!(preset("7d", "Europe/Berlin"), "2026-05-14T00:00:00+02:00");
        assert_eq!(preset("30d", "Pacific/Auckland"), "2026-04-21T00:00:00+12:00");
        assert_eq!(preset("1y", "UTC"), "2025-05-21T00:00:00+00:00");
        assert_eq!(preset("mtd", "UTC"), "2026-05-01T00:00:00+00:00");
        assert_eq!(preset("qtd", "Europe/Berlin"), "2026-04-01T00:00:00+02:00");
        assert_eq!(preset("ytd", "Europe/Berlin"), "2026-01-01T00:00:00+01:00");
        for (word, preset) in PRESETS {
            assert_eq!(preset.to_string(), *word);
        }
        assert!("2d".parse::<Preset>().unwrap_err().contains("24h"));
    }

    #[test]
    fn all_is_from_the_first_click_to_the_last_or_now() {
        let all = ("2026-01-05T00:00:01+00:00".to_owned(), "2026-05-20T11:00:00.000001+00:00".to_owned());
        assert_eq!(resolved(Period::default(), "UTC"), all);
        assert_eq!(resolved(Period { preset: Some(Preset::All), ..Period::default() }, "UTC"), all);
        let nothing = Period::default().resolve(Tz::UTC, UtcMicros(5), None).unwrap();
        assert_eq!(nothing, Span { start: UtcMicros(5), end: UtcMicros(5) });
    }

    #[test]
    fn an_end_date_is_whole_and_an_end_instant_is_not_part() {
        let span = |start: &str, end: &str| {
            let period = Period { start: Some(start.parse().unwrap()), end: Some(end.parse().unwrap()), preset: None };
            resolved(period, "Europe/Berlin")
        };
        assert_eq!(
            span("2026-10-25", "2026-10-25"),
            ("2026-10-25T00:00:00+02:00".into(), "2026-10-26T00:00:00+01:00".into())
        );
        assert_eq!(span("2026-10-25T00:00:00Z", "2026-10-25T03:00:00 02:00").1, "2026-10-25T02:00:00+01:00");
    }

    #[test]
    fn spans_that_end_before_they_begin_are_named() {
        let period = |start: Option<&str>, end: Option<&str>| Period {
            start: start.map(|text| text.parse().unwrap()),
            end: end.map(|text| text.parse().unwrap()),
            preset: None,
        };
        let now = at("2026-05-20T10:30:00Z");
        let resolve = |period: Period| period.resolve(Tz::UTC, now, None);
        assert_eq!(resolve(period(Some("2026-05-02"), Some("2026-05-01"))).unwrap_err().field, "end");
        assert_eq!(resolve(period(Some("2027-01-01"), None)).unwrap_err().field, "start");
        let before_all = resolve(period(None, Some("2020-01-01"))).unwrap();
        assert_eq!(before_all.start, before_all.end);
    }

    #[test]
    fn bounds_need_an_offset_and_a_year_within_reason() {
        for text in ["2026-05-20T10:30:00", "yesterday", "", "2026-13-01", "0001-01-01", "9999-01-01T00:00:00Z"] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }
}
