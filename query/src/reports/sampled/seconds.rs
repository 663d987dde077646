//! Which parts of a report are touched by hours that they cut: those that have seconds in which clicks were thinned.
//!
//! ```text
//! hours that parts cut ──► links of which something was sampled away in them ──► their seconds in `sampling` ──► parts
//! ```
//! Table `sampling` has a row for the second of every click that was sampled away, of its link and with a rate no higher than
//! the one that it failed, before a commit leaves the click out; whoever looks at it after `clicks` finds it. The second is that of
//! the click's own time, however late or by whatever record it was judged. So between the seconds of a link that it
//! has, nothing of the link is missing. Several links' seconds are one here: it is enough for a part to be touched by one of them.
//!
//! Invariants
//! * A second weighs no more than anything did that was sampled away of its link in the hour, as `clicks_hourly` has it.
//! * Rows of `sampling` are streamed and not held, at most [`MOST_ROWS`] of them, for at most [`MOST_HOURS`] hours of links.
//!   An hour of a link has one for each thinned second and partition of the stream (and for lines of logs, and what else is
//!   settled), and some that replays have written again: with 8 partitions about 36,000 at the worst, so that these are 116 such
//!   hours. Beyond either, parts are touched by all of an hour that they cut, which claims too little and never too much.
//! * So they are where `sampling` has nothing of a link's hour: retention takes the days of a workspace out of one table after
//!   the other, and all rows of an hour at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::{HOUR, SECOND};

use super::{Hour, Sampled};
use crate::error::QueryError;
use crate::failure::classify;
use crate::reports::plan;
use crate::reports::shape;
use crate::reports::touched::Touched;

/// Hours of links that are looked at, each group's counted apart; when there are more, none is.
const MOST_HOURS: usize = 1 << 12;
/// Rows of `sampling` that are read; when its files have more in those hours, none is.
const MOST_ROWS: u64 = 1 << 22;

/// An hour of a link that some part cuts.
#[derive(Debug, Default)]
struct Thinned {
    /// The same by groups, as [`Hour`] has them.
    hours: Vec<Hour>,
    /// Whether rates are recorded of it.
    is_recorded: bool,
}

/// By link, hours.
#[derive(Debug, Default)]
struct Links(HashMap<String, BTreeMap<i64, Thinned>>);

impl Sampled {
    /// Finds the parts that are touched by hours that they cut. `hourly`: the rows of `clicks_hourly` in scope.
    /// `not_before`: `sampling` is looked at after that.
    pub(in crate::reports) async fn look_closer(
        &mut self,
        hourly: DataFrame,
        touched: &Touched<'_>,
        not_before: Option<Instant>,
    ) -> Result<(), QueryError> {
        let cut = std::mem::take(&mut self.cut);
        let hours: BTreeSet<i64> = cut.iter().map(|hour| hour.begin).collect();
        if hours.is_empty() {
            return Ok(());
        }
        if let Some(mut links) = self.links(hourly, &hours).await?
            && let Some(rates) = rates(&links, &hours, touched, not_before).await?
        {
            let mut rates = rates.execute_stream().await.map_err(|error| classify(&error))?;
            while let Some(batch) = rates.next().await {
                self.note_seconds(&batch.map_err(|error| classify(&error))?, &mut links)?;
            }
            let all = links.0.into_values().flat_map(BTreeMap::into_values);
            let unknown = all.filter(|thinned| !thinned.is_recorded).flat_map(|thinned| thinned.hours);
            for hour in unknown {
                self.note(&hour, (hour.begin, HOUR), true);
            }
        } else {
            for hour in &cut {
                self.note(hour, (hour.begin, HOUR), true);
            }
        }
        Ok(())
    }

    /// Of which links something was sampled away in these hours; `None`: of too many.
    async fn links(&self, hourly: DataFrame, hours: &BTreeSet<i64>) -> Result<Option<Links>, QueryError> {
        let (mut links, mut count) = (Links::default(), 0);
        let (Some(first), Some(last)) = (hours.first(), hours.last()) else { return Ok(Some(links)) };
        let asked = plan::links(hourly, self.dimension, (UtcMicros(*first), UtcMicros(*last)));
        let asked = asked.map_err(|error| classify(&error))?;
        let mut asked = asked.execute_stream().await.map_err(|error| classify(&error))?;
        while let Some(batch) = asked.next().await {
            let batch = batch.map_err(|error| classify(&error))?;
            let all = shape::texts(&batch, "link_id")?.into_iter().zip(self.hours_of(&batch)?);
            for (link, hour) in all.filter(|(_, hour)| hours.contains(&hour.begin)) {
                count += 1;
                if count > MOST_HOURS {
                    return Ok(None);
                }
                links.0.entry(link).or_default().entry(hour.begin).or_default().hours.push(hour);
            }
        }
        Ok(Some(links))
    }

    /// Notes rows of `sampling`.
    fn note_seconds(&mut self, batch: &RecordBatch, links: &mut Links) -> Result<(), QueryError> {
        let column = shape::column(batch, "link_id", &DataType::Utf8)?;
        let (seconds, rates) = (shape::integers(batch, "second")?, shape::floats(batch, "rate")?);
        for ((link, second), rate) in column.as_string::<i32>().iter().zip(seconds).zip(rates) {
            // what is no rate can't have been used
            let (Some(link), Some(second), true) = (link, second, rate > 0.0 && rate < 1.0) else { continue };
            let hour = UtcMicros(second).hour() * HOUR;
            let Some(thinned) = links.0.get_mut(link).and_then(|hours| hours.get_mut(&hour)) else { continue };
            thinned.is_recorded = true;
            for hour in &thinned.hours {
                let heaviest = hour.heaviest.min(1.0 / rate);
                self.note(&Hour { heaviest, ..hour.clone() }, (second, SECOND), true);
            }
        }
        Ok(())
    }
}

/// What `sampling` has of these hours of links; `None`: too much.
async fn rates(
    links: &Links,
    hours: &BTreeSet<i64>,
    touched: &Touched<'_>,
    not_before: Option<Instant>,
) -> Result<Option<DataFrame>, QueryError> {
    let tables = &touched.engine.tables;
    let snapshot = tables.snapshot(Table::Sampling, not_before).await?;
    let near = snapshot.having(|file| {
        let (first, last) = file.times("second");
        hours.iter().any(|hour| hour.saturating_add(HOUR) > first && *hour <= last)
    });
    if near.rows().is_none_or(|rows| rows > MOST_ROWS) {
        return Ok(None);
    }
    let names: Vec<&str> = links.0.keys().map(String::as_str).collect();
    let (start, end) = (hours.first().copied().unwrap_or(0), hours.last().map_or(0, |last| last.saturating_add(HOUR)));
    let rates = touched.session.read_table(tables.provider(&Arc::new(near), touched.principal));
    let rates = rates.and_then(|rates| plan::rates(rates, &names, (UtcMicros(start), UtcMicros(end))));
    rates.map(Some).map_err(|error| classify(&error))
}
