//! Rows of the batches of a group, picked and weighed. Pure.
//!
//! A batch's rows are columns already, and as a rule all of them are wanted as they are: then they are only passed on.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::error::ArrowError;

use super::decode::Batch;

/// A click that becomes a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pick {
    /// Of which batch of its group.
    pub(super) batch: u32,
    /// Which click of it.
    pub(super) click: u32,
    pub(super) weight: f64,
}

/// The rows of clicks that are picked in their order, with their weights.
///
/// # Errors
/// When rows lack columns that they are made with: a fault of this program.
pub(super) fn picked(batches: &[Arc<Batch>], picks: &[Pick]) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut rows = Vec::new();
    for of_batch in picks.chunk_by(|one, next| one.batch == next.batch) {
        let (mut rest, mut begin) = (of_batch, 0);
        for part in &batches[of_batch[0].batch as usize].rows {
            let end = begin + part.num_rows() as u32;
            let (here, later) = rest.split_at(rest.partition_point(|pick| pick.click < end));
            if !here.is_empty() {
                rows.push(weighed(part, begin, here)?);
            }
            (rest, begin) = (later, end);
        }
    }
    Ok(rows)
}

/// What is picked of rows whose first is click `begin` of their batch.
fn weighed(part: &RecordBatch, begin: u32, picks: &[Pick]) -> Result<RecordBatch, ArrowError> {
    let is_whole = picks.len() == part.num_rows();
    if is_whole && picks.iter().all(|pick| pick.weight == 1.0) {
        return Ok(part.clone());
    }
    let part = match is_whole {
        true => part.clone(),
        false => take_record_batch(part, &UInt32Array::from_iter_values(picks.iter().map(|pick| pick.click - begin)))?,
    };
    let mut columns: Vec<ArrayRef> = part.columns().to_vec();
    columns[part.schema_ref().index_of("weight")?] =
        Arc::new(Float64Array::from_iter_values(picks.iter().map(|pick| pick.weight)));
    RecordBatch::try_new(part.schema(), columns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemas::ClickRows;

    use super::*;
    use crate::hot::testing::clicked_batch;

    proptest! {
        /// Exactly what is picked comes, in its order and with its weight, however the batches are put together.
        #[test]
        fn what_is_picked_comes(
            lengths in proptest::collection::vec(proptest::collection::vec(0u64..5, 0..4), 1..5),
            fates in proptest::collection::vec(prop::sample::select(vec![0.0, 1.0, 1.0, 1.0, 4.0]), 80),
        ) {
            let (mut batches, mut picks, mut expected) = (Vec::new(), Vec::new(), Vec::new());
            let (mut id, mut fates) = (0, fates.into_iter());
            for (number, parts) in lengths.into_iter().enumerate() {
                let mut whole = clicked_batch(id, id);
                for length in parts {
                    whole.append(clicked_batch(id, id + length));
                    id += length;
                }
                for (click, one) in whole.clicks.iter().enumerate() {
                    let weight = fates.next().unwrap();
                    if weight > 0.0 {
                        picks.push(Pick { batch: number as u32, click: click as u32, weight });
                        expected.push((one.click_id, weight));
                    }
                }
                batches.push(Arc::new(whole));
            }
            let mut found = Vec::new();
            for part in picked(&batches, &picks).unwrap() {
                let rows = ClickRows::of(&part).unwrap();
                for row in 0..part.num_rows() {
                    let click = rows.row(row).unwrap();
                    found.push((click.click_id, click.weight));
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
