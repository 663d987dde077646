//! Links, what they promise, and who may touch them.

use serde::{Deserialize, Serialize};

use crate::class::UnknownWord;
use crate::class::vocabulary;
use crate::ids::LinkId;
use crate::time::UtcMicros;
use std::fmt;
use std::str::FromStr;

/// The workspace that every installation begins with, and that logs of unknown codes are kept in.
pub const DEFAULT_WORKSPACE: &str = "default";
/// The longest code, in bytes (interface §2).
pub const MAX_CODE_BYTES: usize = 128;

vocabulary! {
    /// What a link promises about its clicks.
    Analytics {
        /// Every click counted, none lost.
        Billed = "billed",
        /// May be sampled under backlog.
        Internal = "internal",
        /// Not counted.
        Off = "off",
    }
}

vocabulary! {
    /// Whether a link redirects.
    LinkStatus {
        /// It does.
        Active = "active",
        /// Taken down: 410, and may come back.
        Disabled = "disabled",
        /// A tombstone: 410 for good, its code is never given out again.
        Deleted = "deleted",
    }
}

vocabulary! {
    /// What a token may do.
    Scope {
        /// Read links and reports.
        Read = "read",
        /// Also change links and send logs.
        Write = "write",
        /// Also administer the workspace.
        Admin = "admin",
    }
}

/// A link as the management API shows it (interface §3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Immutable identity.
    pub id: LinkId,
    /// The tenant it belongs to.
    pub workspace: String,
    /// Host name.
    pub domain: String,
    /// The path, case-sensitive.
    pub code: String,
    /// `https://domain/code`, as people share it.
    pub short_url: String,
    /// Where it leads now.
    pub destination: String,
    /// What it promises about its clicks now.
    pub analytics: Analytics,
    /// Whether it redirects now.
    pub status: LinkStatus,
    /// Why it was disabled; null unless it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the destination was last checked; null if never.
    pub checked_at: Option<UtcMicros>,
    /// Counts every change, from 1.
    pub revision: i32,
    /// When it was made.
    pub created_at: UtcMicros,
    /// A name for people.
    pub title: Option<String>,
    /// Free labels.
    pub tags: Vec<String>,
}

/// What was in force from `effective_at` until the next revision. A click is judged by the revision in
/// force at its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    /// From 1.
    pub revision: i32,
    /// When it came into force.
    pub effective_at: UtcMicros,
    /// Where the link led.
    pub destination: String,
    /// What it promised.
    pub analytics: Analytics,
    /// Whether it redirected.
    pub status: LinkStatus,
}

/// A link with all its revisions, oldest first: enough to judge a click of any time.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkHistory {
    /// Immutable identity.
    pub link_id: LinkId,
    /// The tenant.
    pub workspace: String,
    /// Host name.
    pub domain: String,
    /// The path.
    pub code: String,
    /// Oldest first, never empty.
    pub revisions: Vec<Revision>,
}

impl LinkHistory {
    /// The revision in force at `instant`; none when the link didn't exist yet.
    pub fn at(&self, instant: UtcMicros) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| revision.effective_at <= instant)
    }

    /// The revisions in force at some instant of `from..=to`, oldest first; none when the link didn't exist yet.
    pub fn between(&self, from: UtcMicros, to: UtcMicros) -> impl Iterator<Item = &Revision> {
        let begun = self.revisions.partition_point(|revision| revision.effective_at <= to);
        let first = self.revisions.iter().rposition(|revision| revision.effective_at <= from).unwrap_or(0);
        self.revisions[first.min(begun)..begun].iter()
    }
}

/// Who is asking: a tenant's token, or an operator's, which belongs to no workspace and sees all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant; `None` for an operator.
    pub workspace: Option<String>,
    /// What the token may do. An operator's is `Admin`.
    pub scope: Scope,
}

impl Principal {
    /// Whether this is an operator.
    pub fn is_operator(&self) -> bool {
        self.workspace.is_none()
    }

    /// The workspace that new things belong to when none is named.
    pub fn acts_for(&self) -> &str {
        self.workspace.as_deref().unwrap_or(DEFAULT_WORKSPACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_click_is_judged_by_the_revision_of_its_time() {
        let revision = |revision, at| Revision {
            revision,
            effective_at: UtcMicros(at),
            destination: format!("https://example.com/{revision}"),
            analytics: Analytics::Billed,
            status: LinkStatus::Active,
        };
        let history = LinkHistory {
            link_id: LinkId::new(),
            workspace: "w".into(),
            domain: "d".into(),
            code: "c".into(),
            revisions: vec![revision(1, 10), revision(2, 20)],
        };
        assert_eq!(history.at(UtcMicros(9)), None);
        assert_eq!(history.at(UtcMicros(10)).map(|r| r.revision), Some(1));
        assert_eq!(history.at(UtcMicros(19)).map(|r| r.revision), Some(1));
        assert_eq!(history.at(UtcMicros(99)).map(|r| r.revision), Some(2));
        let between =
            |from, to| history.between(UtcMicros(from), UtcMicros(to)).map(|r| r.revision).collect::<Vec<_>>();
        assert!(between(0, 9).is_empty());
        assert_eq!(between(0, 10), [1]);
        assert_eq!(between(10, 19), [1]);
        assert_eq!(between(19, 20), [1, 2]);
        assert_eq!(between(20, 99), [2]);
    }
}
