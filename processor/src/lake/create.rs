//! Making a table: its first log entry, put only if there is none, so that of two makers one finds the other's.

use std::collections::HashMap;

use deltalake::kernel::transaction::TransactionError;
use deltalake::logstore::CommitOrBytes;
use schemas::UtcMicros;
use schemas::tables::Table;
use uuid::Uuid;

use super::columns::{self, MetaData};
use super::log::{CommitInfo, Line, Protocol, State, print};
use super::place::Place;
use super::replay;
use super::{Lake, LakeError, LakeOptions};

/// Makes the table of `place`, or finds that somebody just has. Not where data files are without a log: they are
/// another table's, whose log is gone, and a clean-up by a log that doesn't name them would delete them.
pub(super) async fn create(place: &Place, lake: &Lake) -> Result<State, LakeError> {
    lake.prove().await?;
    let options = lake.options();
    let files = place.list("looking for what is left of it", None).await?;
    if let Some(left) = files.iter().find(|meta| meta.location.as_ref().ends_with(".parquet")) {
        return match replay::load(place).await? {
            Some(state) => Ok(state),
            None => Err(place.gap(0, format!("although {} is there: the table's log is gone", left.location))),
        };
    }
    let bytes = first_entry(place.table, options).map_err(|e| place.corrupt(&Place::entry(0), e))?;
    let put = place.log.write_commit_entry(0, CommitOrBytes::LogBytes(bytes.into()), Uuid::new_v4());
    match tokio::time::timeout(place.deadline(), put).await {
        Ok(Ok(()) | Err(TransactionError::VersionAlreadyExists(_))) => {}
        Ok(Err(source)) => {
            return Err(LakeError::Delta { table: place.table, doing: "making it", source: Box::new(source.into()) });
        }
        Err(_) => return Err(place.too_late("making it")),
    }
    let state = replay::load(place).await?;
    state.ok_or_else(|| place.corrupt(&Place::entry(0), "the table was made and is gone"))
}

fn first_entry(table: Table, options: &LakeOptions) -> Result<Vec<u8>, String> {
    let now = UtcMicros::now().0 / 1_000;
    let keep = format!("interval {} seconds", options.keep.as_secs());
    let configuration = [
        ("delta.checkpointInterval", options.checkpoint_every.to_string()),
        ("delta.dataSkippingStatsColumns", table.stats_columns().join(",")),
        ("delta.deletedFileRetentionDuration", keep.clone()),
        ("delta.logRetentionDuration", keep),
    ];
    let meta_data = MetaData {
        id: Uuid::new_v4().to_string(),
        schema_string: columns::schema_string(table)?,
        configuration: configuration.into_iter().map(|(key, value)| (key.to_owned(), Some(value))).collect(),
        created_time: Some(now),
    };
    let info = CommitInfo {
        timestamp: now,
        operation: "CREATE TABLE".to_owned(),
        operation_parameters: HashMap::new(),
        engine_info: super::commit::ENGINE.to_owned(),
        txn_id: None,
    };
    let lines = [
        Line { commit_info: Some(info), ..Line::default() },
        Line { protocol: Some(Protocol::OURS), ..Line::default() },
        Line { meta_data: Some(meta_data.line(table)), ..Line::default() },
    ];
    print(&lines).map_err(|e| e.to_string())
}
