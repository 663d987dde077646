//! Redirect and processor, a process each.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ingest::ports::Registry as _;
use redirect::links::{Domains, LinkStore};
use schemas::UtcMicros;
use tempfile::TempDir;
use tests::node::Node;
use tests::s3::S3;
use tests::standin::{Launch, Process};

use super::bound::{Bound, Throttle};
use super::load::{LIGHT, TURN};
use crate::Setup;

/// The longest that clicks may take that are not in the lake yet.
const PATIENCE: Duration = Duration::from_secs(180);

/// How clicks come to the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It reads the redirect's journal.
    Journals,
    /// By a topic of two partitions.
    Topic,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Journals => "journals",
            Self::Topic => "a topic",
        })
    }
}

/// Redirect and processor, with what they need.
pub(super) struct Pair {
    pub(super) redirect: Node,
    pub(super) process: Node,
    links: LinkStore,
    throttle: Option<Throttle>,
    _store: Option<S3>,
    _broker: Option<(Process, TempDir)>,
}

impl Pair {
    /// Starts both, with all links of the load; from then on the processor is bounded.
    pub(super) async fn start(setup: &Setup, way: Way, bound: Bound, limit: Duration) -> Result<Self> {
        let mut settings = format!("[process]\nlag_limit = \"{}s\"\n{}", limit.as_secs(), bound.settings());
        let broker = match way {
            Way::Journals => None,
            Way::Topic => Some(broker(setup, &mut settings)?),
        };
        let store = match bound {
            Bound::Store => Some(S3::narrow(&["data"], Bound::BYTES).await?),
            Bound::Time => None,
        };
        let node = || -> Result<Node> {
            let node = Node::new(&setup.binary, "domains = [\"go.test\"]\nworkers = 1", &settings)?;
            let Some(store) = &store else { return Ok(node) };
            let lake = vec![("HIGHWATER_LAKE", "s3://data/lake".to_owned())];
            Ok(node.with_environment(store.environment()).with_environment(lake))
        };
        let mut redirect = node()?;
        let mut process = node()?.sharing_data_of(&redirect);
        let links = TURN.map(|(code, analytics, _)| (code, analytics)).into_iter();
        for (code, analytics) in links.chain(LIGHT.map(|code| (code, "internal"))) {
            redirect.ok(&["link", "add", "https://example.com/", "--code", code, "--analytics", analytics])?;
        }
        let file = redirect.data().join("links.sqlite").display().to_string();
        let links = LinkStore::open(&file, Domains::new(&["go.test"])?).await?;
        redirect.start_with(&["redirect"]).await?;
        process.start_with(&["process"]).await?;
        let throttle = if bound == Bound::Time { Some(Throttle::new(&process)?) } else { None };
        Ok(Self { redirect, process, links, throttle, _store: store, _broker: broker })
    }

    /// How old the oldest click is that isn't in the lake, as is published; the oldest that is waiting for a commit.
    pub(super) async fn lag(&self) -> Result<(Duration, Duration)> {
        let now = UtcMicros::now();
        let complete = self.links.complete_through(now).await?;
        let told = self.gauge("highwater_stream_lag_seconds").await?;
        Ok((now.since(complete), Duration::from_secs_f64(told)))
    }

    /// What the processor tells of itself.
    pub(super) async fn gauge(&self, name: &str) -> Result<f64> {
        let text = self.process.metrics().await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.with_context(|| format!("{name} isn't told"))
    }

    /// Clicks that the lake holds, or that were sampled away.
    pub(super) async fn landed(&self) -> Result<u64> {
        let mut landed = 0;
        for name in ["highwater_clicks_committed_total", "highwater_sampled_away_total"] {
            landed += self.process.metric(name, &[]).await?;
        }
        Ok(landed)
    }

    /// Waits until so many clicks have landed.
    pub(super) async fn until_landed(&self, answered: u64) -> Result<()> {
        let begin = Instant::now();
        loop {
            let landed = self.landed().await?;
            if landed >= answered {
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "{landed} of {answered} have landed\n{}", self.process.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends both; the processor with all of its time.
    pub(super) async fn stop(&mut self) -> Result<()> {
        self.throttle = None;
        self.redirect.stop().await?;
        self.process.stop().await
    }
}

/// A broker, and what the two are told of it.
fn broker(setup: &Setup, settings: &mut String) -> Result<(Process, TempDir)> {
    let records = tempfile::tempdir()?;
    let mut broker = Process::new(Launch::Binary(setup.standin.clone()), records.path())?;
    broker.start()?;
    settings.push_str(&format!(
        "[stream]\nbackend = \"fluvio\"\n[stream.fluvio]\nendpoint = \"{}\"\npartitions = 2\n",
        broker.address()
    ));
    Ok((broker, records))
}
