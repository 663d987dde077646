//! Logs to be taken in again because an import was taken back or an operator's word is another; and reverts and words that
//! somebody has begun to carry out and not ended.
//!
//! ```text
//! clicks ─────look──► a word that is under way ──────► Importer::settle_hour ──► more that are queued
//! edge_files ──look──► reverting, and stays so ──────► Importer::revert ──► more that are queued
//!                 └──► queued, or without its end ──► bytes from where it came ──► Importer ──► done
//!                                                        └─ gone, or others ──► failed, with the reason
//! ```
//! The lake itself is the queue: what is to be done stands there before a row is missing, whoever took the import back.
//! Whoever did may be at work on it still, so a thing is left alone until it has been seen some times; two that do it do
//! no harm.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use processor::import::{Importer, Input, State, Stored, Summary, unfinished};
use processor::lake::{Lake, TableHandle};
use processor::settle::{Word, words_under_way};
use redirect::links::LinkStore;
use schemas::tables::Table;
use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::super::{imports, lock};
use super::UPLOAD;
use super::fault::{Fault, Next};
use super::staging::Staging;
use crate::config::Config;
use crate::logs;

/// How often the lake is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// So many looks must find a thing undone.
const LOOKS: u32 = 3;

/// What takes logs in again.
#[derive(Debug)]
pub(crate) struct Again {
    store: LinkStore,
    lake: Lake,
    staging: Staging,
    importer: Importer,
    spool_dir: PathBuf,
    data_dir: PathBuf,
}

/// What is known from look to look.
#[derive(Debug, Default)]
struct Known {
    edge_files: Option<TableHandle>,
    clicks: Option<TableHandle>,
    /// Whether anything was left to do at those versions.
    is_idle: bool,
    /// By an import's id, or a word's hour.
    seen: HashMap<String, Seen>,
}

/// A thing to be done.
#[derive(Debug)]
enum Task {
    Log(Box<Stored>),
    Word(Word),
}

impl Task {
    /// What it is known by.
    fn id(&self) -> String {
        match self {
            Self::Log(import) => import.summary.id.clone(),
            Self::Word(word) => format!("{} {}", word.provider, word.hour),
        }
    }
}

/// What is known of a thing to be done.
#[derive(Debug)]
struct Seen {
    looks: u32,
    tries: u32,
    not_before: Instant,
}

impl Again {
    /// Into `lake`, by `importer`.
    ///
    /// # Errors
    /// When the spool can't be made.
    pub(crate) fn new(config: &Config, store: &LinkStore, lake: &Lake, importer: Importer) -> anyhow::Result<Self> {
        let (staging, spool_dir) = (Staging::of(lake), imports::spool_dir(config)?);
        let data_dir = config.data_dir.clone();
        Ok(Self { store: store.clone(), lake: lake.clone(), staging, importer, spool_dir, data_dir })
    }

    /// Takes a log in once more, from where it came and as it was told then. One that can't be any more is given up:
    /// `edge_files` says so.
    ///
    /// # Errors
    /// Why it isn't taken in.
    pub(crate) async fn take_in(&self, log: &Stored) -> Result<Summary, String> {
        match self.bring(log).await {
            Ok(summary) => Ok(summary),
            Err(fault @ Fault::Refused(_)) => Err(self.give_up(log, &fault).await),
            Err(fault) => Err(fault.why().to_owned()),
        }
    }

    /// Says that it is given up. Returns why.
    async fn give_up(&self, log: &Stored, fault: &Fault) -> String {
        let (importer, id, why) = (self.importer.clone(), log.summary.id.clone(), fault.why().to_owned());
        if let Err(error) = apart(move || async move { importer.give_up(&id, &why).await }).await {
            // it stays queued, and is tried again
            let (error, id) = (error.why(), &log.summary.id);
            tracing::warn!(error, id, "what is known of an edge log can't be written now");
        }
        fault.why().to_owned()
    }

    async fn bring(&self, log: &Stored) -> Result<Summary, Fault> {
        let refused = |why: &str| Fault::Refused(why.to_owned());
        let location = log.location.as_deref();
        let location = location.ok_or_else(|| refused("it came through a pipe, and can't be read again"))?;
        let options = log.options.clone();
        let options = options.ok_or_else(|| refused("it was taken in with options that this version doesn't know"))?;
        let mut input = self.reopen(location).await?;
        input.name.clone_from(&log.summary.name);
        let imported = self.importer.import(input.expecting(&log.sha256), options, |_| {}).await;
        imported.map_err(|error| Fault::of(&error))
    }

    /// Opens a log by the location that its import remembers: a path, an address, or an upload.
    async fn reopen(&self, location: &str) -> Result<Input, Fault> {
        let Some(id) = location.strip_prefix(UPLOAD) else {
            let found = logs::at(location).await.map_err(|error| Fault::not_there(&error))?;
            return found.input(&self.spool_dir, |_, _| {}).await.map_err(|error| Fault::not_there(&error));
        };
        let log = self.store.queued_log(id).await.map_err(|error| Fault::Later(error.to_string()))?;
        let Some(log) = log.filter(|log| log.parts > 0) else {
            return Err(Fault::Refused("its upload is no longer kept (edge_logs.keep_staged)".to_owned()));
        };
        let fetched = self.staging.fetch(&log.object, log.parts, log.size, &self.spool_dir).await;
        let file = fetched.map_err(|error| Fault::Broke(crate::explain(&error)))?;
        Ok(Input::file(log.name, file).with_location(location))
    }

    /// Does what is left to do, again and again, until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = Known::default();
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let looked = stop.run_until_cancelled(self.look(&mut known));
            if let Some(Err(error)) = looked.await {
                known.is_idle = false;
                tracing::warn!(
                    error = crate::explain(&error),
                    "can't see now which edge logs are to be taken in again"
                );
            }
        }
    }

    /// One look, and what follows from it.
    async fn look(&self, known: &mut Known) -> anyhow::Result<()> {
        let has_news = follow(&mut known.edge_files, &self.lake, Table::EdgeFiles).await?;
        follow(&mut known.clicks, &self.lake, Table::Clicks).await?;
        let words = known.clicks.as_ref().map(words_under_way).unwrap_or_default();
        if known.is_idle && !has_news && words.is_empty() {
            return Ok(());
        }
        known.is_idle = false;
        let mut open = unfinished(&self.lake).await?;
        // one that comes in for the first time is whose who brings it: killed, it is for them to say what becomes of it
        let is_coming_in = |import: &Stored| import.is_begun && import.summary.again_for.is_none();
        open.retain(|import| import.summary.state != State::Failed && !is_coming_in(import));
        known.is_idle = open.is_empty();
        let logs = open.into_iter().map(|import| Task::Log(Box::new(import)));
        // words first: what they ask for is queued then
        let tasks: Vec<Task> = words.into_iter().map(Task::Word).chain(logs).collect();
        known.seen.retain(|id, _| tasks.iter().any(|task| task.id() == *id));
        // whoever takes a log back right now does all this
        let Some(_turn) = lock::try_turn(&self.data_dir)? else { return Ok(()) };
        for task in tasks {
            let unseen = || Seen { looks: 0, tries: 0, not_before: Instant::now() };
            let seen = known.seen.entry(task.id()).or_insert_with(unseen);
            seen.looks += 1;
            if seen.looks >= LOOKS && seen.not_before <= Instant::now() {
                seen.tries += 1;
                match task {
                    Task::Log(import) => self.attend(&import, seen).await,
                    Task::Word(word) => self.carry_out(word, seen).await,
                }
            }
        }
        Ok(())
    }

    /// Goes on with an operator's word.
    async fn carry_out(&self, word: Word, seen: &mut Seen) {
        let Word { provider, hour, word } = word;
        let (importer, of) = (self.importer.clone(), provider.clone());
        let done = apart(move || async move { importer.settle_hour(&of, hour, word).await.map(drop) }).await;
        match done.err().map(|fault| (fault.next(seen.tries), fault)) {
            None => tracing::info!(provider, %hour, word = word.as_str(), "an operator's word is carried out"),
            Some((Next::GiveUp, _)) => {}
            Some((Next::Again(pause), fault)) => {
                tracing::warn!(provider, %hour, why = fault.why(), ?pause, "an operator's word can't be carried out now");
                seen.not_before = Instant::now() + pause;
            }
        }
    }

    async fn attend(&self, import: &Stored, seen: &mut Seen) {
        let (id, name) = (import.summary.id.as_str(), import.summary.name.as_str());
        let done = match import.summary.state {
            State::Reverting => {
                let (importer, id) = (self.importer.clone(), id.to_owned());
                apart(move || async move { importer.revert(&id).await.map(drop) }).await
            }
            _ => self.bring(import).await.map(drop),
        };
        let Err(fault) = done else {
            tracing::info!(name, id, was = import.summary.state.as_str(), "what was left to do of an edge log is done");
            return;
        };
        match fault.next(seen.tries) {
            Next::GiveUp if import.summary.state != State::Reverting => {
                tracing::warn!(name, id, why = fault.why(), "edge log can't be taken in again");
                self.give_up(import, &fault).await;
            }
            Next::GiveUp => {}
            Next::Again(pause) => {
                tracing::warn!(name, id, why = fault.why(), ?pause, "edge log can't be taken in again now");
                seen.not_before = Instant::now() + pause;
            }
        }
    }
}

/// Goes on to the newest version of a table. Returns whether there was a newer one than was known.
async fn follow(handle: &mut Option<TableHandle>, lake: &Lake, table: Table) -> anyhow::Result<bool> {
    match handle {
        Some(handle) => Ok(handle.refresh().await?),
        none => {
            *none = Some(lake.table(table).await?);
            Ok(true)
        }
    }
}

/// Does work on a thread of its own: rewriting files takes longer than other tasks should wait.
async fn apart<W, E>(work: impl FnOnce() -> W + Send + 'static) -> Result<(), Fault>
where
    W: Future<Output = Result<(), E>>,
    E: std::fmt::Display + Send + 'static,
{
    let runtime = Handle::current();
    match tokio::task::spawn_blocking(move || runtime.block_on(work())).await {
        Ok(done) => done.map_err(|error| Fault::Later(error.to_string())),
        Err(error) => Err(Fault::Later(error.to_string())),
    }
}
