//! Rows of the side tables of an import: `rejects` and `edge_files`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray as _, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::error::ArrowError;
use schemas::UtcMicros;
use schemas::tables::Table;

use super::summary::Summary;
use super::tally::RejectedLine;
use crate::lake::{Change, Span, TableHandle};
use crate::settle::SettleError;
use crate::settle::take_out::without;

/// What the side tables say of an import.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) import_id: Arc<str>,
    pub(super) name: String,
    pub(super) workspace: String,
    pub(super) provider: String,
    /// How `arrivals` knows its records: by the provider, and the tenant if one has uploaded them.
    pub(super) brought: String,
    pub(super) source: Option<String>,
    pub(super) sha256: String,
    /// Where the file can be read again.
    pub(super) location: Option<String>,
    /// What the import was told, as JSON.
    pub(super) options: String,
}

/// Rows of `rejects`.
pub(super) fn rejects(origin: &Origin, lines: &[RejectedLine], at: UtcMicros) -> Result<RecordBatch, ArrowError> {
    let same = |text: &str| Arc::new(StringArray::from(vec![text; lines.len()])) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        instants(vec![Some(at.0); lines.len()]),
        same(&origin.workspace),
        same(&origin.import_id),
        same(&origin.name),
        Arc::new(lines.iter().map(|line| Some(line.number as i64)).collect::<Int64Array>()),
        Arc::new(lines.iter().map(|line| Some(line.reason)).collect::<StringArray>()),
        Arc::new(lines.iter().map(|line| Some(&line.bytes[..])).collect::<BinaryArray>()),
    ];
    RecordBatch::try_new(Table::Rejects.schema(), columns)
}

/// The row of `edge_files`.
pub(super) fn edge_file(
    origin: &Origin,
    summary: &Summary,
    origin_hours: Option<String>,
    at: UtcMicros,
) -> Result<RecordBatch, ArrowError> {
    let text = |text: Option<&str>| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let count = |count: u64| Arc::new(Int64Array::from(vec![count as i64])) as ArrayRef;
    let instant = |time: Option<UtcMicros>| instants(vec![time.map(|time| time.0)]);
    let json = stored_json(summary).map_err(|e| ArrowError::JsonError(e.to_string()))?;
    let columns: Vec<ArrayRef> = vec![
        text(Some(&origin.import_id)),
        text(Some(&origin.workspace)),
        text(Some(&origin.name)),
        text(Some(&summary.format)),
        text(Some(&origin.provider)),
        text(origin.source.as_deref()),
        text(Some(&origin.sha256)),
        count(summary.records),
        count(summary.ignored.total()),
        count(summary.rejected_total()),
        instant(summary.first),
        instant(summary.last),
        instant(Some(at)),
        text(Some(&json)),
        text(origin.location.as_deref()),
        text(Some(&origin.options)),
        text(origin_hours.as_deref()),
    ];
    RecordBatch::try_new(Table::EdgeFiles.schema(), columns)
}

/// A change that takes the rows out of a small table whose text in `column` is `id`.
pub(super) async fn room_for(table: &TableHandle, column: &str, id: &str) -> Result<Change, SettleError> {
    let gone = HashSet::from([id]);
    let unfit = |source| SettleError::Rows { table: table.table(), source };
    let (mut remove, mut rest) = (Vec::new(), Vec::new());
    for file in table.files() {
        let of = table.read(file, &[column]).await?;
        let has = |batch: &RecordBatch| {
            batch.column(0).as_string_opt::<i32>().is_some_and(|ids| ids.iter().flatten().any(|of| of == id))
        };
        if !of.iter().any(has) {
            continue;
        }
        let batches = table.read(file, &[]).await?;
        let kept: Result<Vec<RecordBatch>, ArrowError> =
            batches.iter().map(|batch| without(batch, column, &gone)).collect();
        let kept = kept.map_err(unfit)?;
        remove.push(Arc::clone(file));
        rest.extend(kept);
    }
    Ok(Change { add: table.write_spanning(&rest, Span::Day).await?, remove, ..Change::default() })
}

/// A change that gives rows of `edge_files` other summaries, by the import's id.
pub(super) async fn told_anew(
    edge_files: &TableHandle,
    summaries: &HashMap<String, Summary>,
) -> Result<Change, SettleError> {
    let unfit = |source| SettleError::Rows { table: Table::EdgeFiles, source };
    let (mut remove, mut rest) = (Vec::new(), Vec::new());
    for file in edge_files.files() {
        let batches = edge_files.read(file, &[]).await?;
        let named = |batch: &RecordBatch| {
            let ids = batch.column_by_name("id").and_then(|column| column.as_string_opt::<i32>());
            ids.is_some_and(|ids| ids.iter().flatten().any(|id| summaries.contains_key(id)))
        };
        if batches.iter().any(named) {
            remove.push(Arc::clone(file));
            for batch in &batches {
                rest.push(with_summaries(batch, summaries).map_err(unfit)?);
            }
        }
    }
    Ok(Change { add: edge_files.write_spanning(&rest, Span::Day).await?, remove, ..Change::default() })
}

fn with_summaries(batch: &RecordBatch, summaries: &HashMap<String, Summary>) -> Result<RecordBatch, ArrowError> {
    let text = |name: &str| {
        let column = batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        column.ok_or_else(|| ArrowError::SchemaError(format!("{name} is missing, or no text")))
    };
    let (ids, texts) = (text("id")?, text("summary")?);
    let told = ids.iter().zip(texts).map(|(id, before)| match id.and_then(|id| summaries.get(id)) {
        Some(summary) => stored_json(summary).map_err(|e| ArrowError::JsonError(e.to_string())),
        None => Ok(before.unwrap_or_default().to_owned()),
    });
    let told: Result<Vec<String>, ArrowError> = told.collect();
    let mut columns = batch.columns().to_vec();
    columns[batch.schema().index_of("summary")?] = Arc::new(StringArray::from(told?));
    RecordBatch::try_new(batch.schema(), columns)
}

/// A summary as it is stored: with what was noted for its checks.
fn stored_json(summary: &Summary) -> Result<String, serde_json::Error> {
    let mut json = serde_json::to_value(summary)?;
    json["noted"] = serde_json::to_value(summary.noted)?;
    Ok(json.to_string())
}

fn instants(micros: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn origin() -> Origin {
        Origin {
            import_id: "abc".into(),
            name: "f.log".into(),
            workspace: "default".into(),
            provider: "nginx".into(),
            brought: "nginx".into(),
            source: None,
            sha256: "abcdef".into(),
            location: Some("/logs/f.log".into()),
            options: "{}".into(),
        }
    }

    #[test]
    fn rows_fit_their_tables() {
        let lines = [
            RejectedLine { number: 3, reason: "bad_json", bytes: Bytes::from_static(b"{\xff") },
            RejectedLine { number: 9, reason: "too_long", bytes: Bytes::new() },
        ];
        let batch = rejects(&origin(), &lines, UtcMicros(5)).unwrap();
        assert_eq!(batch.num_rows(), 2);
        assert_eq!(batch.column_by_name("bytes").unwrap().as_binary::<i32>().value(0), b"{\xff");
        assert_eq!(batch.column_by_name("reason").unwrap().as_string::<i32>().value(1), "too_long");

        let mut summary = Summary::new("abc".into(), "f.log".into(), "nginx-json".into(), false);
        summary.noted.eventless = 7;
        let batch = edge_file(&origin(), &summary, None, UtcMicros(5)).unwrap();
        let json = batch.column_by_name("summary").unwrap().as_string::<i32>().value(0).to_owned();
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    }
}
