//! The query engine: one runtime of its own threads, one memory pool and cache for all queries, a fresh session for
//! each. Redirects and health checks never share a thread with a query.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result as EngineResult};
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::ObjectStore;
use schemas::tables::Table;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use url::Url;

use crate::config::QueryConfig;
use crate::error::QueryError;
use crate::ports::StatusSource;
use crate::spill::Spill;
use crate::sql::functions::Functions;
use crate::tables::{Tables, store_url};

/// Consumers named in the message of a query that ran out of memory.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);

/// Stack of a query thread, bytes. A plan is walked from call to call, and [`crate::sql`] lets in trees of a depth that
/// needs less than a quarter of this even without optimisation. Only what is used of it is ever memory.
const STACK: usize = 64 << 20;

/// Runs queries.
#[derive(Debug)]
pub(crate) struct Engine {
    threads: Threads,
    environment: Arc<RuntimeEnv>,
    functions: Functions,
    session: SessionConfig,
    /// The tables it reads.
    pub(crate) tables: Tables,
    /// Removed last, when nothing writes to it any more.
    _spill: Spill,
}

impl Engine {
    /// Starts the threads and prepares memory, caches and the place to spill.
    pub(crate) fn start(config: &QueryConfig, status: &Arc<dyn StatusSource>) -> Result<Self, QueryError> {
        let failed = |error: &dyn fmt::Display| QueryError::lake("starting the query engine", error);
        let spill = Spill::open(&config.temp_dir).map_err(|error| {
            QueryError::lake("making room to spill", format!("{}: {error}", config.temp_dir.display()))
        })?;
        let threads = Threads::start(config.threads).map_err(|error| failed(&error))?;
        let stores = Arc::new(Stores::default());
        let pool = TrackConsumersPool::new(FairSpillPool::new(config.memory_bytes), NAMED_CONSUMERS);
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![spill.folder().to_owned()]))
            .with_max_temp_directory_size(config.temp_bytes);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(disk)
            .with_cache_manager(CacheManagerConfig::default().with_metadata_cache_limit(config.metadata_bytes))
            .with_object_store_registry(Arc::clone(&stores) as Arc<dyn ObjectStoreRegistry>)
            .build_arc()
            .map_err(|error| failed(&error))?;
        let tables = Tables::open(config, status, environment.cache_manager.get_file_metadata_cache())?;
        stores.fill(tables.stores());
        let (functions, session) = (Functions::default(), session(config));
        Ok(Self { threads, environment, functions, session, tables, _spill: spill })
    }

    /// A session without tables: no other query sees what is put into it. Nothing in it can reach a file.
    pub(crate) fn session(&self) -> SessionContext {
        let state = SessionStateBuilder::new()
            .with_config(self.session.clone())
            .with_runtime_env(Arc::clone(&self.environment))
            .with_expr_planners(self.functions.planners.clone())
            .with_scalar_functions(self.functions.scalar.clone())
            .with_aggregate_functions(self.functions.aggregate.clone())
            .with_window_functions(self.functions.window.clone())
            .build();
        SessionContext::new_with_state(state)
    }

    /// Runs `work` on the query threads. Dropping what is returned stops it at its next yield.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Running<T> {
        Running(self.threads.handle().spawn(work))
    }

    /// Runs `work`, which may not yield for long, on a thread apart, so that who waits for it can be told in time. Not
    /// waiting any more doesn't stop it.
    ///
    /// # Errors
    /// When it panicked.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, QueryError> {
        let handle = self.threads.handle().clone();
        let done = self.threads.handle().spawn_blocking(move || handle.block_on(work)).await;
        done.map_err(|error| QueryError::lake("planning a query", error))
    }
}

fn session(config: &QueryConfig) -> SessionConfig {
    let mut session = SessionConfig::new()
        .with_target_partitions(config.threads.max(1))
        .with_default_catalog_and_schema("highwater", "public")
        .with_information_schema(false);
    let options = session.options_mut();
    options.execution.enable_recursive_ctes = false;
    // with it, a query's own filter would run before the tenant's
    options.execution.parquet.pushdown_filters = false;
    options.execution.parquet.enable_page_index = true;
    session
}

/// A piece of work on the query threads.
#[derive(Debug)]
pub(crate) struct Running<T>(JoinHandle<T>);

impl<T> Running<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// When it panicked.
    pub(crate) async fn join(mut self) -> Result<T, QueryError> {
        (&mut self.0).await.map_err(|error| QueryError::lake("running a query", error))
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The threads; let go without waiting when the service goes, as that may happen on another runtime.
#[derive(Debug)]
struct Threads(Option<Runtime>, tokio::runtime::Handle);

impl Threads {
    fn start(threads: usize) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            // reading a log waits in one for reads in others: never so few that all of them wait
            .max_blocking_threads(64)
            .thread_stack_size(STACK)
            .thread_name("query")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        Ok(Self(Some(runtime), handle))
    }

    fn handle(&self) -> &tokio::runtime::Handle {
        &self.1
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The stores a query can reach: those of the lake's tables, and no other. In particular no local files.
#[derive(Default)]
struct Stores(std::sync::OnceLock<HashMap<String, Arc<dyn ObjectStore>>>);

impl Stores {
    fn fill(&self, stores: impl Iterator<Item = (Table, Arc<dyn ObjectStore>)>) {
        self.0.get_or_init(|| stores.map(|(table, store)| (store_url(table), store)).collect());
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> EngineResult<Arc<dyn ObjectStore>> {
        let place = format!("{}://{}/", url.scheme(), url.host_str().unwrap_or_default());
        let store = self.0.get().and_then(|stores| stores.get(&place));
        store.cloned().ok_or_else(|| DataFusionError::Plan(format!("{url} is no table of the lake")))
    }
}
