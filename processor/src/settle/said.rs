//! Records by their place among several batches: what they say, and their rows.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use schemas::tables::Table;
use schemas::{Click, ClickRows};

use super::error::SettleError;
use crate::enrich::Facts;
use crate::enrich::facts::FactColumns;

/// The place of a record: which batch, and which row of it.
fn place(starts: &[usize], at: usize) -> (usize, usize) {
    let batch = starts.partition_point(|start| *start <= at).saturating_sub(1);
    (batch, at - starts[batch])
}

fn starts(batches: &[RecordBatch]) -> Vec<usize> {
    let next = |next: &mut usize, batch: &RecordBatch| {
        let start = *next;
        *next += batch.num_rows();
        Some(start)
    };
    batches.iter().scan(0, next).collect()
}

/// What records say.
#[derive(Debug)]
pub(super) struct Said<'a> {
    starts: Vec<usize>,
    columns: Vec<FactColumns<'a>>,
}

impl<'a> Said<'a> {
    /// Of batches that have the columns of `clicks`.
    ///
    /// # Errors
    /// When one doesn't.
    pub(super) fn of(batches: &'a [RecordBatch]) -> Result<Self, SettleError> {
        let lacks = || SettleError::Rows {
            table: Table::Arrivals,
            source: ArrowError::SchemaError("a text column of clicks is missing".to_owned()),
        };
        let columns: Option<Vec<FactColumns<'a>>> = batches.iter().map(FactColumns::of).collect();
        Ok(Self { starts: starts(batches), columns: columns.ok_or_else(lacks)? })
    }

    /// What the record says that stands at this place.
    pub(super) fn row(&self, at: usize) -> Facts {
        let (batch, row) = place(&self.starts, at);
        self.columns[batch].row(row)
    }
}

/// Records as rows of `clicks`.
#[derive(Debug)]
pub(super) struct Records<'a> {
    starts: Vec<usize>,
    batches: &'a [RecordBatch],
}

impl<'a> Records<'a> {
    pub(super) fn of(batches: &'a [RecordBatch]) -> Self {
        Self { starts: starts(batches), batches }
    }

    /// The record that stands at this place.
    ///
    /// # Errors
    /// When its batch lacks a column of `clicks`.
    pub(super) fn row(&self, at: usize) -> Result<Click, SettleError> {
        let (batch, row) = place(&self.starts, at);
        let read = ClickRows::of(&self.batches[batch]).and_then(|rows| rows.row(row));
        read.map_err(|source| SettleError::Rows { table: Table::Arrivals, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::click;
    use schemas::ClickBuilder;

    #[test]
    fn a_record_is_found_by_its_place_whatever_the_batches() {
        let batch = |ids: std::ops::Range<u128>| {
            let mut builder = ClickBuilder::new();
            ids.for_each(|id| builder.push(&click(id, id as i64)));
            builder.finish().unwrap()
        };
        let batches = [batch(0..3), batch(3..3), batch(3..4), batch(4..9)];
        let (records, said) = (Records::of(&batches), Said::of(&batches).unwrap());
        for at in 0..9 {
            let row = records.row(at).unwrap();
            assert_eq!(row.click_id.as_u128(), at as u128);
            assert_eq!(said.row(at), Facts::of(&row));
        }
    }
}
