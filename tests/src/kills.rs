//! Redirect, broker and two processors, each a process of its own, killed at random under clicks.
//!
//! The processors share the topic by leases. One that is killed is waited for until its lease ends, and then the other has
//! all; when it is back they share again.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::clicks::{Load, all_once, make_links};
use crate::node::Node;
use crate::postgres::Postgres;
use crate::standin::Process;

/// How long a lease lasts in the settings that [`Cast::start`] adds.
const LEASE: Duration = Duration::from_secs(3);

/// All who can be killed.
#[derive(Debug)]
pub struct Cast {
    redirect: Node,
    processors: [Node; 2],
    /// None when the broker isn't ours.
    broker: Option<Process>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deaths {
    /// Clicks that were answered, each of which is in the lake once.
    pub answered: usize,
    /// Clicks whose answer never came.
    pub unsure: usize,
}

impl Cast {
    /// Starts all on `settings`, which name the broker; without a `broker` it is one that may not be killed. Links and leases
    /// are on `server`, if there is one, else in a file.
    ///
    /// # Errors
    /// When one of them doesn't start.
    pub async fn start(
        binary: &Path,
        broker: Option<Process>,
        settings: &str,
        server: Option<&Postgres>,
    ) -> Result<Self> {
        let node = |url: &str| {
            let more = format!("[links]\nurl = \"{url}\"\n[process]\nlease = \"{}s\"", LEASE.as_secs());
            Node::new(binary, "domains = [\"go.test\"]\nworkers = 2", &format!("{settings}\n{more}"))
        };
        let url = server.map(Postgres::fresh).transpose()?.unwrap_or_default();
        let redirect = node(&url)?;
        let file = redirect.data().join("links.sqlite").display().to_string();
        let url = if url.is_empty() { file } else { url };
        let lake = redirect.data().join("lake").display().to_string();
        let on_lake = |node: Node| node.with_environment(vec![("HIGHWATER_LAKE", lake.clone())]);
        let processors = [on_lake(node(&url)?), on_lake(node(&url)?)];
        let mut cast = Self { redirect: on_lake(redirect), processors, broker };
        make_links(&cast.redirect)?;
        cast.redirect.start_with(&["redirect"]).await?;
        for processor in &mut cast.processors {
            processor.start_with(&["process"]).await?;
        }
        Ok(cast)
    }

    /// Kills one after another, each started again, under `rate` clicks a second; then looks whether every click that was
    /// answered is in the lake once, and ends all.
    ///
    /// # Errors
    /// When it isn't within `patience`.
    pub async fn die(mut self, kills: u32, seed: u64, rate: u64, patience: Duration) -> Result<Deaths> {
        let clicks = Load::start(self.redirect.redirect, rate);
        let mut chance = StdRng::seed_from_u64(seed);
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(chance.random_range(50..1_500))).await;
            match (chance.random_range(0..4), &mut self.broker) {
                (0, Some(broker)) => {
                    broker.kill()?;
                    broker.start()?;
                }
                (0 | 1, _) => {
                    self.redirect.kill()?;
                    self.redirect.start_with(&["redirect"]).await?;
                }
                (which, _) => self.kill_processor(which - 2, chance.random()).await?,
            }
        }
        clicks.more(100).await?;
        let ledger = clicks.end().await?;
        all_once(&self.redirect, &ledger, patience).await?;
        // what a clean stop of the redirect leaves is in the topic: the processors close its journals
        self.redirect.stop().await?;
        all_once(&self.redirect, &ledger, patience).await?;
        for processor in &mut self.processors {
            processor.stop().await?;
        }
        self.redirect.ok(&["verify"])?;
        Ok(Deaths { answered: ledger.answered.len(), unsure: ledger.unsure.len() })
    }

    /// Kills a processor; it comes back at once, or when the other has taken over.
    async fn kill_processor(&mut self, which: usize, at_once: bool) -> Result<()> {
        self.processors[which].kill()?;
        if !at_once {
            tokio::time::sleep(LEASE + LEASE / 2).await;
        }
        self.processors[which].start_with(&["process"]).await
    }
}
