//! Who may ask, and what the pipeline says of itself.

use std::sync::Mutex;

use async_trait::async_trait;
use schemas::{Principal, UtcMicros};

use super::{operator, tenant};
use crate::ports::{Access, AccessError, Changing, Freshness, StatusError, StatusSource};
use crate::status::{EdgeLogsStatus, HotLink, JournalStatus, PartitionStatus, SamplingStatus, Status, StreamStatus};

/// `op` is an operator's token; `t-W` is workspace W's; of `away` nobody can tell; any other is unknown.
#[derive(Debug)]
pub(crate) struct Tokens;

#[async_trait]
impl Access for Tokens {
    async fn authenticate(&self, token: &str) -> Result<Option<Principal>, AccessError> {
        match token {
            "op" => Ok(Some(operator())),
            "away" => Err(AccessError("the database of links, db.internal, is away".to_owned())),
            token => Ok(token.strip_prefix("t-").map(tenant)),
        }
    }
}

/// A pipeline that says what it is told to say, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Pipeline(pub(crate) Mutex<Option<Freshness>>, pub(crate) Mutex<Vec<Changing>>);

#[async_trait]
impl StatusSource for Pipeline {
    async fn freshness(&self) -> Result<Freshness, StatusError> {
        self.0.lock().unwrap().ok_or_else(|| StatusError("down".to_owned()))
    }

    async fn changing(&self) -> Result<Vec<Changing>, StatusError> {
        Ok(self.1.lock().unwrap().clone())
    }

    async fn status(&self) -> Result<Status, StatusError> {
        Ok(status())
    }
}

pub(crate) fn status() -> Status {
    let link = |workspace: &str, code: &str| HotLink {
        workspace: workspace.into(),
        code: code.into(),
        since: UtcMicros(1),
        until: UtcMicros(2),
        rate: 5.0,
    };
    Status {
        as_of: UtcMicros(3),
        complete_through: Some(UtcMicros(2)),
        final_through: None,
        held_back_by: Some("j".into()),
        stream: StreamStatus {
            backend: "embedded".into(),
            lag_records: 0,
            lag_seconds: 0.0,
            retention_seconds: 604_800,
            partitions: vec![PartitionStatus { id: 0, next: 1, end: 1, owner: None, until: None }],
        },
        journals: vec![JournalStatus {
            id: "j".into(),
            node: "n".into(),
            through: UtcMicros(2),
            unsent: Some(0),
            bytes: 10,
            state: "open".into(),
        }],
        journal_budget: None,
        sampling: SamplingStatus { active: false, rate: 1.0 },
        edge_logs: EdgeLogsStatus {
            queued: 0,
            failed: 0,
            waiting: 0,
            late: 0,
            mismatched: vec![],
            deciding: vec![],
            sources: vec![],
        },
        refused: vec![],
        hot_links: vec![link("a", "of-a"), link("b", "of-b")],
    }
}
