//! Writing data files: rows sorted and split, Parquet made in memory, put, and described for the log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, BooleanArray, PrimitiveArray, RecordBatch, StringArray, new_null_array,
};
use arrow::compute::{concat_batches, filter_record_batch, interleave};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::{DAY, HOUR};
use uuid::Uuid;

use super::log::text_of_day;
use super::stats::{self, Stats};
use super::{LakeError, TableHandle};

/// Rows of a row group: small enough to skip within a day's file, big enough to read fast.
pub(super) const ROW_GROUP_ROWS: usize = 128 * 1024;
/// Rows of a page, the smallest part that a reader can skip.
const PAGE_ROWS: usize = 20_000;

/// Files encoded and put at once.
const FILES_AT_ONCE: usize = 4;

/// A file that is written and synced, and part of no table until it is committed.
#[derive(Clone, Debug)]
pub struct NewFile {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) date: Option<i32>,
    pub(super) stats: String,
    pub(super) written: UtcMicros,
    rows: u64,
}

impl NewFile {
    /// Its path within the table.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// How much time one file of `clicks` may span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// One UTC hour: until its day is final.
    Hour,
    /// One UTC day: afterwards.
    Day,
}

/// A file before it is put.
pub(super) struct Encoded {
    pub(super) bytes: Bytes,
    pub(super) date: Option<i32>,
    pub(super) stats: String,
    pub(super) rows: u64,
}

impl TableHandle {
    /// Writes `rows` (all columns of the table but `date`) as data files: of `clicks` one for each UTC hour, sorted by
    /// (workspace, code, event_time); of `clicks_hourly` one for each day, of any other table one, both in the order given.
    /// No rows, no files.
    ///
    /// # Errors
    /// As [`LakeError`] says; nothing is part of the table.
    pub async fn write(&self, rows: &RecordBatch) -> Result<Vec<NewFile>, LakeError> {
        self.write_spanning(std::slice::from_ref(rows), Span::Hour).await
    }

    /// As [`TableHandle::write`], of several batches, with files of `clicks` that span an hour or a whole day.
    ///
    /// # Errors
    /// As [`LakeError`] says; nothing is part of the table.
    pub async fn write_spanning(&self, rows: &[RecordBatch], span: Span) -> Result<Vec<NewFile>, LakeError> {
        let (table, rows) = (self.table(), rows.to_vec());
        let parts = self.apart(move || parts(table, &rows, span)).await?;
        let files = parts.into_iter().map(|(rows, date)| async move {
            let encoded = self.apart(move || encode(table, &rows, date, span)).await?;
            self.put(encoded).await
        });
        futures::stream::iter(files).buffered(FILES_AT_ONCE).try_collect().await
    }

    /// Does work that takes its time where that is allowed.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ParquetError> + Send + 'static,
    ) -> Result<T, LakeError> {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|panic| Err(ParquetError::External(Box::new(panic)))).map_err(|source| LakeError::Rows {
            table: self.table(),
            doing: "encoding rows",
            source,
        })
    }

    /// Whether a commit of `files` that ended in `failure` surely hasn't landed, and won't: the log names none of them, and
    /// nothing of it can still be under way, as it can in a store behind a network, or when an answer was not waited for.
    pub(crate) async fn is_surely_not_landed(&mut self, failure: &LakeError, files: &[&NewFile]) -> bool {
        let is_over = !matches!(failure, LakeError::Deadline { .. });
        if !is_over || self.lake().root().scheme() != "file" || self.refresh().await.is_err() {
            return false;
        }
        !self.files().iter().any(|live| files.iter().any(|file| file.path == live.path))
    }

    /// Deletes files that no commit has named, or ever will: what was begun is given up. One that can't be deleted now is
    /// cleaned up with others later.
    pub(crate) async fn discard(&self, files: impl Iterator<Item = &NewFile>) {
        let paths = files.map(|file| Path::from(file.path.as_str())).collect();
        if let Err(failure) = self.place.delete("deleting what was given up", paths).await {
            tracing::warn!(%failure, "files of a change that was given up stay for a while");
        }
    }

    pub(super) async fn put(&self, file: Encoded) -> Result<NewFile, LakeError> {
        let name = format!("{}.parquet", Uuid::now_v7());
        let path = match file.date {
            Some(day) => format!("date={}/{name}", text_of_day(day)),
            None => name,
        };
        let (size, written) = (file.bytes.len() as u64, UtcMicros::now());
        self.place.put("writing rows", &Path::from(path.as_str()), file.bytes).await?;
        Ok(NewFile { path, size, date: file.date, stats: file.stats, written, rows: file.rows })
    }
}

/// The rows of each file to be, with its day.
fn parts(table: Table, rows: &[RecordBatch], span: Span) -> Result<Vec<(RecordBatch, Option<i32>)>, ParquetError> {
    let rows: Vec<&RecordBatch> = rows.iter().filter(|batch| batch.num_rows() > 0).collect();
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    if table != Table::Clicks {
        let all = concat_batches(&first.schema(), rows)?;
        return if table == Table::ClicksHourly { by_day(&all) } else { Ok(vec![(all, None)]) };
    }
    let parts = split(&rows, span)?.into_iter().map(|part| {
        let day = event_times(&part)?.values().first().map(|&time| UtcMicros(time).day());
        Ok((part, day))
    });
    parts.collect()
}

pub(super) fn event_times(rows: &RecordBatch) -> Result<&PrimitiveArray<TimestampMicrosecondType>, ParquetError> {
    times(rows, "event_time")
}

fn times<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a PrimitiveArray<TimestampMicrosecondType>, ParquetError> {
    let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt());
    column.ok_or_else(|| ParquetError::General(format!("rows lack their {name}")))
}

/// The rows of each day, in their order.
fn by_day(rows: &RecordBatch) -> Result<Vec<(RecordBatch, Option<i32>)>, ParquetError> {
    let days: Vec<i32> = times(rows, "hour")?.values().iter().map(|&hour| UtcMicros(hour).day()).collect();
    let each: BTreeSet<i32> = days.iter().copied().collect();
    let of_day = |day: i32| {
        let mask: BooleanArray = days.iter().map(|other| Some(*other == day)).collect();
        Ok((filter_record_batch(rows, &mask)?, Some(day)))
    };
    each.into_iter().map(of_day).collect()
}

/// The rows of each hour or day, each part sorted by (workspace, code, event_time).
fn split(rows: &[&RecordBatch], span: Span) -> Result<Vec<RecordBatch>, ParquetError> {
    let length = match span {
        Span::Hour => HOUR,
        Span::Day => DAY,
    };
    let mut links = ranks(rows)?.into_iter();
    // A row is one number, which says its place in the order and then where it is: link (32 bits), time within the
    // period (40), batch (24), row (32). Numbers are sorted twice as fast as what they are made of.
    let mut periods: BTreeMap<i64, Vec<u128>> = BTreeMap::new();
    for (batch, number) in rows.iter().zip(0u128..) {
        for ((&time, link), row) in event_times(batch)?.values().iter().zip(links.by_ref()).zip(0u128..) {
            let within = time.rem_euclid(length) as u128;
            let key = u128::from(link) << 96 | within << 56 | number << 32 | row;
            periods.entry(time.div_euclid(length)).or_default().push(key);
        }
    }
    let part = |mut order: Vec<u128>| {
        order.sort_unstable();
        let from = order.into_iter().map(|key| ((key >> 32) as usize & 0xff_ffff, key as u32 as usize));
        gathered(rows, &from.collect::<Vec<_>>())
    };
    periods.into_values().map(part).collect()
}

/// The rows at these places (batch, row). Of a column that is null throughout nothing needs to be looked at.
fn gathered(rows: &[&RecordBatch], from: &[(usize, usize)]) -> Result<RecordBatch, ParquetError> {
    let schema = rows[0].schema();
    let column = |number: usize| {
        let parts: Vec<&dyn Array> = rows.iter().map(|batch| &**batch.column(number)).collect();
        match parts.iter().all(|part| part.null_count() == part.len()) {
            true => Ok(new_null_array(schema.field(number).data_type(), from.len())),
            false => interleave(&parts, from),
        }
    };
    let columns: Result<Vec<ArrayRef>, _> = (0..schema.fields().len()).map(column).collect();
    Ok(RecordBatch::try_new(Arc::clone(&schema), columns?)?)
}

fn text<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a StringArray, ParquetError> {
    let column = rows.column_by_name(name).and_then(|column| column.as_string_opt());
    column.ok_or_else(|| ParquetError::General(format!("rows of clicks lack their {name}")))
}

/// Each row's place in the order of (workspace, code): links are few, so numbers are compared instead of texts.
fn ranks(rows: &[&RecordBatch]) -> Result<Vec<u32>, ParquetError> {
    let mut numbers: HashMap<(&str, &str), u32, ahash::RandomState> = HashMap::default();
    let mut of_rows: Vec<u32> = Vec::with_capacity(rows.iter().map(|batch| batch.num_rows()).sum());
    for batch in rows {
        let (workspaces, codes) = (text(batch, "workspace")?, text(batch, "code")?);
        for row in 0..batch.num_rows() {
            let next = numbers.len() as u32;
            of_rows.push(*numbers.entry((workspaces.value(row), codes.value(row))).or_insert(next));
        }
    }
    let mut links: Vec<((&str, &str), u32)> = numbers.into_iter().collect();
    links.sort_unstable();
    let mut ranks = vec![0u32; links.len()];
    for (rank, (_, number)) in (0u32..).zip(links) {
        ranks[number as usize] = rank;
    }
    of_rows.iter_mut().for_each(|number| *number = ranks[*number as usize]);
    Ok(of_rows)
}

fn encode(table: Table, rows: &RecordBatch, date: Option<i32>, span: Span) -> Result<Encoded, ParquetError> {
    let mut bytes = Vec::with_capacity(rows.num_rows() * 48 + 4_096);
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties(table, rows, span)?))?;
    writer.write(rows)?;
    writer.close()?;
    let stats = stats::of_batch(rows, table.stats_columns());
    debug_assert_eq!(Stats::parse(&stats).rows, rows.num_rows() as u64);
    Ok(Encoded { bytes: bytes.into(), date, stats, rows: rows.num_rows() as u64 })
}

pub(super) fn properties(table: Table, rows: &RecordBatch, span: Span) -> Result<WriterProperties, ParquetError> {
    // files of an hour are soon rewritten; a day's stays
    let level = if span == Span::Day { 3 } else { 1 };
    let id = ColumnPath::from("click_id");
    let mut properties = WriterProperties::builder()
        .set_created_by(super::commit::ENGINE.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Page);
    // Rows stand in the order of links: within a page other texts are anything, and comparing them all is a tenth of
    // what a row costs.
    for field in rows.schema_ref().fields().iter().filter(|field| *field.data_type() == DataType::Utf8) {
        if !table.stats_columns().contains(&field.name().as_str()) {
            let column = ColumnPath::from(field.name().as_str());
            properties = properties.set_column_statistics_enabled(column, EnabledStatistics::None);
        }
    }
    if table == Table::ClicksHourly {
        // no two sketches are alike, and nobody looks for one
        let sketch = ColumnPath::from("visitors");
        properties = properties
            .set_column_dictionary_enabled(sketch.clone(), false)
            .set_column_statistics_enabled(sketch, EnabledStatistics::None);
    }
    if matches!(table, Table::Clicks | Table::Arrivals) {
        // Every id differs, and most visitors and instants do: a dictionary would only be in the way. Of the networks in an
        // hour's file most do too; in a day's they come again.
        let all_differ: &[&str] = match span {
            Span::Hour => &["click_id", "event_time", "visitor", "client_net"],
            Span::Day => &["click_id", "event_time", "visitor"],
        };
        for column in all_differ {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(*column), false);
        }
        properties = properties
            .set_column_compression(id.clone(), Compression::UNCOMPRESSED)
            .set_column_statistics_enabled(id.clone(), EnabledStatistics::None)
            .set_column_bloom_filter_enabled(id.clone(), true)
            .set_column_bloom_filter_max_ndv(id, rows.num_rows().min(ROW_GROUP_ROWS) as u64);
    }
    if table == Table::Clicks {
        let order = ["workspace", "code", "event_time"].iter().map(|name| {
            let column = rows.schema_ref().index_of(name)? as i32;
            Ok(SortingColumn { column_idx: column, descending: false, nulls_first: true })
        });
        let order: Result<Vec<_>, arrow::error::ArrowError> = order.collect();
        properties = properties.set_sorting_columns(Some(order?));
    }
    Ok(properties.build())
}
