//! Which changes of counts are under way, for answers that they touch: imports taken back, logs to be decided anew, and
//! operators' words. All of these say so in the lake before the first row comes or goes.

use std::sync::Arc;

use processor::import::{Stored, changing};
use processor::lake::{Lake, LakeError, TableHandle};
use processor::settle::words_under_way;
use query::Changing;
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::time::HOUR;
use tokio::sync::Mutex;

/// What the lake says of changes, kept from question to question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<Mutex<Option<Known>>>);

#[derive(Debug)]
struct Known {
    clicks: TableHandle,
    edge_files: TableHandle,
    /// What this version of `edge_files` says.
    logs: Vec<Changing>,
    version: i64,
}

impl Changes {
    /// What is under way now.
    ///
    /// # Errors
    /// When the lake can't be read.
    pub(crate) async fn look(&self, lake: &Lake) -> Result<Vec<Changing>, LakeError> {
        let mut state = self.0.lock().await;
        let mut known = match state.take() {
            Some(mut known) => {
                known.clicks.refresh().await?;
                known.edge_files.refresh().await?;
                known
            }
            None => {
                let (clicks, edge_files) = (lake.table(Table::Clicks).await?, lake.table(Table::EdgeFiles).await?);
                Known { clicks, edge_files, logs: Vec::new(), version: -1 }
            }
        };
        if known.edge_files.version() != known.version {
            known.logs = changing(&known.edge_files).await?.iter().map(of_log).collect();
            known.version = known.edge_files.version();
        }
        let words = words_under_way(&known.clicks).into_iter().map(|word| Changing {
            workspace: word.provider.split_once('/').map(|(_, workspace)| workspace.to_owned()),
            start: word.hour,
            end: UtcMicros(word.hour.0 + HOUR - 1),
            reason: format!("an operator's word is being carried out: misses of this hour are {}", word.word.as_str()),
        });
        let all = known.logs.iter().cloned().chain(words).collect();
        *state = Some(known);
        Ok(all)
    }
}

fn of_log(log: &Stored) -> Changing {
    let (start, end) = log.span();
    let reason = match log.summary.again_for {
        None => "a log or a file of events is being taken back",
        Some(_) => "a log is to be taken in again: lines of it may be missing",
    };
    Changing { workspace: log.owner().map(str::to_owned), start, end, reason: reason.to_owned() }
}
