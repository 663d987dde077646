//! Logs that a command has decided anew, and those that can't be read any more.

use processor::import::{Stored, Summary};
use serde::Serialize;

use super::summary;
use crate::run::Again;

/// A log to be delivered again.
#[derive(Debug, Serialize)]
pub(super) struct Missing {
    id: String,
    name: String,
    location: Option<String>,
    sha256: String,
    why: String,
    /// What it is to be taken in again for, where that is not the command at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    again_for: Option<String>,
}

impl Missing {
    /// Whether it is missing because of what the command at hand has done.
    pub(super) fn is_new(&self) -> bool {
        self.again_for.is_none()
    }
}

/// Takes logs in again, for the sake of `whose`. Returns what became of them, and those that can't be read.
pub(super) async fn take_in(intake: &Again, logs: Vec<Stored>, whose: &str) -> (Vec<Summary>, Vec<Missing>) {
    let (mut again, mut missing) = (Vec::new(), Vec::new());
    for log in logs {
        match intake.take_in(&log).await {
            Ok(summary) => again.push(summary),
            Err(why) => missing.push(Missing {
                again_for: log.summary.again_for.filter(|of| of != whose),
                id: log.summary.id,
                name: log.summary.name,
                location: log.location,
                sha256: log.sha256,
                why,
            }),
        }
    }
    (again, missing)
}

/// Both for people; `counted` says by what lines of theirs may have been counted.
pub(super) fn text(again: &[Summary], missing: &[Missing], counted: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if !again.is_empty() {
        lines.push(format!("decided anew, as lines of theirs may have been counted {counted}:"));
        lines.extend(again.iter().map(summary::text_anew));
    }
    let (own, of_others): (Vec<&Missing>, Vec<&Missing>) = missing.iter().partition(|log| log.is_new());
    let missing = |log: &&Missing| format!("  {} (id {}): {}", log.name, log.id, log.why);
    if !own.is_empty() {
        lines.push("deliver these again; until then lines of theirs may be missing:".to_owned());
        lines.extend(own.iter().map(missing));
    }
    if !of_others.is_empty() {
        lines.push("still to be delivered again because of what was done before:".to_owned());
        lines.extend(of_others.iter().map(missing));
    }
    lines
}
