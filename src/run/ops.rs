//! The ops listener: `/healthz` (the process lives), `/readyz` (it can do its work), `/metrics` (Prometheus).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use redirect::links::LinkStore;
use tokio::sync::{Mutex, watch};

use super::Roles;
use super::clock::ClockHealth;
use super::held_up::HeldUp;
use super::standing::Standing;

/// A check is good for so long: whoever asks more often costs no more.
const CHECKED_FOR: Duration = Duration::from_secs(1);
/// What a check writes into the data folder: more than what a file system may have left over in some corner.
const PROBE_BYTES: usize = 64 << 10;

/// What a process needs of link store and data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Both written: without that it can't do its work.
    Writes,
    /// The link store read: without that it knows nobody's token.
    Reads,
    /// The link store read, for links that it doesn't have in memory: it goes on with those that it has.
    Helps,
}

impl Need {
    /// What a process with these roles needs.
    pub(crate) fn of(roles: Roles) -> Self {
        match roles {
            Roles { manage: true, .. } | Roles { process: true, .. } => Self::Writes,
            Roles { query: true, .. } => Self::Reads,
            _ => Self::Helps,
        }
    }
}

/// What a process needs, and whether it is there.
#[derive(Clone, Debug)]
pub(crate) struct Needed {
    need: Need,
    store: LinkStore,
    data_dir: PathBuf,
    last: Arc<Mutex<Option<Checked>>>,
}

/// A check, and what was in the way then.
#[derive(Clone, Debug)]
struct Checked {
    at: Instant,
    problem: Option<String>,
}

impl Needed {
    /// Not checked yet.
    pub(crate) fn new(need: Need, store: &LinkStore, data_dir: &Path) -> Self {
        Self { need, store: store.clone(), data_dir: data_dir.to_owned(), last: Arc::default() }
    }

    /// What is in the way, if anything is. Really writes or reads, once a second at most.
    async fn problem(&self, now: Instant) -> Option<String> {
        // whoever comes meanwhile waits for the same answer
        let mut last = self.last.lock().await;
        if let Some(checked) = last.as_ref().filter(|last| now.saturating_duration_since(last.at) < CHECKED_FOR) {
            return checked.problem.clone();
        }
        let problem = self.check().await.err();
        if let Some(problem) = &problem {
            tracing::error!(problem, "not ready");
        }
        *last = Some(Checked { at: Instant::now(), problem: problem.clone() });
        problem
    }

    async fn check(&self) -> Result<(), String> {
        if self.need != Need::Writes {
            return self.store.check_readable().await.map_err(|error| error.to_string());
        }
        self.store.check_writable().await.map_err(|error| error.to_string())?;
        let folder = self.data_dir.clone();
        let probed = tokio::task::spawn_blocking(move || probe(&folder)).await;
        let probed = probed.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        probed.map_err(|error| format!("the data folder {} can't be written: {error}", self.data_dir.display()))
    }
}

/// Writes a file and takes it away again.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join("ready.tmp");
    let written = std::fs::write(&path, [0x5a; PROBE_BYTES]);
    // a failed write leaves some of it; another role on the same folder may take it away too
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
        _ => written,
    }
}

/// The ops listener, from the begin of the start to the end of the drain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ops {
    ready: Arc<AtomicBool>,
    /// What is wrong with the clock. A start waits for it; once started, others would be no better, and it is only told.
    clock: ClockHealth,
    shown: Arc<OnceLock<Shown>>,
}

/// What it shows once all is opened.
#[derive(Debug)]
pub(crate) struct Shown {
    /// What `/metrics` shows.
    pub(crate) metrics: Registry,
    /// What this process needs beside the lake.
    pub(crate) needed: Needed,
    /// What is known of the lake, in a process that brings clicks into it.
    pub(crate) standing: Option<watch::Receiver<Standing>>,
    /// What holds clicks up: told, but nothing that a restart or another node would mend.
    pub(crate) held_up: HeldUp,
}

impl Ops {
    /// Not ready until told, and until there is something to show.
    pub(crate) fn new(clock: ClockHealth) -> Self {
        Self { clock, ..Self::default() }
    }

    /// All is opened: not ready while what it can't do without is away, or the lake isn't the right one.
    pub(crate) fn show(&self, shown: Shown) {
        // it is shown once, by the start
        let _ = self.shown.set(shown);
    }

    /// Tells whether new work is welcome: from the end of the start to the beginning of the drain.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// The routes.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self)
    }

    /// Why it isn't ready, if it isn't.
    async fn problem(&self) -> Option<String> {
        let Some(shown) = self.shown.get().filter(|_| self.ready.load(Ordering::Acquire)) else {
            return Some(self.clock.problem().unwrap_or_else(|| "starting or stopping".to_owned()));
        };
        let standing = shown.standing.as_ref().map(|standing| standing.borrow().clone());
        if let Some(Standing::Lost(why)) = standing {
            return Some(why);
        }
        if shown.needed.need == Need::Helps { None } else { shown.needed.problem(Instant::now()).await }
    }

    /// What is wrong though it is ready: nothing that another process or a restart would mend.
    async fn trouble(&self) -> Option<String> {
        if let Some(why) = self.clock.problem() {
            return Some(why);
        }
        let Shown { needed, held_up, .. } = self.shown.get()?;
        if needed.need == Need::Helps
            && let Some(why) = needed.problem(Instant::now()).await
        {
            return Some(format!("only links in memory are redirected, and not for long: {why}"));
        }
        held_up.problem(Instant::now())
    }
}

async fn readyz(State(ops): State<Ops>) -> Response {
    match ops.problem().await {
        None => match ops.trouble().await {
            None => "ready\n".into_response(),
            Some(why) => format!("ready, but {why}\n").into_response(),
        },
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn metrics(State(ops): State<Ops>) -> Response {
    let Some(shown) = ops.shown.get() else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shown.metrics) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ops(folder: &Path, need: Need, standing: Standing) -> Ops {
        let domains = redirect::links::Domains::new(&["a.test"]).unwrap();
        let store = LinkStore::open(folder.join("links").to_str().unwrap(), domains).await.unwrap();
        let needed = Needed::new(need, &store, &folder.join("data"));
        let ops = Ops::new(ClockHealth::default());
        let standing = Some(watch::Sender::new(standing).subscribe());
        ops.show(Shown { metrics: Registry::default(), needed, standing, held_up: HeldUp::default() });
        ops
    }

    #[tokio::test]
    async fn readiness_says_what_is_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let lost = ops(folder.path(), Need::Writes, Standing::Lost("the lake is gone".into())).await;
        assert_eq!(lost.problem().await.unwrap(), "starting or stopping");
        lost.set_ready(true);
        assert_eq!(lost.problem().await.unwrap(), "the lake is gone");

        let ops = ops(folder.path(), Need::Writes, Standing::Whole).await;
        ops.set_ready(true);
        let problem = ops.problem().await.unwrap();
        assert!(problem.contains("data can't be written"), "{problem}");
        std::fs::create_dir(folder.path().join("data")).unwrap();
        assert_eq!(ops.problem().await, Some(problem), "an answer is good for a while");
        let needed = &ops.shown.get().unwrap().needed;
        assert_eq!(needed.problem(Instant::now() + CHECKED_FOR).await, None);
        assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0, "nothing is left of a check");
    }

    /// Whoever answers with the help of the link store isn't simply ready while that can't be read.
    #[tokio::test]
    async fn a_link_store_that_cannot_be_read_is_told_of() {
        for need in [Need::Reads, Need::Helps] {
            let folder = tempfile::tempdir().unwrap();
            let ops = ops(folder.path(), need, Standing::Whole).await;
            ops.set_ready(true);
            assert_eq!((ops.problem().await, ops.trouble().await), (None, None), "{need:?}");
            let broken = tempfile::tempdir().unwrap();
            let ops = self::ops(broken.path(), need, Standing::Whole).await;
            ops.set_ready(true);
            std::fs::write(broken.path().join("links"), "no database").unwrap();
            let (problem, trouble) = (ops.problem().await, ops.trouble().await.unwrap_or_default());
            assert_eq!(problem.is_some(), need == Need::Reads, "{need:?}: {problem:?}");
            let told = problem.unwrap_or(trouble);
            assert!(told.contains("checking that the link store can be read"), "{told}");
        }
    }
}
