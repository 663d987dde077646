//! A report as asked for: reading the parameters of `GET /v1/reports/clicks`.

use std::collections::BTreeMap;
use std::str::FromStr;

use chrono_tz::{TZ_VARIANTS, Tz};
use schemas::LinkId;
use schemas::class::Class;

use super::buckets::Interval;
use super::dims::Dimension;
use super::period::{Period, Preset};
use super::values::{class_words, refused, shown, unknown};
use crate::error::{FieldError, QueryError};
use crate::near::{did_you_mean, near};

/// Most values of one parameter: more are a mistake, and a burden.
const MAX_VALUES: usize = 1_000;
/// Longest value, bytes.
const MAX_VALUE_BYTES: usize = 4_096;
/// Most groups of one report.
const MAX_LIMIT: usize = 1_000;

/// Which classes a report's `clicks` are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Every class.
    All,
    /// These.
    Some(Vec<Class>),
}

impl Default for Classes {
    fn default() -> Self {
        Self::Some(vec![Class::Human])
    }
}

/// A report as asked for. `Default` asks for all human clicks of all links that the asker may see.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRequest {
    /// Codes; none given: all links.
    pub code: Vec<String>,
    /// Host names that the codes are on; none given: any.
    pub domain: Vec<String>,
    /// Links by identity, instead of `code`.
    pub link_id: Vec<LinkId>,
    /// The span of time.
    pub period: Period,
    /// The zone whose clock and calendar count.
    pub timezone: Tz,
    /// A time series, by buckets of this width.
    pub interval: Option<Interval>,
    /// Groups, by this dimension.
    pub group_by: Option<Dimension>,
    /// Most groups.
    pub limit: usize,
    /// The classes that count.
    pub class: Classes,
    /// Values that rows must have; the empty value stands for unknown.
    pub only: BTreeMap<Dimension, Vec<String>>,
    /// Values that rows must not have.
    pub not: BTreeMap<Dimension, Vec<String>>,
}

impl Default for ReportRequest {
    fn default() -> Self {
        Self {
            code: Vec::new(),
            domain: Vec::new(),
            link_id: Vec::new(),
            period: Period::default(),
            timezone: Tz::UTC,
            interval: None,
            group_by: None,
            limit: 10,
            class: Classes::default(),
            only: BTreeMap::new(),
            not: BTreeMap::new(),
        }
    }
}

impl ReportRequest {
    /// Whether it is about links that it names.
    pub(crate) fn names_links(&self) -> bool {
        !(self.code.is_empty() && self.domain.is_empty() && self.link_id.is_empty())
    }

    /// Reads a request's parameters, names and values decoded.
    ///
    /// # Errors
    /// [`QueryError::Invalid`] with every wrong parameter.
    pub fn from_pairs<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, QueryError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut reader = Reader::default();
        for (name, value) in pairs {
            reader.given.entry(name.as_ref().to_owned()).or_default().push(value.as_ref().to_owned());
        }
        let request = reader.read();
        if reader.errors.is_empty() { Ok(request) } else { Err(QueryError::Invalid(reader.errors)) }
    }
}

/// The span of a series for which none was asked: as long as people look at with buckets of that width. All there is
/// would be too many buckets for most.
fn usual_span(interval: Interval) -> Preset {
    match interval {
        Interval::Minute => Preset::Day,
        Interval::Hour => Preset::Days(7),
        Interval::Day => Preset::Days(30),
        Interval::Week | Interval::Month => Preset::Year,
    }
}

#[derive(Default)]
struct Reader {
    given: BTreeMap<String, Vec<String>>,
    errors: Vec<FieldError>,
}

impl Reader {
    fn read(&mut self) -> ReportRequest {
        self.bound_values();
        let defaults = ReportRequest::default();
        let code = self.filled("code");
        let domain = self.filled("domain").iter().map(|domain| domain.to_ascii_lowercase()).collect();
        let link_id: Vec<LinkId> = self.many("link_id", |_| "expected a link's id".to_owned());
        if !code.is_empty() && !link_id.is_empty() {
            self.wrong("link_id", "give either code or link_id");
        }
        let interval: Option<Interval> =
            self.one("interval", |()| "expected minute, hour, day, week or month".to_owned());
        let mut period = self.period();
        if let (Some(interval), true) = (interval, period == Period::default()) {
            period.preset = Some(usual_span(interval));
        }
        let request = ReportRequest {
            code,
            domain,
            link_id,
            period,
            timezone: self.timezone().unwrap_or(Tz::UTC),
            interval,
            group_by: self.group_by(),
            limit: self.limit().unwrap_or(defaults.limit),
            class: self.classes(),
            not: self.filters("not_"),
            only: self.filters(""),
        };
        if request.interval.is_some() && request.group_by.is_some() {
            self.wrong("group_by", "give either interval or group_by");
        }
        for name in std::mem::take(&mut self.given).into_keys() {
            let message = unknown(&name);
            self.wrong(&name, message);
        }
        request
    }

    fn timezone(&mut self) -> Option<Tz> {
        let name: String = self.one("timezone", |never: std::convert::Infallible| match never {})?;
        let zone = name.parse().ok();
        if zone.is_none() {
            let meant = did_you_mean(near(&name, TZ_VARIANTS.iter().map(|zone| zone.name())));
            self.wrong("timezone", format!("{} is no zone's IANA name, such as Europe/Berlin{meant}", shown(&name)));
        }
        zone
    }

    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(FieldError::new(field, message));
    }

    fn bound_values(&mut self) {
        let mut errors = Vec::new();
        for (name, values) in &self.given {
            if values.len() > MAX_VALUES {
                errors.push(FieldError::new(name, format!("given more than {MAX_VALUES} times")));
            }
            if values.iter().any(|value| value.len() > MAX_VALUE_BYTES) {
                errors.push(FieldError::new(name, format!("longer than {MAX_VALUE_BYTES} bytes")));
            }
        }
        self.errors.append(&mut errors);
    }

    /// The values of a parameter that must not be empty.
    fn filled(&mut self, name: &str) -> Vec<String> {
        let values = self.given.remove(name).unwrap_or_default();
        if values.iter().any(String::is_empty) {
            self.wrong(name, "must not be empty");
        }
        values
    }

    fn many<T: FromStr>(&mut self, name: &str, expected: impl Fn(T::Err) -> String) -> Vec<T> {
        let mut parsed = Vec::new();
        for value in self.given.remove(name).unwrap_or_default() {
            match value.parse() {
                Ok(value) => parsed.push(value),
                Err(error) => self.wrong(name, expected(error)),
            }
        }
        parsed
    }

    fn one<T: FromStr>(&mut self, name: &str, expected: impl Fn(T::Err) -> String) -> Option<T> {
        if self.given.get(name).is_some_and(|values| values.len() > 1) {
            self.wrong(name, "given more than once");
        }
        self.many(name, expected).pop()
    }

    fn period(&mut self) -> Period {
        let period = Period {
            start: self.one("start", |error| error),
            end: self.one("end", |error| error),
            preset: self.one("interval_preset", |error| error),
        };
        if period.preset.is_some() && (period.start.is_some() || period.end.is_some()) {
            self.wrong("interval_preset", "give either interval_preset or start and end");
        }
        period
    }

    fn group_by(&mut self) -> Option<Dimension> {
        let name: String = self.one("group_by", |never: std::convert::Infallible| match never {})?;
        let dimension = Dimension::named(&name);
        if dimension.is_none() {
            self.wrong("group_by", format!("expected one of {}", Dimension::names()));
        }
        dimension
    }

    fn limit(&mut self) -> Option<usize> {
        let expected = format!("expected a number from 1 to {MAX_LIMIT}");
        let limit: usize = self.one("limit", |_| expected.clone())?;
        if !(1..=MAX_LIMIT).contains(&limit) {
            self.wrong("limit", expected);
        }
        Some(limit)
    }

    fn classes(&mut self) -> Classes {
        let words = self.given.remove("class").unwrap_or_default();
        if words.is_empty() {
            return Classes::default();
        }
        let mut classes = Vec::new();
        for word in &words {
            match word.parse() {
                Ok(class) => classes.push(class),
                Err(_) if word == "all" => {}
                Err(_) => self.wrong("class", class_words()),
            }
        }
        if words.iter().any(|word| word == "all") { Classes::All } else { Classes::Some(classes) }
    }

    /// Takes the filters whose names begin with `prefix`.
    fn filters(&mut self, prefix: &str) -> BTreeMap<Dimension, Vec<String>> {
        let mut filters = BTreeMap::new();
        let names: Vec<(String, Dimension)> = self
            .given
            .keys()
            .filter_map(|name| Some((name.clone(), Dimension::named(name.strip_prefix(prefix)?)?)))
            .collect();
        for (name, dimension) in names {
            let values = self.given.remove(&name).unwrap_or_default();
            if let Some(message) = values.iter().find_map(|value| refused(dimension, value)) {
                self.wrong(&name, message);
            }
            filters.insert(dimension, values);
        }
        filters
    }
}

#[cfg(test)]
mod tests;
