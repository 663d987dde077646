//! Columns that a table was made without: releases add some, and tables and files of before lack them.
//!
//! ```text
//! a file that lacks some  ── read ──►   nulls in their places, as everything else reads it
//! a log that lacks some   ── commit ──► the next commit names them too, so that other readers see them
//! ```
//! Only columns that may be null can come later. None goes, and none changes its type: what a log has that this release
//! doesn't know stays in the log.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{FieldRef, Schema};
use arrow::error::ArrowError;
use deltalake::kernel::StructType;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel as _;
use schemas::tables::Table;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a table's log says of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetaData {
    pub(super) id: String,
    pub(super) schema_string: String,
    #[serde(default)]
    pub(super) configuration: HashMap<String, Option<String>>,
    #[serde(default)]
    pub(super) created_time: Option<i64>,
}

impl MetaData {
    /// As a line of the log has it.
    pub(super) fn line(&self, table: Table) -> Value {
        json!({
            "id": self.id,
            "name": table.as_str(),
            "description": null,
            "format": { "provider": "parquet", "options": {} },
            "schemaString": self.schema_string,
            "partitionColumns": table.partitioned_by(),
            "configuration": self.configuration,
            "createdTime": self.created_time,
        })
    }

    /// The same with the columns that it lacks; `None` when it lacks none.
    ///
    /// # Errors
    /// Says why, when what it says can't be read.
    pub(super) fn grown(&self, table: Table) -> Result<Option<Self>, String> {
        let mut known: Value = serde_json::from_str(&self.schema_string).map_err(|e| format!("its columns: {e}"))?;
        let mut ours: Value = serde_json::from_str(&schema_string(table)?).map_err(|e| format!("its columns: {e}"))?;
        let (Some(known_fields), Some(ours)) = (known["fields"].as_array_mut(), ours["fields"].as_array_mut()) else {
            return Err("its columns are no list".to_owned());
        };
        let missing: Vec<Value> =
            ours.drain(..).filter(|field| !known_fields.iter().any(|known| known["name"] == field["name"])).collect();
        if missing.is_empty() {
            return Ok(None);
        }
        known_fields.extend(missing);
        Ok(Some(Self { schema_string: known.to_string(), ..self.clone() }))
    }
}

/// A table's columns as the log spells them.
///
/// # Errors
/// When the log can't have such columns, which this crate's tests rule out.
pub(super) fn schema_string(table: Table) -> Result<String, String> {
    let schema: StructType = table.schema().as_ref().try_into_kernel().map_err(|e| format!("its columns: {e}"))?;
    serde_json::to_string(&schema).map_err(|e| e.to_string())
}

/// The columns of a table that its files hold.
fn of_files(table: Table) -> impl Iterator<Item = FieldRef> {
    let fields = table.schema().fields().iter().cloned().collect::<Vec<_>>();
    fields.into_iter().filter(move |field| !table.partitioned_by().contains(&field.name().as_str()))
}

/// Those of `wanted` that a file with `has` holds; all that it holds if none are wanted.
pub(super) fn present<'a>(has: &Schema, wanted: &[&'a str]) -> Vec<&'a str> {
    wanted.iter().copied().filter(|name| has.index_of(name).is_ok()).collect()
}

/// What was read of a file, with the columns that are `wanted`, in that order; all of the table when none are named.
/// What the file lacks is null.
///
/// # Errors
/// For a column that it lacks and that can't be null.
pub(super) fn completed(table: Table, batch: RecordBatch, wanted: &[&str]) -> Result<RecordBatch, ArrowError> {
    let has = batch.schema();
    let is_whole = match wanted {
        [] => {
            of_files(table).map(|field| field.name().clone()).eq(has.fields().iter().map(|field| field.name().clone()))
        }
        wanted => wanted.iter().copied().eq(has.fields().iter().map(|field| field.name().as_str())),
    };
    if is_whole {
        return Ok(batch);
    }
    let known = table.schema();
    let fields: Vec<FieldRef> = match wanted {
        [] => of_files(table).collect(),
        wanted => {
            let field = |name: &&str| match has.index_of(name) {
                Ok(at) => Ok(Arc::clone(&has.fields()[at])),
                Err(_) => known.index_of(name).map(|at| Arc::clone(&known.fields()[at])),
            };
            wanted.iter().map(field).collect::<Result<_, _>>()?
        }
    };
    let column = |field: &FieldRef| -> Result<(FieldRef, ArrayRef), ArrowError> {
        match has.index_of(field.name()) {
            Ok(at) => Ok((Arc::clone(&has.fields()[at]), Arc::clone(batch.column(at)))),
            Err(_) if field.is_nullable() => {
                Ok((Arc::clone(field), new_null_array(field.data_type(), batch.num_rows())))
            }
            Err(missing) => Err(missing),
        }
    };
    let columns = fields.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

#[cfg(test)]
mod tests;
