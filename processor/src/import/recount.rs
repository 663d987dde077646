//! What the lake holds of an import: for summaries that its own counting can't give, because a killed run did a part
//! of it, or because lines that waited have been settled since.

use std::time::Duration;

use arrow::array::{Array as _, AsArray as _};
use schemas::Source;

use super::summary::Added;
use crate::lake::{LakeError, TableHandle};
use crate::settle::ids::Spans;

/// Rows of one import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) added: Added,
    pub(super) waiting: u64,
}

/// Counts the rows of `import_id` whose times are among `spans`.
pub(super) async fn held(
    clicks: &TableHandle,
    arrivals: &TableHandle,
    import_id: &str,
    spans: &Spans,
) -> Result<Held, LakeError> {
    let mut held = Held::default();
    count(clicks, import_id, spans, |source| match source {
        Some(Source::Edge) => held.added.edge += 1,
        Some(Source::Recovered) => held.added.recovered += 1,
        _ => {}
    })
    .await?;
    let mut waiting = 0;
    count(arrivals, import_id, spans, |_| waiting += 1).await?;
    Ok(Held { waiting, ..held })
}

async fn count(
    table: &TableHandle,
    import_id: &str,
    spans: &Spans,
    mut found: impl FnMut(Option<Source>),
) -> Result<(), LakeError> {
    for file in table.files().iter().filter(|file| spans.near(file.min_time, file.max_time, Duration::ZERO)) {
        for batch in table.read(file, &["import_id", "source"]).await? {
            let (Some(ids), Some(sources)) =
                (batch.column(0).as_string_opt::<i32>(), batch.column(1).as_string_opt::<i32>())
            else {
                continue;
            };
            for row in 0..batch.num_rows() {
                if ids.is_valid(row) && ids.value(row) == import_id {
                    found(sources.value(row).parse().ok());
                }
            }
        }
    }
    Ok(())
}
