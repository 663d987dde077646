//! Which files of a snapshot may hold rows that a filter wants.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::Column;
use datafusion::common::pruning::PruningStatistics;
use datafusion::error::Result;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use schemas::tables::Table;

use super::file::DataFile;

/// The files that `predicate` can't rule out by their bounds.
pub(super) fn keep(
    table: Table,
    schema: &SchemaRef,
    files: &[Arc<DataFile>],
    predicate: Option<&Arc<dyn PhysicalExpr>>,
) -> Result<Vec<Arc<DataFile>>> {
    let Some(predicate) = predicate else { return Ok(files.to_vec()) };
    let predicate =
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(Arc::clone(predicate))?;
    let kept = predicate.prune(&Bounds { table, schema, files })?;
    Ok(files.iter().zip(kept).filter(|(_, kept)| *kept).map(|(file, _)| Arc::clone(file)).collect())
}

struct Bounds<'a> {
    table: Table,
    schema: &'a SchemaRef,
    files: &'a [Arc<DataFile>],
}

impl Bounds<'_> {
    /// One end of every file's bounds; a null stands for unknown.
    fn ends(&self, column: &Column, greatest: bool) -> Option<ArrayRef> {
        let name = column.name.as_str();
        let partition = self.table.partitioned_by().iter().position(|&other| other == name);
        let unknown = ScalarValue::try_from(self.schema.field_with_name(name).ok()?.data_type()).ok()?;
        let ends = self.files.iter().map(|file| match partition {
            Some(index) => file.partition.get(index).cloned().unwrap_or_else(|| unknown.clone()),
            None => match file.bounds(name) {
                Some((least, most)) => if greatest { most } else { least }.clone(),
                None => unknown.clone(),
            },
        });
        ScalarValue::iter_to_array(ends).ok()
    }
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.ends(column, false)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.ends(column, true)
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, _column: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter(self.files.iter().map(|file| file.rows))))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
