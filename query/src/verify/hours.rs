//! Whether rows of `clicks_hourly` say what they must.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use schemas::UtcMicros;
use schemas::sketch::VisitorSketch;
use schemas::time::HOUR;

use crate::error::QueryError;
use crate::failure::classify;
use crate::reports::{floats, integers};

/// Rows that break a rule, by rule; only rules that are broken.
pub(super) async fn broken(hourly: DataFrame) -> Result<BTreeMap<String, u64>, QueryError> {
    let rows = hourly.select_columns(&["hour", "date", "lowest_rate", "visitors"]).map_err(|error| classify(&error))?;
    let mut rows = rows.execute_stream().await.map_err(|error| classify(&error))?;
    let mut broken = BTreeMap::new();
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|error| classify(&error))?;
        let (hours, days) = (integers(&batch, "hour")?, integers(&batch, "date")?);
        let rates = floats(&batch, "lowest_rate")?;
        let sketches = batch.column(3).as_binary_opt::<i32>();
        for (row, (hour, day)) in hours.into_iter().zip(days).enumerate() {
            let (hour, day) = (hour.unwrap_or_default(), day.unwrap_or_default());
            let sketch = sketches.map(|column| column.value(row)).unwrap_or_default();
            for (rule, is_broken) in [
                ("hour_is_not_whole", hour % HOUR != 0),
                ("hour_is_of_another_date", i64::from(UtcMicros(hour).day()) != day),
                ("hour_rate_is_none", !(rates[row] > 0.0 && rates[row] < 1.0)),
                ("hour_sketch_is_none", VisitorSketch::new().and_then(|mut set| set.take_in(sketch)).is_err()),
            ] {
                if is_broken {
                    *broken.entry(rule.to_owned()).or_default() += 1;
                }
            }
        }
    }
    Ok(broken)
}
