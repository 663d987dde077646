//! Events that wait in `arrivals`, so that one that is posted again meanwhile is told to be there.
//!
//! Lines of edge logs wait there under the same ids; those don't count here, or the event would be taken for them.

use std::collections::HashMap;
use std::time::Duration;

use arrow::array::AsArray as _;
use schemas::Source;

use crate::lake::{LakeError, TableHandle};
use crate::settle::ids::{IdSet, Spans, click_ids};
use crate::settle::{Arrival, Kind};

/// The ids of waiting events, by the file that holds them. Files never change under a path.
#[derive(Debug)]
pub(super) struct WaitingEvents {
    max_skew: Duration,
    by_file: HashMap<String, IdSet>,
}

impl WaitingEvents {
    /// Two records of one id are at most `max_skew` apart.
    pub(super) fn new(max_skew: Duration) -> Self {
        Self { max_skew, by_file: HashMap::new() }
    }

    /// Which of `events` wait.
    pub(super) async fn known(&mut self, arrivals: &TableHandle, events: &[Arrival]) -> Result<IdSet, LakeError> {
        let spans: Spans = events.iter().map(|event| event.time).collect();
        self.by_file.retain(|path, _| arrivals.files().iter().any(|file| file.path == *path));
        let mut known = IdSet::default();
        for file in arrivals.files().iter().filter(|file| spans.near(file.min_time, file.max_time, self.max_skew)) {
            if !self.by_file.contains_key(&file.path) {
                let mut ids = IdSet::default();
                for batch in arrivals.read(file, &["click_id", "source"]).await? {
                    let sources = batch.column_by_name("source").and_then(|column| column.as_string_opt::<i32>());
                    let is_event = |source: Option<&str>| {
                        let kind = source.and_then(|source| source.parse::<Source>().ok()).map(Kind::of);
                        matches!(kind, Some(Kind::Event(_) | Kind::Elsewhere(_)))
                    };
                    let rows = click_ids(&batch).zip(sources.into_iter().flatten());
                    ids.extend(rows.filter(|(_, source)| is_event(*source)).map(|(id, _)| id));
                }
                self.by_file.insert(file.path.clone(), ids);
            }
            if let Some(ids) = self.by_file.get(&file.path) {
                known.extend(events.iter().map(|event| event.id).filter(|id| ids.contains(id)));
            }
        }
        Ok(known)
    }
}
