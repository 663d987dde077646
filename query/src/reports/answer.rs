//! A report as it is answered (interface §4.1).

use std::collections::BTreeMap;

use chrono::SecondsFormat;
use chrono_tz::Tz;
use schemas::UtcMicros;
use serde::Serialize;

use super::estimate::Estimate;

/// A whole report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// One row a bucket or a group; empty when neither was asked for.
    pub data: Vec<Row>,
    /// Everything in scope together.
    pub totals: Totals,
    /// What is in none of the groups shown, with a known value.
    pub other: Part,
    /// What has no known value to group by.
    pub unknown: Part,
    /// How fresh, how complete, how final and how exact this is.
    pub meta: Meta,
    /// The request as understood.
    pub query: BTreeMap<String, serde_json::Value>,
}

/// A count and how sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Clicks.
    pub clicks: u64,
    /// Lower end of the interval that holds the true number with [`Meta::confidence`].
    pub clicks_low: u64,
    /// Upper end.
    pub clicks_high: u64,
    /// Visitors, counted once a UTC day; null where they are not known.
    pub visitors: Option<u64>,
}

impl Counts {
    /// `heaviest` as for [`Estimate::interval`].
    pub(crate) fn of(estimate: Estimate, heaviest: f64, visitors: Option<u64>) -> Self {
        let (clicks_low, clicks_high) = estimate.interval(heaviest);
        Self { clicks: estimate.clicks(), clicks_low, clicks_high, visitors }
    }
}

/// One row of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Row {
    /// Of a time series.
    Bucket {
        /// Its begin, with the zone's offset.
        start: String,
        /// Its end, not part of it.
        end: String,
        /// What is in it.
        #[serde(flatten)]
        counts: Counts,
    },
    /// Of a grouping.
    Group {
        /// The dimension's value.
        value: String,
        /// What has it.
        #[serde(flatten)]
        counts: Counts,
    },
}

impl Row {
    /// Its numbers.
    pub fn counts(&self) -> &Counts {
        match self {
            Self::Bucket { counts, .. } | Self::Group { counts, .. } => counts,
        }
    }
}

/// All in scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Of the classes asked for.
    #[serde(flatten)]
    pub counts: Counts,
    /// Clicks of every class, whichever was asked for: their sum is the redirects served.
    pub by_class: BTreeMap<String, u64>,
}

/// Clicks that are in no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// How many.
    pub clicks: u64,
    /// Lower end of the interval that holds the true number with [`Meta::confidence`].
    pub clicks_low: u64,
    /// Upper end.
    pub clicks_high: u64,
}

impl Part {
    /// `heaviest` as for [`Estimate::interval`].
    pub(crate) fn of(estimate: Estimate, heaviest: f64) -> Self {
        let (clicks_low, clicks_high) = estimate.interval(heaviest);
        Self { clicks: estimate.clicks(), clicks_low, clicks_high }
    }
}

/// How fresh, how complete, how final and how exact a report is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Meta {
    /// When the lake was looked at.
    pub as_of: UtcMicros,
    /// Every event before this instant that reached a journal is counted.
    pub complete_through: Option<UtcMicros>,
    /// Numbers before this instant don't move by themselves.
    pub final_through: Option<UtcMicros>,
    /// Whether any row counted here stands for others that were not kept.
    pub sampled: bool,
    /// The least share that was kept of anything counted here.
    pub lowest_rate: f64,
    /// Share of the cases in which the true number lies between `clicks_low` and `clicks_high`.
    pub confidence: f64,
    /// How visitors are counted.
    pub visitors: String,
    /// When these numbers were last changed by a recorded restatement.
    pub restated_at: Option<UtcMicros>,
    /// Clicks before this were removed, being older than their workspace keeps any; null when nothing asked for was.
    pub kept_from: Option<UtcMicros>,
    /// Times in which clicks are known to be missing.
    pub gaps: Vec<Gap>,
    /// Changes under way that these numbers may show half of.
    pub changing: Vec<Change>,
    /// What is to be known of a link that was asked for and has nothing at all; null when anything was counted.
    pub remark: Option<&'static str>,
    /// What a click is.
    pub note: &'static str,
}

/// A time in which clicks are known to be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Its begin.
    pub start: UtcMicros,
    /// Its end.
    pub end: UtcMicros,
    /// How many are missing; null when nobody can tell, or not from other workspaces'.
    pub lost: Option<u64>,
    /// Why.
    pub reason: String,
}

/// A change of numbers that was begun and hasn't ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// No row that it may touch is before this.
    pub start: UtcMicros,
    /// None is after this.
    pub end: UtcMicros,
    /// What is being done.
    pub reason: String,
}

/// What a click is.
pub(crate) const NOTE: &str = "clicks are redirects served, not arrivals at the destination";

/// What is said when nothing was counted for links that were named. A link of another workspace must look like none; and of
/// one that is deleted, or of which logs alone tell, there are clicks: so it is no error.
pub(crate) const NOTHING: &str = "nothing was counted in this time for the code, domain or link_id that was asked for: \
                                  it has no clicks, or there is none of that name in this token's workspace";

/// An instant as text, with the zone's offset; `Z` when the zone is UTC itself.
pub(crate) fn local_text(tz: Tz, instant: UtcMicros) -> String {
    instant.to_datetime().with_timezone(&tz).to_rfc3339_opts(SecondsFormat::AutoSi, tz == Tz::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_contracts_keys() {
        let counts = Counts { clicks: 12, clicks_low: 11, clicks_high: 13, visitors: Some(10) };
        let text = |row: &Row| serde_json::to_string(row).unwrap();
        assert_eq!(
            text(&Row::Group { value: "NL".into(), counts }),
            r#"{"value":"NL","clicks":12,"clicks_low":11,"clicks_high":13,"visitors":10}"#
        );
        assert_eq!(
            text(&Row::Bucket { start: "a".into(), end: "b".into(), counts: Counts { visitors: None, ..counts } }),
            r#"{"start":"a","end":"b","clicks":12,"clicks_low":11,"clicks_high":13,"visitors":null}"#
        );
    }

    #[test]
    fn instants_have_the_zones_offset() {
        let instant = UtcMicros(1_793_923_200_000_000); // 2026-11-05T…
        assert!(local_text(Tz::UTC, instant).ends_with('Z'));
        assert!(local_text(chrono_tz::Asia::Kolkata, instant).ends_with("+05:30"));
        assert!(local_text(chrono_tz::Europe::London, instant).ends_with("+00:00"));
    }
}
