//! What bounds the processor.

use std::fmt;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use tests::node::Node;

/// What it has too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// The store takes in so many [`bytes`](Self::BYTES) of an object in a second.
    Store,
    /// It runs for 10 ms of 400 ms.
    Time,
}

impl Bound {
    /// What the store takes in of an object, in a second.
    pub(super) const BYTES: f64 = 100_000.0;

    /// Clicks that what can be done is measured with, and how many are sent in a second: more than can be brought in, and for
    /// as long as it takes until groups are as large as under a backlog, which makes them cheaper.
    pub(super) fn measured(self) -> (u64, f64) {
        match self {
            Self::Store => (30_000, 10_000.0),
            Self::Time => (400_000, 40_000.0),
        }
    }

    /// What is set for it beside the limit: a store so slow wants small groups.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::Store => "buffer_bytes = \"4MiB\"\ncommit_after = \"100ms\"\n",
            Self::Time => "",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => write!(f, "a store of {:.0} kB/s", Self::BYTES / 1_000.0),
            Self::Time => write!(f, "10 of 400 ms"),
        }
    }
}

/// Has a process run for 10 ms of 400 ms only, until it is dropped.
#[derive(Debug)]
pub(super) struct Throttle {
    shell: Child,
    pid: String,
}

impl Throttle {
    /// Of a process that runs.
    pub(super) fn new(node: &Node) -> Result<Self> {
        let pid = node.pid().context("it doesn't run")?.to_string();
        let each = "while kill -STOP $0; do sleep 0.39; kill -CONT $0; sleep 0.01; done";
        let shell = Command::new("sh").args(["-c", each, &pid]).spawn().context("sh")?;
        Ok(Self { shell, pid })
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ended = self.shell.kill().and_then(|()| self.shell.wait());
        let _sent = Command::new("kill").args(["-CONT", &self.pid]).status();
    }
}
