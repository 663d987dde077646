//! `[journal]` and `[process]`: from an answer to the lake.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Partitions, Size, Span, seconds};

/// `[journal]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Journal {
    /// How often journals are synced to disk.
    pub(crate) sync: Span,
    /// Disk budget of all journals of a node.
    pub(crate) max_bytes: Size,
    /// The part of it that is kept for billed clicks.
    pub(crate) reserve: Size,
    /// A journal silent for so long with unsent events is given up.
    pub(crate) retire_after: Span,
}

/// `[process]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Process {
    /// The oldest row of a commit is at most so old.
    pub(crate) commit_after: Span,
    /// Memory of the window of ids.
    pub(crate) window_bytes: Size,
    /// Clicks that were read and make a commit at once; at twice as many reading stops.
    pub(crate) buffer_bytes: Size,
    /// The lag that is promised.
    pub(crate) lag_limit: Span,
    /// Which partitions of a topic this process reads.
    pub(crate) partitions: Partitions,
    /// How long a process that shares a topic is waited for without a word.
    pub(crate) lease: Span,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            sync: Span(Duration::from_millis(50)),
            max_bytes: Size(10 << 30),
            reserve: Size(1 << 30),
            retire_after: seconds(6 * 3600),
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self {
            commit_after: Span(Duration::from_millis(400)),
            window_bytes: Size(64 << 20),
            buffer_bytes: Size(48 << 20),
            lag_limit: seconds(300),
            partitions: Partitions::Shared,
            lease: seconds(15),
        }
    }
}
