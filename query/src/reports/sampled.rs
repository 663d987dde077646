//! What of a report's scope was sampled away, as table `clicks_hourly` tells.
//!
//! ```text
//! clicks_hourly, in scope ──► hours: when, how thinly ──► the greatest weight that a click can have had, part by part
//!                                  │ the parts that they touch
//!                                  └──► sketches of visitors ∪ visitors of kept rows ──► visitors, once a UTC day
//! ```
//! An hour knows link and class of what was sampled away, and nothing else. So it can be told for the whole, for buckets
//! that don't cut it, and for groups by what hours have; for all else visitors are not known, and it is said why. A part
//! that no hour touches is as exact as if nothing were ever sampled, and costs no more.

mod visitors;

pub(super) use visitors::Sources;

use std::collections::HashMap;
use std::sync::Arc;

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

/// Hours in which something of a part was sampled away.
#[derive(Clone, Copy, Debug)]
struct Touch {
    /// 1 / the lowest rate.
    heaviest: f64,
    /// Whether one of them is not of the part alone.
    cut: bool,
}

/// What was sampled away of a scope.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// The parts that hours touch.
    touched: HashMap<Part, Touch>,
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
        let span = (span.start.0, open(span.end.0));
        let filters = request.only.keys().chain(request.not.keys());
        let mut sampled = Self {
            ends: ends.map(|ends| ends.iter().map(|&end| open(end)).collect()),
            dimension: request.group_by,
            filter: filters.copied().find(|dimension| !dimension.is_of_hours()),
            ..Self::default()
        };
        for batch in collect(plan::hours(hourly, request.group_by)).await? {
            let (begins, rates) = (shape::integers(&batch, "hour")?, shape::floats(&batch, "rate")?);
            let mut values = match sampled.tells_groups() {
                true => shape::texts(&batch, "value")?.into_iter(),
                false => Vec::new().into_iter(),
            };
            for (begin, rate) in begins.into_iter().zip(rates) {
                let (begin, heaviest) = (begin.unwrap_or_default(), 1.0 / rate);
                sampled.touch(Part::Whole, begin, span, heaviest);
                if let Some(value) = values.next() {
                    sampled.touch(Part::Group(value), begin, span, heaviest);
                }
                for (number, bucket) in sampled.buckets_of(begin) {
                    sampled.touch(Part::Bucket(number), begin, bucket, heaviest);
                }
            }
        }
        Ok(sampled)
    }

    /// Notes an hour of a part that lies in `start..end`.
    fn touch(&mut self, part: Part, hour: i64, (start, end): (i64, i64), heaviest: f64) {
        let cut = hour < start || hour.saturating_add(HOUR) > end;
        let touch = self.touched.entry(part).or_insert(Touch { heaviest, cut });
        *touch = Touch { heaviest: touch.heaviest.max(heaviest), cut: touch.cut || cut };
    }

    /// The buckets that an hour touches, with their ends.
    fn buckets_of(&self, hour: i64) -> Vec<(usize, (i64, i64))> {
        let Some(ends) = &self.ends else { return Vec::new() };
        let first = ends.partition_point(|&end| end <= hour).saturating_sub(1);
        let pairs = ends.windows(2).enumerate().skip(first).map(|(number, pair)| (number, (pair[0], pair[1])));
        pairs.take_while(|(_, (start, _))| *start < hour.saturating_add(HOUR)).collect()
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
            None => "the span cuts a UTC hour of which clicks were sampled away".to_owned(),
        })
    }

    /// Why those of rows can't be known, where the whole's can.
    pub(crate) fn why_rows_unknown(&self) -> Option<String> {
        let unknown = |part: &Part| *part != Part::Whole && self.visitors(part) == Visitors::Unknown;
        self.visitors.keys().any(unknown).then(|| match self.dimension {
            Some(dimension) => format!("not known by {}", dimension.name()),
            None => "not known of buckets that cut a UTC hour of which clicks were sampled away".to_owned(),
        })
    }
}
