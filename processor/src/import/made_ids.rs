//! Ids of lines that have none: made from what they say, and from how many of the file say the same before them.

use std::sync::Arc;

use arrow::array::{AsArray as _, BinaryArray, RecordBatch};
use ingest::edge::{Occurrences, made_key};
use schemas::ClickId;

use super::error::Failure;
use super::worker::Parsed;

/// Makes the ids of one file. Feed it every block in the file's order.
#[derive(Debug)]
pub(super) struct MadeIds {
    seen: Occurrences,
    made_for: Arc<str>,
}

impl MadeIds {
    /// Of ids that are made for `made_for`.
    pub(super) fn new(made_for: Arc<str>) -> Self {
        Self { seen: Occurrences::default(), made_for }
    }

    /// Gives records their ids where these are made from the lines.
    pub(super) fn give(&mut self, mut parsed: Parsed) -> Result<Parsed, Failure> {
        if parsed.prints.is_empty() {
            return Ok(parsed);
        }
        let wrong = |what: &str| Failure::BrokeOff(format!("rows lack their {what}"));
        let codes = parsed.rows.column_by_name("code").and_then(|column| column.as_string_opt::<i32>());
        let codes = codes.ok_or_else(|| wrong("code"))?;
        for (at, print) in parsed.prints.drain(..) {
            let arrival = &mut parsed.arrivals[at];
            let number = self.seen.number(arrival.time, print);
            arrival.id = ClickId::from_edge(&self.made_for, &made_key(print, number), codes.value(at));
        }
        let ids: BinaryArray = parsed.arrivals.iter().map(|arrival| Some(arrival.id.0)).collect();
        let mut columns = parsed.rows.columns().to_vec();
        let at = parsed.rows.schema().index_of("click_id").map_err(|_| wrong("click_id"))?;
        columns[at] = Arc::new(ids);
        parsed.rows = RecordBatch::try_new(parsed.rows.schema(), columns).map_err(|e| wrong(&e.to_string()))?;
        Ok(parsed)
    }
}
