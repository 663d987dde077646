//! The import of one file, from its first byte to its summary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::edge::{FileParser, Format, IdMode, Ids, LineReader, ReadError, ReadLimits, Settings, sniff};
use schemas::UtcMicros;
use schemas::link::DEFAULT_WORKSPACE;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::dry::DryRun;
use super::error::{Failure, ImportError};
use super::identity::{self, Hashed, Reader};
use super::importer::{Progress, Shared, Tables};
use super::judge::OwnEvents;
use super::land::{Lander, Resumed, contained};
use super::links::{Links, Scope};
use super::options::{ImportOptions, Input};
use super::pipeline::{Chunk, Chunks};
use super::recount::held;
use super::side::{Origin, stored_summary};
use super::summary::{State, Summary};
use super::worker::{Rules, Worker};
use crate::metrics::Metrics;
use crate::settle::ids::Spans;

/// Hexadecimal digits of the content's hash that name an import.
const ID_DIGITS: usize = 32;
/// How far a clock at the edge may be ahead: a line from later than this would wait for a time that may never come.
const MOST_AHEAD: Duration = Duration::from_secs(24 * 3_600);

/// One import.
pub(super) struct Run {
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: Metrics,
    pub(super) options: ImportOptions,
    pub(super) cancel: CancellationToken,
    pub(super) started: Instant,
}

/// A file whose format is known.
struct Opened {
    lines: LineReader<Reader>,
    parser: FileParser,
    ids: Ids,
}

impl Run {
    /// Takes the input in.
    pub(super) async fn import(
        self,
        input: Input,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Summary, ImportError> {
        let name = input.name;
        let hashed = identity::hash(input.body, &self.shared.config.spool_dir)
            .map_err(|source| ImportError::Spool { name: name.clone(), source })?;
        let key = identity::key(&hashed.sha256, &self.options);
        let mut tables = self.shared.tables().await.map_err(|failure| failure.of(&name))?;
        let summary = self.take_in(&name, hashed, &key, &mut tables, progress).await;
        if summary.is_ok() && !self.options.dry_run {
            tables.keep_up().await;
        }
        self.shared.give_back(tables);
        summary
    }

    async fn take_in(
        &self,
        name: &str,
        hashed: Hashed,
        key: &str,
        tables: &mut Tables,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Summary, ImportError> {
        let txn = format!("file/{key}");
        let import_id = &key[..ID_DIGITS];
        let done = contained(&tables.settler, &txn);
        if tables.side.edge_files.txn(&txn).is_some_and(|chunks| done >= chunks) {
            let repeat = self.repeat(name, import_id, tables).await.map_err(|failure| failure.of(name))?;
            if let Some(summary) = repeat {
                return Ok(summary);
            }
        }
        let (of, whole) = (hashed.bytes, hashed.reader());
        let content = hashed.sha256;
        let Some(opened) = self.open(name, &hashed)? else {
            return Ok(self.empty(name, import_id));
        };
        let (format, ids) = (opened.parser.format(), opened.ids);
        let before = self.taken_in_by(&content, format.provider(), ids, tables).await;
        if let Some(first) = before.map_err(|failure| failure.of(name))? {
            return Err(ImportError::OtherIds { name: name.to_owned(), first, asked: self.options.id });
        }
        let mut summary = Summary::new(import_id.to_owned(), name.to_owned(), format.to_string(), self.options.dry_run);
        summary.state = State::Running;
        let origin = Origin {
            import_id: import_id.into(),
            name: name.to_owned(),
            workspace: self.options.workspace.clone().unwrap_or_else(|| DEFAULT_WORKSPACE.to_owned()),
            provider: format.provider().to_owned(),
            source: self.options.source.clone(),
            sha256: identity::hex(&content),
        };
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
            recount: false,
        };
        let run = async {
            let workers = self.workers(format, ids, import_id).await?;
            let made_ids = (ids == Ids::StatusOnly).then(|| format.provider());
            let chunks = Chunks::start(opened.lines, opened.parser, workers, made_ids, self.shared.config.chunk_lines)?;
            let check = tokio::task::spawn_blocking(move || identity::check(whole));
            self.land_all(chunks, check, lander, of, progress).await
        };
        run.await.map_err(|failure: Failure| failure.of(name))
    }

    /// The summary of a file that the lake holds in full; `None` if it was never told what that was.
    async fn repeat(&self, name: &str, import_id: &str, tables: &mut Tables) -> Result<Option<Summary>, Failure> {
        let Some(stored) = stored_summary(&tables.side.edge_files, import_id).await? else { return Ok(None) };
        if stored.waiting > 0 && !self.options.dry_run {
            tables.settler.settle().await?;
        }
        let spans: Spans = [stored.first, stored.last].into_iter().flatten().collect();
        let waiting = match stored.waiting {
            0 => 0,
            _ => held(&tables.settler.desk.clicks, &tables.settler.arrivals, import_id, &spans).await?.waiting,
        };
        let mut summary = stored.repeated(waiting);
        name.clone_into(&mut summary.name);
        summary.dry_run = self.options.dry_run;
        summary.seconds = self.started.elapsed().as_secs_f64();
        Ok(Some(summary))
    }

    /// The mode in which lines of the same content came into the lake with ids of another kind than `ids`, if any did.
    async fn taken_in_by(
        &self,
        content: &[u8; 32],
        provider: &str,
        ids: Ids,
        tables: &Tables,
    ) -> Result<Option<IdMode>, Failure> {
        for (mode, key) in identity::keys_of_other_modes(content, &self.options) {
            if mode.resolve(provider) == ids || contained(&tables.settler, &format!("file/{key}")) == 0 {
                continue;
            }
            // without a summary it was begun and not ended
            let summary = stored_summary(&tables.side.edge_files, &key[..ID_DIGITS]).await?;
            let landed = summary.is_none_or(|done| {
                // by a trusted id a line may have been found among the rows; by its status it would be one more
                let found = if ids == Ids::StatusOnly { done.already_counted } else { 0 };
                done.added.edge + done.added.recovered + done.waiting + found > 0
            });
            if landed {
                return Ok(Some(mode));
            }
        }
        Ok(None)
    }

    /// Finds out what the file is; `None` when there is nothing in it.
    fn open(&self, name: &str, hashed: &Hashed) -> Result<Option<Opened>, ImportError> {
        let unreadable = |source| ImportError::Unreadable { name: name.to_owned(), source };
        let mut lines = LineReader::new(hashed.reader(), ReadLimits::default()).map_err(unreadable)?;
        let head = lines.head().map_err(unreadable)?;
        let settings = self.shared.config.logs.clone();
        let format = match self.options.format {
            _ if head.trim_ascii().is_empty() => return Ok(None),
            Some(format) => fits(name, format, head, &settings)?,
            None => match sniff(head, &settings) {
                Ok(Some(sniffed)) => sniffed.format,
                Ok(None) => return Ok(None),
                Err(source) => return Err(ImportError::Format { name: name.to_owned(), source }),
            },
        };
        let parser = FileParser::new(format, head, settings);
        let ids = self.options.id.resolve(format.provider());
        if ids == Ids::Trusted && !parser.layout_has_id() {
            return Err(ImportError::NoRequestIds { name: name.to_owned(), format });
        }
        Ok(Some(Opened { lines, parser, ids }))
    }

    fn empty(&self, name: &str, import_id: &str) -> Summary {
        let format = self.options.format.map_or_else(String::new, |format| format.to_string());
        let mut summary = Summary::new(import_id.to_owned(), name.to_owned(), format, self.options.dry_run);
        summary.state = State::Done;
        summary.seconds = self.started.elapsed().as_secs_f64();
        summary.note = Some("the file is empty".to_owned());
        summary
    }

    async fn workers(&self, format: Format, ids: Ids, import_id: &str) -> Result<Vec<Worker>, Failure> {
        let Shared { directory, keys, registry, enricher, config, .. } = &*self.shared;
        let journals = registry.journals().await?;
        let edge_ids = config.edge_id.resolve(&config.edge_provider);
        let events = OwnEvents::of(format.provider(), &config.edge_provider, edge_ids, &journals, config.max_skew);
        let now = UtcMicros::now();
        let rules = Arc::new(Rules {
            ids,
            provider: format.provider(),
            events,
            import_id: import_id.into(),
            ingest_time: now,
            latest: now.plus(MOST_AHEAD),
            default_domain: config.domains.first().cloned().unwrap_or_default(),
        });
        let scope = Scope {
            workspace: self.options.workspace.clone(),
            unknown_codes: self.options.unknown_codes,
            domains: config.domains.clone(),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if config.threads == 0 { cores } else { config.threads };
        let worker = |_| {
            let links = Links::new(Arc::clone(directory), scope.clone());
            Worker::new(Arc::clone(&rules), Arc::clone(enricher), links, Arc::clone(keys))
        };
        Ok((0..threads).map(worker).collect())
    }

    /// Parsing of the next chunk goes on while one lands. None does before `check` has found the file to be sound.
    async fn land_all(
        &self,
        mut chunks: Chunks,
        check: JoinHandle<Result<(), ReadError>>,
        lander: Lander<'_>,
        of: u64,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Summary, Failure> {
        let (send, receive) = mpsc::channel::<Chunk>(1);
        let collect = async move {
            // room first: a chunk that waits for it takes as much memory as one that lands
            while let Ok(room) = send.reserve().await {
                match chunks.next().await? {
                    Some(chunk) => room.send(chunk),
                    None => break,
                }
            }
            Ok::<(), Failure>(())
        };
        let land = async move {
            check.await.map_err(|e| Failure::BrokeOff(e.to_string()))??;
            self.land_each(receive, lander, of, progress).await
        };
        let (collected, landed) = tokio::join!(collect, land);
        // Of two failures the collector's comes first: without its end the landing's summary is not the file's.
        collected.and(landed)
    }

    async fn land_each(
        &self,
        mut chunks: mpsc::Receiver<Chunk>,
        mut lander: Lander<'_>,
        of: u64,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<Summary, Failure> {
        let mut dry = self.options.dry_run.then(|| DryRun::new(lander.summary.clone(), self.started));
        let (mut lines, mut note) = (0, None);
        while let Some(chunk) = chunks.recv().await {
            if self.cancel.is_cancelled() {
                return Err(Failure::BrokeOff("stopped; a repeat goes on from there".to_owned()));
            }
            lines += chunk.tally.lines;
            let now = Progress { bytes: chunk.raw_bytes, of, lines };
            note = chunk.ending.as_ref().and_then(|ending| ending.truncated.clone());
            match &mut dry {
                Some(dry) => dry.judge(lander.settler, &chunk).await?,
                None => lander.land(chunk).await?,
            }
            progress(now);
        }
        let mut summary = match dry {
            Some(dry) => dry.finish(),
            None => lander.finish().await?,
        };
        summary.note = note;
        Ok(summary)
    }
}

fn fits(name: &str, format: Format, head: &[u8], settings: &Settings) -> Result<Format, ImportError> {
    let fit = format.recognise(&ingest::edge::format::Sample::of(head), settings);
    if fit.fits() { Ok(format) } else { Err(ImportError::WrongFormat { name: name.to_owned(), format, why: fit.why }) }
}
