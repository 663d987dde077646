//! What of a report's scope was sampled away, as tables `clicks_hourly` and `sampling` tell.
//!
//! ```text
//! clicks_hourly, in scope ──► hours: when, how thinly ──► the greatest weight that a click can have had, part by part
//!                                  │ of hours that parts cut: sampling ──► seconds: when, how thinly ──┘
//!                                  │ the parts that they touch
//!                                  └──► sketches of visitors ∪ visitors of kept rows ──► visitors, once a UTC day
//! ```
//! An hour knows link and class of what was sampled away, and nothing else. So it can be told for the whole, for buckets
//! that don't cut it, and for groups by what hours have. A part that cuts an hour is touched by those of its seconds in which
//! clicks were thinned; how many visitors it had then is not known, and it is said why. A part that nothing touches is as
//! exact as if nothing were ever sampled, and costs no more.

mod seconds;
mod visitors;

pub(super) use visitors::Sources;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::prelude::DataFrame;
use schemas::UtcMicros;
use schemas::time::HOUR;

use super::ask::collect;
use super::dims::Dimension;
use super::period::Span;
use super::plan;
use super::request::ReportRequest;
use super::shape;
use crate::error::QueryError;

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// A bucket, by number.
    Bucket(usize),
    /// A group, by value.
    Group(String),
}

impl Part {
    /// The value of a group.
    fn group(&self) -> Option<&str> {
        match self {
            Self::Group(value) => Some(value),
            _ => None,
        }
    }
}

/// What is known of a part's visitors beside those of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Visitors {
    /// Nothing was sampled away.
    #[default]
    AsKept,
    /// On the days of which something was, rows have `kept` visitors, and with the sketches there were about `all`.
    Estimated { kept: u64, all: u64 },
    /// They can't be known.
    Unknown,
}

/// What was sampled away of a part.
#[derive(Clone, Copy, Debug)]
struct Touch {
    /// 1 / the lowest rate.
    heaviest: f64,
    /// Whether some of it is of an hour that is not of the part alone.
    cut: bool,
}

/// An hour in which something was sampled away, of all groups together or of one.
#[derive(Clone, Debug, PartialEq)]
struct Hour {
    begin: i64,
    value: Option<String>,
    /// 1 / the lowest rate.
    heaviest: f64,
}

/// What was sampled away of a scope.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// The parts of which something was.
    touched: HashMap<Part, Touch>,
    /// Hours that parts cut, until it is known whether they touch these.
    cut: Vec<Hour>,
    /// The ends of the whole, and of the buckets.
    span: (i64, i64),
    ends: Option<Arc<[i64]>>,
    dimension: Option<Dimension>,
    /// A filter that hours don't have.
    filter: Option<Dimension>,
    visitors: HashMap<Part, Visitors>,
}

impl Sampled {
    /// Reads which hours are in `hourly`, the rows of `clicks_hourly` in scope. Nothing in them is later than `now`.
    pub(crate) async fn look(
        hourly: DataFrame,
        request: &ReportRequest,
        (span, ends): (Span, Option<&Arc<[i64]>>),
        now: UtcMicros,
    ) -> Result<Self, QueryError> {
        // an end that has not come yet cuts nothing, and is as far away as can be
        let open = |end: i64| if end >= now.0 { i64::MAX } else { end };
        let filters = request.only.keys().chain(request.not.keys());
        let mut sampled = Self {
            span: (span.start.0, open(span.end.0)),
            ends: ends.map(|ends| ends.iter().map(|&end| open(end)).collect()),
            dimension: request.group_by,
            filter: filters.copied().find(|dimension| !dimension.is_of_hours()),
            ..Self::default()
        };
        for batch in collect(plan::hours(hourly, request.group_by)).await? {
            for hour in sampled.hours_of(&batch)? {
                if sampled.note(&hour, (hour.begin, HOUR), false) {
                    sampled.cut.push(hour);
                }
            }
        }
        Ok(sampled)
    }

    /// Hours with their rates, by group if hours tell of groups.
    fn hours_of(&self, batch: &RecordBatch) -> Result<Vec<Hour>, QueryError> {
        let (begins, rates) = (shape::integers(batch, "hour")?, shape::floats(batch, "rate")?);
        let mut values = match self.tells_groups() {
            true => shape::texts(batch, "value")?.into_iter(),
            false => Vec::new().into_iter(),
        };
        let hours = begins.into_iter().zip(rates).map(|(begin, rate)| Hour {
            begin: begin.unwrap_or_default(),
            value: values.next(),
            heaviest: 1.0 / rate,
        });
        Ok(hours.collect())
    }

    /// Notes that something of an hour was sampled away, in a stretch of time within it: of the parts that it touches, either
    /// those that cut the hour or those that don't. Returns whether there are others.
    fn note(&mut self, hour: &Hour, stretch: (i64, i64), cut: bool) -> bool {
        let mut others = false;
        for (part, ends) in self.parts(hour, stretch) {
            if is_whole(hour.begin, ends) == cut {
                others = true;
                continue;
            }
            let touch = self.touched.entry(part).or_insert(Touch { heaviest: hour.heaviest, cut });
            *touch = Touch { heaviest: touch.heaviest.max(hour.heaviest), cut: touch.cut || cut };
        }
        others
    }

    /// The parts that a stretch of time touches, which begins at an instant and is so long, with their ends.
    fn parts(&self, hour: &Hour, (begin, length): (i64, i64)) -> Vec<(Part, (i64, i64))> {
        let end = begin.saturating_add(length);
        if end <= self.span.0 || begin >= self.span.1 {
            return Vec::new();
        }
        let mut parts = vec![(Part::Whole, self.span)];
        parts.extend(hour.value.clone().map(|value| (Part::Group(value), self.span)));
        if let Some(ends) = &self.ends {
            let first = ends.partition_point(|&end| end <= begin).saturating_sub(1);
            let buckets = ends.windows(2).enumerate().skip(first).map(|(number, pair)| (number, (pair[0], pair[1])));
            let touched = buckets.take_while(|(_, (start, _))| *start < end);
            parts.extend(touched.map(|(number, ends)| (Part::Bucket(number), ends)));
        }
        parts
    }

    /// The greatest weight that something in a part can have had that has no row; 1 when nothing was sampled away.
    pub(crate) fn heaviest(&self, part: &Part) -> f64 {
        self.touched.get(part).map_or(1.0, |touch| touch.heaviest)
    }

    /// Whether hours have the dimension that is grouped by, so that what is said of a group is of it alone.
    pub(crate) fn tells_groups(&self) -> bool {
        self.dimension.is_some_and(Dimension::is_of_hours)
    }

    /// What is known of a part's visitors.
    pub(crate) fn visitors(&self, part: &Part) -> Visitors {
        self.visitors.get(part).copied().unwrap_or_default()
    }

    /// Why the visitors of the whole can't be known, if they can't.
    pub(crate) fn why_unknown(&self) -> Option<String> {
        if self.visitors(&Part::Whole) != Visitors::Unknown {
            return None;
        }
        Some(match self.filter {
            Some(filter) => format!("visitors of what was sampled away are not known by {}", filter.name()),
            None => "the span cuts a UTC hour, and clicks were sampled away in its part of it".to_owned(),
        })
    }

    /// Why those of rows can't be known, where the whole's can.
    pub(crate) fn why_rows_unknown(&self) -> Option<String> {
        let unknown = |part: &Part| *part != Part::Whole && self.visitors(part) == Visitors::Unknown;
        self.visitors.keys().any(unknown).then(|| match self.dimension {
            Some(dimension) => format!("not known by {}", dimension.name()),
            None => "not known of buckets that cut a UTC hour, where clicks were sampled away in their part of it"
                .to_owned(),
        })
    }
}

/// Whether what lies between these ends has all of the hour that begins at `hour`.
fn is_whole(hour: i64, (start, end): (i64, i64)) -> bool {
    hour >= start && hour.saturating_add(HOUR) <= end
}
