//! What the lake holds of an import: for summaries that its own counting can't give, because a killed run did a part
//! of it, or because lines that waited have been settled since.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use schemas::tables::Table;
use schemas::{Source, UtcMicros};

use super::summary::Added;
use crate::lake::{LakeError, TableHandle};
use crate::settle::guard::WaitingLines;
use crate::settle::ids::Spans;
use crate::settle::sampled::sampled_txn;
use crate::settle::waiting::corrects;

/// Rows of one import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Of any source.
    pub(super) added: Added,
    pub(super) waiting: u64,
    /// Of these, lines of requests that reached the origin.
    pub(super) lines: WaitingLines,
}

impl Held {
    /// Whether the lake holds nothing of the import.
    pub(super) fn is_empty(&self) -> bool {
        self.added.total() + self.waiting == 0
    }
}

impl Default for Held {
    fn default() -> Self {
        Self { added: Added::of_events(), waiting: 0, lines: WaitingLines::new() }
    }
}

/// Counts the rows of `import_id` whose times are among `spans`.
pub(super) async fn held(
    clicks: &TableHandle,
    arrivals: &TableHandle,
    import_id: &str,
    spans: &Spans,
) -> Result<Held, LakeError> {
    let mut all =
        held_of(clicks, arrivals, &HashSet::from([import_id]), |min, max| spans.near(min, max, Duration::ZERO)).await?;
    Ok(all.remove(import_id).unwrap_or_default())
}

/// How many lines of an import were sampled away: when they came, or after they had waited.
pub(super) fn sampled(clicks: &TableHandle, arrivals: &TableHandle, import_id: &str) -> u64 {
    let txn = sampled_txn(import_id);
    [clicks, arrivals].into_iter().filter_map(|table| table.txn(&txn)).sum::<i64>().unsigned_abs()
}

/// Counts the rows of each of `imports`, in files that may be of interest by their first and last time.
pub(super) async fn held_of(
    clicks: &TableHandle,
    arrivals: &TableHandle,
    imports: &HashSet<&str>,
    near: impl Fn(Option<UtcMicros>, Option<UtcMicros>) -> bool,
) -> Result<HashMap<String, Held>, LakeError> {
    let mut all: HashMap<String, Held> = HashMap::new();
    for table in [arrivals, clicks] {
        let waits = table.table() == Table::Arrivals;
        let columns: &[&str] = if waits {
            &["import_id", "source", "corrects", "event_time", "provider", "workspace"]
        } else {
            &["import_id", "source"]
        };
        for file in table.files().iter().filter(|file| near(file.min_time, file.max_time)) {
            for batch in table.read(file, columns).await? {
                count(&batch, imports, |id, source, line| {
                    if !all.contains_key(id) {
                        all.insert(id.to_owned(), Held::default());
                    }
                    let Some(held) = all.get_mut(id) else { return };
                    match source {
                        _ if waits => {
                            held.waiting += 1;
                            if let Some((brought, workspace, hour)) = line.filter(|_| source == Some(Source::Recovered))
                            {
                                let line = (brought.to_owned(), workspace.to_owned(), hour);
                                *held.lines.entry(line).or_default() += 1;
                            }
                        }
                        Some(source) => held.added.add(source),
                        None => {}
                    }
                });
            }
        }
    }
    Ok(all)
}

/// Calls `found` for each row of these imports; with how it was brought, its workspace and hour, if it waits.
fn count(
    batch: &RecordBatch,
    imports: &HashSet<&str>,
    mut found: impl FnMut(&str, Option<Source>, Option<(&str, &str, i64)>),
) {
    let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let (brought, workspaces) = (text("provider"), text("workspace"));
    let times =
        batch.column_by_name("event_time").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let (Some(ids), Some(sources)) = (batch.column(0).as_string_opt::<i32>(), batch.column(1).as_string_opt::<i32>())
    else {
        return;
    };
    // what only corrects waits for nothing
    for row in (0..batch.num_rows()).filter(|row| ids.is_valid(*row) && !corrects(batch, *row)) {
        if imports.contains(ids.value(row)) {
            let line = brought.zip(workspaces).zip(times).map(|((brought, workspaces), times)| {
                (brought.value(row), workspaces.value(row), UtcMicros(times.value(row)).hour())
            });
            found(ids.value(row), sources.value(row).parse().ok(), line);
        }
    }
}
