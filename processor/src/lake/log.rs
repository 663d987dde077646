//! Lines of the Delta log as far as this lake uses them, and the state that follows from them. Pure.
//!
//! Own lines rather than the library's: every commit of this lake is read by every handle, and each needs no more
//! than files, removals and transactions. Whatever else a line holds is skipped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use schemas::UtcMicros;
use schemas::time::DAY;
use serde::{Deserialize, Serialize};

use super::columns::MetaData;
use super::stats::Stats;

/// A data file of a table, as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Its path within the table.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// Its rows; 0 when the log doesn't say.
    pub rows: u64,
    /// Of a table partitioned by date: the days since 1970 that all its rows belong to.
    pub date: Option<i32>,
    /// No row is before this, by the table's time columns; `None` when the log doesn't say.
    pub min_time: Option<UtcMicros>,
    /// No row is after this.
    pub max_time: Option<UtcMicros>,
    /// When it was written, milliseconds since 1970.
    pub written_ms: i64,
}

impl DataFile {
    /// Whether rows between `from` and `to`, both included, may be in this file.
    pub fn may_hold(&self, from: UtcMicros, to: UtcMicros) -> bool {
        self.min_time.is_none_or(|min| min <= to) && self.max_time.is_none_or(|max| max >= from)
    }

    /// Whether all its rows are known to be of one UTC hour.
    pub fn is_one_hour(&self) -> bool {
        matches!((self.min_time, self.max_time), (Some(min), Some(max)) if min.hour() == max.hour())
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    pub(super) path: String,
    pub(super) partition_values: HashMap<String, Option<String>>,
    pub(super) size: i64,
    pub(super) modification_time: i64,
    #[serde(default)]
    pub(super) data_change: bool,
    pub(super) stats: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remove {
    pub(super) path: String,
    #[serde(default)]
    pub(super) deletion_timestamp: Option<i64>,
    #[serde(default)]
    pub(super) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) partition_values: Option<HashMap<String, Option<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Txn {
    pub(super) app_id: String,
    pub(super) version: i64,
    #[serde(default)]
    pub(super) last_updated: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub(super) min_reader_version: i32,
    pub(super) min_writer_version: i32,
}

impl Protocol {
    /// What this lake's tables ask of their readers and writers; more than this is another program's doing.
    pub(super) const OURS: Self = Self { min_reader_version: 1, min_writer_version: 2 };

    /// Why a table of this protocol can't be used, if it can't.
    pub(super) fn refusal(&self) -> Option<String> {
        let fits = self.min_reader_version <= Self::OURS.min_reader_version
            && self.min_writer_version <= Self::OURS.min_writer_version;
        (!fits).then(|| {
            format!(
                "the table was upgraded to reader version {} and writer version {}; {} and {} are understood",
                self.min_reader_version,
                self.min_writer_version,
                Self::OURS.min_reader_version,
                Self::OURS.min_writer_version
            )
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommitInfo {
    #[serde(default)]
    pub(super) timestamp: i64,
    #[serde(default)]
    pub(super) operation: String,
    #[serde(default)]
    pub(super) operation_parameters: HashMap<String, serde_json::Value>,
    #[serde(default)]
    pub(super) engine_info: String,
    /// Names this very commit, so that it is known again when its answer was lost.
    #[serde(default)]
    pub(super) txn_id: Option<String>,
}

/// One line: exactly one of its fields is set, or none that matters here.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit_info: Option<CommitInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<Protocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) meta_data: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) add: Option<Add>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remove: Option<Remove>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) txn: Option<Txn>,
}

/// Reads the lines of one commit.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Line>, serde_json::Error> {
    serde_json::Deserializer::from_slice(bytes).into_iter().collect()
}

/// Writes the lines of one commit.
pub(super) fn print(lines: &[Line]) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::with_capacity(lines.len() * 512);
    for line in lines {
        serde_json::to_writer(&mut bytes, line)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// A path as the log spells it (a URI) as a path within the table.
pub(super) fn decode_path(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// A table at one version.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) version: i64,
    /// The newest checkpoint known; -1 without one.
    pub(super) checkpoint: i64,
    pub(super) files: Vec<Arc<DataFile>>,
    pub(super) txns: BTreeMap<String, i64>,
    /// What the log says of the table itself.
    pub(super) meta: Option<Arc<MetaData>>,
    /// Files that were removed, with the time of it in milliseconds, as long as the log remembers.
    pub(super) dead: HashMap<String, i64>,
}

impl State {
    /// Goes on to `version`, whose commit is `lines`. Returns why the table can't be used any more, if so.
    pub(super) fn apply(&mut self, version: i64, lines: &[Line]) -> Option<String> {
        let gone: HashSet<String> =
            lines.iter().filter_map(|line| line.remove.as_ref()).map(|r| decode_path(&r.path)).collect();
        if !gone.is_empty() {
            self.files.retain(|file| !gone.contains(&file.path));
        }
        let mut refusal = None;
        for line in lines {
            if let Some(add) = &line.add {
                let file = data_file(add);
                self.dead.remove(&file.path);
                self.files.push(Arc::new(file));
            }
            if let Some(remove) = &line.remove {
                self.dead.insert(decode_path(&remove.path), remove.deletion_timestamp.unwrap_or(0));
            }
            if let Some(txn) = &line.txn {
                self.txns.insert(txn.app_id.clone(), txn.version);
            }
            if let Some(meta) = &line.meta_data {
                self.meta = MetaData::deserialize(meta).ok().map(Arc::new);
            }
            if let Some(protocol) = &line.protocol {
                refusal = refusal.or(protocol.refusal());
            }
        }
        self.version = version;
        refusal
    }
}

/// What the log says of a file.
pub(super) fn data_file(add: &Add) -> DataFile {
    let stats = add.stats.as_deref().map(Stats::parse).unwrap_or_default();
    let date = add.partition_values.get("date").and_then(|value| day_of(value.as_deref()?));
    DataFile {
        path: decode_path(&add.path),
        size: add.size.max(0) as u64,
        rows: stats.rows,
        date,
        min_time: stats.min_time.or(date.map(|day| UtcMicros(i64::from(day) * DAY))),
        max_time: stats.max_time.or(date.map(|day| UtcMicros((i64::from(day) + 1) * DAY - 1))),
        written_ms: add.modification_time,
    }
}

/// The days since 1970 of `2026-03-14`.
fn day_of(text: &str) -> Option<i32> {
    let date: chrono::NaiveDate = text.parse().ok()?;
    i32::try_from(date.signed_duration_since(chrono::NaiveDate::default()).num_days()).ok()
}

/// The text of a day as the log spells partitions.
pub(super) fn text_of_day(day: i32) -> String {
    UtcMicros(i64::from(day) * DAY).to_datetime().format("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_go_there_and_back() {
        for day in [-1, 0, 19_000, 20_526] {
            assert_eq!(day_of(&text_of_day(day)), Some(day));
        }
        assert_eq!(text_of_day(20_526), "2026-03-14");
    }

    #[test]
    fn a_state_follows_its_lines_and_skips_what_it_does_not_know() {
        let text = br#"{"commitInfo":{"timestamp":5,"operation":"WRITE","somethingNew":{"a":1}}}
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"x"}}
{"add":{"path":"date=2026-03-14/a%20b.parquet","partitionValues":{"date":"2026-03-14"},"size":7,"modificationTime":9,"dataChange":true}}
{"txn":{"appId":"stream/x","version":4}}
{"cdc":{"path":"z"}}
"#;
        let mut state = State::default();
        assert_eq!(state.apply(3, &parse(text).unwrap()), None);
        assert_eq!(state.version, 3);
        assert_eq!(state.txns.get("stream/x"), Some(&4));
        let file = &state.files[0];
        assert_eq!((file.path.as_str(), file.date, file.size), ("date=2026-03-14/a b.parquet", Some(20_526), 7));
        // without statistics the partition still bounds the time
        assert!(file.may_hold(UtcMicros(20_526 * DAY), UtcMicros(20_526 * DAY)));
        assert!(!file.may_hold(UtcMicros(20_527 * DAY), UtcMicros(20_528 * DAY)));

        let gone = br#"{"remove":{"path":"date=2026-03-14/a%20b.parquet","deletionTimestamp":11,"dataChange":true}}"#;
        assert_eq!(state.apply(4, &parse(gone).unwrap()), None);
        assert!(state.files.is_empty());
        assert_eq!(state.dead.get("date=2026-03-14/a b.parquet"), Some(&11));
    }

    #[test]
    fn a_table_that_asks_for_more_is_refused() {
        let lines =
            parse(br#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["x"]}}"#).unwrap();
        assert!(State::default().apply(1, &lines).unwrap().contains("reader version 3"));
    }

    #[test]
    fn a_cut_log_entry_is_an_error() {
        assert!(parse(br#"{"txn":{"appId":"a","ver"#).is_err());
    }
}
