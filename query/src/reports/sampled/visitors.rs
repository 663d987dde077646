//! Visitors where some of the clicks have no row: those of the rows and those of the sketches, united once a UTC day.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use arrow::array::{AsArray, RecordBatch};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use schemas::UtcMicros;
use schemas::sketch::VisitorSketch;

use super::{Part, Sampled, Visitors, is_whole};
use crate::error::QueryError;
use crate::failure::classify;
use crate::reports::buckets;
use crate::reports::plan::{self, Split};
use crate::reports::shape;

/// What is needed to count.
pub(in crate::reports) struct Sources<'a> {
    pub(in crate::reports) session: &'a SessionContext,
    /// Rows of `clicks_hourly` in scope.
    pub(in crate::reports) hourly: DataFrame,
    /// Rows of `clicks` in scope, of the classes asked for.
    pub(in crate::reports) clicks: DataFrame,
    /// The groups that are shown.
    pub(in crate::reports) groups: &'a [String],
}

/// The visitors of one part on one UTC day.
struct Day {
    seen: VisitorSketch,
    /// Those of rows, counted.
    kept: u64,
}

/// Days by part and number.
type Days = HashMap<(Part, i32), Day>;

impl Sampled {
    /// Counts the visitors of the parts of which something was sampled away.
    pub(in crate::reports) async fn count_visitors(&mut self, sources: &Sources<'_>) -> Result<(), QueryError> {
        let shown: HashSet<Part> = sources.groups.iter().cloned().map(Part::Group).collect();
        let is_shown = |part: &&Part| !matches!(part, Part::Group(_)) || shown.contains(part);
        let mut touched: HashSet<Part> = self.touched.keys().filter(is_shown).cloned().collect();
        if !self.tells_groups() && !touched.is_empty() {
            touched.extend(shown);
        }
        let is_known = |part: &Part| self.filter.is_none() && self.touched.get(part).is_some_and(|touch| !touch.cut);
        let (known, unknown): (HashSet<Part>, HashSet<Part>) = touched.into_iter().partition(is_known);
        self.visitors.extend(unknown.into_iter().map(|part| (part, Visitors::Unknown)));
        let (whole, rows): (HashSet<Part>, HashSet<Part>) = known.into_iter().partition(|part| *part == Part::Whole);
        let mut counted = Vec::new();
        if !whole.is_empty() {
            counted.push(self.estimate(sources, Split::Whole, &whole).await?);
        }
        if !rows.is_empty() {
            let groups: Vec<String> = rows.iter().filter_map(Part::group).map(str::to_owned).collect();
            let split = match (&self.ends, self.dimension) {
                (Some(ends), _) => Split::Buckets(ends),
                (None, Some(dimension)) => Split::Groups(dimension, &groups),
                (None, None) => Split::Whole,
            };
            counted.push(self.estimate(sources, split, &rows).await?);
        }
        for ((part, _), day) in counted.into_iter().flatten() {
            let (kept, all) = (day.kept, day.seen.count().max(day.kept));
            let sum = match self.visitors(&part) {
                Visitors::Estimated { kept: before, all: of_all } => (before + kept, of_all + all),
                _ => (kept, all),
            };
            self.visitors.insert(part, Visitors::Estimated { kept: sum.0, all: sum.1 });
        }
        Ok(())
    }

    /// Unites sketches and rows of the parts that are `wanted`.
    async fn estimate(
        &self,
        sources: &Sources<'_>,
        split: Split<'_>,
        wanted: &HashSet<Part>,
    ) -> Result<Days, QueryError> {
        let room = MemoryConsumer::new("visitors").register(&sources.session.runtime_env().memory_pool);
        let mut days = Days::new();
        let make_room = |days: &Days| {
            let bytes = days.values().map(|day| day.seen.size() + size_of::<Day>()).sum();
            room.try_resize(bytes).map_err(|error| classify(&error))
        };

        let sketches = plan::sketches(sources.hourly.clone(), split).map_err(|error| classify(&error))?;
        let mut sketches = sketches.execute_stream().await.map_err(|error| classify(&error))?;
        while let Some(batch) = sketches.next().await {
            let batch = batch.map_err(|error| classify(&error))?;
            self.take_in(&batch, split, wanted, &mut days)?;
            make_room(&days)?;
        }

        let numbers: BTreeSet<i32> = days.keys().map(|(_, day)| *day).collect();
        let numbers: Vec<i32> = numbers.into_iter().collect();
        let kept = plan::kept_visitors(sources.clicks.clone(), split, &numbers).map_err(|error| classify(&error))?;
        let mut kept = kept.execute_stream().await.map_err(|error| classify(&error))?;
        while let Some(batch) = kept.next().await {
            let batch = batch.map_err(|error| classify(&error))?;
            let (dates, visitors) = (shape::integers(&batch, "date")?, shape::integers(&batch, "visitor")?);
            let parts = parts(&batch, split)?;
            for ((part, date), visitor) in parts.into_iter().zip(dates).zip(visitors) {
                let (Some(part), Some(date), Some(visitor)) = (part, date, visitor) else { continue };
                if let Some(day) = days.get_mut(&(part, date as i32)) {
                    day.seen.add(visitor);
                    day.kept += 1;
                }
            }
            make_room(&days)?;
        }
        Ok(days)
    }

    /// Takes in rows of `clicks_hourly`.
    fn take_in(
        &self,
        batch: &RecordBatch,
        split: Split<'_>,
        wanted: &HashSet<Part>,
        days: &mut Days,
    ) -> Result<(), QueryError> {
        let broken = |error: &dyn std::fmt::Display| QueryError::lake("reading sketches of visitors", error);
        let hours = shape::integers(batch, "hour")?;
        let sketches = batch.column_by_name("visitors").and_then(|column| column.as_binary_opt::<i32>());
        let sketches = sketches.ok_or_else(|| broken(&"the column is of another type"))?;
        let values = match split {
            Split::Groups(..) => shape::texts(batch, "value")?,
            _ => vec![String::new(); hours.len()],
        };
        for ((hour, value), sketch) in hours.into_iter().zip(values).zip(sketches) {
            let (Some(hour), Some(sketch)) = (hour, sketch) else { continue };
            let part = match split {
                Split::Whole => Some((Part::Whole, self.span)),
                Split::Buckets(ends) => {
                    buckets::index(ends, hour).map(|number| (Part::Bucket(number), (ends[number], ends[number + 1])))
                }
                Split::Groups(..) => Some((Part::Group(value), self.span)),
            };
            // of an hour that such a part cuts nothing is missing in its share
            let part = part.filter(|(_, ends)| is_whole(hour, *ends)).map(|(part, _)| part);
            if let Some(part) = part.filter(|part| wanted.contains(part)) {
                let day = match days.entry((part, UtcMicros(hour).day())) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        new.insert(Day { seen: VisitorSketch::new().map_err(|error| broken(&error))?, kept: 0 })
                    }
                };
                day.seen.take_in(sketch).map_err(|error| broken(&error))?;
            }
        }
        Ok(())
    }
}

/// The part of each row of `clicks`.
fn parts(batch: &RecordBatch, split: Split<'_>) -> Result<Vec<Option<Part>>, QueryError> {
    Ok(match split {
        Split::Whole => vec![Some(Part::Whole); batch.num_rows()],
        Split::Buckets(_) => {
            let numbers = shape::integers(batch, "bucket")?.into_iter();
            numbers.map(|number| number.and_then(|number| usize::try_from(number).ok()).map(Part::Bucket)).collect()
        }
        Split::Groups(..) => shape::texts(batch, "value")?.into_iter().map(|value| Some(Part::Group(value))).collect(),
    })
}
