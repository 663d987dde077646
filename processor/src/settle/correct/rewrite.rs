//! The files of one hour, or one file of a day, written anew with some of their rows merged with what knows better.
//!
//! Read twice: once to find and merge the rows, once to write all others as they are, in order, together with the
//! merged ones; so memory is bounded by the records that correct and a few batches. A row whose time has changed so far
//! that it is of another hour goes into a file of that hour, in the same commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use futures::{StreamExt as _, TryStreamExt as _};
use parquet::errors::ParquetError;
use schemas::restatement::Why;
use schemas::tables::Table;
use schemas::{Click, ClickBuilder, ClickId, ClickRows, UtcMicros};

use super::ById;
use crate::enrich::Enricher;
use crate::lake::{Batches, DataFile, LakeError, NewFile, Span, TableHandle};
use crate::settle::compact::CompactConfig;
use crate::settle::error::SettleError;
use crate::settle::ids::{Found, IdSet, click_ids};
use crate::settle::merge::joined;
use crate::settle::restate::{Ledger, Touch};
use crate::settle::said::Records;

/// Files that are written anew together.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) parts: Vec<Arc<DataFile>>,
    /// Their rows that are to be merged.
    pub(super) ids: Vec<ClickId>,
    span: Span,
    /// The hour or day of their rows.
    period: i64,
}

impl Bucket {
    fn of(file: Arc<DataFile>, ids: Vec<ClickId>) -> Self {
        let hour = file.min_time.filter(|_| file.is_one_hour()).map(UtcMicros::hour);
        let (span, period) = match hour {
            Some(hour) => (Span::Hour, hour),
            None => (Span::Day, file.date.map_or(i64::MIN, i64::from)),
        };
        Self { parts: vec![file], ids, span, period }
    }

    /// Whether a file may be written together with these.
    fn has_room_for(&self, file: &DataFile, config: &CompactConfig) -> bool {
        let bytes: u64 = self.parts.iter().map(|part| part.size).sum();
        let rows: u64 = self.parts.iter().map(|part| part.rows).sum();
        self.parts.len() < config.max_files
            && bytes + file.size <= config.target_bytes
            && rows + file.rows <= config.target_rows
    }

    fn holds(&self, time: UtcMicros) -> bool {
        self.period
            == match self.span {
                Span::Hour => time.hour(),
                Span::Day => i64::from(time.day()),
            }
    }
}

/// The files in buckets: those of one hour together, as far as a merge may go.
pub(super) fn buckets(found: Found, config: &CompactConfig) -> Vec<Bucket> {
    let mut hours: BTreeMap<i64, Vec<Bucket>> = BTreeMap::new();
    let mut days = Vec::new();
    for (file, ids) in found {
        let mut bucket = Bucket::of(file, ids);
        if bucket.span == Span::Day {
            days.push(bucket);
            continue;
        }
        let of_hour = hours.entry(bucket.period).or_default();
        match of_hour.last_mut().filter(|last| last.has_room_for(&bucket.parts[0], config)) {
            Some(last) => {
                last.parts.append(&mut bucket.parts);
                last.ids.append(&mut bucket.ids);
            }
            None => of_hour.push(bucket),
        }
    }
    hours.into_values().flatten().chain(days).collect()
}

/// Rows before and after.
#[derive(Debug, Default)]
pub(super) struct Changed {
    rows: Vec<(UtcMicros, Click)>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What is to be told of it.
    pub(super) fn ledger(&self, final_through: Option<UtcMicros>) -> Ledger {
        let mut ledger = Ledger::new(final_through);
        for (before, row) in &self.rows {
            // at the time that is final, if either is
            let time = row.event_time.min(*before);
            ledger.touch(Touch::Changed, Why::Correction, &row.workspace, None, (row.click_id, time));
        }
        ledger
    }
}

fn unfit(source: ArrowError) -> SettleError {
    SettleError::Rows { table: Table::Clicks, source }
}

impl Bucket {
    /// The rows that are other ones once their records are merged into them.
    pub(super) async fn changed(
        &self,
        clicks: &TableHandle,
        left: &ById,
        records: &Records<'_>,
        enricher: &Enricher,
    ) -> Result<Changed, SettleError> {
        let mut changed = Changed::default();
        for part in &self.parts {
            let mut batches = clicks.batches(part, &[]).await?;
            while let Some(batch) = batches.next().await.transpose()? {
                let rows = ClickRows::of(&batch).map_err(unfit)?;
                for row in 0..batch.num_rows() {
                    let Some(better) = rows.id(row).and_then(|id| left.get(&id)) else { continue };
                    let before = rows.row(row).map_err(unfit)?;
                    let mut after = before.clone();
                    for at in better {
                        after = enricher.merged(&after, &records.row(*at)?).unwrap_or(after);
                    }
                    if after != before {
                        changed.rows.push((before.event_time, after));
                    }
                }
            }
        }
        Ok(changed)
    }

    /// The files that take the place of these.
    pub(super) async fn written(&self, clicks: &TableHandle, changed: &Changed) -> Result<Vec<NewFile>, SettleError> {
        let ids: Arc<IdSet> = Arc::new(changed.rows.iter().map(|(_, row)| row.click_id).collect());
        let mut sources: Vec<Batches> = Vec::with_capacity(self.parts.len() + 1);
        for part in &self.parts {
            let ids = Arc::clone(&ids);
            let others = clicks.batches(part, &[]).await?.and_then(move |batch| {
                let others = without(&batch, &ids);
                async move { others }
            });
            sources.push(others.boxed());
        }
        let all = changed.rows.iter().map(|(_, row)| row);
        let (mut stay, moved): (Vec<&Click>, Vec<&Click>) = all.partition(|row| self.holds(row.event_time));
        stay.sort_by(|a, b| (&a.workspace, &a.code, a.event_time).cmp(&(&b.workspace, &b.code, b.event_time)));
        sources.push(futures::stream::iter([Ok(built(&stay)?)]).boxed());
        let rows = self.parts.iter().map(|part| part.rows).sum();
        let mut files: Vec<NewFile> = joined(clicks, sources, rows, self.span).await?.into_iter().collect();
        files.extend(clicks.write(&built(&moved)?).await?);
        Ok(files)
    }
}

fn built(rows: &[&Click]) -> Result<RecordBatch, SettleError> {
    let mut builder = ClickBuilder::new();
    rows.iter().for_each(|row| builder.push(row));
    builder.finish().map_err(unfit)
}

/// The rows of a batch that have none of these ids.
fn without(batch: &RecordBatch, ids: &IdSet) -> Result<RecordBatch, LakeError> {
    let keep: BooleanArray = click_ids(batch).map(|id| Some(!ids.contains(&id))).collect();
    filter_record_batch(batch, &keep).map_err(|error| LakeError::Rows {
        table: Table::Clicks,
        doing: "leaving out rows",
        source: ParquetError::from(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::time::HOUR;

    fn file(path: &str, hours: (i64, i64), rows: u64) -> (Arc<DataFile>, Vec<ClickId>) {
        let file = DataFile {
            path: path.to_owned(),
            size: rows * 100,
            rows,
            date: Some(0),
            min_time: Some(UtcMicros(hours.0 * HOUR)),
            max_time: Some(UtcMicros(hours.1 * HOUR + 1)),
            written_ms: 0,
        };
        (Arc::new(file), vec![ClickId::from(u128::from(rows))])
    }

    #[test]
    fn files_of_an_hour_are_written_together_as_far_as_a_merge_goes() {
        let config = CompactConfig { max_files: 3, target_rows: 100, ..CompactConfig::default() };
        let found = vec![
            file("a", (5, 5), 10),
            file("day", (0, 9), 500),
            file("b", (6, 6), 10),
            file("c", (5, 5), 20),
            file("large", (5, 5), 90),
            file("d", (5, 5), 5),
        ];
        let buckets = buckets(found, &config);
        let paths: Vec<Vec<&str>> =
            buckets.iter().map(|bucket| bucket.parts.iter().map(|part| part.path.as_str()).collect()).collect();
        assert_eq!(paths, [vec!["a", "c"], vec!["large", "d"], vec!["b"], vec!["day"]]);
        assert_eq!(buckets[0].ids.len(), 2);
        assert!(buckets[0].holds(UtcMicros(6 * HOUR - 1)) && !buckets[0].holds(UtcMicros(6 * HOUR)));
        assert!(buckets[3].holds(UtcMicros(24 * HOUR - 1)) && !buckets[3].holds(UtcMicros(24 * HOUR)));
    }
}
