//! The span of time that a report is about: as asked, and as instants.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate};
use chrono_tz::Tz;
use schemas::UtcMicros;

use super::buckets::{self, Interval, local_date, start_of};
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
    /// From the first click to the last, and what of the first one's bucket or day was before it.
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

/// A span as asked. Nothing given: as [`Preset::All`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Where it begins; when not given, with the bucket of the first click, or its day.
    pub start: Option<Bound>,
    /// Where it ends; now when not given.
    pub end: Option<Bound>,
    /// Instead of both.
    pub preset: Option<Preset>,
}

/// `[start, end)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// The instants meant, in `tz` at `now`, for buckets of `interval` if any. `extent`: first and last click, where
    /// that matters.
    pub(crate) fn resolve(
        &self,
        tz: Tz,
        now: UtcMicros,
        interval: Option<Interval>,
        extent: Option<(UtcMicros, UtcMicros)>,
    ) -> Result<Span, FieldError> {
        let today = local_date(tz, now);
        let from = |date: NaiveDate| Span { start: start_of(tz, date), end: now };
        let all = match extent {
            // clicks of clocks that are ahead, or of logs from elsewhere, are part of all there is
            Some((first, last)) => Span {
                start: buckets::begin(tz, interval.unwrap_or(Interval::Day), first.min(now)),
                end: now.max(UtcMicros(last.0.saturating_add(1))),
            },
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
mod tests;
