//! The service: everything this crate can answer, for callers in the same process and for the HTTP listener alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use schemas::Principal;

use crate::config::QueryConfig;
use crate::dashboard::Sessions;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::limits::{Places, within};
use crate::metrics::QueryMetrics;
use crate::ports::{Access, Answered, StatusSource};
use crate::reports::{self, Report, ReportRequest};
use crate::sql::{self, Format, Job, Limits, SqlAnswer};
use crate::status::Status;
use crate::verify::{self, VerifyReport};

/// Answers questions about the lake. Cheap to clone; the last one to go stops the query threads.
#[derive(Clone, Debug)]
pub struct QueryService(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Arc<Engine>,
    access: Arc<dyn Access>,
    status: Arc<dyn StatusSource>,
    config: QueryConfig,
    reports: Places,
    statements: Places,
    sessions: Sessions,
    metrics: QueryMetrics,
}

impl QueryService {
    /// Starts the query threads. The lake may not exist yet: it then reads as empty.
    ///
    /// # Errors
    /// [`QueryError::Location`] when the lake's place can't be one, [`QueryError::Lake`] when threads or the folder to
    /// spill into can't be made.
    pub fn new(
        config: QueryConfig,
        access: Arc<dyn Access>,
        status: Arc<dyn StatusSource>,
    ) -> Result<Self, QueryError> {
        let engine = Arc::new(Engine::start(&config, &status)?);
        let (reports, statements) = (Places::new(&config), Places::new(&config));
        let (sessions, metrics) = (Sessions::default(), QueryMetrics::default());
        Ok(Self(Arc::new(Inner { engine, access, status, config, reports, statements, sessions, metrics })))
    }

    /// The metrics, to be registered.
    pub fn metrics(&self) -> &QueryMetrics {
        &self.0.metrics
    }

    /// Answers a report as far as `principal` may see.
    ///
    /// # Errors
    /// [`QueryError::Invalid`] when the request makes no sense at this time; those of limits and of the lake.
    pub async fn report(&self, principal: &Principal, request: &ReportRequest) -> Result<Report, QueryError> {
        let began = Instant::now();
        let result = within(self.0.config.deadline, async {
            let _place = self.0.reports.take().await?;
            match self.report_once(principal, request, None).await {
                // a fresh snapshot doesn't have the file that is gone
                Err(QueryError::Stale(_)) => self.report_once(principal, request, Some(Instant::now())).await,
                result => result,
            }
        })
        .await;
        self.0.metrics.took("reports", began.elapsed());
        result
    }

    async fn report_once(
        &self,
        principal: &Principal,
        request: &ReportRequest,
        not_before: Option<Instant>,
    ) -> Result<Report, QueryError> {
        let (engine, status) = (Arc::clone(&self.0.engine), Arc::clone(&self.0.status));
        self.0
            .engine
            .spawn(reports::report(engine, status, principal.clone(), request.clone(), not_before))
            .join()
            .await?
    }

    /// Runs one read-only statement.
    ///
    /// # Errors
    /// [`QueryError::Forbidden`] for tenants, [`QueryError::Statement`] for anything but one `SELECT`; those of limits
    /// and of the lake. An answer that is long can still fail while it is read.
    pub async fn sql(&self, principal: &Principal, sql: &str, format: Format) -> Result<SqlAnswer, QueryError> {
        if !principal.is_operator() {
            return Err(QueryError::Forbidden("SQL is for operators only"));
        }
        let config = &self.0.config;
        let place = self.0.statements.take().await?;
        let limits = Limits {
            deadline: config.deadline,
            stall: config.stall,
            rows: config.max_rows,
            bytes: config.max_bytes,
            hold: config.hold_bytes,
        };
        sql::start(Job {
            engine: Arc::clone(&self.0.engine),
            principal: principal.clone(),
            sql: sql.to_owned(),
            format,
            limits,
            metrics: self.0.metrics.clone(),
            _place: place,
        })
        .await
    }

    /// Where the pipeline stands, as far as `principal` may see.
    ///
    /// # Errors
    /// [`QueryError::Unavailable`] when the pipeline couldn't say.
    pub async fn status(&self, principal: &Principal) -> Result<serde_json::Value, QueryError> {
        const ASKING: &str = "asking where the pipeline stands";
        let status: Status = self.0.status.status().await.map_err(|error| QueryError::unavailable(ASKING, error))?;
        status.seen_by(principal).map_err(|error| QueryError::lake(ASKING, error))
    }

    /// Recounts table `clicks`: duplicate ids, classes, rules that rows must keep, and whether each that was answered has a row.
    /// Records of one request are at most `max_skew` apart. No deadline: it reads all of it.
    ///
    /// # Errors
    /// Those of the lake, and of what was answered.
    pub async fn verify(&self, max_skew: Duration, answered: Arc<dyn Answered>) -> Result<VerifyReport, QueryError> {
        self.0.engine.spawn(verify::verify(Arc::clone(&self.0.engine), max_skew, answered)).join().await?
    }

    /// A key that logs one browser in, once, as the owner of `token`; for the link that `up` prints. It is good for
    /// ten minutes.
    pub fn issue_login_key(&self, token: &str) -> String {
        self.0.sessions.issue_key(token, Instant::now())
    }

    /// Who comes with this token; `None` when it is none of ours.
    ///
    /// # Errors
    /// [`QueryError::Unavailable`] when that can't be told now.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Option<Principal>, QueryError> {
        self.0.access.authenticate(token).await.map_err(|error| QueryError::unavailable("checking a token", error))
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }
}
