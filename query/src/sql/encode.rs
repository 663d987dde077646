//! Batches of rows as bytes of the format asked for.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::csv;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::writer::{JsonArray, LineDelimited, WriterBuilder};
use arrow::util::pretty::pretty_format_batches;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

/// Rows of a Parquet row group: few enough that one fits into memory with ease.
const ROW_GROUP: usize = 64 * 1024;

/// A format of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An array of row objects.
    Json,
    /// A row object a line.
    NdJson,
    /// Comma-separated, with a header.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// A Parquet file.
    Parquet,
    /// A table for people. Held in memory as a whole.
    Table,
}

impl Format {
    /// Formats that HTTP clients can ask for; the first is the default.
    pub(crate) const OFFERED: &'static [Self] = &[Self::Json, Self::NdJson, Self::Csv, Self::Arrow, Self::Parquet];

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::NdJson => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Table => "text/plain",
        }
    }

    /// Whether a column's name is a key, so that two can't share it.
    pub(crate) fn needs_distinct_names(self) -> bool {
        !matches!(self, Self::Csv | Self::Table)
    }
}

/// Why rows could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}

/// Bytes written and not yet taken.
#[derive(Clone, Debug, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

enum Writer {
    Json(arrow::json::Writer<Sink, JsonArray>),
    NdJson(arrow::json::Writer<Sink, LineDelimited>),
    Csv(Box<csv::Writer<Sink>>),
    Arrow(StreamWriter<Sink>),
    Parquet(Box<ArrowWriter<Sink>>),
    Table(Vec<RecordBatch>),
}

/// Writes batches of one schema.
pub(crate) struct Encoder {
    schema: SchemaRef,
    sink: Sink,
    writer: Writer,
}

impl Encoder {
    /// An encoder for batches of `schema`.
    pub(crate) fn new(format: Format, schema: &SchemaRef) -> Result<Self, EncodeError> {
        let schema = plain(schema);
        let sink = Sink::default();
        let json = || WriterBuilder::new().with_explicit_nulls(true);
        let writer = match format {
            Format::Json => Writer::Json(json().build(sink.clone())),
            Format::NdJson => Writer::NdJson(json().build(sink.clone())),
            Format::Csv => Writer::Csv(Box::new(csv::WriterBuilder::new().with_header(true).build(sink.clone()))),
            Format::Arrow => Writer::Arrow(StreamWriter::try_new(sink.clone(), &schema)?),
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(Default::default()))
                    .set_max_row_group_row_count(Some(ROW_GROUP))
                    .build();
                let writer = ArrowWriter::try_new(sink.clone(), Arc::clone(&schema), Some(properties))?;
                Writer::Parquet(Box::new(writer))
            }
            Format::Table => Writer::Table(Vec::new()),
        };
        let mut encoder = Self { schema, sink, writer };
        if format == Format::Csv {
            // the header is there even when no row is
            encoder.write(&RecordBatch::new_empty(Arc::clone(&encoder.schema)))?;
        }
        Ok(encoder)
    }

    /// Takes in rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let columns: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => cast(column, field.data_type()),
            })
            .collect::<Result<_, _>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        match &mut self.writer {
            Writer::Json(writer) => writer.write(&batch)?,
            Writer::NdJson(writer) => writer.write(&batch)?,
            Writer::Csv(writer) => writer.write(&batch)?,
            Writer::Arrow(writer) => writer.write(&batch)?,
            Writer::Parquet(writer) => writer.write(&batch)?,
            Writer::Table(batches) => batches.push(batch),
        }
        Ok(())
    }

    /// What has been written since the last call.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.sink.take()
    }

    /// Ends the answer, and returns its last bytes.
    pub(crate) fn finish(self) -> Result<Vec<u8>, EncodeError> {
        match self.writer {
            Writer::Json(mut writer) => writer.finish()?,
            Writer::NdJson(mut writer) => writer.finish()?,
            Writer::Csv(writer) => drop(writer),
            Writer::Arrow(mut writer) => writer.finish()?,
            Writer::Parquet(writer) => drop(writer.close()?),
            Writer::Table(batches) => {
                let empty = [RecordBatch::new_empty(self.schema)];
                let table = pretty_format_batches(if batches.is_empty() { &empty } else { &batches })?;
                return Ok(format!("{table}\n").into_bytes());
            }
        }
        Ok(self.sink.take())
    }
}

/// The schema with columns of plain types: older readers know no views, dictionaries save nothing here, and all times
/// are shown in UTC.
fn plain(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema
        .fields()
        .iter()
        .map(|field| match plain_type(field.data_type()) {
            Some(data_type) => Arc::new(Field::new(field.name(), data_type, field.is_nullable())),
            None => Arc::clone(field),
        })
        .collect();
    Arc::new(Schema::new(fields))
}

fn plain_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        DataType::Dictionary(_, value) => Some(plain_type(value).unwrap_or_else(|| value.as_ref().clone())),
        // a time without a zone is one of UTC here
        DataType::Timestamp(unit, zone) if zone.as_deref() != Some("UTC") => {
            Some(DataType::Timestamp(*unit, Some("UTC".into())))
        }
        _ => None,
    }
}

/// Whole rows in one go.
pub(crate) fn encode(format: Format, batch: &RecordBatch) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder::new(format, &batch.schema())?;
    encoder.write(batch)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Float64Array, Int64Array, StringViewArray, TimestampMicrosecondArray};

    fn batch(rows: usize) -> RecordBatch {
        let columns: [(&str, ArrayRef); 5] = [
            ("id", Arc::new(BinaryArray::from_vec(vec![&[0u8, 171]]))),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_773_480_413_123_456]).with_timezone("UTC"))),
            ("big", Arc::new(Int64Array::from(vec![i64::MAX]))),
            ("share", Arc::new(Float64Array::from(vec![0.5]))),
            ("text", Arc::new(StringViewArray::from(vec![None::<&str>]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap().slice(0, rows)
    }

    fn text(format: Format, rows: usize) -> String {
        String::from_utf8(encode(format, &batch(rows)).unwrap()).unwrap()
    }

    #[test]
    fn json_has_times_in_utc_whole_numbers_and_hex() {
        let row =
            r#"{"id":"00ab","at":"2026-03-14T09:26:53.123456Z","big":9223372036854775807,"share":0.5,"text":null}"#;
        assert_eq!(text(Format::Json, 1), format!("[{row}]"));
        assert_eq!(text(Format::NdJson, 1), format!("{row}\n"));
        assert_eq!(text(Format::Json, 0), "[]");
        assert_eq!(text(Format::NdJson, 0), "");
    }

    #[test]
    fn csv_has_its_header_even_without_rows() {
        assert_eq!(text(Format::Csv, 0), "id,at,big,share,text\n");
        let row = "00ab,2026-03-14T09:26:53.123456Z,9223372036854775807,0.5,\n";
        assert_eq!(text(Format::Csv, 1), format!("id,at,big,share,text\n{row}"));
    }

    #[test]
    fn binary_formats_are_read_back() {
        let arrow = encode(Format::Arrow, &batch(1)).unwrap();
        let reader = arrow::ipc::reader::StreamReader::try_new(arrow.as_slice(), None).unwrap();
        let read: Vec<RecordBatch> = reader.collect::<Result<_, _>>().unwrap();
        assert_eq!(read[0].column(4).data_type(), &DataType::Utf8, "no views");
        let parquet = bytes::Bytes::from(encode(Format::Parquet, &batch(1)).unwrap());
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(parquet, 10).unwrap();
        let again: Vec<RecordBatch> = reader.collect::<Result<_, _>>().unwrap();
        assert_eq!(again[0].columns(), read[0].columns());
    }

    #[test]
    fn a_table_has_its_head_even_without_rows() {
        assert!(text(Format::Table, 0).contains("big"));
        assert!(text(Format::Table, 1).contains("00ab"));
    }
}
