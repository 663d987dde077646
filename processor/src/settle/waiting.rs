//! What of `arrivals` waits to be counted: all but the records that only correct rows which are there.

use arrow::array::{Array as _, AsArray as _, RecordBatch};

use schemas::Source;

use crate::lake::{LakeError, TableHandle};

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Lines of logs, copies of one in several logs too.
    pub lines: u64,
    /// Clicks that came when their time had been answered for: of journals that had been given up, or events made elsewhere.
    pub late: u64,
}

/// Rows of `arrivals`, at the version shown, whose request is not in `clicks` as far as is known.
///
/// # Errors
/// When a file can't be read.
pub async fn waiting(arrivals: &TableHandle) -> Result<Waiting, LakeError> {
    let mut waiting = Waiting::default();
    for file in arrivals.files() {
        for batch in arrivals.read(file, &["corrects", "source"]).await? {
            let sources = batch.column_by_name("source").and_then(|column| column.as_string_opt::<i32>());
            let is_late = |row: usize| sources.is_some_and(|sources| sources.value(row) == Source::Origin.as_str());
            for row in (0..batch.num_rows()).filter(|row| !corrects(&batch, *row)) {
                if is_late(row) { waiting.late += 1 } else { waiting.lines += 1 }
            }
        }
    }
    Ok(waiting)
}

/// Whether a row of `arrivals` is marked as one that only corrects.
pub(crate) fn corrects(batch: &RecordBatch, row: usize) -> bool {
    let marks = batch.column_by_name("corrects").and_then(|column| column.as_boolean_opt());
    marks.is_some_and(|marks| marks.is_valid(row) && marks.value(row))
}
