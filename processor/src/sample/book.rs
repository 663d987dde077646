//! The rates that table `sampling` holds: read where they are asked for, and written before they are used.
//!
//! Files never change, so their rates are kept while questions reach them. Every question is answered by the newest version
//! of the table: others may have recorded meanwhile.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray as _, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Float64Type, TimestampMicrosecondType};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use schemas::tables::Table;
use schemas::time::SECOND;
use schemas::{LinkId, UtcMicros};

use super::lowest::{Known, Lowest, Recorded, second_of};
use crate::lake::{Change, CommitError, DataFile, Lake, LakeError, TableHandle};
use crate::settle::ids::Spans;

/// Rates kept in memory; when there are more, those of files that are not asked for are forgotten, and at twice as many all.
const MOST_KEPT: usize = 1 << 20;
/// Rates that are known to be written at most; when there are more, all are forgotten.
const MOST_WRITTEN: usize = 1 << 17;

/// What was recorded so lately is in force.
const RECENT: Duration = Duration::from_secs(10);

/// Who has sampled lines of edge logs, as table `sampling` names it.
pub(crate) const LINES: &str = "lines";

/// A rate to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate {
    /// Whose link it is.
    pub(crate) workspace: Arc<str>,
    /// The link.
    pub(crate) link: LinkId,
    /// Seconds since the epoch.
    pub(crate) second: i64,
    /// Who has kept at it: a partition, or a settler, as which it is [`LINES`] for lines of edge logs.
    pub(crate) by: Arc<str>,
    /// Above 0, below 1.
    pub(crate) rate: f64,
}

/// Table `sampling`, for one task.
#[derive(Debug)]
pub(crate) struct RateBook {
    lake: Lake,
    /// How far two records of one id are apart at most.
    reach: Duration,
    table: Option<TableHandle>,
    files: HashMap<String, Arc<Recorded>>,
    /// What was recorded here, so that it needn't be again.
    written: HashMap<(Arc<str>, LinkId, i64), f64>,
}

impl RateBook {
    /// The book of a lake. Two records of one id are at most `repeat` apart beyond the `skew` of clocks.
    pub(crate) fn new(lake: Lake, skew: Duration, repeat: Duration) -> Self {
        Self { lake, reach: skew + repeat, table: None, files: HashMap::new(), written: HashMap::new() }
    }

    /// The lowest rates near these seconds of links, as recorded by now.
    ///
    /// # Errors
    /// When the table can't be read.
    pub(crate) async fn lowest(&mut self, asked: &BTreeSet<(LinkId, i64)>) -> Result<Lowest, LakeError> {
        let mut lowest = Lowest::default();
        if asked.is_empty() {
            return Ok(lowest);
        }
        let table = opened(&mut self.table, &self.lake).await?;
        table.refresh().await?;
        let spans: Spans = asked.iter().map(|(_, second)| UtcMicros(second.saturating_mul(SECOND))).collect();
        let reach = self.reach + Duration::from_secs(1);
        let near: Vec<Arc<DataFile>> =
            table.files().iter().filter(|file| spans.near(file.min_time, file.max_time, reach)).cloned().collect();
        self.make_room(&near);
        for file in &near {
            let recorded = match self.files.get(&file.path) {
                Some(recorded) => Arc::clone(recorded),
                None => {
                    let table = opened(&mut self.table, &self.lake).await?;
                    let recorded = Arc::new(read(table, file).await?);
                    self.files.insert(file.path.clone(), Arc::clone(&recorded));
                    recorded
                }
            };
            lowest.add(&recorded, asked.iter().copied(), self.reach);
        }
        Ok(lowest)
    }

    /// The newest second that has a rate recorded, as far as is known here.
    ///
    /// # Errors
    /// When the table can't be read.
    pub(crate) async fn newest(&mut self) -> Result<Option<UtcMicros>, LakeError> {
        let table = opened(&mut self.table, &self.lake).await?;
        table.refresh().await?;
        Ok(table.files().iter().filter_map(|file| file.max_time).max())
    }

    /// Writes rates down. What is recorded twice says no more than once.
    ///
    /// # Errors
    /// When the commit fails; it may have landed, and can be repeated.
    pub(crate) async fn record(&mut self, rates: &[Rate]) -> Result<(), CommitError> {
        if rates.is_empty() {
            return Ok(());
        }
        let rows = rows(rates, UtcMicros::now()).map_err(|e| CommitError::Failed(unfit("building rows", e.into())))?;
        let table = opened(&mut self.table, &self.lake).await.map_err(CommitError::Failed)?;
        let add = table.write(&rows).await.map_err(CommitError::Failed)?;
        let paths: Vec<String> = add.iter().map(|file| file.path().to_owned()).collect();
        table.commit(Change { add, ..Change::default() }).await?;
        let known =
            |one: &Rate| Known { link: one.link, second: one.second, by_lines: is_lines(&one.by), rate: one.rate };
        let recorded: Arc<Recorded> = Arc::new(rates.iter().map(known).collect());
        self.files.extend(paths.into_iter().map(|path| (path, Arc::clone(&recorded))));
        Ok(())
    }

    /// Writes down those of `rates` that aren't known to be, from this task's own writing alone.
    ///
    /// # Errors
    /// As [`RateBook::record`].
    pub(crate) async fn record_new(&mut self, mut rates: Vec<Rate>) -> Result<(), CommitError> {
        let key = |one: &Rate| (Arc::clone(&one.by), one.link, one.second);
        rates.retain(|one| self.written.get(&key(one)).is_none_or(|written| *written > one.rate));
        self.record(&rates).await?;
        if self.written.len() > MOST_WRITTEN {
            self.written.clear();
        }
        self.written.extend(rates.iter().map(|one| (key(one), one.rate)));
        Ok(())
    }

    fn make_room(&mut self, near: &[Arc<DataFile>]) {
        let kept = |files: &HashMap<String, Arc<Recorded>>| files.values().map(|file| file.len()).sum::<usize>();
        if kept(&self.files) > MOST_KEPT {
            let near: HashSet<&str> = near.iter().map(|file| file.path.as_str()).collect();
            self.files.retain(|path, _| near.contains(path.as_str()));
        }
        if kept(&self.files) > 2 * MOST_KEPT {
            self.files.clear();
        }
    }
}

fn is_lines(by: &str) -> bool {
    by == LINES
}

/// The lowest rate that clicks were sampled at in the last ten seconds, by whatever process; `None` without any.
///
/// # Errors
/// When the table can't be read.
pub async fn rate_in_force(lake: &Lake, now: UtcMicros) -> Result<Option<f64>, LakeError> {
    let (table, since) = (lake.table(Table::Sampling).await?, now.minus(RECENT));
    let mut lowest: Option<f64> = None;
    // files are put together now and then, whatever their rows' age
    for file in table.files().iter().filter(|file| file.written_ms >= since.0 / 1_000) {
        for batch in table.read(file, &["rate", "recorded_at"]).await? {
            let rates = batch.column_by_name("rate").and_then(|column| column.as_primitive_opt::<Float64Type>());
            let at = batch.column_by_name("recorded_at").and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
            let (Some(rates), Some(at)) = (rates, at) else { continue };
            let recent = rates.values().iter().zip(at.values()).filter(|(_, at)| **at >= since.0);
            lowest = recent.map(|(rate, _)| *rate).chain(lowest).reduce(f64::min);
        }
    }
    Ok(lowest)
}

async fn opened<'a>(table: &'a mut Option<TableHandle>, lake: &Lake) -> Result<&'a mut TableHandle, LakeError> {
    match table {
        Some(table) => Ok(table),
        None => Ok(table.insert(lake.table(Table::Sampling).await?)),
    }
}

fn unfit(doing: &'static str, source: ParquetError) -> LakeError {
    LakeError::Rows { table: Table::Sampling, doing, source }
}

async fn read(table: &TableHandle, file: &DataFile) -> Result<Recorded, LakeError> {
    let mut all = Vec::with_capacity(file.rows as usize);
    for batch in table.read(file, &["link_id", "second", "partition", "rate"]).await? {
        let links = batch.column_by_name("link_id").and_then(|column| column.as_string_opt::<i32>());
        let seconds = batch.column_by_name("second").and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
        let by = batch.column_by_name("partition").and_then(|column| column.as_string_opt::<i32>());
        let rates = batch.column_by_name("rate").and_then(|column| column.as_primitive_opt::<Float64Type>());
        let (Some(links), Some(seconds), Some(by), Some(rates)) = (links, seconds, by, rates) else {
            return Err(unfit("reading rows", ParquetError::General("a column is missing or of another type".into())));
        };
        // most rows of a file are of few links
        let mut last: Option<(&str, LinkId)> = None;
        for row in 0..batch.num_rows() {
            let text = links.value(row);
            let link = match last {
                Some((known, link)) if known == text => link,
                _ => {
                    text.parse().map_err(|_| unfit("reading rows", ParquetError::General(format!("link {text:?}"))))?
                }
            };
            last = Some((text, link));
            let (second, by_lines) = (second_of(UtcMicros(seconds.value(row))), is_lines(by.value(row)));
            all.push(Known { link, second, by_lines, rate: rates.value(row) });
        }
    }
    Ok(all.into_iter().collect())
}

fn rows(rates: &[Rate], now: UtcMicros) -> Result<RecordBatch, ArrowError> {
    let mut rates: Vec<&Rate> = rates.iter().collect();
    rates.sort_by(|a, b| (&a.workspace, a.link, a.second, &a.by).cmp(&(&b.workspace, b.link, b.second, &b.by)));
    let instants = |instants: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(instants).with_timezone("UTC"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(rates.iter().map(|one| &*one.workspace))),
        Arc::new(StringArray::from_iter_values(rates.iter().map(|one| one.link.to_string()))),
        instants(rates.iter().map(|one| one.second * SECOND).collect()),
        Arc::new(StringArray::from_iter_values(rates.iter().map(|one| &*one.by))),
        Arc::new(Float64Array::from_iter_values(rates.iter().map(|one| one.rate))),
        instants(vec![now.0; rates.len()]),
    ];
    RecordBatch::try_new(Table::Sampling.schema(), columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::LakeOptions;
    use object_store::memory::InMemory;

    fn lake(store: &Arc<InMemory>) -> Lake {
        let url = url::Url::parse("memory:///lake").unwrap();
        Lake::with_store(Arc::clone(store) as _, url, LakeOptions::default()).unwrap()
    }

    fn book(store: &Arc<InMemory>) -> RateBook {
        RateBook::new(lake(store), Duration::from_secs(5), Duration::from_secs(60))
    }

    fn rate(link: LinkId, second: i64, rate: f64) -> Rate {
        Rate { workspace: "w".into(), link, second, by: "p".into(), rate }
    }

    #[tokio::test]
    async fn what_one_records_others_find() {
        let (store, link, other) = (Arc::new(InMemory::new()), LinkId::new(), LinkId::new());
        let (mut one, mut two) = (book(&store), book(&store));
        let asked: BTreeSet<(LinkId, i64)> = [(link, 1_000), (link, 5_000), (other, 1_000)].into();
        assert_eq!(two.lowest(&asked).await.unwrap(), Lowest::default());
        assert_eq!(two.newest().await.unwrap(), None);
        one.record(&[rate(link, 1_065, 0.5), rate(link, 1_066, 0.1), rate(other, 9_000, 0.2)]).await.unwrap();
        for book in [&mut one, &mut two] {
            let lowest = book.lowest(&asked).await.unwrap();
            let of = |link, second: i64| lowest.of_event(link, UtcMicros(second * SECOND));
            assert_eq!([of(link, 1_000), of(link, 5_000), of(other, 1_000)], [0.5, 1.0, 1.0]);
            assert_eq!(book.newest().await.unwrap(), Some(UtcMicros(9_000 * SECOND)));
        }
        let (lake, now) = (lake(&store), UtcMicros::now());
        assert_eq!(rate_in_force(&lake, now).await.unwrap(), Some(0.1));
        assert_eq!(rate_in_force(&lake, now.plus(Duration::from_secs(3_600))).await.unwrap(), None);
        two.record(&[rate(link, 1_000, 0.25)]).await.unwrap();
        two.record(&[]).await.unwrap();
        let lowest = one.lowest(&asked).await.unwrap();
        assert_eq!(lowest.of_event(link, UtcMicros(1_000 * SECOND)), 0.25);
        assert!(lowest.has(link, 1_000) && !lowest.has(other, 1_000));
        one.record(&[Rate { by: LINES.into(), ..rate(other, 1_020, 0.5) }]).await.unwrap();
        for book in [&mut one, &mut two] {
            let lowest = book.lowest(&asked).await.unwrap();
            let time = UtcMicros(1_000 * SECOND);
            assert_eq!((lowest.of_event(other, time), lowest.of_line(other, time)), (0.5, 1.0));
        }
    }

    #[tokio::test]
    async fn what_was_recorded_here_is_not_recorded_again_unless_it_is_lower() {
        let (store, link) = (Arc::new(InMemory::new()), LinkId::new());
        let mut book = book(&store);
        for (rates, files) in [
            (vec![rate(link, 5, 0.5)], 1),
            (vec![rate(link, 5, 0.5)], 1),
            (vec![rate(link, 5, 0.6), rate(link, 6, 0.5)], 2),
            (vec![rate(link, 5, 0.4)], 3),
        ] {
            book.record_new(rates).await.unwrap();
            assert_eq!(book.table.as_ref().unwrap().files().len(), files);
        }
    }
}
