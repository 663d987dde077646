//! What the log says of a table and of a file.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{max_string, min_string};
use chrono::SecondsFormat;
use deltalake::kernel::StructType;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel as _;
use schemas::UtcMicros;
use schemas::tables::Table;
use serde_json::{Value, json};

pub(super) fn first_entry(table: Table) -> Vec<Value> {
    let schema: StructType = table.schema().as_ref().try_into_kernel().unwrap();
    vec![
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        json!({"metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": serde_json::to_string(&schema).unwrap(),
            "partitionColumns": table.partitioned_by(),
            "configuration": {"delta.dataSkippingStatsColumns": table.stats_columns().join(",")},
            "createdTime": 0,
        }}),
    ]
}

pub(super) fn stats(table: Table, batch: &RecordBatch) -> String {
    let (mut least, mut greatest) = (json!({}), json!({}));
    for column in table.stats_columns() {
        let array = batch.column_by_name(column).unwrap();
        match array.as_string_opt::<i32>() {
            Some(texts) => {
                least[column] = json!(min_string(texts));
                greatest[column] = json!(max_string(texts));
            }
            None => {
                let times = array.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
                // milliseconds, cut: as some writers do
                let time = |time: Option<i64>| {
                    time.map(|time| UtcMicros(time).to_datetime().to_rfc3339_opts(SecondsFormat::Millis, true))
                };
                least[column] = json!(time(arrow::compute::min(times)));
                greatest[column] = json!(time(arrow::compute::max(times)));
            }
        }
    }
    json!({"numRecords": batch.num_rows(), "minValues": least, "maxValues": greatest}).to_string()
}
