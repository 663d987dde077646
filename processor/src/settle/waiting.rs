//! What of `arrivals` waits to be counted: all but the records that only correct rows which are there.

use arrow::array::{Array as _, AsArray as _, RecordBatch};

use crate::lake::{LakeError, TableHandle};

/// Rows of `arrivals`, at the version shown, whose request is not in `clicks` as far as is known.
///
/// # Errors
/// When a file can't be read.
pub async fn waiting(arrivals: &TableHandle) -> Result<u64, LakeError> {
    let mut waiting = 0;
    for file in arrivals.files() {
        for batch in arrivals.read(file, &["corrects"]).await? {
            waiting += (0..batch.num_rows()).filter(|row| !corrects(&batch, *row)).count() as u64;
        }
    }
    Ok(waiting)
}

/// Whether a row of `arrivals` is marked as one that only corrects.
pub(crate) fn corrects(batch: &RecordBatch, row: usize) -> bool {
    let marks = batch.column_by_name("corrects").and_then(|column| column.as_boolean_opt());
    marks.is_some_and(|marks| marks.is_valid(row) && marks.value(row))
}
