//! What a file is found to be before its first line is taken in: a log of some format or events made elsewhere, how its
//! lines are known, and who reads them.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ingest::edge::format::Sample;
use ingest::edge::{Contents, FileParser, Format, IdMode, Ids, LineReader, ReadError, Settings, sniff};
use ingest::events::{self, EventLines, Naming, Stand};
use schemas::UtcMicros;

use super::error::{Failure, ImportError};
use super::identity::{self, Hashed, Reader};
use super::importer::{Shared, Tables};
use super::judge::OwnEvents;
use super::land::contained;
use super::links::{Heard, Links, Scope};
use super::options::ImportOptions;
use super::pipeline::Retired;
use super::reading::Reading;
use super::run::{ID_DIGITS, Run};
use super::stored::{row_of, rows};
use super::summary::State;
use super::worker::{Rules, Worker};
use crate::settle::elsewhere::Elsewhere;

/// How far a clock at the edge may be ahead: a line from later than this would wait for a time that may never come.
const MOST_AHEAD: Duration = Duration::from_secs(24 * 3_600);

/// A file of which is known what it is.
pub(super) struct Opened {
    pub(super) lines: LineReader<Contents<Reader>>,
    pub(super) parser: FileParser,
    pub(super) content: Content,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// An edge's log.
    Log(Format, Ids),
    /// Events made elsewhere.
    Events(Naming),
}

impl Content {
    /// The name of the format.
    pub(super) fn format(&self) -> &'static str {
        match self {
            Self::Log(format, _) => format.as_str(),
            Self::Events(_) => events::FORMAT,
        }
    }

    /// Whose edge the requests came through.
    pub(super) fn provider(&self) -> &str {
        match self {
            Self::Log(format, _) => format.provider(),
            Self::Events(naming) => naming.provider(),
        }
    }
}

impl Run {
    /// Finds out what the file is; `None` when there is nothing in it.
    pub(super) fn open(&self, name: &str, hashed: &Hashed) -> Result<Option<Opened>, ImportError> {
        let unreadable = |source| ImportError::Unreadable { name: name.to_owned(), source };
        let contents = Contents::of(hashed.reader()).map_err(|e| unreadable(e.into()))?;
        let mut lines = LineReader::new(contents, self.shared.config.limits).map_err(unreadable)?;
        let head = lines.head().map_err(unreadable)?;
        if head.trim_ascii().is_empty() {
            // of one that was cut short in the middle, more may have been there
            return match lines.finish().map_err(|e| unreadable(e.into()))?.truncated {
                Some(why) => Err(unreadable(ReadError::Nothing { why })),
                None => Ok(None),
            };
        }
        if let Some(naming) = &self.options.events {
            events_in(name, head)?;
            let parser = FileParser::of(Arc::new(EventLines::of(naming.provider())));
            return Ok(Some(Opened { lines, parser, content: Content::Events(naming.clone()) }));
        }
        let settings = self.shared.config.logs.clone();
        let format = match self.options.format {
            Some(format) => fits(name, format, head, &settings)?,
            None => match sniff(head, &settings) {
                Ok(Some(sniffed)) => sniffed.format,
                Ok(None) => return Ok(None),
                Err(source) => return Err(ImportError::Format { name: name.to_owned(), source }),
            },
        };
        let ids = self.ids(self.options.id, format.provider());
        let parser = FileParser::new(format, head, settings);
        if ids == Ids::Trusted && !parser.layout_has_id() {
            return Err(ImportError::NoRequestIds { name: name.to_owned(), format });
        }
        Ok(Some(Opened { lines, parser, content: Content::Log(format, ids) }))
    }

    /// How lines of the same content came into the lake under other ids, if any did.
    pub(super) async fn taken_in_otherwise(
        &self,
        sha256: &[u8; 32],
        content: &Content,
        tables: &Tables,
    ) -> Result<Option<Otherwise>, Failure> {
        match content {
            Content::Log(format, ids) => {
                let first = self.taken_in_by(sha256, format.provider(), *ids, tables).await?;
                Ok(first.map(|first| Otherwise::Ids { first, asked: self.options.id }))
            }
            Content::Events(naming) => {
                let sha256 = identity::hex(sha256);
                let landed = rows(&tables.side.edge_files).await?.into_iter().find(|import| {
                    let summary = &import.summary;
                    let is_done = summary.state == State::Done && summary.added.total() + summary.waiting > 0;
                    let is_here = is_done || import.is_begun;
                    let stand = if summary.added.import > Some(0) { Stand::Import } else { Stand::Origin };
                    let is_other = (stand, import.provider.as_str()) != (naming.stand(), naming.provider());
                    import.sha256 == sha256 && summary.format == events::FORMAT && is_here && is_other
                });
                Ok(landed.map(|import| Otherwise::Events { id: import.summary.id, provider: import.provider }))
            }
        }
    }

    /// How the lines of a provider's log are known. Where the origin goes by status, its events have ids of their own:
    /// lines known by the edge's would never meet them.
    fn ids(&self, mode: IdMode, provider: &str) -> Ids {
        let config = &self.shared.config;
        match mode {
            IdMode::Auto if provider == config.edge.provider && config.edge.ids == IdMode::StatusOnly => {
                Ids::StatusOnly
            }
            _ => mode.resolve_for(provider, &config.logs),
        }
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
            // as configured now, and as it may have been when the other came in
            let alike = self.ids(mode, provider) == ids && mode.resolve(provider) == ids;
            if alike || contained(&tables.settler, &format!("file/{key}")) == 0 {
                continue;
            }
            let before = row_of(&tables.side.edge_files, &key[..ID_DIGITS]).await?;
            let landed = before.filter(|before| !before.is_begun).map(|before| before.summary).is_none_or(|done| {
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

    /// The provider that the redirect is told of, if that isn't this one although the redirect has been at work.
    pub(super) async fn beside(&self, provider: &str) -> Result<Option<String>, Failure> {
        let configured = &self.shared.config.edge.provider;
        if configured == provider || self.shared.registry.journals().await?.is_empty() {
            return Ok(None);
        }
        Ok(Some(configured.clone()))
    }

    /// How the lines are taken, by what the registry and the lake say now.
    pub(super) async fn reading(&self, content: Content, tables: &Tables) -> Result<Reading, Failure> {
        match content {
            Content::Log(format, ids) => {
                let config = &self.shared.config;
                let provider = format.provider();
                let edge_ids = config.edge.ids.resolve(&config.edge.provider);
                let journals = self.shared.registry.journals().await?;
                let elsewhere = Elsewhere::read(provider, &tables.settler.desk.clicks, &tables.settler.arrivals);
                let own = OwnEvents::of(edge_ids, &journals, elsewhere, (config.max_skew, config.settle));
                let names_events = ids == Ids::Trusted && provider == config.edge.provider;
                Ok(Reading::Log { ids, provider: provider.into(), own, names_events })
            }
            Content::Events(naming) => Ok(self.shared.reading_of_events(naming)),
        }
    }

    /// Who reads the lines: those of a file before, as far as there are any.
    pub(super) fn workers(&self, reading: Reading, import_id: &str, before: &Retired) -> Vec<Worker> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if self.shared.config.threads == 0 { cores } else { self.shared.config.threads };
        let rules = self.shared.rules(reading, import_id);
        let scope = self.shared.scope(&self.options);
        let mut before = std::mem::take(&mut *before.lock().unwrap_or_else(PoisonError::into_inner)).into_iter();
        let mut again = || before.next().and_then(|worker| worker.again(&rules, &scope));
        (0..threads).map(|_| again().unwrap_or_else(|| self.shared.worker(&rules, &self.options))).collect()
    }
}

impl Shared {
    /// How events made elsewhere are taken.
    pub(super) fn reading_of_events(&self, naming: Naming) -> Reading {
        let edge = &self.config.edge;
        let ids = edge.ids.resolve(&edge.provider);
        let meets_journals = **naming.provider() == edge.provider && ids == Ids::Trusted;
        Reading::Events { naming, meets_journals }
    }

    /// What holds for every line of a file.
    pub(super) fn rules(&self, reading: Reading, import_id: &str) -> Arc<Rules> {
        let (now, config) = (UtcMicros::now(), &self.config);
        Arc::new(Rules {
            reading,
            heard: Heard::of(config.takedown_limit, config.waits.skew + config.waits.repeat),
            import_id: import_id.into(),
            ingest_time: now,
            latest: now.plus(MOST_AHEAD),
            default_domain: config.domains.first().cloned().unwrap_or_default(),
        })
    }

    /// Which codes count.
    fn scope(&self, options: &ImportOptions) -> Scope {
        Scope {
            workspace: options.workspace.clone(),
            unknown_codes: options.unknown_codes,
            domains: self.config.domains.clone(),
            any_domain: options.events.is_some(),
        }
    }

    /// One who reads lines.
    pub(super) fn worker(&self, rules: &Arc<Rules>, options: &ImportOptions) -> Worker {
        let links = Links::new(Arc::clone(&self.directory), self.scope(options));
        Worker::new(Arc::clone(rules), Arc::clone(&self.enricher), links, Arc::clone(&self.keys))
    }
}

/// How the same bytes were taken in before.
pub(super) enum Otherwise {
    /// By another sort of ids.
    Ids { first: IdMode, asked: IdMode },
    /// As events that stand for something else, or of another provider.
    Events { id: String, provider: String },
}

impl Otherwise {
    pub(super) fn refusal(self, name: &str) -> ImportError {
        let name = name.to_owned();
        match self {
            Self::Ids { first, asked } => ImportError::OtherIds { name, first, asked },
            Self::Events { id, provider } => ImportError::OtherEvents { name, id, provider },
        }
    }
}

/// Refuses what holds no events at all: each of its lines would be a reject.
fn events_in(name: &str, head: &[u8]) -> Result<(), ImportError> {
    let sample = Sample::of(head);
    if sample.lines.iter().any(|line| events::is_event(line)) {
        return Ok(());
    }
    Err(ImportError::NoEvents { name: name.to_owned(), looked_at: sample.lines.len() })
}

fn fits(name: &str, format: Format, head: &[u8], settings: &Settings) -> Result<Format, ImportError> {
    let fit = format.recognise(&Sample::of(head), settings);
    if fit.fits() { Ok(format) } else { Err(ImportError::WrongFormat { name: name.to_owned(), format, why: fit.why }) }
}
