//! The importer: what imports share, and the thread that each has for itself.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ingest::ports::{LinkDirectory, Registry, VisitorKeys};
use schemas::tables::Table;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ahead::{Parsers, Way};
use super::error::{Failure, ImportError};
use super::identity;
use super::land::SideTables;
use super::options::{Body, ImportConfig, ImportOptions, Input};
use super::run::Run;
use super::summary::Summary;
use crate::enrich::Enricher;
use crate::lake::Lake;
use crate::metrics::Metrics;
use crate::settle::{SettleConfig, SettleError, Settled, Settler};

/// Ids kept in memory to find lines that are rows already, bytes.
const ID_BYTES: usize = 64 << 20;
/// Upkeep is due after so many commits.
const UPKEEP_COMMITS: i64 = 50;

/// How far an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Raw bytes read.
    pub bytes: u64,
    /// Raw bytes in all.
    pub of: u64,
    /// Lines whose fate is decided.
    pub lines: u64,
}

/// Takes edge logs and files of events in.
#[derive(Clone, Debug)]
pub struct Importer {
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: Metrics,
}

/// What all imports of a process have in common.
#[derive(Debug)]
pub(super) struct Shared {
    lake: Lake,
    pub(super) directory: Arc<dyn LinkDirectory>,
    pub(super) keys: Arc<dyn VisitorKeys>,
    pub(super) registry: Arc<dyn Registry>,
    pub(super) enricher: Arc<Enricher>,
    pub(super) config: ImportConfig,
    /// Tables and ids of imports that are done, for the next ones.
    idle: Mutex<Vec<Tables>>,
    /// Whether the file after the one under way may begin to be parsed.
    pub(super) parsers: watch::Sender<Parsers>,
}

/// What one import works on.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) settler: Settler,
    pub(super) side: SideTables,
    /// The version of `clicks` that upkeep has last seen.
    kept_up: i64,
}

impl Tables {
    /// Merges and cleans up after many commits: nobody else may be there to do it.
    pub(super) async fn keep_up(&mut self) {
        let version = self.settler.desk.clicks.version();
        if version - self.kept_up >= UPKEEP_COMMITS {
            self.kept_up = version;
            if let Err(error) = self.settler.pass().await {
                tracing::warn!(%error, "upkeep failed, the import has landed");
            }
        }
    }
}

impl Importer {
    /// An importer into `lake`.
    pub fn new(
        lake: Lake,
        directory: Arc<dyn LinkDirectory>,
        keys: Arc<dyn VisitorKeys>,
        registry: Arc<dyn Registry>,
        enricher: Arc<Enricher>,
        config: ImportConfig,
    ) -> Self {
        let idle = Mutex::new(Vec::new());
        let shared = Arc::new(Shared {
            lake,
            directory,
            keys,
            registry,
            enricher,
            config,
            idle,
            parsers: watch::Sender::default(),
        });
        Self { shared, metrics: Metrics::default() }
    }

    /// Counts into `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Makes the corrections that wait for others of the same files; to be called after the last file, where nobody else
    /// may be there to do it.
    ///
    /// # Errors
    /// When the lake or the link store fails. What was imported is counted in any case.
    pub async fn correct(&self) -> Result<Settled, SettleError> {
        let mut tables = self.shared.tables().await?;
        let corrected = tables.settler.correct_now().await;
        self.shared.give_back(tables);
        corrected
    }

    /// Reads a file for its hash before its import, and begins to parse it when the lines of the one under way are
    /// parsed: to be done while that one is taken in, with the options of the import to come.
    ///
    /// # Errors
    /// When it can't be read or spooled.
    pub async fn read_ahead(&self, input: Input, options: &ImportOptions) -> Result<Input, ImportError> {
        let Input { name, body, location, sha256 } = input;
        let shared = Arc::clone(&self.shared);
        let read = tokio::task::spawn_blocking(move || identity::read(body, &shared.config.spool_dir));
        let mut ahead = match read.await.unwrap_or_else(|e| Err(io::Error::other(e))) {
            Ok(ahead) => ahead,
            Err(source) => return Err(ImportError::Spool { name, source }),
        };
        let mut parsers = self.shared.parsers.subscribe();
        let way = match parsers.wait_for(|parsers| !matches!(parsers, Parsers::Busy)).await.as_deref() {
            Ok(Parsers::Free(way, retired)) => Some((Way::clone(way), Arc::clone(retired))),
            _ => None,
        };
        if let Some((way, retired)) = way {
            let (run, named, runtime) =
                (self.run(options.clone(), CancellationToken::new()), name.clone(), Handle::current());
            let begin = tokio::task::spawn_blocking(move || {
                let _runtime = runtime.enter();
                ahead.begun = run.begin(&named, &ahead.hashed, way, &retired);
                ahead
            });
            ahead = begin.await.map_err(|e| Failure::BrokeOff(e.to_string()).of(&name))?;
        }
        Ok(Input { name, body: Body::Ahead(Box::new(ahead)), location, sha256 })
    }

    /// Takes a file in, settles what can be settled, and says what became of its lines. `progress` is called after
    /// each chunk. Dropped, it stops after the chunk under way; a repeat goes on from there.
    ///
    /// # Errors
    /// As [`ImportError`] says.
    pub async fn import(
        &self,
        input: Input,
        options: ImportOptions,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<Summary, ImportError> {
        let name = input.name.clone();
        let cancel = CancellationToken::new();
        let _stop_when_dropped = cancel.clone().drop_guard();
        let (run, runtime) = (self.run(options, cancel), Handle::current());
        self.shared.parsers.send_replace(Parsers::Busy);
        // On a thread of its own: deciding on a chunk takes longer than other tasks should wait.
        let done = tokio::task::spawn_blocking(move || {
            let parsers = run.shared.parsers.clone();
            let summary = runtime.block_on(run.import(input, progress));
            // nobody waits for parsers that this import no longer has
            parsers.send_replace(Parsers::Idle);
            summary
        });
        done.await.unwrap_or_else(|e| Err(Failure::BrokeOff(e.to_string()).of(&name)))
    }

    pub(super) fn run(&self, options: ImportOptions, cancel: CancellationToken) -> Run {
        let (shared, metrics) = (Arc::clone(&self.shared), self.metrics.clone());
        Run { shared, metrics, options, cancel, started: Instant::now() }
    }
}

impl Shared {
    /// Tables at their newest versions.
    pub(super) async fn tables(&self) -> Result<Tables, SettleError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut tables) = idle {
            tables.settler.desk.clicks.refresh().await?;
            tables.settler.arrivals.refresh().await?;
            tables.side.edge_files.refresh().await?;
            return Ok(tables);
        }
        let (lake, config) = (&self.lake, &self.config);
        let settle = SettleConfig {
            waits: config.waits,
            edge: config.edge.clone(),
            max_skew: config.max_skew,
            settle: config.settle,
            id_bytes: ID_BYTES,
            ..SettleConfig::default()
        };
        let settler = Settler::new(lake, Arc::clone(&self.registry), Arc::clone(&self.enricher), settle).await?;
        let side =
            SideTables { rejects: lake.table(Table::Rejects).await?, edge_files: lake.table(Table::EdgeFiles).await? };
        let kept_up = settler.desk.clicks.version();
        Ok(Tables { settler, side, kept_up })
    }

    /// Keeps tables for the next import; one set is enough.
    pub(super) fn give_back(&self, tables: Tables) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.is_empty() {
            idle.push(tables);
        }
    }
}
