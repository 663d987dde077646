//! Parquet files, as CloudFront's version 2 writes them, row by row: each row a line of JSON under its columns' names,
//! without what is null. What the rows mean is for [`super::cloudfront_v2_json`].
//!
//! # Invariants
//! * A few hundred rows are held, and the pages that they are on. Texts are not copied out of these before they are
//!   written, so that a page that repeats a long one costs no more than it has bytes.
//! * Rows come in the file's order: a line's number is its row's.
//!
//! # Failure
//! A file that is damaged, or packed as this build can't read, is an error that says so. The library may panic on
//! bytes that no writer wrote; that becomes such an error as well.

use std::fmt::{self, Write as _};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, BinaryViewArray, RecordBatch, RecordBatchReader as _, StringViewArray};
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

const MAGIC: &[u8; 4] = b"PAR1";
/// The shortest file: magic bytes at both ends and a footer's length.
const SHORTEST: u64 = 12;
/// Rows held at once.
const ROWS: usize = 512;
/// How much of a text is written: a line that has more is over any limit.
const LONGEST_TEXT: usize = 128 << 10;
/// Most bytes of lines for each byte of the file, once so many have come out: small files may repeat as they like.
const RATIO: u64 = 500;
const RATIO_FROM: u64 = 64 << 20;

/// Bytes of lines held at once, but for one row's.
const READY: usize = 256 << 10;

/// The rows of a Parquet file as lines of JSON.
pub struct Rows {
    batches: ParquetRecordBatchReader,
    /// Rows that have been read, and which of them is the next to be written.
    batch: Option<(RecordBatch, usize)>,
    /// Each column's name, as JSON.
    names: Vec<String>,
    ready: Vec<u8>,
    at: usize,
    rows: u64,
    of_rows: u64,
    file_bytes: u64,
    /// Bytes of lines made so far.
    made: u64,
}

/// Whether a file is one.
///
/// # Errors
/// When it can't be read, or is the beginning of one.
pub(super) fn is_parquet(file: &impl ChunkReader) -> io::Result<bool> {
    let bytes = file.len();
    if bytes < SHORTEST {
        return Ok(false);
    }
    let magic = MAGIC.len() as u64;
    let at = |at| file.get_bytes(at, MAGIC.len()).map_err(io::Error::other);
    let (first, next, last) = (at(0)?, at(magic)?, at(bytes - magic)?);
    if first.as_ref() != MAGIC {
        return Ok(false);
    }
    // Behind the first magic bytes there is a page's header, which is no text.
    if last.as_ref() != MAGIC && next.first().is_some_and(|byte| byte.is_ascii_control()) {
        return Err(damaged("it is cut short, as its last bytes aren't those that every such file ends with"));
    }
    Ok(last.as_ref() == MAGIC)
}

/// What the library says, as an error of reading.
fn damaged(why: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this Parquet file makes no sense: {why}"))
}

/// Runs the library, which may panic on damaged bytes.
fn guarded<T, E: fmt::Display>(work: impl FnOnce() -> Result<T, E>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(damaged),
        Err(_) => Err(damaged("it is damaged where that can't be told")),
    }
}

impl Rows {
    /// Reads the footer.
    pub(super) fn open<R: ChunkReader + 'static>(file: R) -> io::Result<Self> {
        let file_bytes = file.len();
        guarded(|| {
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let read = ArrowReaderMetadata::load(&file, options.clone())?;
            let schema = Arc::new(viewed(read.schema()));
            let metadata = ArrowReaderMetadata::try_new(Arc::clone(read.metadata()), options.with_schema(schema))?;
            let flat =
                metadata.schema().fields().iter().enumerate().filter(|(_, field)| !field.data_type().is_nested());
            let flat = ProjectionMask::roots(metadata.parquet_schema(), flat.map(|(at, _)| at).collect::<Vec<_>>());
            let of_rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
            let batches = builder.with_projection(flat).with_batch_size(ROWS).build()?;
            let names = batches_names(&batches);
            let (batch, ready, at, rows, made) = (None, Vec::new(), 0, 0, 0);
            Ok::<_, ParquetError>(Self { batches, batch, names, ready, at, rows, of_rows, file_bytes, made })
        })
    }

    /// How much of the file has been read, in bytes, as far as its rows tell.
    pub(super) fn position(&self) -> u64 {
        let share = self.rows as f64 / self.of_rows.max(1) as f64;
        (self.file_bytes as f64 * share.min(1.0)) as u64
    }

    /// Makes lines of the next rows; `false` when there are none.
    fn next_rows(&mut self) -> io::Result<bool> {
        (self.ready, self.at) = (Vec::new(), 0);
        let (batch, from) = match self.batch.take() {
            Some(held) => held,
            None => match guarded(|| self.batches.next().transpose())? {
                Some(batch) => (batch, 0),
                None => return Ok(false),
            },
        };
        let written = write_lines(&batch, from, &self.names, &mut self.ready)?;
        self.rows += written as u64;
        if from + written < batch.num_rows() {
            self.batch = Some((batch, from + written));
        }
        self.made += self.ready.len() as u64;
        if self.made > RATIO_FROM && self.made / RATIO > self.file_bytes {
            return Err(damaged(format_args!("its rows come to more than {RATIO} times its size, the limit")));
        }
        Ok(true)
    }
}

/// The schema with texts as views into their pages.
fn viewed(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let kind = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(kind)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

fn batches_names(batches: &ParquetRecordBatchReader) -> Vec<String> {
    let schema = batches.schema();
    schema.fields().iter().map(|field| serde_json::Value::from(field.name().as_str()).to_string()).collect()
}

/// A column's values, as text.
enum Texts<'a> {
    Text(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
    Shown(ArrayFormatter<'a>),
}

/// Writes rows from `from` on, until there are enough bytes. Returns how many it has written.
fn write_lines(batch: &RecordBatch, from: usize, names: &[String], out: &mut Vec<u8>) -> io::Result<usize> {
    let options = FormatOptions::default().with_display_error(true);
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Ok(Texts::Text(column.as_string_view())),
        DataType::BinaryView => Ok(Texts::Bytes(column.as_binary_view())),
        _ => ArrayFormatter::try_new(column, &options).map(Texts::Shown).map_err(damaged),
    });
    let columns = columns.collect::<io::Result<Vec<_>>>()?;
    let mut shown = String::new();
    let mut row = from;
    while row < batch.num_rows() && out.len() < READY {
        let mut mark = b'{';
        for ((column, texts), name) in batch.columns().iter().zip(&columns).zip(names) {
            if column.is_null(row) {
                continue;
            }
            out.push(mark);
            mark = b',';
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            match texts {
                Texts::Text(texts) => write_text(cut(texts.value(row)), out)?,
                Texts::Bytes(bytes) => {
                    let bytes = bytes.value(row);
                    write_text(&String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_TEXT)]), out)?;
                }
                Texts::Shown(texts) => {
                    shown.clear();
                    write!(shown, "{}", texts.value(row)).map_err(damaged)?;
                    write_text(&shown, out)?;
                }
            }
        }
        if mark == b'{' {
            out.push(mark);
        }
        out.extend_from_slice(b"}\n");
        row += 1;
    }
    Ok(row - from)
}

fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(LONGEST_TEXT)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn write_text(text: &str, out: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::other)
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("rows", &self.rows).field("of_rows", &self.of_rows).finish_non_exhaustive()
    }
}

impl Read for Rows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() {
            if !self.next_rows()? {
                return Ok(0);
            }
        }
        let ready = &self.ready[self.at..];
        let read = ready.len().min(buffer.len());
        buffer[..read].copy_from_slice(&ready[..read]);
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
