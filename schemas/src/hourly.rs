//! A row of table `clicks_hourly`: what of an hour was sampled away.
//!
//! A row stands for events that have no row in `clicks` because they were sampled away: whose they were, in which hour,
//! their visitors as a sketch, and the least rate under which one of them failed. Several rows may be of one key; together
//! they mean the union of their visitors and the least of their rates, so it does no harm to write an event twice.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, BinaryBuilder, Float64Builder, RecordBatch, StringBuilder, TimestampMicrosecondBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::click::timestamp;
use crate::time::UtcMicros;

/// One row; texts and bytes are somebody else's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HourRow<'a> {
    /// The tenant.
    pub workspace: &'a str,
    /// The link's identity.
    pub link_id: &'a str,
    /// Its host name.
    pub domain: &'a str,
    /// Its code.
    pub code: &'a str,
    /// What sort of client.
    pub class: &'a str,
    /// When the hour begins.
    pub hour: UtcMicros,
    /// The least rate under which an event failed.
    pub lowest_rate: f64,
    /// The bytes of a [`crate::sketch::VisitorSketch`].
    pub visitors: &'a [u8],
}

/// The columns that a data file holds: all but the partition column `date`.
static DATA_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::new(data_fields())));

/// All columns, `date` last.
pub(crate) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut fields = data_fields();
    fields.push(Field::new("date", DataType::Date32, false));
    Arc::new(Schema::new(fields))
});

fn data_fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    vec![
        text("workspace"),
        text("link_id"),
        text("domain"),
        text("code"),
        text("class"),
        Field::new("hour", timestamp(), false),
        Field::new("lowest_rate", DataType::Float64, false),
        Field::new("visitors", DataType::Binary, false),
    ]
}

/// Rows as columns.
///
/// # Errors
/// When there are more bytes than fit into one batch.
pub fn to_batch<'a>(rows: impl IntoIterator<Item = HourRow<'a>>) -> Result<RecordBatch, ArrowError> {
    let mut texts = [(); 5].map(|()| StringBuilder::new());
    let mut hours = TimestampMicrosecondBuilder::new().with_timezone("UTC");
    let (mut rates, mut visitors) = (Float64Builder::new(), BinaryBuilder::new());
    for row in rows {
        for (column, text) in texts.iter_mut().zip([row.workspace, row.link_id, row.domain, row.code, row.class]) {
            column.append_value(text);
        }
        hours.append_value(row.hour.0);
        rates.append_value(row.lowest_rate);
        visitors.append_value(row.visitors);
    }
    let mut columns: Vec<ArrayRef> = texts.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
    columns.push(Arc::new(hours.finish()));
    columns.push(Arc::new(rates.finish()));
    columns.push(Arc::new(visitors.finish()));
    RecordBatch::try_new(Arc::clone(&DATA_SCHEMA), columns)
}
