//! The lake's tables: names, columns, partitioning. `clicks` itself is in [`crate::click`],
//! `clicks_hourly` in [`crate::hourly`].
//!
//! All instants are microseconds UTC, texts plain UTF-8, no nested types, so that any Delta or Parquet
//! reader opens them.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::class::UnknownWord;
use crate::class::vocabulary;
use crate::click::{self, timestamp};
use crate::hourly;
use crate::time::UtcMicros;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

vocabulary! {
    /// A Delta table of the lake; the word is its folder under the lake's root and its name in SQL.
    Table {
        /// One row per request served.
        Clicks = "clicks",
        /// What can't be counted yet, or isn't of the hot path.
        Arrivals = "arrivals",
        /// Lines and records that could not be read, with their bytes. Rows expire after seven days.
        Rejects = "rejects",
        /// One row per edge log taken in, with its summary.
        EdgeFiles = "edge_files",
        /// What was sampled away, by link, class and hour.
        ClicksHourly = "clicks_hourly",
        /// Spans of time in which clicks are known to be missing.
        Gaps = "gaps",
        /// Changes of numbers that were final.
        Restatements = "restatements",
        /// At which rates clicks of `internal` links were kept, where not all were.
        Sampling = "sampling",
    }
}

impl Table {
    /// All columns, the partition column last.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Clicks => Arc::clone(&click::SCHEMA),
            Self::Arrivals => Arc::clone(&ARRIVALS),
            Self::Rejects => Arc::clone(&REJECTS),
            Self::EdgeFiles => Arc::clone(&EDGE_FILES),
            Self::ClicksHourly => Arc::clone(&hourly::SCHEMA),
            Self::Gaps => Arc::clone(&GAPS),
            Self::Restatements => Arc::clone(&RESTATEMENTS),
            Self::Sampling => Arc::clone(&SAMPLING),
        }
    }

    /// The partition columns.
    pub fn partitioned_by(self) -> &'static [&'static str] {
        match self {
            Self::Clicks | Self::ClicksHourly => &["date"],
            _ => &[],
        }
    }

    /// Columns whose least and greatest values are kept in the log, for skipping files.
    pub fn stats_columns(self) -> &'static [&'static str] {
        match self {
            Self::Clicks | Self::Arrivals => &["event_time", "workspace", "code", "link_id"],
            Self::Rejects => &["at"],
            Self::EdgeFiles => &["first", "last"],
            Self::ClicksHourly => &["hour", "workspace", "code", "link_id"],
            Self::Gaps | Self::Restatements => &["start", "end"],
            Self::Sampling => &["second"],
        }
    }
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

fn instant(name: &str, nullable: bool) -> Field {
    Field::new(name, timestamp(), nullable)
}

fn count(name: &str) -> Field {
    Field::new(name, DataType::Int64, false)
}

/// `arrivals`: the columns of `clicks` without `date`, and
/// `provider` (whose edge the record is of; empty for none; with `/` and a workspace behind it if that one has uploaded
/// the log), `arrived_at`, `corrects`.
/// Column `source` says what a row will become: `edge` (the edge answered), `recovered` (an origin-class line;
/// counted only if its event never comes), `origin` (a late event). `weight` is 0 for a record of an `internal` link:
/// what it is found out to be when the record is settled ([`UNWEIGHED`]). `corrects`: its request is a row of `clicks`
/// already, which it knows better than; it waits for that row's file to be rewritten, and counts for nothing.
static ARRIVALS: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut fields: Vec<Field> = click::DATA_SCHEMA.fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.push(text("provider", false));
    fields.push(instant("arrived_at", false));
    fields.push(Field::new("corrects", DataType::Boolean, false));
    Arc::new(Schema::new(fields))
});

/// The `weight` of a record that may be sampled, until it is settled. No row of `clicks` has it.
pub const UNWEIGHED: f64 = 0.0;

/// Rows of `clicks` as rows of `arrivals`: with whose edge each is of, when they arrived, and whether they correct.
///
/// # Errors
/// When `rows` don't have the columns of `clicks`, or there are not as many providers.
pub fn arriving<'a>(
    rows: &RecordBatch,
    providers: impl IntoIterator<Item = &'a str>,
    arrived_at: UtcMicros,
    corrects: bool,
) -> Result<RecordBatch, ArrowError> {
    let count = rows.num_rows();
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    columns.push(Arc::new(StringArray::from_iter_values(providers)));
    columns.push(Arc::new(TimestampMicrosecondArray::from(vec![arrived_at.0; count]).with_timezone("UTC")));
    columns.push(Arc::new(BooleanArray::from(vec![corrects; count])));
    RecordBatch::try_new(Table::Arrivals.schema(), columns)
}

/// `rejects`: what could not be read. `origin` names a file or a journal; `number` is the line (from 1) or the
/// journal's position; `bytes` its first 4 KiB.
static REJECTS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        instant("at", false),
        text("workspace", false),
        text("import_id", true),
        text("origin", false),
        count("number"),
        text("reason", false),
        Field::new("bytes", DataType::Binary, false),
    ]))
});

/// `edge_files`: the logs taken in. `summary` is the JSON of interface §5 as it stood when the file was done; the
/// counts that may move as waiting lines settle are derived from `clicks` and `arrivals` by `import_id`. `location` is
/// where the file may be read again, `options` what the import was told (JSON). `origin_hours`: how many lines of each
/// hour since the epoch reached the origin, with a sample of their ids, and how many are of each workspace's links.
static EDGE_FILES: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        text("id", false),
        text("workspace", false),
        text("name", false),
        text("format", false),
        text("provider", false),
        text("source_name", true),
        text("sha256", false),
        count("records"),
        count("ignored"),
        count("rejected"),
        instant("first", true),
        instant("last", true),
        instant("imported_at", false),
        text("summary", false),
        text("location", true),
        text("options", false),
        text("origin_hours", true),
    ]))
});

/// `gaps`: from `start` to `end`, `lost` clicks are missing; null when nobody can tell how many.
static GAPS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        text("workspace", true),
        text("journal", false),
        instant("start", false),
        instant("end", false),
        Field::new("lost", DataType::Int64, true),
        text("reason", false),
        instant("recorded_at", false),
    ]))
});

/// `restatements`: a commit has changed numbers that were final, for a [reason](crate::restatement::Why). From `start` to `end`, both included, are the event
/// times of the rows that it `added`, `removed` or `changed`, all of one workspace (null: of any).
static RESTATEMENTS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        instant("restated_at", false),
        text("why", false),
        text("workspace", true),
        instant("start", false),
        instant("end", false),
        count("added"),
        count("removed"),
        count("changed"),
        text("import_id", true),
    ]))
});

/// `sampling`: in the second that begins at `second`, clicks of the link were kept at `rate` (above 0, below 1), as
/// `partition` has it: a partition of the stream, or `settler` for records that it settled. Where a second and link have
/// several rows the lowest rate counts, so that a row twice says no more than once. Written before the rows of `clicks` that
/// were kept at it.
static SAMPLING: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        text("workspace", false),
        text("link_id", false),
        instant("second", false),
        text("partition", false),
        Field::new("rate", DataType::Float64, false),
        instant("recorded_at", false),
    ]))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stats_and_partition_column_exists() {
        for table in Table::ALL {
            let schema = table.schema();
            for column in table.stats_columns().iter().chain(table.partitioned_by()) {
                assert!(schema.field_with_name(column).is_ok(), "{table}.{column}");
            }
        }
    }

    #[test]
    fn clicks_columns_are_the_contract() {
        let names: Vec<String> = Table::Clicks.schema().fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(
            names.join(" "),
            "click_id event_time ingest_time workspace link_id domain code revision destination source class agent \
             class_reason rules_version method status country region city device browser browser_version os \
             os_version import_id referrer utm_source utm_medium utm_campaign utm_term utm_content language \
             user_agent client_net visitor weight query private date"
        );
    }
}
