//! Where the pipeline stands, for the query service: put together from the registry, the lake and this process's
//! journals.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ingest::journal::Lacking;
use ingest::ports::{Coverage as _, JournalState, Reached, Reading, RegisteredJournal, Registry};
use processor::import::{State, Summary, unfinished};
use processor::lake::Lake;
use processor::sample::rate_in_force;
use processor::settle::{Mismatched, Word, waiting, words_under_way};
use query::status::{
    BudgetStatus, DecidingHour, EdgeLogsStatus, EdgeSource as SourceStatus, JournalStatus, MismatchedHour,
    PartitionStatus, RefusedFile, SamplingStatus, Status, StreamStatus,
};
use query::{Changing, Freshness, StatusError, StatusSource};
use redirect::links::{EdgeSource, LinkStore, Refusal};
use schemas::tables::Table;
use schemas::{JournalId, UtcMicros};
use tokio::sync::watch::Receiver;

use super::changing::Changes;
use super::clock;
use super::held_up::HeldUp;
use super::own::OwnJournals;
use super::readers::Unread;
use super::standing::{self, Standing};
use super::trouble::Found;
use super::{progress, watch};
use crate::config::{Backend, Config};

/// A journal is called silent when its last mark in the lake is so old: idle journals mark every ten seconds.
const SILENT_AFTER: Duration = Duration::from_secs(60);
/// So far `complete_through` is behind at most when all goes well: an idle redirect's marks and an idle processor's commits
/// are each ten seconds apart.
const USUAL: Duration = Duration::from_secs(35);

/// What is known of journals that are here.
pub(crate) type Here = HashMap<JournalId, Looked>;

/// What a journal itself tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    /// What the lake lacks of it.
    lacking: Lacking,
    /// When it was last written; `None` where nothing tells.
    heard: Option<UtcMicros>,
}

/// What status is put together from.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// Registry and published instants.
    pub(crate) store: LinkStore,
    /// What waits in `arrivals`, and continuous sources.
    pub(crate) lake: Lake,
    /// Journals of this process; those of others are known by the registry and their folder.
    pub(crate) own: OwnJournals,
    /// Where journals are.
    pub(crate) directory: PathBuf,
    /// The CDN in front; `none` where there is none.
    pub(crate) provider: String,
    /// How long logs may take; a source without progress for longer is silent.
    pub(crate) settle: Duration,
    /// What changes of counts are under way.
    pub(crate) changes: Changes,
    /// What is known of the lake, in a process that keeps an eye on it.
    pub(crate) standing: Option<Receiver<Standing>>,
    /// What holds clicks up in this process; what does so in others is known by the link store.
    pub(crate) held_up: HeldUp,
    /// The topic, when journals go through one.
    pub(crate) topic: Option<TopicSource>,
}

/// What status says of a topic.
#[derive(Clone, Debug)]
pub(crate) struct TopicSource {
    /// Its name.
    topic: String,
    retention: Duration,
}

impl TopicSource {
    /// Of the topic that is configured; `None` when journals are the stream.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let fluvio = &config.stream.fluvio;
        let source = || Self { topic: fluvio.topic.clone(), retention: fluvio.retention.0 };
        (config.stream.backend == Backend::Fluvio).then(source)
    }

    /// How far the lake is with its partitions, as published.
    async fn partitions(&self, store: &LinkStore) -> Result<Vec<PartitionStatus>, StatusError> {
        let Some(generation) = store.generation(&self.topic).await.map_err(failed)? else { return Ok(Vec::new()) };
        let reached = store.reached(&generation).await.map_err(failed)?;
        let mut holders = store.holders(&generation.stream()).await.map_err(failed)?;
        let mut one = |at: Reached| {
            let (owner, until) = holders.remove(&at.partition).map(|held| (held.owner, held.until)).unzip();
            PartitionStatus { id: u64::from(at.partition), next: at.next, end: at.end, owner, until }
        };
        Ok(reached.into_iter().map(&mut one).collect())
    }

    /// The partitions that no process tells it reads, and none has the lease of: how far those go nobody tells either.
    async fn unread(&self, store: &LinkStore) -> Result<Unread, StatusError> {
        let Some(generation) = store.generation(&self.topic).await.map_err(failed)? else { return Ok(Unread::Nothing) };
        let mut unread = generation.read_less_than(Reading::Behind, &store.reached(&generation).await.map_err(failed)?);
        let holders = store.holders(&generation.stream()).await.map_err(failed)?;
        unread.retain(|number| !holders.contains_key(number));
        Ok(if unread.is_empty() { Unread::Nothing } else { Unread::Partitions(unread) })
    }
}

fn failed(error: impl std::fmt::Display) -> StatusError {
    StatusError(error.to_string())
}

#[async_trait]
impl StatusSource for Sources {
    async fn freshness(&self) -> Result<Freshness, StatusError> {
        if self.is_lake_lost().await {
            // what is published is true of another lake
            return Ok(Freshness { complete_through: None, final_through: None });
        }
        let complete = self.store.complete_through(UtcMicros::now()).await.map_err(failed)?;
        let settled = self.store.final_through().await.map_err(failed)?;
        // without a CDN in front nothing can come later than `complete_through`
        let final_through = if self.has_edge() { settled } else { Some(complete) };
        Ok(Freshness { complete_through: Some(complete), final_through })
    }

    async fn changing(&self) -> Result<Vec<Changing>, StatusError> {
        self.changes.look(&self.lake).await.map_err(failed)
    }

    async fn status(&self) -> Result<Status, StatusError> {
        let now = UtcMicros::now();
        let freshness = self.freshness().await?;
        let registered = self.store.journals().await.map_err(failed)?;
        let here = self.look(&registered).await;
        let journals = self.journals(&registered, &here, now);
        // a process that has just come or gone is no news while the lake is as far as usual
        let is_behind = freshness.complete_through.is_none_or(|through| now.since(through) > USUAL);
        let unread = match &self.topic {
            _ if !is_behind => Unread::Nothing,
            Some(topic) => topic.unread(&self.store).await?,
            None => Unread::of_journals(&self.store).await.map_err(failed)?,
        };
        let held_back_by = registered.iter().filter(|known| is_silent(known, now)).min_by_key(|known| known.through);
        let troubles = [self.held_up.problem(Instant::now()), self.store.trouble().await.map_err(failed)?];
        // a source of logs holds up no click
        let (unseen, trouble): (Vec<_>, Vec<_>) =
            troubles.into_iter().flatten().partition(|why| why.starts_with(watch::SOURCE));
        // where clicks are held up, or nobody reads, nobody knows what has come
        let is_unknown = is_behind || !trouble.is_empty();
        let stream = self.stream(&journals, &registered, (&here, is_unknown), now).await?;
        let sources = self.store.edge_sources().await.map_err(failed)?;
        let slowest = progress::slowest_silent(&sources, now, self.settle).filter(|_| self.has_edge());
        let source = slowest.map(|source| format!("source {}", source.name));
        let source = source.or(progress::without_source(&self.provider, &sources, freshness.final_through));
        Ok(Status {
            as_of: now,
            complete_through: freshness.complete_through,
            final_through: freshness.final_through,
            held_back_by: self
                .lake_lost()
                .await?
                .or(trouble.into_iter().next())
                .or(unread.told())
                .or(clock::told(&self.store).await.map_err(failed)?)
                .or(held_back_by.map(|known| format!("journal {}", known.id)))
                .or(unseen.into_iter().next())
                .or(source),
            stream,
            journals: journals.clone(),
            journal_budget: self.own.all().first().map(|journal| {
                let budget = journal.budget();
                BudgetStatus { used: budget.used, max_bytes: budget.max_bytes, alarm: budget.alarm() }
            }),
            sampling: self.sampling(now).await?,
            edge_logs: self.edge_logs(sources, now).await?,
            refused: self.refused().await?,
            hot_links: Vec::new(),
        })
    }
}

/// Whether nothing has been heard of a journal for unusually long.
pub(super) fn is_silent(known: &RegisteredJournal, now: UtcMicros) -> bool {
    known.state == JournalState::Open && now.since(known.through) > SILENT_AFTER
}

/// Embedded, each journal is a partition.
fn partitions(journals: &[JournalStatus], registered: &[RegisteredJournal]) -> Vec<PartitionStatus> {
    let numbered =
        journals.iter().zip(registered).enumerate().filter(|(_, (_, known))| known.state != JournalState::Closed);
    numbered
        .map(|(id, (journal, known))| PartitionStatus {
            id: id as u64,
            next: known.committed,
            end: known.committed + journal.unsent.unwrap_or_default(),
            owner: None,
            until: None,
        })
        .collect()
}

impl Sources {
    fn has_edge(&self) -> bool {
        self.provider != "none"
    }

    /// Why the lake isn't the one that the registry knows, if it isn't: nothing is brought into it then.
    async fn lake_lost(&self) -> Result<Option<String>, StatusError> {
        let standing = match &self.standing {
            Some(known) => known.borrow().clone(),
            None => standing::look(&self.lake, &mut None, &self.store, &self.directory).await.map_err(failed)?,
        };
        Ok(match standing {
            Standing::Lost(why) => Some(format!("lake: {why}")),
            Standing::Whole | Standing::Unknown => None,
        })
    }

    /// The same for answers: one that can't be told must not fail for that, and nothing is made by looking.
    async fn is_lake_lost(&self) -> bool {
        let is_lost = |standing: &Standing| matches!(standing, Standing::Lost(_));
        if let Some(known) = &self.standing {
            return is_lost(&known.borrow());
        }
        let has_held = |all: Vec<RegisteredJournal>| all.iter().any(|known| known.committed > 0);
        self.store.journals().await.is_ok_and(has_held)
            && standing::look(&self.lake, &mut None, &self.store, &self.directory)
                .await
                .is_ok_and(|found| is_lost(&found))
    }

    async fn stream(
        &self,
        journals: &[JournalStatus],
        registered: &[RegisteredJournal],
        (here, is_unknown): (&Here, bool),
        now: UtcMicros,
    ) -> Result<StreamStatus, StatusError> {
        let open = || journals.iter().zip(registered).filter(|(_, known)| known.state == JournalState::Open);
        let seconds = |through: Option<UtcMicros>| through.map_or(0.0, |through| now.since(through).as_secs_f64());
        // without the time of a click, no click is older than the last mark that is in the lake
        let since = |known: &RegisteredJournal| {
            let lacking = here.get(&known.id).map(|looked| looked.lacking).filter(|lacking| lacking.clicks > 0)?;
            Some(lacking.oldest.unwrap_or(known.through))
        };
        let unsent = || open().filter_map(|(_, known)| since(known));
        let Some(topic) = &self.topic else {
            return Ok(StreamStatus {
                backend: "embedded".to_owned(),
                lag_records: open().filter_map(|(journal, _)| journal.unsent).sum(),
                lag_seconds: seconds(unsent().min()),
                retention_seconds: 0,
                partitions: partitions(journals, registered),
            });
        };
        let partitions = topic.partitions(&self.store).await?;
        let lag_records = partitions.iter().map(|part| part.end.saturating_sub(part.next)).sum();
        // journals of other nodes are known by the topic alone
        let elsewhere = open().filter(|(_, known)| !here.contains_key(&known.id));
        let behind = elsewhere.filter(|_| is_unknown || lag_records > 0).map(|(_, known)| known.through);
        Ok(StreamStatus {
            backend: "fluvio".to_owned(),
            lag_records,
            lag_seconds: seconds(unsent().chain(behind).min()),
            retention_seconds: topic.retention.as_secs(),
            partitions,
        })
    }

    /// Looks at each journal that is here: this process's own, and those of others below the folder.
    pub(crate) async fn look(&self, registered: &[RegisteredJournal]) -> Here {
        let mut here = Here::new();
        for known in registered {
            let looked = match self.own.get(known.id) {
                Some(journal) => {
                    Looked { lacking: journal.lacking(known.committed), heard: Some(journal.stats().last_event_time) }
                }
                None if known.state != JournalState::Open => Looked::default(),
                None => match Found::look(&self.directory, known.id, known.committed).await {
                    Found::Here(found) => Looked { lacking: found.clicks, heard: found.newest },
                    Found::Nothing | Found::Unreadable(_) => continue,
                },
            };
            here.insert(known.id, looked);
        }
        here
    }

    /// The journals as registered, in that order. One that is written isn't silent, whoever reads it or not.
    pub(crate) fn journals(&self, registered: &[RegisteredJournal], here: &Here, now: UtcMicros) -> Vec<JournalStatus> {
        let one = |known: &RegisteredJournal| {
            let own = self.own.get(known.id);
            let looked = here.get(&known.id);
            let heard = looked.and_then(|looked| looked.heard).unwrap_or(known.through).max(known.through);
            let is_silent = is_silent(&RegisteredJournal { through: heard, ..known.clone() }, now);
            let state = if is_silent { "silent" } else { known.state.as_str() };
            JournalStatus {
                id: known.id.to_string(),
                node: known.node.clone(),
                through: known.through,
                unsent: looked.map(|looked| looked.lacking.clicks),
                bytes: own.map_or_else(
                    || folder_bytes(&self.directory.join(known.id.to_string())),
                    |journal| journal.stats().bytes,
                ),
                state: state.to_owned(),
            }
        };
        registered.iter().map(one).collect()
    }

    /// Whatever process samples, the lake tells.
    async fn sampling(&self, now: UtcMicros) -> Result<SamplingStatus, StatusError> {
        let rate = rate_in_force(&self.lake, now).await.map_err(failed)?;
        Ok(SamplingStatus { active: rate.is_some(), rate: rate.unwrap_or(1.0) })
    }

    /// What processes that judge requests don't take, as they tell.
    async fn refused(&self) -> Result<Vec<RefusedFile>, StatusError> {
        let refused = |Refusal { process, what, why }: Refusal| {
            let node = process.split('/').next().unwrap_or_default().to_owned();
            RefusedFile { node, what, why }
        };
        Ok(self.store.refusals().await.map_err(failed)?.into_iter().map(refused).collect())
    }

    async fn edge_logs(&self, sources: Vec<EdgeSource>, now: UtcMicros) -> Result<EdgeLogsStatus, StatusError> {
        let arrivals = self.lake.table(Table::Arrivals).await.map_err(failed)?;
        let mismatched = processor::settle::mismatched(&self.lake).await.map_err(failed)?;
        let hour = |one: Mismatched| MismatchedHour { provider: one.provider, hour: one.hour, waiting: one.waiting };
        let clicks = self.lake.table(Table::Clicks).await.map_err(failed)?;
        let deciding = words_under_way(&clicks).into_iter().map(|Word { provider, hour, word }| {
            let word = word.as_str().to_owned();
            DecidingHour { provider, hour, word }
        });
        let left = unfinished(&self.lake).await.map_err(failed)?;
        let is_due = |summary: &Summary| match summary.state {
            State::Queued | State::Reverting => true,
            State::Running => summary.again_for.is_some(),
            _ => false,
        };
        let again = left.iter().filter(|log| is_due(&log.summary)).count();
        let waiting = waiting(&arrivals).await.map_err(failed)?;
        Ok(EdgeLogsStatus {
            queued: self.store.queued_logs().await.map_err(failed)? + again as u64,
            failed: self.store.failed_logs().await.map_err(failed)?,
            waiting: waiting.lines,
            late: waiting.late,
            mismatched: mismatched.into_iter().map(hour).collect(),
            deciding: deciding.collect(),
            sources: sources
                .into_iter()
                .map(|source| SourceStatus {
                    silent: progress::is_silent(&source, now, self.settle),
                    through: source.through,
                    name: source.name,
                })
                .collect(),
        })
    }
}

/// Bytes of a journal that another process owns.
fn folder_bytes(folder: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests;
