//! Reading a table's log: from the last checkpoint on, then entry by entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{Int32Type, Int64Type};
use bytes::Bytes;
use object_store::path::Path;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use serde::Deserialize;

use super::LakeError;
use super::columns::MetaData;
use super::log::{Add, Line, Protocol, State, data_file, decode_path, parse};
use super::place::{LOG, Place};
use super::whole::{self, Sight};

/// How often a checkpoint that vanishes while it is read, or an entry that seems to be missing, is looked for anew.
pub(super) const LOOKS: usize = 3;
/// Time for others to end what they are at.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// `_last_checkpoint`, the hint that a checkpoint's writer leaves.
#[derive(Debug, Deserialize)]
pub(super) struct Hint {
    pub(super) version: i64,
    parts: Option<u64>,
}

/// An entry of the log that has been read.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) version: i64,
    pub(super) lines: Vec<Line>,
}

/// Loads the newest state; `None` when there is no table.
pub(super) async fn load(place: &Place) -> Result<Option<State>, LakeError> {
    let mut looks = 0..LOOKS;
    loop {
        let last_look = looks.next().is_none();
        let checkpoint = match hint(place).await? {
            Some(hint) if !last_look => Some(checkpoint_files(&hint)),
            // without a hint, or with one that leads nowhere
            _ => newest_checkpoint(place).await?,
        };
        let mut state = State { version: -1, checkpoint: -1, ..State::default() };
        if let Some((version, files)) = checkpoint {
            match read_checkpoint(place, version, &files).await? {
                Some(read) => state = read,
                None if !last_look => continue, // a clean-up took it: there is a newer one
                None => return Err(place.corrupt(&files[0], "the checkpoint that the log names is missing")),
            }
        }
        match follow(place, &mut state, |_| {}).await? {
            Sight::Newest { .. } => return Ok((state.version >= 0).then_some(state)),
            Sight::Gap { missing, known } if last_look => return Err(whole::error(place, missing, known)),
            _ if last_look => return Err(whole::error(place, state.version + 1, state.version + 1)),
            // others clean up meanwhile: not a gap unless it stays
            _ => tokio::time::sleep(BETWEEN_LOOKS).await,
        }
    }
}

/// Goes on from entry to entry, each handed to `passed`, until there is no next one, and says whether that is the log's
/// end.
pub(super) async fn follow(
    place: &Place,
    state: &mut State,
    mut passed: impl FnMut(Entry),
) -> Result<Sight, LakeError> {
    loop {
        let before = state.version;
        while let Some(entry) = next(place, state.version).await? {
            apply(place, state, &entry)?;
            passed(entry);
        }
        match whole::look(place, state.checkpoint, state.version).await? {
            // put while the names were read
            Sight::Behind if state.version > before => {}
            Sight::Newest { checkpoint } => {
                state.checkpoint = checkpoint;
                return Ok(Sight::Newest { checkpoint });
            }
            other => return Ok(other),
        }
    }
}

/// The entry after `version`, if there is one.
pub(super) async fn next(place: &Place, version: i64) -> Result<Option<Entry>, LakeError> {
    let path = Place::entry(version + 1);
    let Some(bytes) = place.get("reading its log", &path).await? else { return Ok(None) };
    let lines = parse(&bytes).map_err(|e| place.corrupt(&path, e))?;
    if lines.is_empty() {
        // no writer puts such an entry, and a put is whole when it can be seen: what it said is lost
        return Err(place.corrupt(&path, "the log entry is empty"));
    }
    Ok(Some(Entry { version: version + 1, lines }))
}

/// Goes on with `entry`.
pub(super) fn apply(place: &Place, state: &mut State, entry: &Entry) -> Result<(), LakeError> {
    match state.apply(entry.version, &entry.lines) {
        None => Ok(()),
        Some(refusal) => Err(place.corrupt(&Place::entry(entry.version), refusal)),
    }
}

/// The last checkpoint as its writer has noted it.
pub(super) async fn hint(place: &Place) -> Result<Option<Hint>, LakeError> {
    let path = Path::from(LOG).join("_last_checkpoint");
    let bytes = place.get("looking for its last checkpoint", &path).await?;
    // the hint is a shortcut: one that can't be understood is as good as none
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn checkpoint_files(hint: &Hint) -> (i64, Vec<Path>) {
    let version = hint.version;
    let names: Vec<String> = match hint.parts {
        None => vec![format!("{version:020}.checkpoint.parquet")],
        Some(parts) => (1..=parts).map(|n| format!("{version:020}.checkpoint.{n:010}.{parts:010}.parquet")).collect(),
    };
    (version, names.into_iter().map(|name| Path::from(LOG).join(name)).collect())
}

/// The version that a log file's name begins with, and the rest of the name.
pub(super) fn name_of(path: &Path) -> Option<(i64, &str)> {
    let (version, rest) = path.filename()?.split_once('.')?;
    (version.len() == 20).then_some((version.parse().ok()?, rest))
}

/// Whether the rest of a log file's name says that it is a whole checkpoint.
pub(super) fn is_checkpoint(rest: &str) -> bool {
    rest == "checkpoint.parquet"
}

/// The newest whole checkpoint there is, by its name.
async fn newest_checkpoint(place: &Place) -> Result<Option<(i64, Vec<Path>)>, LakeError> {
    let files = place.list("listing its log", Some(&Path::from(LOG))).await?;
    let newest = files.iter().filter_map(|meta| name_of(&meta.location)).filter(|(_, rest)| is_checkpoint(rest));
    Ok(newest.map(|(version, _)| version).max().map(|version| checkpoint_files(&Hint { version, parts: None })))
}

/// The state of a checkpoint; `None` when a file of it is missing.
async fn read_checkpoint(place: &Place, version: i64, files: &[Path]) -> Result<Option<State>, LakeError> {
    let mut state = State { version, checkpoint: version, ..State::default() };
    for path in files {
        let Some(bytes) = place.get("reading its checkpoint", path).await? else { return Ok(None) };
        let batches = tokio::task::spawn_blocking(move || decode(bytes))
            .await
            .map_err(|e| place.corrupt(path, e))?
            .map_err(|e| place.corrupt(path, e))?;
        for batch in &batches {
            take_rows(&mut state, batch).map_err(|reason| place.corrupt(path, reason))?;
        }
    }
    Ok(Some(state))
}

/// The columns of a checkpoint that matter here.
const COLUMNS: [&str; 5] = ["add", "remove", "txn", "protocol", "metaData"];

fn decode(bytes: Bytes) -> Result<Vec<RecordBatch>, parquet::errors::ParquetError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options)?;
    let roots = builder.parquet_schema().root_schema().get_fields();
    let wanted: Vec<usize> =
        roots.iter().enumerate().filter(|(_, field)| COLUMNS.contains(&field.name())).map(|(n, _)| n).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
    builder.with_projection(mask).build()?.collect::<Result<Vec<_>, _>>().map_err(Into::into)
}

/// A field of a checkpoint's column; the reader has given it the type that the protocol says.
struct Column<'a>(&'a StructArray);

impl<'a> Column<'a> {
    fn of(batch: &'a RecordBatch, name: &str) -> Option<Self> {
        batch.column_by_name(name)?.as_struct_opt().map(Column)
    }

    fn is_set(&self, row: usize) -> bool {
        self.0.is_valid(row)
    }

    fn text(&self, name: &str, row: usize) -> Option<&'a str> {
        let column = self.0.column_by_name(name)?.as_string_opt::<i32>()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn long(&self, name: &str, row: usize) -> Option<i64> {
        let column = self.0.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn int(&self, name: &str, row: usize) -> Option<i32> {
        let column = self.0.column_by_name(name)?.as_primitive_opt::<Int32Type>()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn texts(&self, name: &str, row: usize) -> HashMap<String, Option<String>> {
        let Some(map) = self.0.column_by_name(name).and_then(|column| column.as_map_opt()) else {
            return HashMap::new();
        };
        let entries = map.value(row);
        let (Some(keys), Some(values)) =
            (entries.column(0).as_string_opt::<i32>(), entries.column(1).as_string_opt::<i32>())
        else {
            return HashMap::new();
        };
        (0..entries.len())
            .map(|n| (keys.value(n).to_owned(), values.is_valid(n).then(|| values.value(n).to_owned())))
            .collect()
    }
}

fn take_rows(state: &mut State, batch: &RecordBatch) -> Result<(), String> {
    let [add, remove, txn, protocol, meta_data] = COLUMNS.map(|name| Column::of(batch, name));
    let lacks = |what: &str| format!("a row of the checkpoint lacks {what}");
    for row in 0..batch.num_rows() {
        if let Some(add) = add.as_ref().filter(|column| column.is_set(row)) {
            state.files.push(Arc::new(data_file(&Add {
                path: add.text("path", row).ok_or_else(|| lacks("add.path"))?.to_owned(),
                partition_values: add.texts("partitionValues", row),
                size: add.long("size", row).ok_or_else(|| lacks("add.size"))?,
                modification_time: add.long("modificationTime", row).unwrap_or(0),
                data_change: false,
                stats: add.text("stats", row).map(str::to_owned),
            })));
        }
        if let Some(remove) = remove.as_ref().filter(|column| column.is_set(row)) {
            let path = remove.text("path", row).ok_or_else(|| lacks("remove.path"))?;
            state.dead.insert(decode_path(path), remove.long("deletionTimestamp", row).unwrap_or(0));
        }
        if let Some(txn) = txn.as_ref().filter(|column| column.is_set(row)) {
            let id = txn.text("appId", row).ok_or_else(|| lacks("txn.appId"))?;
            let version = txn.long("version", row).ok_or_else(|| lacks("txn.version"))?;
            state.txns.insert(id.to_owned(), version);
        }
        if let Some(protocol) = protocol.as_ref().filter(|column| column.is_set(row)) {
            let asked = Protocol {
                min_reader_version: protocol.int("minReaderVersion", row).ok_or_else(|| lacks("protocol"))?,
                min_writer_version: protocol.int("minWriterVersion", row).ok_or_else(|| lacks("protocol"))?,
            };
            asked.refusal().map_or(Ok(()), Err)?;
        }
        if let Some(meta) = meta_data.as_ref().filter(|column| column.is_set(row)) {
            state.meta = Some(Arc::new(MetaData {
                id: meta.text("id", row).ok_or_else(|| lacks("metaData.id"))?.to_owned(),
                schema_string: meta.text("schemaString", row).ok_or_else(|| lacks("metaData.schemaString"))?.to_owned(),
                configuration: meta.texts("configuration", row),
                created_time: meta.long("createdTime", row),
            }));
        }
    }
    Ok(())
}
