//! Redirect, processor and broker, a process each, under clicks.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tests::clicks::{Ledger, Load, all_once, make_links};
use tests::node::Node;
use tests::standin::{Command, Knobs, Launch, Process};

use crate::Setup;

/// Clicks a second.
pub(super) const RATE: u64 = 2_000;
/// A backlog that is older isn't worked off yet.
const LAG: u64 = 2;
/// How long it may take to be worked off, and then to be in the lake.
const PATIENCE: Duration = Duration::from_secs(600);

/// The three processes.
pub(super) struct Rig {
    pub(super) redirect: Node,
    pub(super) process: Node,
    pub(super) broker: Process,
    _records: TempDir,
}

impl Rig {
    /// Starts them.
    pub(super) async fn start(setup: &Setup) -> Result<Self> {
        let records = tempfile::tempdir()?;
        let mut broker = Process::new(Launch::Binary(setup.standin.clone()), records.path())?;
        broker.start()?;
        let settings = settings(&broker);
        let mut redirect = Node::new(&setup.binary, "domains = [\"go.test\"]\nworkers = 1", &settings)?;
        make_links(&redirect)?;
        let mut process = Node::new(&setup.binary, "domains = [\"go.test\"]", &settings)?.sharing_data_of(&redirect);
        redirect.start_with(&["redirect"]).await?;
        process.start_with(&["process"]).await?;
        Ok(Self { redirect, process, broker, _records: records })
    }

    /// Clicks at the rate of the benchmark.
    pub(super) fn load(&self) -> Load {
        Load::start(self.redirect.redirect, RATE)
    }

    /// All is well with the broker again. Waits until the lake has caught up; gives how long that took.
    pub(super) async fn recover(&self) -> Result<Duration> {
        self.broker.turn(Knobs::default()).await?;
        self.broker.tell(Command::Drop).await?;
        let begin = Instant::now();
        loop {
            let unsent = self.redirect.metric("highwater_journal_unsent_records", &[]).await?;
            if unsent <= LAG * RATE {
                return Ok(begin.elapsed());
            }
            ensure!(begin.elapsed() < PATIENCE, "{unsent} clicks aren't in the lake\n{}", self.process.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The last clicks have been sent: each that was answered is in the lake once. Gives how many.
    pub(super) async fn end(mut self, clicks: Load) -> Result<Ledger> {
        let ledger = clicks.end().await?;
        ensure!(ledger.unsure.is_empty(), "{} clicks were not answered", ledger.unsure.len());
        all_once(&self.redirect, &ledger, PATIENCE).await?;
        self.redirect.stop().await?;
        self.process.stop().await?;
        all_once(&self.redirect, &ledger, PATIENCE).await?;
        self.redirect.ok(&["verify"])?;
        Ok(ledger)
    }
}

/// What redirect and processor are told.
pub(super) fn settings(broker: &Process) -> String {
    format!(
        "[edge]\nprovider = \"nginx\"\n[stream]\nbackend = \"fluvio\"\n\
         [stream.fluvio]\nendpoint = \"{}\"\npartitions = 2\n",
        broker.address()
    )
}

/// The time that so large a share of the answers, which are in order, took at most.
pub(super) fn at(times: &[Duration], share: f64) -> Duration {
    let index = (times.len() as f64 * share) as usize;
    times.get(index).or(times.last()).copied().unwrap_or_default()
}

/// In milliseconds.
pub(super) fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}
