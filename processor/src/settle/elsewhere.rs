//! Since when events of a provider's requests have been made elsewhere, by workspace.
//!
//! An edge's log whose ids don't meet those of the origin is taken by cache status: lines of requests that reached the
//! origin count as counted if the origin has told of its clicks, and are clicks if it never has. Whoever keeps redirects
//! of their own tells by importing events; the first of them is remembered here, as an application transaction
//! `elsewhere/<provider>/<workspace>` of the very commit that brings the rows, so that any process knows as much as the
//! lake does. A transaction's value should only grow: it is what is left from the event's time to the latest that an
//! event can have.

use std::collections::HashMap;
use std::time::Duration;

use arrow::array::{AsArray as _, RecordBatch};
use ingest::edge::clock::LATEST;
use schemas::{Source, UtcMicros};

use super::union::Arrival;
use crate::lake::TableHandle;

fn prefix(provider: &str) -> String {
    format!("elsewhere/{provider}/")
}

fn to_value(time: UtcMicros) -> i64 {
    LATEST.0.saturating_sub(time.0)
}

fn from_value(value: i64) -> UtcMicros {
    UtcMicros(LATEST.0.saturating_sub(value))
}

/// So many hours before the first event there may be a line of it: clocks differ.
const HOURS_BEFORE: i64 = 1;

/// Whether a workspace has told of events of requests that may have lines of a provider in this hour.
pub(crate) fn has_told(
    (clicks, arrivals): (&TableHandle, &TableHandle),
    provider: &str,
    workspace: &str,
    hour: i64,
) -> bool {
    let mark = prefix(provider) + workspace;
    let first = [clicks, arrivals].into_iter().filter_map(|table| table.txn(&mark)).max().map(from_value);
    first.is_some_and(|first| from_hour(first) <= hour)
}

/// The first hour that an event may have lines in.
fn from_hour(first: UtcMicros) -> i64 {
    first.hour() - HOURS_BEFORE
}

/// The first event made elsewhere, by workspace; of one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elsewhere(HashMap<String, UtcMicros>);

impl Elsewhere {
    /// What the lake remembers.
    pub(crate) fn read(provider: &str, clicks: &TableHandle, arrivals: &TableHandle) -> Self {
        let prefix = prefix(provider);
        let marks = clicks.txns_with_prefix(&prefix).chain(arrivals.txns_with_prefix(&prefix));
        marks.map(|(id, value)| (id[prefix.len()..].to_owned(), from_value(value))).collect()
    }

    /// The first hour in which there may be lines of any workspace's requests.
    pub(crate) fn first_hour(&self) -> Option<i64> {
        self.0.values().min().copied().map(from_hour)
    }

    /// As [`has_told`].
    pub(crate) fn has_told(&self, workspace: &str, hour: i64) -> bool {
        self.since(workspace).is_some_and(|first| from_hour(first) <= hour)
    }

    /// With events that may be so much older than they say.
    pub(crate) fn earlier(mut self, skew: Duration) -> Self {
        self.0.values_mut().for_each(|first| *first = first.minus(skew));
        self
    }

    /// The first of a workspace's links.
    pub(crate) fn since(&self, workspace: &str) -> Option<UtcMicros> {
        self.0.get(workspace).copied()
    }
}

impl FromIterator<(String, UtcMicros)> for Elsewhere {
    fn from_iter<I: IntoIterator<Item = (String, UtcMicros)>>(events: I) -> Self {
        let mut first = Self::default();
        for (workspace, time) in events {
            first.0.entry(workspace).and_modify(|known| *known = time.min(*known)).or_insert(time);
        }
        first
    }
}

/// The transactions by which `table` remembers these rows, as far as it doesn't know of earlier ones. None unless they
/// are events that stand for the origin's own.
pub(crate) fn raised(
    table: &TableHandle,
    provider: &str,
    rows: &[RecordBatch],
    arrivals: &[Arrival],
) -> Vec<(String, i64)> {
    if arrivals.iter().all(|arrival| arrival.kind.source() != Source::Origin) {
        return Vec::new();
    }
    let mut first: HashMap<&str, UtcMicros> = HashMap::new();
    let mut arrivals = arrivals.iter();
    for batch in rows {
        let workspaces = batch.column_by_name("workspace").and_then(|column| column.as_string_opt::<i32>());
        let Some(workspaces) = workspaces else { continue };
        for (workspace, arrival) in workspaces.iter().zip(arrivals.by_ref().take(batch.num_rows())) {
            if arrival.kind.source() == Source::Origin {
                let first = first.entry(workspace.unwrap_or_default()).or_insert(arrival.time);
                *first = arrival.time.min(*first);
            }
        }
    }
    let prefix = prefix(provider);
    let mut marks: Vec<(String, i64)> =
        first.into_iter().map(|(workspace, time)| (format!("{prefix}{workspace}"), to_value(time))).collect();
    marks.retain(|(id, value)| table.txn(id).is_none_or(|stored| stored < *value));
    marks.sort_unstable();
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_event_is_a_greater_value() {
        let (early, late) = (UtcMicros(1_000), UtcMicros(2_000));
        assert!(to_value(early) > to_value(late));
        assert_eq!(from_value(to_value(early)), early);
    }

    #[test]
    fn the_first_event_of_each_workspace_counts() {
        let events = [("w", 5), ("v", 9), ("w", 3)].map(|(who, at)| (who.to_owned(), UtcMicros(at * 1_000_000)));
        let first: Elsewhere = events.into_iter().collect();
        assert_eq!(first.since("w"), Some(UtcMicros(3_000_000)));
        assert_eq!(first.earlier(Duration::from_secs(1)).since("v"), Some(UtcMicros(8_000_000)));
        assert_eq!(Elsewhere::default().since("w"), None);
    }

    #[test]
    fn lines_may_be_an_hour_before_the_first_event() {
        let first: Elsewhere = [("w".to_owned(), UtcMicros(5 * schemas::time::HOUR))].into_iter().collect();
        let told = |hour| first.has_told("w", hour);
        assert_eq!((told(3), told(4), told(5), first.has_told("v", 5)), (false, true, true, false));
        assert_eq!(first.first_hour(), Some(4));
    }
}
