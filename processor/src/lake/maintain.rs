//! Upkeep: checkpoints, and the removal of what nobody needs any more. Run by one task, next to all others.

use std::collections::HashSet;

use deltalake::DeltaTable;
use deltalake::checkpoints::create_checkpoint;
use object_store::ObjectMeta;
use object_store::path::Path;
use schemas::UtcMicros;

use super::durable::TEMPORARY;
use super::log::State;
use super::place::{LOG, Place};
use super::replay::{self, is_checkpoint, name_of};
use super::{LakeError, TableHandle};

/// What upkeep has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// The version of the checkpoint that was made.
    pub checkpoint: Option<i64>,
    /// Log entries and old checkpoints deleted.
    pub log_entries: usize,
    /// Removed and orphaned data files deleted.
    pub files: usize,
}

impl TableHandle {
    /// Makes a checkpoint when it is time, then deletes log entries, removed files and files that no commit names, all
    /// older than the lake's `keep` at `now`.
    ///
    /// # Errors
    /// As [`LakeError`] says; what was done stays done, the rest is for the next time.
    pub async fn maintain(&mut self, now: UtcMicros) -> Result<Maintained, LakeError> {
        self.refresh().await?;
        let (checkpoint, log_entries) = self.maintain_log(now).await?;
        let cut_ms = now.minus(self.lake.options().keep).0 / 1_000;

        // Listed after the refresh: a file that has been committed since is too young to go.
        let files = self.place.list("listing its files", None).await?;
        let dead = dead_files(&files, &self.state, cut_ms);
        let files = self.place.delete("deleting dead files", dead).await?;
        self.state.dead.retain(|_, at| *at > cut_ms);
        Ok(Maintained { checkpoint, log_entries, files })
    }

    /// The log's part: the version of a checkpoint that was made, and the number of files deleted.
    pub(super) async fn maintain_log(&mut self, now: UtcMicros) -> Result<(Option<i64>, usize), LakeError> {
        let checkpoint = self.checkpoint_when_due().await?;
        let cut_ms = now.minus(self.lake.options().keep).0 / 1_000;
        let log = self.place.list("listing its log", Some(&Path::from(LOG))).await?;
        let old = old_entries(&log, cut_ms);
        let log_entries = self.place.delete("deleting old log entries", old).await?;
        Ok((checkpoint, log_entries))
    }

    async fn checkpoint_when_due(&self) -> Result<Option<i64>, LakeError> {
        let last = replay::hint(&self.place).await?.map_or(-1, |hint| hint.version);
        if self.version() - last < self.lake.options().checkpoint_every.max(1) as i64 {
            return Ok(None);
        }
        make_checkpoint(&self.place).await.map(Some)
    }
}

async fn make_checkpoint(place: &Place) -> Result<i64, LakeError> {
    let failed =
        |source| LakeError::Delta { table: place.table, doing: "making a checkpoint", source: Box::new(source) };
    let mut table = DeltaTable::new(std::sync::Arc::clone(&place.log));
    table.load().await.map_err(failed)?;
    create_checkpoint(&table, None).await.map_err(failed)?;
    Ok(table.version().map_or(0, |version| version as i64))
}

/// The files of the log that nobody needs: older than the last checkpoint but one, and than `cut_ms`.
///
/// One more checkpoint than needed is left, so that whoever has just read the hint still finds its file.
fn old_entries(log: &[ObjectMeta], cut_ms: i64) -> Vec<Path> {
    let mut checkpoints: Vec<i64> = log
        .iter()
        .filter_map(|meta| name_of(&meta.location))
        .filter(|(_, rest)| is_checkpoint(rest))
        .map(|(version, _)| version)
        .collect();
    checkpoints.sort_unstable();
    let safe = checkpoints.iter().rev().nth(1).copied().unwrap_or(0);
    let needless = |meta: &&ObjectMeta| {
        let old = meta.last_modified.timestamp_millis() < cut_ms;
        let passed = match name_of(&meta.location) {
            Some((version, _)) => version < safe,
            None => is_temporary(&meta.location),
        };
        old && passed
    };
    log.iter().filter(needless).map(|meta| meta.location.clone()).collect()
}

/// The data files that are not live, and have not been for long.
fn dead_files(files: &[ObjectMeta], state: &State, cut_ms: i64) -> Vec<Path> {
    let live: HashSet<&str> = state.files.iter().map(|file| file.path.as_str()).collect();
    let is_dead = |meta: &&ObjectMeta| {
        let path = meta.location.as_ref();
        let in_log = meta.location.parts().next().is_some_and(|part| part.as_ref() == LOG);
        let ours = path.ends_with(".parquet") || is_temporary(&meta.location);
        if in_log || !ours || live.contains(path) {
            return false;
        }
        // A removed file counts from its removal: a query that began before may still read it.
        let since = state.dead.get(path).copied().unwrap_or(i64::MIN).max(meta.last_modified.timestamp_millis());
        since < cut_ms
    };
    files.iter().filter(is_dead).map(|meta| meta.location.clone()).collect()
}

fn is_temporary(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.starts_with(TEMPORARY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::DataFile;
    use std::sync::Arc;

    fn meta(path: &str, ms: i64) -> ObjectMeta {
        ObjectMeta {
            location: Path::from(path),
            last_modified: chrono::DateTime::from_timestamp_millis(ms).unwrap(),
            size: 1,
            e_tag: None,
            version: None,
        }
    }

    fn entry(version: i64, rest: &str, ms: i64) -> ObjectMeta {
        meta(&format!("{LOG}/{version:020}.{rest}"), ms)
    }

    #[test]
    fn entries_go_behind_the_last_checkpoint_but_one() {
        let log = [
            entry(1, "json", 1),
            entry(2, "json", 2),
            entry(2, "checkpoint.parquet", 2),
            entry(3, "json", 3),
            entry(4, "json", 4),
            entry(4, "checkpoint.parquet", 4),
            entry(5, "json", 5),
            meta("_delta_log/_last_checkpoint", 4),
            meta("_delta_log/.tmp-x", 1),
            meta("_delta_log/.tmp-y", 100),
        ];
        let names = |cut| -> Vec<String> { old_entries(&log, cut).iter().map(ToString::to_string).collect() };
        assert_eq!(names(50), [entry(1, "json", 1).location.to_string(), "_delta_log/.tmp-x".to_owned()]);
        assert_eq!(names(1), Vec::<String>::new());
        assert!(old_entries(&log[..4], 50).iter().all(is_temporary), "one checkpoint is not enough");
    }

    #[test]
    fn a_file_dies_by_its_removal_or_by_its_age() {
        let live = DataFile {
            path: "date=2026-03-14/live.parquet".to_owned(),
            size: 1,
            rows: 1,
            date: None,
            min_time: None,
            max_time: None,
            written_ms: 0,
        };
        let mut state = State { files: vec![Arc::new(live)], ..State::default() };
        state.dead.insert("old.parquet".to_owned(), 10);
        state.dead.insert("fresh.parquet".to_owned(), 90);
        let files = [
            meta("date=2026-03-14/live.parquet", 1),
            meta("old.parquet", 1),
            meta("fresh.parquet", 1),
            meta("orphan.parquet", 1),
            meta("young-orphan.parquet", 60),
            meta(".tmp-a", 1),
            meta("notes.txt", 1),
            meta("_delta_log/00000000000000000001.checkpoint.parquet", 1),
        ];
        let dead: Vec<String> = dead_files(&files, &state, 50).iter().map(ToString::to_string).collect();
        assert_eq!(dead, ["old.parquet", "orphan.parquet", ".tmp-a"]);
    }
}
