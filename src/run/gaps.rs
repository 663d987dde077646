//! Losses become rows of table `gaps`: when even the reserve of the disk was full, billed clicks went unwritten, and
//! every answer that this touches must name it (promise P2).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use ingest::journal::{Journal, Losses};
use processor::lake::{Change, Lake};
use schemas::tables::Table;
use schemas::{JournalId, UtcMicros};
use tokio_util::sync::CancellationToken;

/// How often losses are looked for.
const EVERY: Duration = Duration::from_secs(5);

/// Clicks lost since the last row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gap {
    journal: JournalId,
    start: UtcMicros,
    end: UtcMicros,
    lost: u64,
    reason: &'static str,
}

/// What has been written down of each journal's losses. Pure.
#[derive(Debug, Default)]
struct Recorded(HashMap<JournalId, Losses>);

impl Recorded {
    /// The gap between what was recorded and what a journal says now; none when nothing was lost since.
    fn gap(&self, journal: JournalId, losses: &Losses) -> Option<Gap> {
        let before = self.0.get(&journal).copied().unwrap_or_default();
        let (first, last) = (losses.first?, losses.last?);
        let lost = losses.count.saturating_sub(before.count);
        let reason = losses.why.map_or("unknown", ingest::journal::Refusal::as_str);
        (lost > 0).then(|| Gap { journal, start: before.last.unwrap_or(first), end: last, lost, reason })
    }
}

/// Writes losses of `journals` down until `stop`, and a last time then. What can't be written now, as on a disk that is
/// still full, is written when it can.
pub(crate) async fn record(journals: Vec<Journal>, lake: Lake, stop: CancellationToken) {
    let mut recorded = Recorded::default();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let stopping = stop.run_until_cancelled(ticks.tick()).await.is_none();
        let now: Vec<(JournalId, Losses)> = journals.iter().map(|one| (one.id(), one.stats().lost)).collect();
        let gaps: Vec<Gap> = now.iter().filter_map(|(id, losses)| recorded.gap(*id, losses)).collect();
        if !gaps.is_empty() {
            let lost: u64 = gaps.iter().map(|gap| gap.lost).sum();
            match write(&lake, &gaps).await {
                Ok(()) => {
                    tracing::error!(lost, "billed clicks were lost: the disk and its reserve were full");
                    recorded.0.extend(now);
                }
                Err(error) => tracing::warn!(%error, lost, "a gap can't be written down yet"),
            }
        }
        if stopping {
            return;
        }
    }
}

async fn write(lake: &Lake, gaps: &[Gap]) -> anyhow::Result<()> {
    let mut table = lake.table(Table::Gaps).await?;
    let add = table.write(&rows(gaps, UtcMicros::now())?).await?;
    table.commit(Change { add, ..Change::default() }).await?;
    Ok(())
}

/// Rows of no workspace: what was lost can be any tenant's.
fn rows(gaps: &[Gap], now: UtcMicros) -> anyhow::Result<RecordBatch> {
    let texts = |of: fn(&Gap) -> String| Arc::new(StringArray::from_iter_values(gaps.iter().map(of))) as ArrayRef;
    let instants = |of: &dyn Fn(&Gap) -> i64| {
        let values = TimestampMicrosecondArray::from_iter_values(gaps.iter().map(of));
        Arc::new(values.with_timezone("UTC")) as ArrayRef
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::new_null(gaps.len())),
        texts(|gap| gap.journal.to_string()),
        instants(&|gap| gap.start.0),
        instants(&|gap| gap.end.0),
        Arc::new(Int64Array::from_iter_values(gaps.iter().map(|gap| gap.lost as i64))),
        texts(|gap| gap.reason.to_owned()),
        instants(&|_| now.0),
    ];
    Ok(RecordBatch::try_new(Table::Gaps.schema(), columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::journal::Refusal;

    #[test]
    fn what_was_lost_since_is_a_gap_from_the_last_one_on() {
        let id = JournalId::new();
        let losses = |count, first, last| Losses {
            count,
            first: Some(UtcMicros(first)),
            last: Some(UtcMicros(last)),
            why: Some(Refusal::Full),
        };
        let mut recorded = Recorded::default();
        assert_eq!(recorded.gap(id, &Losses::default()), None);
        let first = losses(3, 10, 20);
        let gap = recorded.gap(id, &first).unwrap();
        assert_eq!((gap.start, gap.end, gap.lost, gap.reason), (UtcMicros(10), UtcMicros(20), 3, "full"));
        recorded.0.insert(id, first);
        assert_eq!(recorded.gap(id, &first), None);
        let gap = recorded.gap(id, &losses(5, 10, 30)).unwrap();
        assert_eq!((gap.start, gap.end, gap.lost), (UtcMicros(20), UtcMicros(30), 2));
        assert_eq!(rows(&[gap], UtcMicros(99)).unwrap().num_rows(), 1);
    }
}
