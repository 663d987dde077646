//! What the service is told at start.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;

/// Limits and places. [`QueryConfig::new`] has defaults that fit a small machine.
#[derive(Clone, Debug)]
pub struct QueryConfig {
    /// The lake's root: a path, or the URL of storage that crate `deltalake` knows.
    pub lake: String,
    /// Newest version of table `clicks` that this process has committed, if it commits.
    pub committed: Option<watch::Receiver<i64>>,
    /// Where sorts and aggregations spill, each process into a folder of its own, which goes with it. What a killed
    /// process has left there is removed by the next.
    pub temp_dir: PathBuf,
    /// Most bytes of spilled data at a time.
    pub temp_bytes: u64,
    /// Memory of all queries together, bytes. A soft wall: what operators hold between batches.
    pub memory_bytes: usize,
    /// Parsed footers of data files kept, bytes.
    pub metadata_bytes: usize,
    /// Threads that run queries, and partitions of one query.
    pub threads: usize,
    /// A snapshot older than this is looked at anew before it answers.
    pub refresh: Duration,
    /// Most time of one query, from its place in the queue to its last byte.
    pub deadline: Duration,
    /// Most time in which the client of a long SQL answer takes nothing of it.
    pub stall: Duration,
    /// Queries that run at a time, of reports and of SQL each.
    pub concurrent: usize,
    /// Queries that may wait for a place, and how long.
    pub queued: usize,
    /// Longest wait for a place.
    pub queue_wait: Duration,
    /// Most rows of one SQL answer.
    pub max_rows: u64,
    /// Most bytes of one SQL answer.
    pub max_bytes: u64,
    /// Bytes of an answer that are held back before its status is sent, so that a short answer that fails is an error
    /// and not a cut body.
    pub hold_bytes: usize,
}

impl QueryConfig {
    /// Defaults for the lake at `lake`, spilling into `temp_dir`.
    pub fn new(lake: impl Into<String>, temp_dir: impl Into<PathBuf>) -> Self {
        Self {
            lake: lake.into(),
            committed: None,
            temp_dir: temp_dir.into(),
            temp_bytes: 2 << 30,
            memory_bytes: 128 << 20,
            metadata_bytes: 24 << 20,
            threads: 2,
            refresh: Duration::from_millis(200),
            deadline: Duration::from_secs(60),
            stall: Duration::from_secs(10),
            concurrent: 4,
            queued: 64,
            queue_wait: Duration::from_secs(5),
            max_rows: 5_000_000,
            max_bytes: 1 << 30,
            hold_bytes: 4 << 20,
        }
    }
}
