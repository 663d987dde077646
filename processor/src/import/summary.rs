//! What an import did with the lines of one file (interface §5).

use std::collections::BTreeMap;

use schemas::{Source, UtcMicros};
use serde::{Deserialize, Serialize};

use super::checks::{Checks, Noted};
use crate::settle::Mismatched;

/// Where an import stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Taken in, not begun.
    Queued,
    /// Under way.
    Running,
    /// Every line has met its fate, or waits in the lake.
    Done,
    /// Given up; what it did stays, and a repeat goes on from there.
    Failed,
    /// Being taken back: some of its rows may be gone.
    Reverting,
    /// Taken back: none of its lines counts.
    Reverted,
}

impl State {
    /// As it stands in a stored summary's text, which no other text of one can hold: quotes in them are escaped.
    pub(super) fn as_json(self) -> String {
        format!("\"state\":\"{}\"", self.as_str())
    }

    /// The word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Reverting => "reverting",
            Self::Reverted => "reverted",
        }
    }
}

/// Rows that came into `clicks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Answered by the edge.
    pub edge: u64,
    /// Reached the origin, but its event is missing.
    pub recovered: u64,
    /// Events that stand for the origin's own. Only where events were imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<u64>,
    /// Events of another product. Only where events were imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<u64>,
}

impl Added {
    /// Nothing yet, of a file of events.
    pub fn of_events() -> Self {
        Self { origin: Some(0), import: Some(0), ..Self::default() }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.edge + self.recovered + self.origin.unwrap_or_default() + self.import.unwrap_or_default()
    }

    /// Counts a row that came from `source`.
    pub(crate) fn add(&mut self, source: Source) {
        match source {
            Source::Edge => self.edge += 1,
            Source::Recovered => self.recovered += 1,
            Source::Origin => self.origin = self.origin.map(|n| n + 1),
            Source::Import => self.import = self.import.map(|n| n + 1),
        }
    }

    /// Nothing, of a file of the same sort.
    pub(super) fn none(&self) -> Self {
        if self.origin.is_some() { Self::of_events() } else { Self::default() }
    }

    /// What a file of the sort of `other` can have added: a log's row that its event has corrected is the event's.
    fn of_sort(mut self, other: &Self) -> Self {
        self.origin = self.origin.filter(|_| other.origin.is_some());
        self.import = self.import.filter(|_| other.import.is_some());
        self
    }

    /// Each count after `change`.
    fn map(self, mut change: impl FnMut(u64) -> u64) -> Self {
        Self {
            edge: change(self.edge),
            recovered: change(self.recovered),
            origin: self.origin.map(&mut change),
            import: self.import.map(&mut change),
        }
    }
}

/// Lines that are no clicks, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IgnoredLines {
    /// Another status than a redirect's.
    pub not_redirect: u64,
    /// Neither GET nor HEAD.
    pub method: u64,
    /// No link has this code.
    pub unknown_code: u64,
    /// A redirect that the edge made itself.
    pub edge_redirect: u64,
    /// The client left before an answer.
    pub aborted: u64,
    /// A shield's, subrequest's or background line.
    pub not_viewer: u64,
    /// The link is not counted.
    pub analytics_off: u64,
    /// Sampled away before.
    pub sampled: u64,
    /// Taken back with their whole import.
    #[serde(skip_serializing_if = "is_zero")]
    pub reverted: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl IgnoredLines {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.not_redirect
            + self.method
            + self.unknown_code
            + self.edge_redirect
            + self.aborted
            + self.not_viewer
            + self.analytics_off
            + self.sampled
            + self.reverted
    }

    /// Adds another count.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.not_redirect += other.not_redirect;
        self.method += other.method;
        self.unknown_code += other.unknown_code;
        self.edge_redirect += other.edge_redirect;
        self.aborted += other.aborted;
        self.not_viewer += other.not_viewer;
        self.analytics_off += other.analytics_off;
        self.sampled += other.sampled;
        self.reverted += other.reverted;
    }
}

/// What a dry run would add to one link on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// UTC date, or `domain/code`.
    pub of: String,
    /// Rows that would be added now.
    pub added: u64,
    /// Lines that would wait.
    pub waiting: u64,
}

/// The summary of one file.
///
/// `records = added + already_counted + waiting + ignored + rejected`, always.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The import's identity: the beginning of the content's hash.
    pub id: String,
    /// The file's name.
    pub name: String,
    /// What it was taken for.
    pub format: String,
    /// Where the import stands.
    pub state: State,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Lines of the file.
    pub lines: u64,
    /// Lines that describe others, or are empty.
    pub headers: u64,
    /// All other lines.
    pub records: u64,
    /// Rows that came into `clicks`.
    pub added: Added,
    /// Lines of requests that were rows already.
    pub already_counted: u64,
    /// Lines whose own event may still be on its way.
    pub waiting: u64,
    /// Lines that are no clicks.
    pub ignored: IgnoredLines,
    /// Lines that can't be counted, by reason; kept in table `rejects`.
    pub rejected: BTreeMap<String, u64>,
    /// Time of the first record.
    pub first: Option<UtcMicros>,
    /// Time of the last record.
    pub last: Option<UtcMicros>,
    /// How long it took.
    pub seconds: f64,
    /// Hours in which its request ids don't meet those of events: its lines of these wait for an operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatched: Vec<Mismatched>,
    /// What is odd about the lines, when it is more than one record in ten thousand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
    /// What was noted for the checks: kept with the stored summary, and shown to nobody.
    #[serde(default, skip_serializing)]
    pub noted: Noted,
    /// What a person should know, such as a file that ends in the middle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The import whose taking back makes this one be decided anew, or the provider and hour (`nginx 2026-…`) of which an
    /// operator's word does; its lines may be missing until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_for: Option<String>,
    /// Of a dry run: what would be added, by UTC day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<Vec<Planned>>,
    /// Of a dry run: what would be added, by link; the busiest hundred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<Planned>>,
}

impl Summary {
    /// A summary before the first line.
    pub fn new(id: String, name: String, format: String, dry_run: bool) -> Self {
        Self {
            id,
            name,
            format,
            state: State::Running,
            dry_run,
            lines: 0,
            headers: 0,
            records: 0,
            added: Added::default(),
            already_counted: 0,
            waiting: 0,
            ignored: IgnoredLines::default(),
            rejected: [("bad_timestamp".to_owned(), 0), ("no_request_id".to_owned(), 0)].into(),
            first: None,
            last: None,
            seconds: 0.0,
            mismatched: Vec::new(),
            checks: None,
            noted: Noted::default(),
            note: None,
            again_for: None,
            days: None,
            links: None,
        }
    }

    /// Lines rejected, whatever the reason.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// Whether every record has met exactly one fate.
    pub fn adds_up(&self) -> bool {
        let fates =
            self.added.total() + self.already_counted + self.waiting + self.ignored.total() + self.rejected_total();
        self.records == fates && self.lines == self.headers + self.records
    }

    /// Splits anew what was added, counted before, waits or was sampled away, by what the lake says; their sum stays.
    pub(crate) fn resplit(&mut self, added: Added, waiting: u64, sampled: u64) {
        let added = added.of_sort(&self.added);
        let sum = self.added.total() + self.already_counted + self.waiting + self.ignored.sampled;
        if let Some(counted) = sum.checked_sub(added.total() + waiting + sampled) {
            self.added = added;
            self.waiting = waiting;
            self.ignored.sampled = sampled;
            self.already_counted = counted;
        }
    }

    /// The same, with what the lake holds of it now: rows, and lines that wait; and how many were sampled away. The rest was
    /// counted by other records.
    pub(crate) fn with_held(mut self, added: Added, waiting: u64, sampled: u64) -> Self {
        if self.state == State::Reverted {
            return self;
        }
        let mut rest = self.settled() + self.ignored.sampled;
        let mut take = |count: u64| {
            let taken = count.min(rest);
            rest -= taken;
            taken
        };
        self.added = added.of_sort(&self.added).map(&mut take);
        self.waiting = take(waiting);
        self.ignored.sampled = take(sampled);
        self.already_counted = rest;
        self
    }

    /// The same, of whose rows some were removed, being older than their workspace keeps any: what the lake holds of it no
    /// longer tells what it brought. Of the lines that waited when it ended, so many still do.
    pub(crate) fn kept_no_longer(mut self, waiting: u64) -> Self {
        if !self.is_going() {
            let settled = self.waiting - waiting.min(self.waiting);
            self.waiting -= settled;
            self.already_counted += settled;
            self.note.get_or_insert_with(|| KEPT_NO_LONGER.to_owned());
        }
        self
    }

    /// The summary of an import that was taken back: what counted is ignored now.
    pub(crate) fn reverted(mut self) -> Self {
        self.ignored.reverted += self.settled();
        (self.added, self.already_counted, self.waiting) = (self.added.none(), 0, 0);
        (self.state, self.note, self.mismatched) = (State::Reverted, None, Vec::new());
        (self.checks, self.noted, self.again_for) = (None, Noted::default(), None);
        self
    }

    /// Whether its rows go, or have gone.
    pub(crate) fn is_going(&self) -> bool {
        matches!(self.state, State::Reverting | State::Reverted)
    }

    /// The same while lines are coming in: what the lake holds is all that is known. What the rest comes to, or would have
    /// come to, is not.
    pub(crate) fn so_far(self, added: Added, waiting: u64) -> Self {
        let added = added.of_sort(&self.added);
        let records = added.total() + waiting;
        let nothing = Self::new(self.id, self.name, self.format, self.dry_run);
        let (state, note, again_for, first, last) = (self.state, self.note, self.again_for, self.first, self.last);
        Self { state, note, again_for, first, last, added, waiting, records, lines: records, ..nothing }
    }

    /// Lines that count, now or later, by this import or another.
    fn settled(&self) -> u64 {
        self.records.saturating_sub(self.ignored.total() + self.rejected_total())
    }

    /// The summary of the same bytes once more: nothing is added; what does not wait still was counted before.
    pub(crate) fn repeated(mut self, waiting: u64) -> Self {
        let settled = self.settled();
        self.waiting = waiting.min(settled);
        self.already_counted = settled - self.waiting;
        self.added = self.added.none();
        self.mismatched = Vec::new();
        self
    }
}

/// Said of an import whose rows are no longer kept.
const KEPT_NO_LONGER: &str =
    "rows of it that are older than their workspace keeps any are gone; its counts are those of its end";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Summary {
        let mut summary = Summary::new("id".into(), "n".into(), "cloudfront-v1".into(), false);
        summary.lines = 22;
        summary.headers = 2;
        summary.records = 20;
        summary.added = Added { edge: 5, recovered: 1, ..Added::default() };
        summary.already_counted = 6;
        summary.waiting = 3;
        summary.ignored.method = 3;
        summary.rejected.insert("bad_timestamp".into(), 2);
        summary
    }

    #[test]
    fn the_json_is_the_contract() {
        let json = serde_json::to_value(sample()).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        for key in [
            "id",
            "name",
            "format",
            "state",
            "dry_run",
            "lines",
            "headers",
            "records",
            "added",
            "already_counted",
            "waiting",
            "ignored",
            "rejected",
            "first",
            "last",
            "seconds",
        ] {
            assert!(keys.contains(&key), "{key}");
        }
        assert_eq!(json["state"], "running");
        assert_eq!(json["added"]["recovered"], 1);
        assert_eq!(json["ignored"]["edge_redirect"], 0);
        assert!(json.get("note").is_none());
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), sample());
    }

    #[test]
    fn a_log_says_nothing_of_events_and_events_say_it_even_when_none_came() {
        let json = serde_json::to_value(sample()).unwrap();
        assert_eq!(json["added"], serde_json::json!({"edge": 5, "recovered": 1}));
        let mut events = Summary { added: Added::of_events(), ..sample() };
        events.added.add(Source::Import);
        let json = serde_json::to_value(events.repeated(0)).unwrap();
        assert_eq!(json["added"], serde_json::json!({"edge": 0, "recovered": 0, "origin": 0, "import": 0}));
    }

    #[test]
    fn a_repeat_adds_nothing_and_still_adds_up() {
        assert!(sample().adds_up());
        let again = sample().repeated(1);
        assert!(again.adds_up());
        assert_eq!((again.added, again.already_counted, again.waiting), (Added::default(), 14, 1));
        assert!(sample().repeated(99).adds_up());
        let now = sample().with_held(Added { edge: 6, recovered: 2, ..Added::default() }, 1, 0);
        assert!(now.adds_up() && now.already_counted == 6, "{now:?}");
        assert!(sample().with_held(Added { edge: 99, recovered: 2, ..Added::default() }, 1, 0).adds_up());
        let reverted = sample().reverted();
        assert!(reverted.adds_up() && reverted.ignored.reverted == 15, "{reverted:?}");
        assert_eq!(reverted.clone().with_held(Added::default(), 3, 0), reverted);
        let gone = sample().kept_no_longer(1);
        assert!(gone.adds_up() && gone.waiting == sample().waiting.min(1), "{gone:?}");
        assert!(gone.note.as_deref() == Some(KEPT_NO_LONGER) && gone.added == sample().added);
        assert_eq!(reverted.clone().kept_no_longer(0), reverted);
        let mut settled = sample();
        settled.resplit(Added { edge: 7, recovered: 2, ..Added::default() }, 0, 0);
        assert!(settled.adds_up());
        assert_eq!((settled.added.edge, settled.already_counted), (7, 6));
        let broken = sample().so_far(Added { edge: 4, ..Added::default() }, 1);
        assert!(broken.adds_up() && broken.first == sample().first, "{broken:?}");
        assert_eq!(
            (broken.records, broken.already_counted, broken.ignored.total(), broken.rejected_total()),
            (5, 0, 0, 0)
        );
    }

    #[test]
    fn lines_that_turn_out_to_be_sampled_away_are_ignored_and_no_longer_counted_elsewhere() {
        let mut summary = sample();
        summary.resplit(summary.added, 0, 3);
        assert!(summary.adds_up());
        assert_eq!((summary.ignored.sampled, summary.already_counted, summary.waiting), (3, 6, 0));
        let (added, again) = (summary.added, summary.clone());
        assert_eq!(again.with_held(added, 0, 3), summary, "as the lake says it again");
        let less = summary.clone().with_held(added, 1, 1);
        assert!(less.adds_up() && (less.ignored.sampled, less.already_counted) == (1, 7), "{less:?}");
        assert_eq!(summary.clone().repeated(0).ignored.sampled, 3);
        assert!(summary.reverted().adds_up());
    }
}
