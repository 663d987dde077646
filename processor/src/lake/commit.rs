//! A commit: judged on the very version that it builds on, at every attempt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use deltalake::kernel::transaction::TransactionError;
use deltalake::logstore::CommitOrBytes;
use schemas::UtcMicros;
use serde_json::Value;
use uuid::Uuid;

use super::log::{Add, CommitInfo, DataFile, Line, Remove, Txn, print};
use super::place::Place;
use super::replay;
use super::table::Passed;
use super::{CommitError, LakeError, NewFile, TableHandle};

/// What the log says who wrote it.
pub(super) const ENGINE: &str = concat!("highwater/", env!("CARGO_PKG_VERSION"));

/// How often a commit that others got ahead of is tried on the next version.
const ATTEMPTS: u32 = 30;

/// What one commit does.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Files written by [`TableHandle::write`] that become part of the table.
    pub add: Vec<NewFile>,
    /// Files that leave it.
    pub remove: Vec<Arc<DataFile>>,
    /// Application transactions to set. Another commit since the handle's version that sets one of them is a conflict.
    pub txns: Vec<(String, i64)>,
    /// Application transactions as they must stand in the version that the commit builds on.
    pub expect: Vec<(String, Option<i64>)>,
    /// The rows stay the same and only change files (compaction).
    pub rewrite_only: bool,
}

/// What has been done by others since the caller judged.
#[derive(Debug, Default)]
struct Others {
    txns: HashSet<String>,
    reloaded: bool,
}

impl TableHandle {
    /// Lands `change` as the next version, whose number is returned. Commits of others that don't touch what this one
    /// touches are taken in and built upon; the handle shows the newest version known in any case.
    ///
    /// # Errors
    /// As [`CommitError`] says. After `Failed` it is unknown whether the commit landed.
    pub async fn commit(&mut self, change: Change) -> Result<i64, CommitError> {
        self.lake.prove().await.map_err(CommitError::Failed)?;
        let id = Uuid::new_v4().to_string();
        let mut others = Others::default();
        for attempt in 1..=ATTEMPTS {
            let looked_at = UtcMicros::now();
            let passed = self.catch_up().await.map_err(CommitError::Failed)?;
            if let Some(version) = others.take(passed, &id) {
                return Ok(self.landed(version));
            }
            self.judge(&change, &others)?;
            let mut lines = self.lines_of(&change, &id);
            lines.extend(self.missing_columns()?);
            let bytes = print(&lines)
                .map_err(|e| CommitError::Failed(self.place.corrupt(&Place::entry(self.version() + 1), e)))?;
            let version = self.version() + 1;
            match self.put_entry(version, bytes).await {
                Ok(true) => {
                    self.check_pause(version, looked_at).await?;
                    let entry = replay::Entry { version, lines };
                    replay::apply(&self.place, &mut self.state, &entry).map_err(CommitError::Failed)?;
                    return Ok(self.landed(version));
                }
                Ok(false) => back_off(attempt).await,
                Err(failure) => return self.look_for(&id, others, failure).await,
            }
        }
        Err(CommitError::Conflict { what: format!("the table {ATTEMPTS} times in a row") })
    }

    fn landed(&self, version: i64) -> i64 {
        self.note_files();
        self.lake.tell(self.table(), version);
        version
    }

    /// Whether `change` may build on the version that the handle shows.
    fn judge(&self, change: &Change, others: &Others) -> Result<(), CommitError> {
        for (app_id, expected) in &change.expect {
            let stored = self.txn(app_id);
            if stored != *expected {
                return Err(CommitError::Moved { app_id: app_id.clone(), expected: *expected, stored });
            }
        }
        if others.reloaded && !change.txns.is_empty() {
            return Err(CommitError::Conflict { what: "more than the log still tells".to_owned() });
        }
        if let Some((app_id, _)) = change.txns.iter().find(|(app_id, _)| others.txns.contains(app_id)) {
            return Err(CommitError::Conflict { what: format!("transaction {app_id:?}") });
        }
        if !change.remove.is_empty() {
            let live: HashSet<&str> = self.files().iter().map(|file| file.path.as_str()).collect();
            if let Some(gone) = change.remove.iter().find(|file| !live.contains(file.path.as_str())) {
                return Err(CommitError::Conflict { what: format!("file {}", gone.path) });
            }
        }
        let limit = (self.lake.options().keep / 2).max(Duration::from_secs(10));
        for file in &change.add {
            let age = UtcMicros::now().since(file.written);
            if age > limit {
                return Err(CommitError::Expired { path: file.path.clone(), age });
            }
        }
        Ok(())
    }

    /// Puts a log entry; `false` when that version is taken.
    async fn put_entry(&self, version: i64, bytes: Vec<u8>) -> Result<bool, LakeError> {
        let entry = CommitOrBytes::LogBytes(bytes.into());
        let put = self.place.log.write_commit_entry(version.max(0) as u64, entry, Uuid::new_v4());
        match tokio::time::timeout(self.place.deadline(), put).await {
            Ok(Ok(())) => Ok(true),
            Ok(Err(TransactionError::VersionAlreadyExists(_))) => Ok(false),
            Ok(Err(source)) => {
                Err(LakeError::Delta { table: self.table(), doing: "committing", source: Box::new(source.into()) })
            }
            Err(_) => Err(self.place.too_late("committing")),
        }
    }

    /// A process that slept for long between looking and putting may have put its entry where a clean-up had made
    /// room: then it isn't part of the table, although nothing failed. The caller must compare.
    async fn check_pause(&mut self, version: i64, looked_at: UtcMicros) -> Result<(), CommitError> {
        let pause = UtcMicros::now().since(looked_at);
        let limit = (self.lake.options().keep / 4).max(Duration::from_secs(5)).max(2 * self.place.deadline());
        if pause <= limit {
            return Ok(());
        }
        self.reload().await.map_err(CommitError::Failed)?;
        let reason = format!("paused for {pause:?} while committing");
        Err(CommitError::Failed(self.place.corrupt(&Place::entry(version), reason)))
    }

    /// The put failed, or its answer was lost: looks whether the entry is there.
    async fn look_for(&mut self, id: &str, mut others: Others, failure: LakeError) -> Result<i64, CommitError> {
        match self.catch_up().await {
            Ok(passed) => match others.take(passed, id) {
                Some(version) => Ok(self.landed(version)),
                None => Err(CommitError::Failed(failure)),
            },
            Err(_) => Err(CommitError::Failed(failure)),
        }
    }

    /// What names the columns that the log lacks, if it lacks any.
    fn missing_columns(&self) -> Result<Option<Line>, CommitError> {
        let corrupt = |why| CommitError::Failed(self.place.corrupt(&Place::entry(self.version()), why));
        let Some(meta) = &self.state.meta else { return Ok(None) };
        let grown = meta.grown(self.table()).map_err(corrupt)?;
        Ok(grown.map(|grown| Line { meta_data: Some(grown.line(self.table())), ..Line::default() }))
    }

    fn lines_of(&self, change: &Change, id: &str) -> Vec<Line> {
        let now = UtcMicros::now().0 / 1_000;
        let mut lines = vec![Line { commit_info: Some(commit_info(change, id, now)), ..Line::default() }];
        for (app_id, version) in &change.txns {
            let txn = Txn { app_id: app_id.clone(), version: *version, last_updated: Some(now) };
            lines.push(Line { txn: Some(txn), ..Line::default() });
        }
        for file in &change.remove {
            let remove = remove_line(file, now, !change.rewrite_only);
            lines.push(Line { remove: Some(remove), ..Line::default() });
        }
        for file in &change.add {
            let add = Add {
                path: file.path.clone(),
                partition_values: partition_values(file.date),
                size: file.size as i64,
                modification_time: file.written.0 / 1_000,
                data_change: !change.rewrite_only,
                stats: Some(file.stats.clone()),
            };
            lines.push(Line { add: Some(add), ..Line::default() });
        }
        lines
    }
}

impl Others {
    /// Notes what others have done; returns the version of the commit `id` if it is among it.
    fn take(&mut self, passed: Passed, id: &str) -> Option<i64> {
        self.reloaded |= passed.reloaded;
        let mut own = None;
        for entry in passed.entries {
            let named = |line: &Line| line.commit_info.as_ref().is_some_and(|info| info.txn_id.as_deref() == Some(id));
            if entry.lines.iter().any(named) {
                own = Some(entry.version);
            }
            self.txns.extend(entry.lines.into_iter().filter_map(|line| line.txn).map(|txn| txn.app_id));
        }
        own
    }
}

fn commit_info(change: &Change, id: &str, now: i64) -> CommitInfo {
    let (operation, parameters): (_, BTreeMap<&str, &str>) = match (change.rewrite_only, change.remove.is_empty()) {
        (true, _) => ("OPTIMIZE", BTreeMap::new()),
        (false, true) => ("WRITE", BTreeMap::from([("mode", "Append")])),
        (false, false) => ("MERGE", BTreeMap::new()),
    };
    CommitInfo {
        timestamp: now,
        operation: operation.to_owned(),
        operation_parameters: parameters.into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect(),
        engine_info: ENGINE.to_owned(),
        txn_id: Some(id.to_owned()),
    }
}

fn remove_line(file: &DataFile, now: i64, data_change: bool) -> Remove {
    Remove {
        path: encode_path(&file.path),
        deletion_timestamp: Some(now),
        data_change,
        extended_file_metadata: Some(true),
        partition_values: Some(partition_values(file.date)),
        size: Some(file.size as i64),
    }
}

/// A path as the log spells it: what its reading would take for an escape is escaped.
fn encode_path(path: &str) -> String {
    path.replace('%', "%25").replace(' ', "%20")
}

fn partition_values(date: Option<i32>) -> HashMap<String, Option<String>> {
    date.map(|day| ("date".to_owned(), Some(super::log::text_of_day(day)))).into_iter().collect()
}

/// Others were faster: soon again at first, then with growing pauses that differ from one process to another.
async fn back_off(attempt: u32) {
    if attempt > 3 {
        let most = u64::from(attempt) * 4;
        let pause = Uuid::new_v4().as_u128() as u64 % most;
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
