//! What else must be said of a span of time: clicks known to be missing in it, what was sampled away, changes of its final
//! numbers, and those that are under way.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::prelude::{DataFrame, SessionContext};
use schemas::restatement::Why;
use schemas::tables::Table;
use schemas::{Principal, UtcMicros};

use super::answer::{Change, Gap};
use super::ask::collect;
use super::period::Span;
use super::plan;
use super::request::ReportRequest;
use super::sampled::{Sampled, Sources};
use super::shape;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::failure::classify;
use crate::ports::{Changing, StatusSource};

/// What is to be said of numbers that were final and moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restated {
    /// When those of the span were last changed.
    pub(super) at: Option<UtcMicros>,
    /// Rows before this were removed, being older than their workspace keeps any; of several workspaces, of the one that
    /// keeps the least.
    pub(super) kept_from: Option<UtcMicros>,
}

/// A span, and who asks.
pub(super) struct Touched<'a> {
    pub(super) engine: &'a Engine,
    pub(super) session: &'a SessionContext,
    pub(super) principal: &'a Principal,
    pub(super) span: Span,
}

impl Touched<'_> {
    /// Known gaps that the span touches.
    pub(super) async fn gaps(&self, not_before: Option<Instant>) -> Result<Vec<Gap>, QueryError> {
        let mut found = Vec::new();
        for batch in self.rows(Table::Gaps, not_before).await? {
            let (starts, ends) = (shape::integers(&batch, "start")?, shape::integers(&batch, "end")?);
            let (lost, reasons) = (shape::integers(&batch, "lost")?, shape::texts(&batch, "reason")?);
            let owners = shape::texts(&batch, "workspace")?;
            for (row, reason) in reasons.into_iter().enumerate() {
                let (start, end) = (starts[row].unwrap_or_default(), ends[row].unwrap_or_default());
                if self.meets(start, end) {
                    let told = self.principal.is_operator() || !owners[row].is_empty();
                    let lost = lost[row].filter(|_| told).and_then(|lost| u64::try_from(lost).ok());
                    found.push(Gap { start: UtcMicros(start), end: UtcMicros(end), lost, reason });
                }
            }
        }
        found.sort_by_key(|gap| (gap.start, gap.end));
        Ok(found)
    }

    /// What was said of changes of numbers that were final.
    pub(super) async fn restated(&self, not_before: Option<Instant>) -> Result<Restated, QueryError> {
        let mut restated = Restated::default();
        for batch in self.rows(Table::Restatements, not_before).await? {
            let (starts, ends) = (shape::integers(&batch, "start")?, shape::integers(&batch, "end")?);
            let reasons = shape::texts(&batch, "why")?;
            for (row, at) in shape::integers(&batch, "restated_at")?.into_iter().enumerate() {
                let (start, end) = (starts[row].unwrap_or_default(), ends[row].unwrap_or_default());
                if reasons[row] == Why::Retention.as_str() {
                    restated.kept_from = restated.kept_from.max(Some(UtcMicros(end.saturating_add(1))));
                } else if self.meets(start, end) {
                    restated.at = restated.at.max(at.map(UtcMicros));
                }
            }
        }
        Ok(restated)
    }

    /// What was sampled away of it, and the visitors of that. `chosen`: the rows in scope, of which `groups` are shown;
    /// nothing in them is later than `now`.
    pub(super) async fn sampled(
        &self,
        request: &ReportRequest,
        ends: Option<&Arc<[i64]>>,
        chosen: DataFrame,
        groups: &[String],
        (now, not_before): (UtcMicros, Option<Instant>),
    ) -> Result<Sampled, QueryError> {
        let snapshot = self.engine.tables.snapshot(Table::ClicksHourly, not_before).await?;
        if snapshot.files.is_empty() {
            return Ok(Sampled::default());
        }
        let hourly = self.session.read_table(self.engine.tables.provider(&snapshot, self.principal));
        let hourly = hourly.and_then(|hourly| plan::hours_in_scope(hourly, request, self.span));
        let hourly = hourly.map_err(|error| classify(&error))?;
        let mut sampled = Sampled::look(hourly.clone(), request, (self.span, ends), now).await?;
        sampled.look_closer(hourly.clone(), self, not_before).await?;
        sampled.count_visitors(&Sources { session: self.session, hourly, clicks: chosen, groups }).await?;
        Ok(sampled)
    }

    /// Changes under way that the span touches.
    pub(super) async fn changing(&self, status: &dyn StatusSource) -> Result<Vec<Change>, QueryError> {
        let asked = status.changing().await;
        let all = asked.map_err(|error| QueryError::lake("asking which changes are under way", error))?;
        let own = |workspace: &Option<String>| {
            self.principal.workspace.is_none() || workspace.is_none() || *workspace == self.principal.workspace
        };
        let touches = all.into_iter().filter(|one| own(&one.workspace) && self.meets(one.start.0, one.end.0));
        let mut found: Vec<Change> =
            touches.map(|Changing { start, end, reason, .. }| Change { start, end, reason }).collect();
        found.sort_by(|a, b| (a.start, a.end, &a.reason).cmp(&(b.start, b.end, &b.reason)));
        found.dedup();
        Ok(found)
    }

    /// Whether something from `start` to `end`, both included, touches the span.
    fn meets(&self, start: i64, end: i64) -> bool {
        start < self.span.end.0 && end >= self.span.start.0
    }

    /// The rows of a small table that the caller may see.
    async fn rows(&self, table: Table, not_before: Option<Instant>) -> Result<Vec<RecordBatch>, QueryError> {
        let snapshot = self.engine.tables.snapshot(table, not_before).await?;
        if snapshot.files.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.session.read_table(self.engine.tables.provider(&snapshot, self.principal));
        collect(rows).await
    }
}
