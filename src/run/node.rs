//! One process: its roles started, and stopped in order.
//!
//! ```text
//! start ─► ready … signal ─► front ─► journals sealed, and brought into the lake ─► back
//!   └─ signal or error ────► front ─► journals sealed, at a signal ───────────────► back
//! ```
//! A start asks a link store and a lake, which may never answer: a signal ends it wherever it is. What it leaves half done then
//! is no more than a kill leaves, with which the next start goes on; what it had started ends as ever.

use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::clock::ClockHealth;
use super::ops::Ops;
use super::own::OwnJournals;
use super::rest;
use super::serve::serve;
use super::sockets::Sockets;
use super::start::{Started, start};
use super::tasks::Tasks;
use super::{Roles, signals};
use crate::config::Config;

/// How long the front (listeners) and the back (journals, hot path, settler) may each take to stop, and how long the
/// lake may take to catch up in between.
pub(crate) const DRAIN: Duration = Duration::from_secs(15);
/// The same when there is no whole start behind it: whatever runs has hardly begun.
const CUT: Duration = Duration::from_secs(5);

/// What runs, from the first part of a start on.
#[derive(Debug)]
pub(super) struct Node {
    /// Where it is told that all is ready.
    pub(super) ops: Ops,
    /// What is stopped first: listeners.
    pub(super) front: Tasks,
    /// What is stopped last.
    pub(super) back: Tasks,
    /// The journals that it writes.
    pub(super) own: OwnJournals,
}

/// Runs the roles until a signal, or until one of them fails.
pub(super) async fn run(config: Config, roles: Roles, demo: bool) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    signals::listen(stop.clone()).context("signals")?;
    let (sockets, listener) = Sockets::bind(&config, roles).await?;
    let clock = ClockHealth::default();
    let (ops, over) = (Ops::new(clock.clone()), CancellationToken::new());
    let serving = tokio::spawn(serve(listener, ops.clone().router(), over.clone()));
    let mut node = Node { ops, front: Tasks::new(), back: Tasks::new(), own: OwnJournals::default() };
    let starting = start(&config, (roles, demo), sockets, clock, &mut node);
    let ended = match stop.run_until_cancelled(starting).await {
        Some(Ok(started)) => node.work(started, roles, &stop).await,
        Some(Err(error)) => {
            // what runs already comes to rest before the runtime goes, which it would miss
            let _stopped = node.front.drain(CUT).await;
            let _ended = node.back.drain(CUT).await;
            Err(error)
        }
        None => {
            node.cut().await;
            Ok(())
        }
    };
    // it answers until the end
    over.cancel();
    let _served = tokio::time::timeout(Duration::from_secs(1), serving).await;
    ended
}

impl Node {
    /// Until `stop`, or until a task fails; then to rest.
    async fn work(mut self, started: Started, roles: Roles, stop: &CancellationToken) -> anyhow::Result<()> {
        let failed = tokio::select! {
            () = stop.cancelled() => None,
            error = self.front.any_ended() => Some(error),
            error = self.back.any_ended() => Some(error),
        };
        self.ops.set_ready(false);
        let stopped = self.front.drain(DRAIN).await;
        if failed.is_none() && roles.redirect {
            rest::come_to_rest(&started.store, &self.own, roles.process, started.forwarded).await;
        }
        let ended = self.back.drain(DRAIN).await;
        failed.map_or(stopped.and(ended), Err)?;
        tracing::info!("stopped");
        Ok(())
    }

    /// Ends what had begun of a start. Nobody may be there who could take what journals hold: it isn't waited for.
    async fn cut(mut self) {
        let stopped = self.front.drain(CUT).await;
        rest::seal(&self.own).await;
        let ended = self.back.drain(CUT).await;
        for error in [stopped, ended].into_iter().filter_map(Result::err) {
            tracing::warn!("{error:#}");
        }
        tracing::info!("stopped before it had started");
    }
}
