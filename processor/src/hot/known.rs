//! Asking the lake which ids it holds, where the window can't tell: at a start, after a takeover, under backlog.
//!
//! Files never change, so their ids are kept, sorted, while questions still reach them, up to a byte limit. Files
//! that this process has written need not be read while the window remembers all of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray as _;
use futures::{StreamExt as _, TryStreamExt as _};
use schemas::{ClickId, UtcMicros};

use super::window::Window;
use crate::lake::{DataFile, LakeError, TableHandle};
use crate::settle::ids::{Spans, common};

/// Files read at once: after a start there may be many small ones.
const READS: usize = 8;

/// The ids of files, as far as they have been needed.
#[derive(Debug)]
pub(super) struct KnownIds {
    read: HashMap<String, Arc<Vec<u128>>>,
    own: HashSet<String>,
    max_bytes: usize,
    max_skew: Duration,
}

impl KnownIds {
    pub(super) fn new(max_bytes: usize, max_skew: Duration) -> Self {
        Self { read: HashMap::new(), own: HashSet::new(), max_bytes, max_skew }
    }

    /// Notes files whose ids are all in the window.
    pub(super) fn wrote(&mut self, files: impl IntoIterator<Item = String>) {
        self.own.extend(files);
    }

    /// Of the ids asked for, those that the lake holds within `max_skew` of their times. May hold more ids than that.
    pub(super) async fn ask(
        &mut self,
        clicks: &TableHandle,
        window: &Window,
        questions: &[(ClickId, UtcMicros)],
    ) -> Result<HashSet<ClickId>, LakeError> {
        if questions.is_empty() {
            self.read = HashMap::new();
            return Ok(HashSet::new());
        }
        let spans: Spans = questions.iter().map(|(_, time)| *time).collect();
        let is_near = |file: &DataFile| spans.near(file.min_time, file.max_time, self.max_skew);
        let files = clicks.files().iter().filter(|file| is_near(file) && !self.is_remembered(file, window));
        let files: Vec<Arc<DataFile>> = files.cloned().collect();
        self.keep_only(&files, clicks);

        let mut asked: Vec<u128> = questions.iter().map(|(id, _)| id.as_u128()).collect();
        asked.sort_unstable();
        let mut found = HashSet::new();
        let mut held: usize = self.read.values().map(|ids| ids.len() * 16).sum();
        let known = files.iter().map(|file| (Arc::clone(file), self.read.get(&file.path).cloned()));
        let known: Vec<_> = known.collect();
        let mut reading = futures::stream::iter(known)
            .map(|(file, ids)| async move {
                let ids = match ids {
                    Some(ids) => ids,
                    None => Arc::new(ids_of(clicks, &file).await?),
                };
                Ok::<_, LakeError>((file, ids))
            })
            .buffer_unordered(READS);
        while let Some((file, ids)) = reading.try_next().await? {
            common(&asked, &ids, |id| {
                found.insert(ClickId::from(id));
            });
            if held + ids.len() * 16 <= self.max_bytes && !self.read.contains_key(&file.path) {
                held += ids.len() * 16;
                self.read.insert(file.path.clone(), ids);
            }
        }
        Ok(found)
    }

    /// Whether all ids of `file` are in the window.
    fn is_remembered(&self, file: &DataFile, window: &Window) -> bool {
        self.own.contains(&file.path) && file.min_time.is_some_and(|first| window.remembers(first))
    }

    fn keep_only(&mut self, files: &[Arc<DataFile>], clicks: &TableHandle) {
        let wanted: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        self.read.retain(|path, _| wanted.contains(path.as_str()));
        if self.own.len() > 2 * clicks.files().len() + 100 {
            let live: HashSet<&str> = clicks.files().iter().map(|file| file.path.as_str()).collect();
            self.own.retain(|path| live.contains(path.as_str()));
        }
    }
}

/// All ids of a file, sorted.
async fn ids_of(clicks: &TableHandle, file: &DataFile) -> Result<Vec<u128>, LakeError> {
    let batches = clicks.read(file, &["click_id"]).await?;
    let rows = file.rows as usize;
    let sorted = tokio::task::spawn_blocking(move || {
        let mut ids = Vec::with_capacity(rows);
        for batch in batches {
            let column = batch.column(0).as_binary::<i32>();
            ids.extend(column.iter().flatten().filter_map(|id| Some(u128::from_be_bytes(id.try_into().ok()?))));
        }
        ids.sort_unstable();
        ids
    });
    sorted.await.map_err(|e| LakeError::Rows {
        table: clicks.table(),
        doing: "sorting ids",
        source: parquet::errors::ParquetError::External(Box::new(e)),
    })
}
