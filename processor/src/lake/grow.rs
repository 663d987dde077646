//! Files of `clicks` that are read and written batch by batch, for merges larger than memory should hold.
//!
//! A row group is made at a time; what is done of the file is kept packed until it is whole, so that a merge takes the
//! memory of its packed result and of a few batches.

use arrow::array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnPath;
use schemas::UtcMicros;

use super::columns::completed;
use super::read::{Reader, projected};
use super::stats::Running;
use super::write::{Encoded, ROW_GROUP_ROWS, event_times, properties};
use super::{DataFile, LakeError, NewFile, Span, TableHandle};

/// Rows of a batch of a stream: many files are read side by side.
const BATCH_ROWS: usize = 4 * 1024;

/// Room is made for so many rows at most before they have come.
const MOST_ROOM_ROWS: u64 = 2 << 20;

/// The batches of a file, in its order.
pub type Batches = BoxStream<'static, Result<RecordBatch, LakeError>>;

/// A file of `clicks` that grows. Until it is finished it is nowhere; afterwards it is part of no table until it is
/// committed.
#[derive(Debug)]
pub struct Growing {
    writer: ArrowWriter<Vec<u8>>,
    stats: Running,
    day: i32,
    rows: u64,
    columns: &'static [&'static str],
}

impl TableHandle {
    /// Reads columns of a file, in the file's order, a batch at a time; all of them when none are named.
    ///
    /// # Errors
    /// When the file can't be opened; the stream's, when it can't be read on.
    pub async fn batches(&self, file: &DataFile, columns: &[&str]) -> Result<Batches, LakeError> {
        let table = self.table();
        let failed = move |source| LakeError::Rows { table, doing: "reading rows", source };
        let store = std::sync::Arc::clone(&self.place.store);
        let reader = Reader { store, path: Path::from(file.path.as_str()), size: file.size };
        let opened = tokio::time::timeout(self.place.deadline(), ParquetRecordBatchStreamBuilder::new(reader)).await;
        let builder = opened.map_err(|_| self.place.too_late("reading rows"))?.map_err(failed)?;
        let batches = projected(builder, columns).with_batch_size(BATCH_ROWS).build().map_err(failed)?;
        let wanted: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let batches = batches.map(move |batch| {
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            Ok(completed(table, batch?, &wanted)?)
        });
        if file.rows <= BATCH_ROWS as u64 {
            // an open file holds a decompressor a column, far more than so few rows: it is read and closed at once
            let read = tokio::time::timeout(self.place.deadline(), batches.try_collect::<Vec<_>>()).await;
            let rows = read.map_err(|_| self.place.too_late("reading rows"))?.map_err(failed)?;
            return Ok(futures::stream::iter(rows.into_iter().map(Ok)).boxed());
        }
        let (place, deadline) = (self.place.clone(), self.place.deadline());
        Ok(futures::stream::unfold(batches, move |mut batches| {
            let place = place.clone();
            async move {
                match tokio::time::timeout(deadline, batches.try_next()).await {
                    Ok(Ok(Some(batch))) => Some((Ok(batch), batches)),
                    Ok(Ok(None)) => None,
                    Ok(Err(source)) => Some((Err(failed(source)), batches)),
                    Err(_) => Some((Err(place.too_late("reading rows")), batches)),
                }
            }
        })
        .boxed())
    }

    /// Finishes a file: whole and synced.
    ///
    /// # Errors
    /// As [`LakeError`] says; nothing is part of the table.
    pub async fn finish(&self, file: Growing) -> Result<NewFile, LakeError> {
        let failed = |source| LakeError::Rows { table: self.table(), doing: "encoding rows", source };
        let bytes = file.writer.into_inner().map_err(failed)?.into();
        self.put(Encoded { bytes, date: Some(file.day), stats: file.stats.finish(), rows: file.rows }).await
    }

    /// Begins a file of `clicks` with its first rows, all columns but `date`, in the table's order and all of one
    /// hour or day. `most` rows are expected in all.
    ///
    /// # Errors
    /// [`LakeError::Rows`] when they don't fit the table, or there are none.
    pub fn grow(&self, first: &RecordBatch, span: Span, most: u64) -> Result<Growing, LakeError> {
        let table = self.table();
        let failed = |source| LakeError::Rows { table, doing: "encoding rows", source };
        let begun = || {
            let none = || ParquetError::General("a file can't begin with no rows".to_owned());
            let day = UtcMicros(*event_times(first)?.values().first().ok_or_else(none)?).day();
            let distinct = most.min(ROW_GROUP_ROWS as u64);
            let properties = properties(table, first, span)?
                .into_builder()
                .set_column_bloom_filter_max_ndv(ColumnPath::from("click_id"), distinct)
                .build();
            // room for all of it at once: growing would copy it
            let room = Vec::with_capacity(most.min(MOST_ROOM_ROWS) as usize * 48);
            let writer = ArrowWriter::try_new(room, first.schema(), Some(properties))?;
            let columns = table.stats_columns();
            Ok(Growing { writer, stats: Running::default(), day, rows: 0, columns })
        };
        let mut growing = begun().map_err(failed)?;
        growing.push(first).map_err(failed)?;
        Ok(growing)
    }
}

impl Growing {
    /// Adds rows that come after those that are there.
    ///
    /// # Errors
    /// When they don't fit the table.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), ParquetError> {
        self.writer.write(rows)?;
        self.stats.add(rows, self.columns);
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::tests::{click, memory, rows};
    use schemas::tables::Table;
    use schemas::time::{DAY, SECOND};

    #[tokio::test]
    async fn a_file_that_grew_is_as_one_that_was_written_at_once() {
        let (lake, _) = memory();
        let mut clicks = lake.table(Table::Clicks).await.unwrap();
        let of = |n: i64| click(n as u128, 20_526 * DAY + n * SECOND, &format!("code{:05}", n));
        let all: Vec<_> = (0..9_000).map(of).collect();
        let mut growing = clicks.grow(&rows(&all[..10]), Span::Hour, 9_000).unwrap();
        for part in all[10..].chunks(1_000) {
            growing.push(&rows(part)).unwrap();
        }
        let grown = clicks.finish(growing).await.unwrap();
        let written = clicks.write_spanning(&[rows(&all)], Span::Day).await.unwrap().pop().unwrap();
        assert_eq!((grown.rows(), &grown.stats, grown.date), (written.rows(), &written.stats, written.date));
        clicks.commit(crate::lake::Change { add: vec![grown], ..Default::default() }).await.unwrap();
        let file = std::sync::Arc::clone(&clicks.files()[0]);
        let batches: Vec<RecordBatch> = clicks.batches(&file, &[]).await.unwrap().try_collect().await.unwrap();
        assert!(batches.len() > 1);
        let schema = batches[0].schema();
        assert_eq!(arrow::compute::concat_batches(&schema, &batches).unwrap(), rows(&all));
    }
}
