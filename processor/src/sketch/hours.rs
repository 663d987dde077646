//! Visitors by link, class and hour: gathered from clicks, or from rows to be merged.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use arrow::array::{AsArray as _, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, TimestampMicrosecondType};
use arrow::error::ArrowError;
use schemas::hourly::{self, HourRow};
use schemas::sketch::VisitorSketch;
use schemas::time::HOUR;
use schemas::{Class, LinkId, UtcMicros};

use super::SampledAway;

/// Whose visitors, and the begin of their hour.
type Key = (LinkId, Class, UtcMicros);

/// What is known of them.
#[derive(Debug)]
struct Hour {
    workspace: String,
    domain: String,
    code: String,
    lowest_rate: f64,
    visitors: VisitorSketch,
}

/// Hours in which clicks were sampled away.
#[derive(Debug, Default)]
pub(super) struct Hours(HashMap<Key, Hour, ahash::RandomState>);

impl Hours {
    /// Takes in a click.
    ///
    /// # Errors
    /// When no sketch can be made.
    pub(super) fn add(&mut self, click: &SampledAway<'_>) -> Result<(), ArrowError> {
        let key = (click.link_id, click.class, UtcMicros(click.event_time.hour() * HOUR));
        let visitors = self.at(key, [click.workspace, click.domain, click.code], click.rate)?;
        click.visitor.into_iter().for_each(|visitor| visitors.add(visitor));
        Ok(())
    }

    /// Takes in rows of the table.
    ///
    /// # Errors
    /// When they aren't such rows, or a sketch, link or class in them can't be read.
    pub(super) fn take_in(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        let unfit = |name: &str| ArrowError::SchemaError(format!("column {name} is missing or of another type"));
        let column = |name: &str| rows.column_by_name(name).ok_or_else(|| unfit(name));
        let text = |name: &str| -> Result<&StringArray, ArrowError> {
            column(name)?.as_string_opt().ok_or_else(|| unfit(name))
        };
        let (links, classes) = (text("link_id")?, text("class")?);
        let texts = [text("workspace")?, text("domain")?, text("code")?];
        let hours = column("hour")?.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(|| unfit("hour"))?;
        let rates = column("lowest_rate")?.as_primitive_opt::<Float64Type>().ok_or_else(|| unfit("lowest_rate"))?;
        let visitors = column("visitors")?.as_binary_opt::<i32>().ok_or_else(|| unfit("visitors"))?;
        for row in 0..rows.num_rows() {
            let link: LinkId = links.value(row).parse().map_err(other)?;
            let class: Class = classes.value(row).parse().map_err(other)?;
            let key = (link, class, UtcMicros(hours.value(row)));
            let of_row = self.at(key, texts.map(|column| column.value(row)), rates.value(row))?;
            of_row.take_in(visitors.value(row)).map_err(other)?;
        }
        Ok(())
    }

    /// The visitors of a key, whose workspace, domain and code these are.
    fn at(&mut self, key: Key, texts: [&str; 3], rate: f64) -> Result<&mut VisitorSketch, ArrowError> {
        let hour = match self.0.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let [workspace, domain, code] = texts.map(str::to_owned);
                let visitors = VisitorSketch::new().map_err(other)?;
                new.insert(Hour { workspace, domain, code, lowest_rate: rate, visitors })
            }
        };
        hour.lowest_rate = hour.lowest_rate.min(rate);
        Ok(&mut hour.visitors)
    }

    /// One row a key, in the order of workspace, code, hour.
    pub(super) fn to_batch(&self) -> Result<RecordBatch, ArrowError> {
        let mut hours: Vec<(&Key, &Hour)> = self.0.iter().collect();
        hours.sort_by_key(|((link, class, hour), one)| (&one.workspace, &one.code, *hour, *class, *link));
        let texts: Vec<(String, Vec<u8>)> =
            hours.iter().map(|((link, ..), one)| (link.to_string(), one.visitors.to_bytes())).collect();
        hourly::to_batch(hours.iter().zip(&texts).map(|(((_, class, hour), one), (link_id, visitors))| HourRow {
            workspace: &one.workspace,
            link_id,
            domain: &one.domain,
            code: &one.code,
            class: class.as_str(),
            hour: *hour,
            lowest_rate: one.lowest_rate,
            visitors,
        }))
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}
