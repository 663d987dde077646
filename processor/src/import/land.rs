//! Chunks into the lake, one after the other, each whole into one table.
//!
//! ```text
//! contained already (a run before, or another run of the same file)? ──► nothing to write
//! rejects, and with the last chunk the row of edge_files             ──► written first, skipped if there
//! the import's name, of one with more than one chunk                  ──► edge_files, before its first rows (`begin`)
//! every line settled by the snapshot                                 ──► clicks, as a settler's commit
//! else                                                               ──► arrivals
//! ```
//! Lines that know better than the row of their request go into `arrivals` too, before the chunk; brought again by a
//! repeat they do no harm, as each is merged into its row.
//!
//! The transaction `file/<hash>` = chunks contained is in whichever commit brings the chunk, and expected to be as the
//! look before showed it.

use arrow::array::RecordBatch;
use schemas::UtcMicros;
use schemas::tables::Table;

use super::arriving::{Corrections, arriving_rows};
use super::checks::Checks;
use super::drafts::{Check, Drafts};
use super::error::Failure;
use super::pipeline::Chunk;
use super::recount::{Held, held, sampled};
use super::side::{self, Origin};
use super::summary::{State, Summary};
use crate::lake::{Change, CommitError, Span, TableHandle};
use crate::metrics::Metrics;
use crate::settle::desk::{Draft, Landing, TRIES, note_added};
use crate::settle::elsewhere;
use crate::settle::guard::hours::{OriginHours, UNLINKED};
use crate::settle::guard::{linked, open_among, texts};
use crate::settle::ids::Spans;
use crate::settle::sampled::{links_of, sampled_txn};
use crate::settle::{Arrival, Decision, Fate, Kind, SettleError, Settler};

/// The side tables of imports.
#[derive(Debug)]
pub(super) struct SideTables {
    pub(super) rejects: TableHandle,
    pub(super) edge_files: TableHandle,
}

/// An import on its way into the lake.
#[derive(Debug)]
pub(super) struct Lander<'a> {
    pub(super) settler: &'a mut Settler,
    pub(super) side: &'a mut SideTables,
    pub(super) metrics: &'a Metrics,
    pub(super) origin: Origin,
    /// `file/<hash>`
    pub(super) txn: String,
    pub(super) summary: Summary,
    pub(super) started: std::time::Instant,
    /// Chunks that a run before has brought, as far as they have come by; and where their lines are in time.
    pub(super) resumed: Resumed,
    /// Times of all records so far, if the lake must be asked what became of them.
    pub(super) spans: Spans,
    /// Whether the lake must be asked.
    pub(super) recount: bool,
    /// Chunks that have come by.
    pub(super) chunks: i64,
    /// Whether this run has seen to it that the import is named.
    pub(super) is_begun: bool,
    /// Whether this run has brought the row of `edge_files`, or found it there.
    pub(super) is_told: bool,
    /// The first hour in which it is to be found out whether ids meet.
    pub(super) judged_since: Option<i64>,
    /// Lines that reached the origin since then.
    pub(super) origin_hours: OriginHours,
    /// The provider that the redirect is told of, where it is not this file's although the redirect was there.
    pub(super) beside: Option<String>,
    /// Whether the file is sound.
    pub(super) check: Check,
    /// What is drafted until that is known; none where nothing is to be.
    pub(super) drafts: Option<Drafts>,
}

/// What is known of chunks brought before.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    chunks: i64,
    records: u64,
    taken_over: bool,
}

impl Resumed {
    /// Chunks that the lake held when this run began.
    pub(super) fn from(chunks: i64) -> Self {
        Self { chunks, records: 0, taken_over: chunks == 0 }
    }
}

impl Lander<'_> {
    /// Brings a chunk into the lake.
    pub(super) async fn land(&mut self, chunk: Chunk) -> Result<(), Failure> {
        self.chunks = chunk.number + 1;
        chunk.arrivals.iter().for_each(|arrival| self.spans.add(arrival.time));
        if let Some(since) = self.judged_since {
            self.note_hours(&chunk, since).await?;
        }
        if chunk.number < self.resumed.chunks {
            self.resumed.records += chunk.arrivals.len() as u64;
            chunk.tally.add_to(&mut self.summary);
            return Ok(());
        }
        self.take_over().await?;
        self.write(chunk).await
    }

    /// Takes note of the lines that may have met an event, from hour `since` on.
    async fn note_hours(&mut self, chunk: &Chunk, since: i64) -> Result<(), Failure> {
        let (workspaces, linked) = (texts(&chunk.rows, "workspace"), linked(&chunk.rows));
        let links = links_of(&chunk.rows);
        let times = links.iter().copied().zip(chunk.arrivals.iter().map(|line| line.time));
        // of what was sampled nobody can tell whether its line has met its event
        let thinned = self.settler.desk.thinned(times).await?;
        let judged = |line: &Arrival| line.kind == Kind::Origin && line.time.hour() >= since;
        let lines = chunk.arrivals.iter().enumerate();
        for (row, line) in lines.filter(|(row, line)| judged(line) && !thinned[*row]) {
            let workspace = workspaces[row].filter(|_| linked[row]).unwrap_or(UNLINKED);
            self.origin_hours.add(line.id, line.time, workspace);
        }
        // these have met the events that a redirect left before it heard that their link isn't counted any more
        let times = chunk.unasked.iter().map(|line| (line.link, line.time));
        let thinned = self.settler.desk.thinned(times).await?;
        let lines = chunk.unasked.iter().zip(thinned);
        for (line, _) in lines.filter(|(line, thinned)| !thinned && line.time.hour() >= since) {
            self.origin_hours.add(line.id, line.time, &line.workspace);
        }
        Ok(())
    }

    /// Takes into the summary what a killed run has brought.
    async fn take_over(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.resumed.taken_over, true) {
            return Ok(());
        }
        let Held { added, waiting, .. } = self.held().await?;
        self.summary.already_counted += self.resumed.records;
        self.summary.resplit(added, waiting, self.sampled());
        self.recount |= waiting > 0;
        Ok(())
    }

    async fn write(&mut self, mut chunk: Chunk) -> Result<(), Failure> {
        let contains = chunk.number + 1;
        if chunk.ending.is_none() {
            self.begin().await?;
        }
        let is_drafted = chunk.draft.is_some();
        let mut draft = chunk.draft.take().unwrap_or_default();
        let (mut side_done, mut corrections) = (false, Corrections::default());
        for _ in 0..TRIES {
            let complete_through = self.settler.desk.look(UtcMicros::now()).await?;
            self.settler.arrivals.refresh().await.map_err(SettleError::from)?;
            if self.contained() >= contains {
                // Another run of the same file was faster, or this one's answer was lost: the rows are there.
                self.recount = true;
                chunk.tally.add_to(&mut self.summary);
                self.summary.already_counted += chunk.arrivals.len() as u64;
                return Ok(());
            }
            if self.contained() < chunk.first {
                return Err(self.set_back().await);
            }
            let mut decision = match is_drafted {
                true => self.settler.desk.decide_by_ids(&chunk.arrivals, complete_through).await?.0,
                false => self.settler.desk.decide(&chunk.rows, &chunk.arrivals, complete_through).await?,
            };
            self.settler.hold_chunk(&self.origin.brought, &chunk.rows, &chunk.arrivals, &mut decision).await?;
            // another run has brought a part, a line isn't new any more, or the files have become too old to land
            if is_drafted && (self.contained() != chunk.first || !draft.is_for(&decision.fates)) {
                return Err(Failure::BeginAnew);
            }
            if !side_done {
                self.write_side(&chunk, &decision).await?;
                side_done = true;
            }
            if decision.all_settled() {
                let arrivals = &mut self.settler.arrivals;
                corrections.keep(arrivals, &chunk.rows, &self.origin.brought, &decision.fates).await?;
            }
            if self.land_rows(&chunk, &decision, &mut draft).await? == Landing::Landed {
                count(&mut self.summary, &chunk, &decision);
                self.note(&chunk, &decision);
                return Ok(());
            }
        }
        Err(SettleError::Busy { tries: TRIES }.into())
    }

    /// Counts a chunk's records for `/metrics`. What comes into `arrivals` is counted when it leaves it.
    fn note(&self, chunk: &Chunk, decision: &Decision) {
        if decision.all_settled() {
            let counted = decision.count(Fate::Counted) + decision.count(Fate::Correct);
            self.metrics.note_duplicates("import", counted as u64);
            note_added(self.metrics, &chunk.rows, &decision.fates);
        }
        note_lines(self.metrics, &self.summary.format, chunk, decision);
    }

    /// The rows, into the table that can take all of them.
    async fn land_rows(&mut self, chunk: &Chunk, decision: &Decision, draft: &mut Draft) -> Result<Landing, Failure> {
        let mut txns = vec![(self.txn.clone(), chunk.number + 1)];
        let provider = &self.origin.provider;
        if decision.all_settled() {
            txns.extend(elsewhere::raised(&self.settler.desk.clicks, provider, &chunk.rows, &chunk.arrivals));
            let away = decision.count(Fate::Sampled) as i64;
            if away > 0 {
                let txn = sampled_txn(&self.origin.import_id);
                let before = self.settler.desk.clicks.txn(&txn).unwrap_or(0);
                txns.push((txn, before + away));
            }
            return Ok(self.settler.desk.land(&chunk.rows, &chunk.arrivals, decision, &txns, draft).await?);
        }
        self.recount = true;
        let arrivals = &mut self.settler.arrivals;
        txns.extend(elsewhere::raised(arrivals, provider, &chunk.rows, &chunk.arrivals));
        let add = arrivals.write_spanning(&arriving_rows(&chunk.rows, &self.origin.brought, false)?, Span::Day).await?;
        let expect = txns.iter().map(|(id, _)| (id.clone(), arrivals.txn(id))).collect();
        match arrivals.commit(Change { add, txns, expect, ..Change::default() }).await {
            Ok(_) => Ok(Landing::Landed),
            // Of a commit that may have landed the transaction tells, on the next look.
            Err(CommitError::Failed(source)) => match arrivals.refresh().await {
                Ok(_) => Ok(Landing::LookAgain),
                Err(_) => Err(source.into()),
            },
            Err(_) => Ok(Landing::LookAgain),
        }
    }

    /// Rejected lines, and with the last chunk the import itself.
    async fn write_side(&mut self, chunk: &Chunk, decision: &Decision) -> Result<(), Failure> {
        let contains = chunk.number + 1;
        if !chunk.rejects.is_empty() {
            let rows = side::rejects(&self.origin, &chunk.rejects, UtcMicros::now())
                .map_err(|source| SettleError::Rows { table: Table::Rejects, source })?;
            append_once(&mut self.side.rejects, &rows, &self.txn, contains, None).await?;
        }
        if let Some(ending) = &chunk.ending {
            let mut summary = self.summary.clone();
            count(&mut summary, chunk, decision);
            Box::pin(self.tell(summary, contains, ending.truncated.as_deref())).await?;
        }
        Ok(())
    }

    /// The row of `edge_files`.
    async fn tell(&mut self, mut summary: Summary, contains: i64, truncated: Option<&str>) -> Result<(), Failure> {
        summary.state = State::Done;
        summary.seconds = self.started.elapsed().as_secs_f64();
        summary.note = self.remarks(&summary, truncated);
        summary.check(&self.settler.arrivals);
        let row = side::edge_file(&self.origin, &summary, self.origin_hours.to_text(), UtcMicros::now())
            .map_err(|source| SettleError::Rows { table: Table::EdgeFiles, source })?;
        append_once(&mut self.side.edge_files, &row, &self.txn, contains, Some(&self.origin.import_id)).await?;
        self.is_told = true;
        Ok(())
    }

    /// What the lake holds of the import.
    async fn held(&self) -> Result<Held, Failure> {
        let (clicks, arrivals) = (&self.settler.desk.clicks, &self.settler.arrivals);
        Ok(held(clicks, arrivals, &self.origin.import_id, &self.spans).await?)
    }

    /// How many lines of the import were sampled away, as the lake has it.
    fn sampled(&self) -> u64 {
        sampled(&self.settler.desk.clicks, &self.settler.arrivals, &self.origin.import_id)
    }

    /// How many chunks the lake holds.
    fn contained(&self) -> i64 {
        contained(self.settler, &self.txn)
    }

    /// Settles what waits, as far as it can be, and says what became of the file.
    pub(super) async fn finish(mut self, truncated: Option<&str>) -> Result<Summary, Failure> {
        self.take_over().await?;
        if self.recount {
            self.settler.settle().await?;
            let held = self.held().await?;
            self.summary.resplit(held.added, held.waiting, self.sampled());
            self.summary.mismatched = open_among(&self.settler.desk.clicks, &self.settler.arrivals, &held.lines);
        }
        // all of it was there, but a revert has since said that it is to be taken in again
        if !self.is_told && self.chunks > 0 {
            Box::pin(self.tell(self.summary.clone(), self.chunks, truncated)).await?;
        }
        let checks = self.summary.check(&self.settler.arrivals);
        self.metrics.note_checks(&checks);
        if self.summary.checks.is_some() {
            let Checks { lost, surprise, reused_id } = checks;
            let (file, records) = (&self.summary.name, self.summary.records);
            tracing::warn!(file, records, lost, surprise, reused_id, "lines don't fit the events of our own");
        }
        self.summary.state = State::Done;
        self.summary.seconds = self.started.elapsed().as_secs_f64();
        self.summary.note = self.remarks(&self.summary, truncated);
        if let Some(note) = &self.summary.note {
            tracing::warn!(name = self.summary.name, "{note}");
        }
        Ok(self.summary)
    }

    /// What a person should know of the file: that it ends in the middle, and what its lines were taken for.
    fn remarks(&self, summary: &Summary, truncated: Option<&str>) -> Option<String> {
        let notes = [truncated.map(str::to_owned), self.warning_of_doubles(summary), by_status(summary)];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// A miss of an edge that the redirect isn't told of may be one of the redirect's own clicks under another id.
    fn warning_of_doubles(&self, summary: &Summary) -> Option<String> {
        let configured = self.beside.as_ref().filter(|_| !self.origin_hours.is_empty())?;
        let provider = &self.origin.provider;
        (summary.added.recovered + summary.waiting > 0).then(|| {
            format!(
                "edge.provider is {configured:?}: if {provider} stands before this service's own redirect, its misses are \
                 clicks that were counted already; then set edge.provider = {provider:?} and take this import back \
                 (`highwater edge-logs revert {}`)",
                summary.id
            )
        })
    }
}

/// Whoever takes a log by cache status should know what that says of the requests that reached the origin.
fn by_status(summary: &Summary) -> Option<String> {
    let lines = summary.noted.by_status;
    (lines > 0).then(|| {
        format!(
            "{lines} lines reached the origin, and are taken as counted there by their cache status alone, as the ids of \
             this log don't say which click they are"
        )
    })
}

/// How many chunks of a file the lake holds: they come in order, each into one of the two tables.
pub(super) fn contained(settler: &Settler, txn: &str) -> i64 {
    settler.desk.clicks.txn(txn).max(settler.arrivals.txn(txn)).unwrap_or(0)
}

/// Adds a chunk and its fate to a summary. Of one that goes to `arrivals` the settler notes what is odd.
pub(super) fn count(summary: &mut Summary, chunk: &Chunk, decision: &Decision) {
    chunk.tally.add_to(summary);
    if decision.all_settled() {
        decision.remarks.iter().for_each(|(_, remark)| summary.noted.remark(*remark));
    }
    for (arrival, fate) in chunk.arrivals.iter().zip(&decision.fates) {
        match (fate, arrival.kind) {
            (Fate::Counted | Fate::Correct, _) => summary.already_counted += 1,
            (Fate::Wait, _) => summary.waiting += 1,
            (Fate::Sampled, _) => summary.ignored.sampled += 1,
            (Fate::Add, kind) => summary.added.add(kind.source()),
        }
    }
}

/// Counts lines for `/metrics`.
pub(super) fn note_lines(metrics: &Metrics, format: &str, chunk: &Chunk, decision: &Decision) {
    let of = |fate: Fate| decision.count(fate) as u64;
    metrics.note_lines(format, "added", of(Fate::Add));
    metrics.note_lines(format, "already_counted", of(Fate::Counted) + of(Fate::Correct) + chunk.tally.counted);
    metrics.note_lines(format, "waiting", of(Fate::Wait));
    metrics.note_lines(format, "ignored", chunk.tally.ignored.total() + of(Fate::Sampled));
    metrics.note_lines(format, "rejected", chunk.tally.rejected.values().sum());
}

/// Appends rows together with a transaction, unless it is there already. Rows of an import that was set back since
/// make room for those of the import named `instead_of`.
pub(super) async fn append_once(
    table: &mut TableHandle,
    rows: &RecordBatch,
    txn: &str,
    value: i64,
    instead_of: Option<&str>,
) -> Result<(), Failure> {
    table.refresh().await?;
    if table.txn(txn).is_some_and(|stored| stored >= value) {
        return Ok(());
    }
    let add = table.write(rows).await?;
    for _ in 0..TRIES {
        let stored = table.txn(txn);
        if stored.is_some_and(|stored| stored >= value) {
            return Ok(());
        }
        let room = match instead_of.filter(|_| stored.is_some()) {
            Some(id) => side::room_for(table, "id", id).await?,
            None => Change::default(),
        };
        let change = Change {
            add: [add.clone(), room.add].concat(),
            remove: room.remove,
            txns: vec![(txn.to_owned(), value)],
            expect: vec![(txn.to_owned(), stored)],
            ..Change::default()
        };
        match table.commit(change).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Failed(source)) => {
                if table.refresh().await.is_err() {
                    return Err(source.into());
                }
            }
            Err(_) => {
                table.refresh().await?;
            }
        }
    }
    Err(SettleError::Busy { tries: TRIES }.into())
}
