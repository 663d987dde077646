//! A body's events into the lake.

use std::collections::HashSet;
use std::sync::Arc;

use ingest::events;
use ingest::ports::EventsTaken;
use schemas::UtcMicros;
use schemas::tables::Table;

use super::super::arriving::{Corrections, arriving_rows};
use super::super::error::Failure;
use super::super::importer::{Shared, Tables};
use super::super::land::{append_once, note_lines};
use super::super::pipeline::Chunk;
use super::super::side::{self, Origin};
use super::super::summary::{Added, State, Summary};
use super::waiting::WaitingEvents;
use crate::lake::{Change, CommitError, Span};
use crate::metrics::Metrics;
use crate::settle::desk::{Draft, Landing, TRIES, chosen, note_added};
use crate::settle::elsewhere;
use crate::settle::ids::IdSet;
use crate::settle::{Decision, Fate, SettleError};

/// Import ids whose row is known to be in `edge_files`; when there are more, all are forgotten.
const MOST_NAMED: usize = 10_000;

/// What the row of a day's posts says of itself.
pub(crate) const POSTED: &str = "posted, not read from a file: what they come to is in the lake";

/// What landing works on: opened by the first body, and anew after a failure.
#[derive(Debug)]
pub(super) struct Open {
    tables: Tables,
    waiting: WaitingEvents,
    named: HashSet<Arc<str>>,
}

impl Open {
    pub(super) async fn new(shared: &Shared) -> Result<Self, Failure> {
        let (tables, waiting) = (shared.tables().await?, WaitingEvents::new(shared.config.max_skew));
        Ok(Self { tables, waiting, named: HashSet::new() })
    }

    /// Brings a body in.
    pub(super) async fn land(
        &mut self,
        origin: &Origin,
        chunk: &Chunk,
        metrics: &Metrics,
    ) -> Result<EventsTaken, Failure> {
        self.name(origin).await?;
        self.reject(origin, chunk).await?;
        let (mut draft, mut corrections) = (Draft::default(), Corrections::default());
        for _ in 0..TRIES {
            let decision = self.decide(chunk).await?;
            let (added, waiting) = (decision.count(Fate::Add), decision.count(Fate::Wait));
            let sampled = decision.count(Fate::Sampled);
            let arrivals = &mut self.tables.settler.arrivals;
            corrections.keep(arrivals, &chunk.rows, &origin.brought, &decision.fates).await?;
            if added > 0 {
                let desk = &mut self.tables.settler.desk;
                let txns = elsewhere::raised(&desk.clicks, &origin.provider, &chunk.rows, &chunk.arrivals);
                if desk.land(&chunk.rows, &chunk.arrivals, &decision, &txns, &mut draft).await? != Landing::Landed {
                    continue;
                }
            }
            self.tables.settler.desk.record(&chunk.rows, &chunk.arrivals, &decision).await?;
            if waiting > 0 {
                self.wait(origin, chunk, &decision.fates).await?;
            }
            note_lines(metrics, events::FORMAT, chunk, &decision);
            let counted = decision.count(Fate::Counted) + decision.count(Fate::Correct);
            metrics.note_duplicates("import", counted as u64);
            note_added(metrics, &chunk.rows, &decision.fates);
            return Ok(answer(chunk, (added + waiting + sampled) as u64));
        }
        Err(SettleError::Busy { tries: TRIES }.into())
    }

    /// What becomes of each event, by the newest snapshot. One that waits already is known, too.
    async fn decide(&mut self, chunk: &Chunk) -> Result<Decision, SettleError> {
        let settler = &mut self.tables.settler;
        // `arrivals` first: what leaves it in between has come into `clicks` before
        settler.arrivals.refresh().await?;
        let complete_through = settler.desk.look(UtcMicros::now()).await?;
        let mut decision = settler.desk.decide(&chunk.rows, &chunk.arrivals, complete_through).await?;
        let known = self.waiting.known(&settler.arrivals, &chunk.arrivals).await?;
        let mut seen = IdSet::default();
        for (arrival, fate) in chunk.arrivals.iter().zip(&mut decision.fates) {
            let again = *fate == Fate::Wait && !seen.insert(arrival.id);
            if matches!(fate, Fate::Add | Fate::Wait) && (again || known.contains(&arrival.id)) {
                *fate = Fate::Counted;
            }
        }
        Ok(decision)
    }

    /// Brings the events that wait into `arrivals`. What was decided holds whatever has landed since: there they are
    /// united by id once more.
    async fn wait(&mut self, origin: &Origin, chunk: &Chunk, fates: &[Fate]) -> Result<(), SettleError> {
        let rows = chosen(Table::Clicks, &chunk.rows, fates, Fate::Wait)?;
        let arrivals = &mut self.tables.settler.arrivals;
        let add = arrivals.write_spanning(&arriving_rows(&rows, &origin.brought, false)?, Span::Day).await?;
        for _ in 0..TRIES {
            let txns = elsewhere::raised(arrivals, &origin.provider, &chunk.rows, &chunk.arrivals);
            match arrivals.commit(Change { add: add.clone(), txns, ..Change::default() }).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Failed(source)) => return Err(source.into()),
                Err(_) => arrivals.refresh().await?,
            };
        }
        Err(SettleError::Busy { tries: TRIES })
    }

    /// Lines that can't be read, for `rejects`.
    async fn reject(&mut self, origin: &Origin, chunk: &Chunk) -> Result<(), SettleError> {
        if chunk.rejects.is_empty() {
            return Ok(());
        }
        let rows = side::rejects(origin, &chunk.rejects, UtcMicros::now())
            .map_err(|source| SettleError::Rows { table: Table::Rejects, source })?;
        let rejects = &mut self.tables.side.rejects;
        let add = rejects.write(&rows).await?;
        rejects.commit(Change { add, ..Change::default() }).await.map(drop).map_err(|error| match error {
            CommitError::Failed(source) => source.into(),
            // nothing is expected of the table: only too much traffic on it is left
            _ => SettleError::Busy { tries: TRIES },
        })
    }

    /// Makes the row of `edge_files` that the posts of a day share.
    async fn name(&mut self, origin: &Origin) -> Result<(), Failure> {
        if self.named.contains(&origin.import_id) {
            return Ok(());
        }
        let mut summary = Summary::new(origin.import_id.to_string(), origin.name.clone(), events::FORMAT.into(), false);
        summary.added = Added::of_events();
        summary.state = State::Done;
        summary.note = Some(POSTED.to_owned());
        let row = side::edge_file(origin, &summary, None, UtcMicros::now())
            .map_err(|source| SettleError::Rows { table: Table::EdgeFiles, source })?;
        let txn = format!("posts/{}", origin.import_id);
        append_once(&mut self.tables.side.edge_files, &row, &txn, 1, None).await?;
        if self.named.len() >= MOST_NAMED {
            self.named.clear();
        }
        self.named.insert(Arc::clone(&origin.import_id));
        Ok(())
    }
}

/// What the sender is told.
fn answer(chunk: &Chunk, accepted: u64) -> EventsTaken {
    let unread = chunk.rejects.iter().map(|line| (line.number, line.reason));
    let mut rejected: Vec<(u64, &'static str)> = unread.chain(chunk.ignored.iter().copied()).collect();
    rejected.sort_unstable();
    EventsTaken { accepted, duplicates: chunk.arrivals.len() as u64 - accepted, rejected }
}
