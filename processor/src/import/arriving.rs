//! Rows for `arrivals`: records that wait, and those that know better than the row of their request.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use schemas::UtcMicros;
use schemas::tables::{Table, arriving};

use crate::lake::{Change, CommitError, Span, TableHandle};
use crate::settle::desk::{TRIES, chosen};
use crate::settle::{Fate, SettleError};

/// Rows with the columns that `arrivals` has beyond those of `clicks`: how they were `brought`, and whether they only
/// correct rows.
pub(super) fn arriving_rows(
    rows: &[RecordBatch],
    brought: &str,
    corrects: bool,
) -> Result<Vec<RecordBatch>, SettleError> {
    let now = UtcMicros::now();
    let providers = |rows: &RecordBatch| std::iter::repeat_n(brought, rows.num_rows());
    let rows: Result<Vec<RecordBatch>, ArrowError> =
        rows.iter().map(|rows| arriving(rows, providers(rows), now, corrects)).collect();
    rows.map_err(|source| SettleError::Rows { table: Table::Arrivals, source })
}

/// The records of a chunk that know better, on their way into `arrivals`. Left there twice they do no harm, as each is
/// merged into its row; but a chunk that is decided on again leaves them once.
#[derive(Debug, Default)]
pub(super) struct Corrections {
    /// The fates by which they were left last.
    kept: Vec<Fate>,
}

impl Corrections {
    /// Leaves those of these rows that `fates` say, unless these very ones are there.
    pub(super) async fn keep(
        &mut self,
        arrivals: &mut TableHandle,
        rows: &[RecordBatch],
        brought: &str,
        fates: &[Fate],
    ) -> Result<(), SettleError> {
        if !fates.contains(&Fate::Correct) || self.kept == fates {
            return Ok(());
        }
        let rows = chosen(Table::Clicks, rows, fates, Fate::Correct)?;
        let add = arrivals.write_spanning(&arriving_rows(&rows, brought, true)?, Span::Day).await?;
        for _ in 0..TRIES {
            match arrivals.commit(Change { add: add.clone(), ..Change::default() }).await {
                Ok(_) => {
                    self.kept = fates.to_vec();
                    return Ok(());
                }
                Err(CommitError::Failed(source)) => return Err(source.into()),
                Err(_) => arrivals.refresh().await?,
            };
        }
        Err(SettleError::Busy { tries: TRIES })
    }
}
