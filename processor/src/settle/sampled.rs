//! Records of `internal` links on their way into `clicks`: sampled by the lowest rate near them, and weighed (design §4.6).
//!
//! Whether the click of a record was sampled away can't be known here; that it fails the lowest rate recorded near it can. So
//! what was sampled away fails it too, and of what never was judged that rate's share is kept. The rate is recorded for the
//! record's own second, before its commit: whoever meets another record of it finds it there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, Float64Array, RecordBatch};
use arrow::datatypes::Float64Type;
use arrow::error::ArrowError;
use schemas::tables::{Table, UNWEIGHED};
use schemas::{ClickRows, LinkId, UtcMicros};

use super::desk::{Desk, TRIES};
use super::error::SettleError;
use super::union::{Arrival, Decision, Fate, sample};
use crate::lake::CommitError;
use crate::sample::{LINES, Rate, second_of};
use crate::sketch::{self, SampledAway};

/// Who has sampled events that were late or made elsewhere, as table `sampling` names it.
const SETTLER: &str = "settler";

/// Of each record the link, if it may be sampled.
pub(crate) fn links_of(rows: &[RecordBatch]) -> Vec<Option<LinkId>> {
    let mut links = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
    for batch in rows {
        let texts = batch.column_by_name("link_id").and_then(|column| column.as_string_opt::<i32>());
        let weights = batch.column_by_name("weight").and_then(|column| column.as_primitive_opt::<Float64Type>());
        let (Some(texts), Some(weights)) = (texts, weights) else {
            links.extend((0..batch.num_rows()).map(|_| None));
            continue;
        };
        // records of one link often follow each other
        let mut last: Option<(&str, Option<LinkId>)> = None;
        links.extend((0..batch.num_rows()).map(|row| {
            if weights.value(row) != UNWEIGHED || texts.is_null(row) {
                return None;
            }
            let text = texts.value(row);
            let link = match last {
                Some((known, link)) if known == text => link,
                _ => text.parse().ok(),
            };
            last = Some((text, link));
            link
        }));
    }
    links
}

impl Desk {
    /// Samples what is to be added.
    pub(super) async fn sample(
        &mut self,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        decision: &mut Decision,
    ) -> Result<(), SettleError> {
        let links = links_of(rows);
        let adds = arrivals.iter().zip(&links).zip(&decision.fates).filter(|(_, fate)| **fate == Fate::Add);
        let asked: BTreeSet<(LinkId, i64)> =
            adds.filter_map(|((arrival, link), _)| Some(((*link)?, second_of(arrival.time)))).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let lowest = self.rates.lowest(&asked).await?;
        sample(arrivals, decision, |at| links[at], &lowest);
        Ok(())
    }

    /// Which records are of seconds in which clicks of their link were sampled, as far as is known by now.
    pub(crate) async fn thinned(
        &mut self,
        arrivals: impl Iterator<Item = (Option<LinkId>, UtcMicros)> + Clone,
    ) -> Result<Vec<bool>, SettleError> {
        let asked = arrivals.clone().filter_map(|(link, time)| Some((link?, second_of(time)))).collect();
        let lowest = self.rates.lowest(&asked).await?;
        Ok(arrivals.map(|(link, time)| link.is_some_and(|link| lowest.has(link, second_of(time)))).collect())
    }

    /// Writes down by which rates records are sampled, before anything comes of it.
    pub(crate) async fn record(
        &mut self,
        rows: &[RecordBatch],
        arrivals: &[Arrival],
        decision: &Decision,
    ) -> Result<(), SettleError> {
        let is_used = |at: &usize| matches!(decision.fates[*at], Fate::Add | Fate::Sampled);
        let used: Vec<(usize, f64)> =
            decision.rates.iter().filter(|(at, _)| is_used(at)).map(|(at, rate)| (*at, *rate)).collect();
        if used.is_empty() {
            return Ok(());
        }
        let links = links_of(rows);
        let workspaces = super::guard::texts(rows, "workspace");
        let (lines, events): (Arc<str>, Arc<str>) = (LINES.into(), SETTLER.into());
        let mut rates: HashMap<(LinkId, i64, bool), Rate> = HashMap::new();
        for (at, rate) in used {
            let Some(link) = links[at] else { continue };
            let (second, is_line) = (second_of(arrivals[at].time), arrivals[at].kind.is_line());
            let known = rates.entry((link, second, is_line)).or_insert_with(|| Rate {
                workspace: workspaces[at].unwrap_or_default().into(),
                link,
                second,
                by: Arc::clone(if is_line { &lines } else { &events }),
                rate,
            });
            known.rate = known.rate.min(rate);
        }
        self.rates.record_new(rates.into_values().collect()).await.map_err(not_landed)?;
        self.leave_visitors(rows, decision).await
    }

    /// What is sampled away leaves its visitors.
    async fn leave_visitors(&mut self, rows: &[RecordBatch], decision: &Decision) -> Result<(), SettleError> {
        let failed = |source| SettleError::Rows { table: Table::Clicks, source };
        let (mut clicks, mut at) = (Vec::new(), 0);
        for batch in rows {
            let batch_rows = ClickRows::of(batch).map_err(failed)?;
            for row in 0..batch.num_rows() {
                // one that goes with another of its request has no rate of its own
                let rate = decision.rates.get(&(at + row)).filter(|_| decision.fates[at + row] == Fate::Sampled);
                if let Some(rate) = rate {
                    clicks.push((batch_rows.row(row).map_err(failed)?, *rate));
                }
            }
            at += batch.num_rows();
        }
        let away: Vec<SampledAway<'_>> =
            clicks.iter().filter_map(|(click, rate)| SampledAway::of_row(click, *rate)).collect();
        if away.is_empty() {
            return Ok(());
        }
        if self.hourly.is_none() {
            self.hourly = Some(self.clicks.lake().table(Table::ClicksHourly).await?);
        }
        let Some(hourly) = &mut self.hourly else { return Ok(()) };
        sketch::write(hourly, &away).await.map_err(not_landed)
    }
}

fn not_landed(error: CommitError) -> SettleError {
    match error {
        CommitError::Failed(source) => source.into(),
        // nothing is expected of the table: only too much traffic on it is left
        _ => SettleError::Busy { tries: TRIES },
    }
}

/// The rows to be added, which `added` are in this order, with what each weighs.
pub(super) fn weighed(added: Vec<RecordBatch>, decision: &Decision) -> Result<Vec<RecordBatch>, SettleError> {
    let adds = decision.fates.iter().enumerate().filter(|(_, fate)| **fate == Fate::Add);
    let mut rates = adds.map(|(at, _)| decision.rates.get(&at).copied().unwrap_or(1.0));
    let weigh = |batch: RecordBatch| {
        let at = batch.schema().index_of("weight")?;
        let weights = batch.column(at).as_primitive_opt::<Float64Type>();
        let weights = weights.ok_or_else(|| ArrowError::SchemaError("weight is no number".to_owned()))?;
        let rates: Vec<f64> = rates.by_ref().take(batch.num_rows()).collect();
        if weights.values().iter().all(|weight| *weight != UNWEIGHED) {
            return Ok(batch);
        }
        let known = weights.values().iter().zip(rates);
        let weights: Float64Array =
            known.map(|(weight, rate)| Some(if *weight == UNWEIGHED { 1.0 / rate } else { *weight })).collect();
        let mut columns = batch.columns().to_vec();
        columns[at] = Arc::new(weights);
        RecordBatch::try_new(batch.schema(), columns)
    };
    let weighed: Result<Vec<RecordBatch>, ArrowError> = added.into_iter().map(weigh).collect();
    weighed.map_err(|source| SettleError::Rows { table: Table::Clicks, source })
}

/// How many records of each import are sampled away.
pub(crate) fn by_import(rows: &[RecordBatch], mut is_one: impl FnMut(usize) -> bool) -> BTreeMap<String, i64> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let imports = super::guard::texts(rows, "import_id");
    for import in imports.iter().enumerate().filter(|(at, _)| is_one(*at)).filter_map(|(_, import)| *import) {
        match counts.get_mut(import) {
            Some(count) => *count += 1,
            None => {
                counts.insert(import.to_owned(), 1);
            }
        }
    }
    counts
}

/// The transaction that counts how many records of an import were sampled away, in the table that they have gone from or
/// would have come to.
pub(crate) fn sampled_txn(import_id: &str) -> String {
    format!("sampled/{import_id}")
}
