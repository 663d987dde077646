//! Uploads, as the management API needs them: staged in the lake's storage, known by their import's identity, and told
//! of as the lake has them now.

use async_trait::async_trait;
use bytes::Bytes;
use ingest::ports::PortError;
use ingest::queue::{QueuedLog, Stage, Terms, UploadStore, failed};
use processor::import::{ImportOptions, State, Summary, UnknownCodes, import_id, stored};
use processor::lake::Lake;
use serde_json::Value;

use super::staging::Staging;

const SUMMING_UP: &str = "summing up an import";

/// Uploads into a lake.
#[derive(Clone, Debug)]
pub(crate) struct Uploads {
    lake: Lake,
    staging: Staging,
}

impl Uploads {
    /// Uploads into `lake`.
    pub(crate) fn into(lake: &Lake) -> Self {
        Self { lake: lake.clone(), staging: Staging::of(lake) }
    }
}

/// What an import of a queued log is told.
pub(crate) fn options(terms: &Terms) -> ImportOptions {
    ImportOptions {
        events: None,
        format: terms.format,
        id: terms.id,
        source: terms.source.clone(),
        unknown_codes: if terms.keep_unknown { UnknownCodes::Keep } else { UnknownCodes::Ignore },
        dry_run: false,
        workspace: terms.workspace.clone(),
    }
}

#[async_trait]
impl UploadStore for Uploads {
    async fn keep(&self, object: &str, part: u32, bytes: Bytes) -> Result<(), PortError> {
        self.staging.keep(object, part, bytes).await.map_err(failed("staging an upload"))
    }

    async fn remove(&self, object: &str, parts: u32) -> Result<(), PortError> {
        self.staging.remove(object, parts).await.map_err(failed("removing a staged upload"))
    }

    fn id_of(&self, sha256: &[u8; 32], terms: &Terms) -> String {
        import_id(sha256, &options(terms))
    }

    async fn may_come_again(&self, id: &str) -> Result<bool, PortError> {
        let found = stored(&self.lake, Some(id)).await.map_err(failed(SUMMING_UP))?;
        Ok(found.iter().any(|import| import.summary.state != State::Done))
    }

    async fn summary(&self, log: &QueuedLog) -> Result<Value, PortError> {
        let ended: Option<Summary> = log.summary.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let summary = match log.stage {
            Stage::Done => {
                let id = ended.as_ref().map_or(&log.id, |ended| &ended.id);
                let now = stored(&self.lake, Some(id)).await.map_err(failed(SUMMING_UP))?.pop();
                // an empty file is known to the queue alone
                now.map(|now| now.summary).or(ended).unwrap_or_else(|| unended(log))
            }
            _ => unended(log),
        };
        let mut json = serde_json::to_value(summary).map_err(failed(SUMMING_UP))?;
        // under the name that its sender knows
        json["id"] = log.id.clone().into();
        json["name"] = log.name.clone().into();
        Ok(json)
    }

    async fn import(&self, id: &str, workspace: Option<&str>) -> Result<Option<Value>, PortError> {
        let found = stored(&self.lake, Some(id)).await.map_err(failed(SUMMING_UP))?.pop();
        let found = found.filter(|import| workspace.is_none() || import.owner() == workspace);
        found.map(|import| serde_json::to_value(import.summary).map_err(failed(SUMMING_UP))).transpose()
    }
}

/// The summary of a log that has not come into the lake as a whole.
pub(crate) fn unended(log: &QueuedLog) -> Summary {
    let format = log.terms.format.map_or_else(String::new, |format| format.to_string());
    let mut summary = Summary::new(log.id.clone(), log.name.clone(), format, false);
    summary.state = match log.stage {
        Stage::Queued => State::Queued,
        Stage::Running | Stage::Done => State::Running,
        Stage::Failed => State::Failed,
    };
    summary.note.clone_from(&log.error);
    summary
}
