//! The import of one file, from its first byte to its summary.

use std::sync::Arc;
use std::time::Instant;

use ingest::edge::Format;
use ingest::events;
use schemas::link::DEFAULT_WORKSPACE;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ahead::{Ahead, Parsers, Way};
use super::drafts::{Check, Drafts};
use super::dry::DryRun;
use super::error::{Failure, ImportError};
use super::identity;
use super::importer::{Progress, Shared, Tables};
use super::land::{Lander, Resumed, contained};
use super::opened::Content;
use super::options::{ImportOptions, Input};
use super::pipeline::{Chunk, Retired};
use super::recount::{held, sampled};
use super::side::Origin;
use super::stored::row_of;
use super::summary::{Added, State, Summary};
use crate::metrics::Metrics;
use crate::settle::guard::hours::OriginHours;
use crate::settle::guard::party::{brought_by, tenant_of};
use crate::settle::guard::{WaitingLines, open_among};
use crate::settle::ids::Spans;

/// Hexadecimal digits of the content's hash that name an import.
pub(super) const ID_DIGITS: usize = 32;

/// How often an import begins anew because another one was taken back.
const BEGUN_ANEW: u32 = 10;

/// One import.
pub(super) struct Run {
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: Metrics,
    pub(super) options: ImportOptions,
    pub(super) cancel: CancellationToken,
    pub(super) started: Instant,
}

impl Run {
    /// Takes the input in.
    pub(super) async fn import(
        self,
        input: Input,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<Summary, ImportError> {
        let (name, location) = (input.name, input.location);
        let mut ahead = identity::read(input.body, &self.shared.config.spool_dir)
            .map_err(|source| ImportError::Spool { name: name.clone(), source })?;
        let found = identity::hex(&ahead.hashed.sha256);
        if let Some(expected) = input.sha256.filter(|expected| *expected != found) {
            return Err(ImportError::OtherContent { name, expected, found });
        }
        let key = identity::key(&ahead.hashed.sha256, &self.options);
        let mut tables = self.shared.tables().await.map_err(|error| Failure::from(error).of(&name))?;
        let mut again = 0;
        let summary = loop {
            match Box::pin(self.take_in(&name, location.as_deref(), &mut ahead, &key, &mut tables, &mut progress)).await
            {
                Err(ImportError::BeginAnew { .. }) if again < BEGUN_ANEW => {
                    again += 1;
                    ahead.may_draft = false;
                }
                summary => break summary,
            }
        };
        if summary.is_ok() && !self.options.dry_run {
            tables.keep_up().await;
        }
        self.shared.give_back(tables);
        summary
    }

    async fn take_in(
        &self,
        name: &str,
        location: Option<&str>,
        ahead: &mut Ahead,
        key: &str,
        tables: &mut Tables,
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<Summary, ImportError> {
        let (hashed, begun) = (&ahead.hashed, ahead.begun.take());
        let txn = format!("file/{key}");
        let import_id = &key[..ID_DIGITS];
        let done = contained(&tables.settler, &txn);
        // none: never, or taken back since
        if tables.side.edge_files.txn(&txn).is_some_and(|chunks| chunks > 0 && done >= chunks) {
            let repeat = self.repeat(name, import_id, tables).await.map_err(|failure| failure.of(name))?;
            if let Some(summary) = repeat {
                return Ok(summary);
            }
        }
        let set_back = tables.settler.desk.clicks.txn(&txn).or(tables.settler.arrivals.txn(&txn)).is_some();
        let sha256 = hashed.sha256;
        let Some(opened) = self.open(name, hashed)? else {
            return Ok(self.empty(name, import_id));
        };
        let content = opened.content.clone();
        let before = self.taken_in_otherwise(&sha256, &content, tables).await;
        if let Some(otherwise) = before.map_err(|failure| failure.of(name))? {
            return Err(otherwise.refusal(name));
        }
        let summary = self.begun(name, import_id, content.format());
        let reading = self.reading(content.clone(), tables).await.map_err(|failure| failure.of(name))?;
        let origin = Origin {
            import_id: import_id.into(),
            name: name.to_owned(),
            workspace: self.options.workspace.clone().unwrap_or_else(|| DEFAULT_WORKSPACE.to_owned()),
            provider: content.provider().to_owned(),
            brought: brought_by(content.provider(), tenant_of(self.options.workspace.as_deref())).into_owned(),
            source: self.options.source.clone(),
            sha256: identity::hex(&sha256),
            location: location.map(str::to_owned),
            options: self.options.to_json().map_err(|e| Failure::BrokeOff(e.to_string()).of(name))?,
        };
        let (judged_since, beside) = match &content {
            Content::Log(..) => self.beyond(content.provider(), tables).await.map_err(|failure| failure.of(name))?,
            Content::Events(_) => (None, None),
        };
        let way = Way { content, reading };
        let parsing = match begun.and_then(|begun| begun.parsing(import_id, &way)) {
            Some(parsing) => parsing,
            None => self
                .parse(opened, hashed, way.reading.clone(), import_id, &Retired::default())
                .map_err(|failure| failure.of(name))?,
        };
        self.free_parsers(parsing.ended, way, parsing.retired);
        let drafts = ahead.may_draft && done == 0 && matches!(parsing.check, Check::Due(..));
        let lander = Lander {
            settler: &mut tables.settler,
            side: &mut tables.side,
            metrics: &self.metrics,
            origin,
            txn,
            summary,
            started: self.started,
            resumed: Resumed::from(if self.options.dry_run { 0 } else { done }),
            spans: Spans::default(),
            // what it has brought before it was set back is its own
            recount: done == 0 && set_back,
            chunks: 0,
            is_begun: false,
            is_told: false,
            judged_since,
            origin_hours: OriginHours::default(),
            beside,
            check: if drafts { parsing.check } else { parsing.check.start() },
            drafts: drafts.then(Drafts::default),
        };
        let landed = self.land_each(parsing.chunks, lander, hashed.bytes, progress).await;
        landed.map_err(|failure| failure.of(name))
    }

    /// What must be known of a log's provider beyond its lines: the first hour in which ids must meet, and the provider
    /// that the redirect is told of instead.
    async fn beyond(&self, provider: &str, tables: &Tables) -> Result<(Option<i64>, Option<String>), Failure> {
        Ok((tables.settler.judged_since(provider).await?, self.beside(provider).await?))
    }

    /// The summary of a file that the lake holds in full; `None` if it was never told what that was.
    async fn repeat(&self, name: &str, import_id: &str, tables: &mut Tables) -> Result<Option<Summary>, Failure> {
        let Some(stored) = row_of(&tables.side.edge_files, import_id).await? else { return Ok(None) };
        let told = stored.told_again(&self.options);
        let mut stored = stored.summary;
        if stored.waiting > 0 && !self.options.dry_run {
            tables.settler.settle().await?;
        }
        let spans: Spans = [stored.first, stored.last].into_iter().flatten().collect();
        let (mut waiting, mut lines) = (0, WaitingLines::new());
        if stored.waiting > 0 || stored.checks.is_some() {
            let held = held(&tables.settler.desk.clicks, &tables.settler.arrivals, import_id, &spans).await?;
            (waiting, lines) = (held.waiting, held.lines);
            let sampled = sampled(&tables.settler.desk.clicks, &tables.settler.arrivals, import_id);
            stored = stored.with_held(held.added, held.waiting, sampled);
        }
        stored.check(&tables.settler.arrivals);
        let mut summary = stored.repeated(waiting);
        summary.mismatched = open_among(&tables.settler.desk.clicks, &tables.settler.arrivals, &lines);
        summary.note = Some(told);
        name.clone_into(&mut summary.name);
        summary.dry_run = self.options.dry_run;
        summary.seconds = self.started.elapsed().as_secs_f64();
        Ok(Some(summary))
    }

    /// The summary before the first line.
    fn begun(&self, name: &str, import_id: &str, format: &str) -> Summary {
        let mut summary = Summary::new(import_id.to_owned(), name.to_owned(), format.to_owned(), self.options.dry_run);
        summary.state = State::Running;
        if self.options.events.is_some() {
            summary.added = Added::of_events();
        }
        summary
    }

    fn empty(&self, name: &str, import_id: &str) -> Summary {
        let format = match self.options.format {
            _ if self.options.events.is_some() => events::FORMAT,
            format => format.map_or("", Format::as_str),
        };
        let mut summary = self.begun(name, import_id, format);
        summary.state = State::Done;
        summary.seconds = self.started.elapsed().as_secs_f64();
        summary.note = Some("the file is empty".to_owned());
        summary
    }

    /// Gives the parsers free for the next file when the last line of this one is parsed.
    fn free_parsers(&self, mut ended: watch::Receiver<bool>, way: Way, retired: Retired) {
        let parsers = self.shared.parsers.clone();
        tokio::spawn(async move {
            if ended.wait_for(|ended| *ended).await.is_ok() {
                parsers.send_replace(Parsers::Free(Box::new(way), retired));
            }
        });
    }

    /// Parsing of the next chunk goes on while one lands.
    async fn land_each(
        &self,
        mut chunks: mpsc::Receiver<Result<Chunk, Failure>>,
        mut lander: Lander<'_>,
        of: u64,
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<Summary, Failure> {
        let mut dry = self
            .options
            .dry_run
            .then(|| DryRun::new(lander.summary.clone(), lander.origin.brought.clone(), self.started));
        let (mut lines, mut note, mut ended) = (0, None, false);
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk?;
            if self.cancel.is_cancelled() {
                return Err(Failure::BrokeOff("stopped; a repeat goes on from there".to_owned()));
            }
            lines += chunk.tally.lines;
            let now = Progress { bytes: chunk.raw_bytes, of, lines };
            ended = chunk.ending.is_some();
            note = chunk.ending.as_ref().and_then(|ending| ending.truncated.clone());
            match &mut dry {
                Some(dry) => {
                    lander.check.passed().await?;
                    dry.judge(lander.settler, &chunk).await?;
                }
                None => lander.take(chunk).await?,
            }
            progress(now);
        }
        if !ended {
            return Err(Failure::BrokeOff("the gathering of lines has ended early".to_owned()));
        }
        let mut summary = match dry {
            Some(dry) => dry.finish(),
            None => lander.finish(note.as_deref()).await?,
        };
        if self.options.dry_run {
            summary.note = note;
        }
        Ok(summary)
    }
}
