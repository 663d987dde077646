//! Many sorted files of `clicks` into one, in the memory of a batch of each.
//!
//! Each file is in the order of (workspace, code, event_time). A heap holds the next row of each; the least is taken,
//! again and again. Rows are compared as bytes made of the three columns, and copied in batches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use futures::StreamExt as _;
use schemas::tables::Table;

use super::error::SettleError;
use crate::lake::{Batches, DataFile, Growing, NewFile, Span, TableHandle};

/// The order of rows in a file.
const ORDER: [&str; 3] = ["workspace", "code", "event_time"];
/// Rows copied at once.
const OUT_ROWS: usize = 8 * 1024;

/// Merges `parts` into one file. All of one hour or day, as `span` says; there must be some.
pub(super) async fn merged(
    clicks: &TableHandle,
    parts: &[std::sync::Arc<DataFile>],
    span: Span,
) -> Result<Option<NewFile>, SettleError> {
    let rows: u64 = parts.iter().map(|part| part.rows).sum();
    let mut sources = Vec::with_capacity(parts.len());
    for part in parts {
        sources.push(clicks.batches(part, &[]).await?);
    }
    joined(clicks, sources, rows, span).await
}

/// Merges rows that each source has in order into one file; about `rows` in all, of one hour or day, as `span` says.
pub(super) async fn joined(
    clicks: &TableHandle,
    sources: Vec<Batches>,
    rows: u64,
    span: Span,
) -> Result<Option<NewFile>, SettleError> {
    let mut merge = Merge::new(sources)?;
    let mut growing: Option<Growing> = None;
    while let Some(batch) = merge.next().await? {
        match &mut growing {
            Some(growing) => growing.push(&batch).map_err(|e| rows_error(e.into()))?,
            None => growing = Some(clicks.grow(&batch, span, rows)?),
        }
    }
    match growing {
        Some(growing) => Ok(Some(clicks.finish(growing).await?)),
        None => Ok(None),
    }
}

fn rows_error(source: ArrowError) -> SettleError {
    SettleError::Rows { table: Table::Clicks, source }
}

/// A file being read: the batch that its next row is in, with that batch's keys.
struct Cursor {
    batches: Batches,
    keys: Option<Rows>,
    /// Position of the batch among those that rows are copied from.
    batch: usize,
    row: usize,
}

struct Merge {
    converter: RowConverter,
    cursors: Vec<Cursor>,
    /// The next row of each file that isn't read to its end, the least first.
    next: BinaryHeap<Reverse<(OwnedRow, usize)>>,
    /// Batches that rows are still to be copied from.
    batches: Vec<RecordBatch>,
    started: bool,
}

impl Merge {
    fn new(sources: Vec<Batches>) -> Result<Self, SettleError> {
        let schema = &schemas::click::DATA_SCHEMA;
        let fields = ORDER.iter().map(|name| Ok(SortField::new(schema.field_with_name(name)?.data_type().clone())));
        let fields: Result<Vec<SortField>, ArrowError> = fields.collect();
        let converter = fields.and_then(RowConverter::new).map_err(rows_error)?;
        let cursors = sources.into_iter().map(|batches| Cursor { batches, keys: None, batch: 0, row: 0 });
        let (cursors, next) = (cursors.collect(), BinaryHeap::new());
        Ok(Self { converter, cursors, next, batches: Vec::new(), started: false })
    }

    /// The next rows in order; `None` at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>, SettleError> {
        if !std::mem::replace(&mut self.started, true) {
            for file in 0..self.cursors.len() {
                self.read_on(file).await?;
            }
        }
        let mut taken: Vec<(usize, usize)> = Vec::with_capacity(OUT_ROWS);
        while taken.len() < OUT_ROWS {
            let Some(Reverse((_, file))) = self.next.pop() else { break };
            let cursor = &mut self.cursors[file];
            taken.push((cursor.batch, cursor.row));
            cursor.row += 1;
            let more = cursor.keys.as_ref().filter(|keys| cursor.row < keys.num_rows());
            match more.map(|keys| keys.row(cursor.row).owned()) {
                Some(key) => self.next.push(Reverse((key, file))),
                None => self.read_on(file).await?,
            }
        }
        if taken.is_empty() {
            return Ok(None);
        }
        let from: Vec<&RecordBatch> = self.batches.iter().collect();
        let out = interleave_record_batch(&from, &taken).map_err(rows_error)?;
        self.let_go();
        Ok(Some(out))
    }

    /// Goes on to a file's next batch.
    async fn read_on(&mut self, file: usize) -> Result<(), SettleError> {
        let cursor = &mut self.cursors[file];
        (cursor.keys, cursor.row) = (None, 0);
        while let Some(batch) = cursor.batches.next().await.transpose()? {
            if batch.num_rows() == 0 {
                continue;
            }
            let order: Result<Vec<usize>, ArrowError> =
                ORDER.iter().map(|name| batch.schema().index_of(name)).collect();
            let columns = order.and_then(|order| batch.project(&order)).map_err(rows_error)?;
            let keys = self.converter.convert_columns(columns.columns()).map_err(rows_error)?;
            self.next.push(Reverse((keys.row(0).owned(), file)));
            cursor.batch = self.batches.len();
            cursor.keys = Some(keys);
            self.batches.push(batch);
            break;
        }
        Ok(())
    }

    /// Lets go of batches that have been copied from for the last time.
    fn let_go(&mut self) {
        let mut kept = Vec::with_capacity(self.cursors.len());
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.keys.is_some()) {
            kept.push(self.batches[cursor.batch].clone());
            cursor.batch = kept.len() - 1;
        }
        self.batches = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::click;
    use crate::lake::{Change, Lake, LakeOptions};
    use arrow::array::AsArray as _;
    use arrow::datatypes::TimestampMicrosecondType;
    use object_store::memory::InMemory;
    use schemas::ClickBuilder;
    use std::sync::Arc;

    /// Files of several batches with links in common: every row comes out, once, in order.
    #[tokio::test]
    async fn rows_come_out_in_order_and_none_is_lost() {
        let url = url::Url::parse("memory:///lake").unwrap();
        let lake = Lake::with_store(Arc::new(InMemory::new()), url, LakeOptions::default()).unwrap();
        let mut clicks = lake.table(Table::Clicks).await.unwrap();
        let mut expected: Vec<(String, i64, u128)> = Vec::new();
        for file in 0..5u128 {
            let mut builder = ClickBuilder::new();
            for n in 0..(1 + file * 2_500) {
                let (id, time) = (file * 100_000 + n, (n as i64 * 7_919 + file as i64) % 3_600_000_000);
                let mut row = click(id, time);
                row.code = format!("code{}", (n * 31 + file) % 97).into();
                expected.push((row.code.to_string(), time, id));
                builder.push(&row);
            }
            let add = clicks.write(&builder.finish().unwrap()).await.unwrap();
            clicks.commit(Change { add, ..Change::default() }).await.unwrap();
        }
        let parts = clicks.files().to_vec();
        let add = merged(&clicks, &parts, Span::Hour).await.unwrap();
        let change = Change { add: add.into_iter().collect(), remove: parts, ..Change::default() };
        clicks.commit(change).await.unwrap();
        assert_eq!(clicks.files().len(), 1);
        let mut found = Vec::new();
        for batch in clicks.read(&clicks.files()[0], &["code", "event_time", "click_id"]).await.unwrap() {
            let codes = batch.column(0).as_string::<i32>();
            let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
            for (row, id) in super::super::ids::click_ids(&batch).enumerate() {
                found.push((codes.value(row).to_owned(), times.value(row), id.as_u128()));
            }
        }
        assert!(found.is_sorted_by(|a, b| (&a.0, a.1) <= (&b.0, b.1)));
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn files_of_before_columns_came_are_merged_with_later_ones() {
        let url = url::Url::parse("memory:///lake").unwrap();
        let lake = Lake::with_store(Arc::new(InMemory::new()), url, LakeOptions::default()).unwrap();
        let mut clicks = lake.table(Table::Clicks).await.unwrap();
        let new = schemas::Click { private: true, query: Some("ref=1".into()), ..click(2, 2) };
        let rows = [click(1, 1), new].map(|click| {
            let mut builder = ClickBuilder::new();
            builder.push(&click);
            (builder.finish().unwrap(), click)
        });
        let old: Vec<usize> = (0..rows[0].0.num_columns() - 2).collect();
        for batch in [rows[0].0.project(&old).unwrap(), rows[1].0.clone()] {
            let add = clicks.write(&batch).await.unwrap();
            clicks.commit(Change { add, ..Change::default() }).await.unwrap();
        }
        let parts = clicks.files().to_vec();
        let add = merged(&clicks, &parts, Span::Hour).await.unwrap();
        let change = Change { add: add.into_iter().collect(), remove: parts, ..Change::default() };
        clicks.commit(change).await.unwrap();
        let batch = clicks.read(&clicks.files()[0], &[]).await.unwrap().pop().unwrap();
        let read = schemas::ClickRows::of(&batch).unwrap();
        assert_eq!([read.row(0).unwrap(), read.row(1).unwrap()], rows.map(|(_, click)| click));
    }

    #[tokio::test]
    async fn nothing_merged_is_no_file() {
        let url = url::Url::parse("memory:///lake").unwrap();
        let lake = Lake::with_store(Arc::new(InMemory::new()), url, LakeOptions::default()).unwrap();
        let clicks = lake.table(Table::Clicks).await.unwrap();
        assert!(merged(&clicks, &[], Span::Day).await.unwrap().is_none());
    }
}
