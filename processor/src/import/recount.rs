//! What the lake holds of an import: for summaries that its own counting can't give, because a killed run did a part
//! of it, or because lines that waited have been settled since.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use schemas::tables::Table;
use schemas::{ClickId, Source, UtcMicros};

use super::summary::Added;
use crate::lake::{LakeError, TableHandle};
use crate::settle::guard::WaitingLines;
use crate::settle::ids::{IdSet, Spans, click_ids};
use crate::settle::sampled::sampled_txn;
use crate::settle::waiting::corrects;

/// Rows of one import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Of any source.
    pub(super) added: Added,
    /// Requests of lines that wait. One that was set back has brought what waits once more, and a settler that was killed
    /// leaves what is a row already: neither counts twice, else it would hide lines that others have counted.
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
    let mut waiting: HashMap<String, IdSet> = HashMap::new();
    for table in [arrivals, clicks] {
        let waits = table.table() == Table::Arrivals;
        let columns: &[&str] = match waits {
            true => &["import_id", "source", "corrects", "event_time", "provider", "workspace", "click_id"],
            false if waiting.is_empty() => &["import_id", "source"],
            false => &["import_id", "source", "click_id"],
        };
        for file in table.files().iter().filter(|file| near(file.min_time, file.max_time)) {
            for batch in table.read(file, columns).await? {
                let requests: Vec<ClickId> = click_ids(&batch).collect();
                count(&batch, imports, |row, id, source, line| {
                    if !all.contains_key(id) {
                        all.insert(id.to_owned(), Held::default());
                    }
                    let Some(held) = all.get_mut(id) else { return };
                    match source {
                        _ if waits => {
                            let Some(request) = requests.get(row) else { return };
                            if !waiting.entry(id.to_owned()).or_default().insert(*request) {
                                return;
                            }
                            held.waiting += 1;
                            if let Some((brought, workspace, hour)) = line.filter(|_| source == Some(Source::Recovered))
                            {
                                let line = (brought.to_owned(), workspace.to_owned(), hour);
                                *held.lines.entry(line).or_default() += 1;
                            }
                        }
                        Some(source) => {
                            held.added.add(source);
                            let waited = waiting.get_mut(id).zip(requests.get(row));
                            if waited.is_some_and(|(waiting, request)| waiting.remove(request)) {
                                held.waiting -= 1;
                            }
                        }
                        None => {}
                    }
                });
            }
        }
    }
    Ok(all)
}

/// Calls `found` for each row of these imports, with its place in the batch; with how it was brought, its workspace and
/// hour, if it waits.
fn count(
    batch: &RecordBatch,
    imports: &HashSet<&str>,
    mut found: impl FnMut(usize, &str, Option<Source>, Option<(&str, &str, i64)>),
) {
    let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let (brought, workspaces) = (text("provider"), text("workspace"));
    let times =
        batch.column_by_name("event_time").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let (Some(ids), Some(sources)) = (text("import_id"), text("source")) else {
        return;
    };
    // what only corrects waits for nothing
    for row in (0..batch.num_rows()).filter(|row| ids.is_valid(*row) && !corrects(batch, *row)) {
        if imports.contains(ids.value(row)) {
            let line = brought.zip(workspaces).zip(times).map(|((brought, workspaces), times)| {
                (brought.value(row), workspaces.value(row), UtcMicros(times.value(row)).hour())
            });
            found(row, ids.value(row), sources.value(row).parse().ok(), line);
        }
    }
}
