//! From roles to running tasks, and back to rest.
//!
//! ```text
//! locks ─► listeners bound ─► parts opened ─► roles' tasks ─► ready … signal ─► drain
//! ```
//! Everything that can be wrong is found before the first answer, and named by its key. The drain goes with the way of
//! a click: the redirect listener stops first, its journals are synced, the hot path brings what they hold into the
//! lake, and the rest stops. A drain that takes too long is cut off; nothing answered is lost by that. A signal that comes
//! before the process is ready ends the start wherever it is, and drains what has begun.

mod access;
mod apis;
mod backlog;
mod changing;
mod clock;
mod events;
mod first;
pub(crate) mod geo;
mod give_up;
mod held_up;
pub(crate) mod imports;
mod journals;
mod lock;
mod logging;
mod losses;
mod member;
mod metrics;
mod names;
mod node;
mod ops;
mod own;
mod process;
mod progress;
mod readers;
mod redirect;
mod refusals;
mod rest;
mod retire;
mod serve;
mod shares;
mod signals;
mod signs;
mod sockets;
mod standing;
mod start;
mod status;
mod tasks;
mod tend;
mod topic;
mod trouble;
mod uploads;
mod watch;

pub(crate) use access::Tokens;
pub(crate) use changing::Changes;
pub(crate) use give_up::{GivenUp, How, give_up};
pub(crate) use held_up::HeldUp;
pub(crate) use journals::ids_in;
pub(crate) use lock::{NO_FOLDER, make_folder, turn};
pub(crate) use names::made_here;
#[cfg(test)]
pub(crate) use node::DRAIN;
pub(crate) use own::OwnJournals;
pub(crate) use process::{enricher, enricher_of_history, limits, settle_config, waits};
pub(crate) use redirect::id_mode;
pub(crate) use refusals::Refusals;
pub(crate) use signals::listen as stop_at_signals;
pub(crate) use standing::{lost_journals, lost_offsets};
pub(crate) use status::{Sources, TopicSource};
pub(crate) use trouble::{Found, Held, trouble};
pub(crate) use uploads::{Again, unended};

use anyhow::Context;

use crate::config::Config;

/// Which roles a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// The redirect listener.
    pub(crate) redirect: bool,
    /// The management API.
    pub(crate) manage: bool,
    /// Hot path and settler.
    pub(crate) process: bool,
    /// Reports, SQL, dashboard.
    pub(crate) query: bool,
}

impl Roles {
    const NONE: Self = Self { redirect: false, manage: false, process: false, query: false };
    /// All of them: `up`.
    pub(crate) const ALL: Self = Self { redirect: true, manage: true, process: true, query: true };
    /// `redirect`
    pub(crate) const REDIRECT: Self = Self { redirect: true, ..Self::NONE };
    /// `manage`
    pub(crate) const MANAGE: Self = Self { manage: true, ..Self::NONE };
    /// `process`
    pub(crate) const PROCESS: Self = Self { process: true, ..Self::NONE };
    /// `query`
    pub(crate) const QUERY: Self = Self { query: true, ..Self::NONE };

    /// Names of the roles, as their locks are called.
    fn names(self) -> Vec<&'static str> {
        let all =
            [("redirect", self.redirect), ("manage", self.manage), ("process", self.process), ("query", self.query)];
        all.into_iter().filter_map(|(name, has)| has.then_some(name)).collect()
    }
}

/// Runs until a signal, and drains.
///
/// # Errors
/// When it can't start, or a role ends by itself.
pub(crate) fn run(config: Config, roles: Roles, demo: bool) -> anyhow::Result<()> {
    logging::start();
    serve::raise_file_limit();
    let locks = lock::take(&config.data_dir, &roles.names())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, |cores| cores.get().min(4)))
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let config = if demo { crate::demo::configured(config) } else { config };
    let result = runtime.block_on(node::run(config, roles, demo));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    if result.is_err() {
        locks.leave_nothing();
    }
    result
}
