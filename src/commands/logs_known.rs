//! Logs as an operator sees them: imports of the lake, and what the queue has that isn't in the lake.

use ingest::queue::{QueuedLog, Stage};
use processor::import::{State, Stored, Summary, stored};
use schemas::UtcMicros;
use schemas::link::DEFAULT_WORKSPACE;
use serde::Serialize;

use super::open;
use crate::config::Config;
use crate::run::unended;

/// A log.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Known {
    /// An import that the lake tells of.
    Taken(Box<Stored>),
    /// Uploaded, or found below a watched prefix; not taken in.
    Outside(Box<Outside>),
}

/// A log that is not in the lake.
#[derive(Debug, Serialize)]
pub(super) struct Outside {
    #[serde(flatten)]
    summary: Summary,
    workspace: String,
    source_name: Option<String>,
    /// Where a watched one was found.
    location: Option<String>,
    queued_at: UtcMicros,
}

impl Outside {
    fn of(log: QueuedLog) -> Self {
        Self {
            summary: ended(&log).unwrap_or_else(|| unended(&log)),
            workspace: log.terms.workspace.unwrap_or_else(|| DEFAULT_WORKSPACE.to_owned()),
            source_name: log.terms.source,
            // an upload's bytes are where nobody needs to look for them
            location: (log.way == ingest::queue::Way::Watched).then_some(log.object),
            queued_at: log.queued_at,
        }
    }
}

impl Known {
    /// What became of its lines.
    pub(super) fn summary(&self) -> &Summary {
        match self {
            Self::Taken(import) => &import.summary,
            Self::Outside(log) => &log.summary,
        }
    }

    /// Whose it is.
    pub(super) fn workspace(&self) -> &str {
        match self {
            Self::Taken(import) => &import.workspace,
            Self::Outside(log) => &log.workspace,
        }
    }

    /// The provider whose lines or events they are, once that is known.
    pub(super) fn provider(&self) -> Option<&str> {
        match self {
            Self::Taken(import) => Some(&import.provider),
            Self::Outside(_) => None,
        }
    }

    /// The continuous source that it belongs to.
    pub(super) fn source_name(&self) -> Option<&str> {
        match self {
            Self::Taken(import) => import.source_name.as_deref(),
            Self::Outside(log) => log.source_name.as_deref(),
        }
    }

    /// Where it could be read.
    pub(super) fn location(&self) -> Option<&str> {
        match self {
            Self::Taken(import) => import.location.as_deref(),
            Self::Outside(log) => log.location.as_deref(),
        }
    }

    /// When it was taken in.
    pub(super) fn imported_at(&self) -> Option<UtcMicros> {
        match self {
            Self::Taken(import) => Some(import.imported_at),
            Self::Outside(_) => None,
        }
    }

    /// What has become of it, and when it came, in words.
    pub(super) fn standing(&self) -> String {
        let state = self.summary().state;
        match self {
            Self::Taken(import) if state == State::Running => format!("running, begun at {}", import.imported_at),
            Self::Taken(import) => format!("{}, taken in at {}", state.as_str(), import.imported_at),
            Self::Outside(log) => format!("{}, queued at {}", state.as_str(), log.queued_at),
        }
    }

    /// Whether what its lines came to is known: not while they are coming in, and not before.
    pub(super) fn is_counted(&self) -> bool {
        match self {
            Self::Taken(import) => import.summary.state != State::Running,
            Self::Outside(log) => matches!(log.summary.state, State::Done | State::Reverted),
        }
    }
}

/// The summary of a queued log that has been taken in, as it was then.
fn ended(log: &QueuedLog) -> Option<Summary> {
    let summary = log.summary.as_deref().and_then(|text| serde_json::from_str(text).ok());
    summary.filter(|_| log.stage == Stage::Done)
}

/// The logs known, imports first; only the one of this id if that is given, be it an import's or the queue's. Of one that
/// was taken back and is to come again the queue tells.
pub(super) async fn known(config: &Config, id: Option<&str>) -> anyhow::Result<Vec<Known>> {
    let (lake, store) = (open::lake(config)?, open::link_store(config).await?);
    // the queue first: what comes out of it in between is then in both, and never in neither
    let queued = match id {
        None => store.logs_outside().await?,
        Some(id) => store.queued_log(id).await?.into_iter().collect(),
    };
    // a queued log may have come under another id than its import's
    let import_of = queued.first().filter(|_| id.is_some()).and_then(ended);
    let import_id = import_of.as_ref().map(|summary| summary.id.clone()).or_else(|| id.map(str::to_owned));
    let mut imports = stored(&lake, import_id.as_deref()).await?;
    let outside: Vec<QueuedLog> = queued
        .into_iter()
        // an empty file is known to the queue alone
        .filter(|log| log.stage != Stage::Done || imports.is_empty())
        .filter(|log| {
            let import = imports.iter().find(|import| import.summary.id == log.id);
            import.is_none_or(|import| import.summary.state == State::Reverted)
        })
        .collect();
    imports.retain(|import| outside.iter().all(|log| log.id != import.summary.id));
    let imports = imports.into_iter().map(|import| Known::Taken(Box::new(import)));
    let outside = outside.into_iter().map(|log| Known::Outside(Box::new(Outside::of(log))));
    Ok(imports.chain(outside).collect())
}
