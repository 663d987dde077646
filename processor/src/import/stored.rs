//! Imports as the lake remembers them: the rows of `edge_files`, and what has become of their lines since.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use ingest::edge::clock::{EARLIEST, LATEST};
use ingest::events;
use schemas::UtcMicros;
use schemas::tables::Table;
use serde::Serialize;

use super::options::ImportOptions;
use super::posts::POSTED;
use super::recount::{Held, held_of, sampled};
use super::run::ID_DIGITS;
use super::summary::{State, Summary};
use crate::lake::{Lake, LakeError, TableHandle};
use crate::settle::guard::open_among;
use crate::settle::retain::RETAINED;

/// As it stands in the text of a summary that has one.
const AGAIN_FOR: &str = "\"again_for\":\"";

/// An import that has ended, or whose lines are coming in.
#[derive(Clone, Debug, Serialize)]
pub struct Stored {
    /// What became of its lines.
    #[serde(flatten)]
    pub summary: Summary,
    /// Whose it is; an operator's is of workspace `default`.
    pub workspace: String,
    /// The provider whose lines they are.
    pub provider: String,
    /// The continuous source that it belongs to.
    pub source_name: Option<String>,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Where the file could be read.
    pub location: Option<String>,
    /// When it ended; of one whose lines are coming in, when it began.
    pub imported_at: UtcMicros,
    /// Whether its lines are coming in, or whoever brought them was killed; how many there are nobody knows.
    #[serde(skip)]
    pub is_begun: bool,
    /// What it was told; none if in words that this version doesn't know.
    #[serde(skip)]
    pub options: Option<ImportOptions>,
}

impl Stored {
    /// Whether it is no file but what is posted in a day: then the lake alone knows its lines.
    pub(super) fn is_posts(&self) -> bool {
        self.sha256.is_empty()
    }

    /// Whether its records are events made elsewhere.
    pub(super) fn is_of_events(&self) -> bool {
        self.summary.format == events::FORMAT
    }

    /// Says so of an import that is done but for its last chunk. Returns whether it is one.
    fn note_broken_off(&mut self, broken: &HashSet<String>) -> bool {
        let is_broken = self.summary.state == State::Done && broken.contains(&self.summary.id);
        if is_broken {
            self.summary.state = State::Running;
            self.summary.note =
                Some("its last lines haven't come into the lake yet; if nobody is at it, import the file again".into());
        }
        is_broken
    }

    /// Whether it is posts of which the lake says what they come to. Those of a day that were taken back are, once more has
    /// been posted under the same name.
    fn are_posts(&mut self, held: &Held) -> bool {
        if self.is_posts() && self.summary.state == State::Reverted && !held.is_empty() {
            (self.summary.state, self.summary.note) = (State::Done, Some(POSTED.to_owned()));
        }
        self.is_posts() && self.summary.state != State::Reverted
    }

    /// Between which times its rows may be.
    pub fn span(&self) -> (UtcMicros, UtcMicros) {
        self.times().unwrap_or((EARLIEST, LATEST))
    }

    /// The workspace of whose links alone its rows are; none: they may be of any.
    pub fn owner(&self) -> Option<&str> {
        match &self.options {
            Some(options) => options.workspace.as_deref(),
            None if self.is_posts() => Some(&self.workspace),
            None => None,
        }
    }

    /// Between which times its rows are; none where it has none.
    pub(super) fn times(&self) -> Option<(UtcMicros, UtcMicros)> {
        let is_unknown = self.is_begun || self.summary.state == State::Reverting && self.summary.first.is_none();
        if self.is_posts() || is_unknown { Some((EARLIEST, LATEST)) } else { self.summary.first.zip(self.summary.last) }
    }
}

/// The imports of a lake as they stand now, the oldest first; only the one named `id` if that is given.
///
/// # Errors
/// When the lake can't be read.
pub async fn stored(lake: &Lake, id: Option<&str>) -> Result<Vec<Stored>, LakeError> {
    let edge_files = lake.table(Table::EdgeFiles).await?;
    let mut imports = rows(&edge_files).await?;
    imports.retain(|import| id.is_none_or(|id| import.summary.id == id));
    imports.sort_by_key(|import| import.imported_at);
    // What waits is read first: a line that settles in between is in both, and never in neither.
    let arrivals = lake.table(Table::Arrivals).await?;
    let clicks = lake.table(Table::Clicks).await?;
    refreshed(imports, &edge_files, &clicks, &arrivals).await
}

/// The imports of which lines may be missing, the oldest first, as `edge_files` has them: being taken back, to be decided
/// anew because another was taken back, that failed at it, or not all of whose lines have come into the lake.
///
/// # Errors
/// When the lake can't be read.
pub async fn unfinished(lake: &Lake) -> Result<Vec<Stored>, LakeError> {
    let edge_files = lake.table(Table::EdgeFiles).await?;
    if edge_files.files().is_empty() {
        return Ok(Vec::new());
    }
    let (arrivals, clicks) = (lake.table(Table::Arrivals).await?, lake.table(Table::Clicks).await?);
    let broken = broken_off(&edge_files, &clicks, &arrivals);
    // most rows are of imports that are over, and needn't be read as a whole
    let is_over = |batch: &RecordBatch, row: usize| {
        let text = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>().map(|column| column.value(row));
        let ended = |told: &str| [State::Done, State::Reverted].iter().any(|state| told.contains(&state.as_json()));
        text("summary").is_some_and(ended) && text("id").is_none_or(|id| !broken.contains(id))
    };
    let mut imports = Vec::new();
    for file in edge_files.files() {
        for batch in edge_files.read(file, &[]).await? {
            let rows = (0..batch.num_rows()).filter(|row| !is_over(&batch, *row));
            imports.extend(rows.filter_map(|row| read(&batch, row)));
        }
    }
    for import in &mut imports {
        import.note_broken_off(&broken);
    }
    imports.retain(|import| !matches!(import.summary.state, State::Done | State::Reverted));
    imports.sort_by_key(|import| import.imported_at);
    Ok(imports)
}

/// The imports that are being taken back, and those to be decided anew, as `edge_files` has them: numbers may show half of
/// it.
///
/// # Errors
/// When the table can't be read.
pub async fn changing(edge_files: &TableHandle) -> Result<Vec<Stored>, LakeError> {
    let reverting = State::Reverting.as_json();
    let mut imports = Vec::new();
    for file in edge_files.files() {
        let told = edge_files.read(file, &["summary"]).await?;
        let is_one =
            |told: Option<&str>| told.is_some_and(|told| told.contains(&reverting) || told.contains(AGAIN_FOR));
        let texts = told.iter().filter_map(|batch| batch.column(0).as_string_opt::<i32>());
        if !texts.into_iter().any(|texts| texts.iter().any(is_one)) {
            continue;
        }
        for batch in edge_files.read(file, &[]).await? {
            imports.extend((0..batch.num_rows()).filter_map(|row| read(&batch, row)));
        }
    }
    imports.retain(|import| import.summary.state == State::Reverting || import.summary.again_for.is_some());
    Ok(imports)
}

/// Imports that were told of in `edge_files` with their last chunk, which the lake doesn't hold: it is on its way, or its
/// bringer was killed.
fn broken_off(edge_files: &TableHandle, clicks: &TableHandle, arrivals: &TableHandle) -> HashSet<String> {
    let chunks: HashMap<&str, i64> = edge_files.txns_with_prefix("file/").collect();
    let held = |txn: &str| clicks.txn(txn).max(arrivals.txn(txn)).unwrap_or(0);
    let broken = chunks.into_iter().filter(|(txn, chunks)| held(txn) < *chunks);
    broken.filter_map(|(txn, _)| Some(txn.strip_prefix("file/")?.get(..ID_DIGITS)?.to_owned())).collect()
}

/// The same imports, with what the tables hold of them now.
pub(super) async fn refreshed(
    imports: Vec<Stored>,
    edge_files: &TableHandle,
    clicks: &TableHandle,
    arrivals: &TableHandle,
) -> Result<Vec<Stored>, LakeError> {
    let broken = broken_off(edge_files, clicks, arrivals);
    let spans: Vec<_> = imports.iter().filter_map(Stored::times).collect();
    let ids: HashSet<&str> = imports.iter().map(|import| import.summary.id.as_str()).collect();
    let near = |min: Option<UtcMicros>, max: Option<UtcMicros>| {
        spans.iter().any(|(first, last)| min.is_none_or(|min| min <= *last) && max.is_none_or(|max| max >= *first))
    };
    let mut held = held_of(clicks, arrivals, &ids, near).await?;
    // rows of times before this may have been removed
    let kept_from = UtcMicros(clicks.txn(RETAINED).unwrap_or(i64::MIN));
    let now = imports.into_iter().map(|mut import| {
        let held = held.remove(&import.summary.id).unwrap_or_default();
        let is_so_far = import.note_broken_off(&broken) || import.is_begun || import.are_posts(&held);
        let summary = import.summary;
        import.summary = if is_so_far {
            summary.so_far(held.added, held.waiting)
        } else {
            let sampled = sampled(clicks, arrivals, &summary.id);
            match summary.first.is_some_and(|first| first < kept_from) {
                true => summary.kept_no_longer(held.waiting),
                false => summary.with_held(held.added, held.waiting, sampled),
            }
        };
        import.summary.mismatched = open_among(clicks, arrivals, &held.lines);
        import.summary.check(arrivals);
        import
    });
    Ok(now.collect())
}

/// All rows of `edge_files`.
pub(super) async fn rows(edge_files: &TableHandle) -> Result<Vec<Stored>, LakeError> {
    let mut imports = Vec::new();
    for file in edge_files.files() {
        for batch in edge_files.read(file, &[]).await? {
            imports.extend((0..batch.num_rows()).filter_map(|row| read(&batch, row)));
        }
    }
    Ok(imports)
}

/// The row of one import.
pub(super) async fn row_of(edge_files: &TableHandle, import_id: &str) -> Result<Option<Stored>, LakeError> {
    for file in edge_files.files().iter().rev() {
        for batch in edge_files.read(file, &[]).await? {
            let ids = batch.column_by_name("id").and_then(|column| column.as_string_opt::<i32>());
            let row = ids.and_then(|ids| ids.iter().position(|id| id == Some(import_id)));
            if let Some(import) = row.and_then(|row| read(&batch, row)) {
                return Ok(Some(import));
            }
        }
    }
    Ok(None)
}

fn read(batch: &RecordBatch, row: usize) -> Option<Stored> {
    let text = |name: &str| {
        let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    let at = batch.column_by_name("imported_at")?.as_primitive_opt::<TimestampMicrosecondType>()?;
    let source_name = text("source_name");
    let summary: Summary = serde_json::from_str(&text("summary")?).ok()?;
    Some(Stored {
        is_begun: summary.state == State::Running,
        summary,
        workspace: text("workspace")?,
        provider: text("provider")?,
        sha256: text("sha256")?,
        location: text("location"),
        imported_at: UtcMicros(at.value(row)),
        options: text("options").and_then(|told| ImportOptions::from_json(&told, source_name.clone())),
        source_name,
    })
}
