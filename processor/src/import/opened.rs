//! What a file is found to be before its first line is taken in: its format, how its lines are known, and who reads
//! them.

use std::sync::Arc;
use std::time::Duration;

use ingest::edge::{Contents, FileParser, Format, IdMode, Ids, LineReader, ReadLimits, Settings, sniff};
use schemas::UtcMicros;

use super::error::{Failure, ImportError};
use super::identity::{self, Hashed, Reader};
use super::importer::{Shared, Tables};
use super::judge::OwnEvents;
use super::land::contained;
use super::links::{Links, Scope};
use super::run::{ID_DIGITS, Run};
use super::stored::row_of;
use super::worker::{Rules, Worker};

/// How far a clock at the edge may be ahead: a line from later than this would wait for a time that may never come.
const MOST_AHEAD: Duration = Duration::from_secs(24 * 3_600);

/// A file whose format is known.
pub(super) struct Opened {
    pub(super) lines: LineReader<Contents<Reader>>,
    pub(super) parser: FileParser,
    pub(super) ids: Ids,
}

impl Run {
    /// Finds out what the file is; `None` when there is nothing in it.
    pub(super) fn open(&self, name: &str, hashed: &Hashed) -> Result<Option<Opened>, ImportError> {
        let unreadable = |source| ImportError::Unreadable { name: name.to_owned(), source };
        let contents = Contents::of(hashed.reader()).map_err(|e| unreadable(e.into()))?;
        let mut lines = LineReader::new(contents, ReadLimits::default()).map_err(unreadable)?;
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
        let ids = self.ids(self.options.id, format.provider());
        let parser = FileParser::new(format, head, settings);
        if ids == Ids::Trusted && !parser.layout_has_id() {
            return Err(ImportError::NoRequestIds { name: name.to_owned(), format });
        }
        Ok(Some(Opened { lines, parser, ids }))
    }

    /// How the lines of a provider's log are known. Where the origin goes by status, its events have ids of their own:
    /// lines known by the edge's would never meet them.
    fn ids(&self, mode: IdMode, provider: &str) -> Ids {
        let config = &self.shared.config;
        match mode {
            IdMode::Auto if provider == config.edge_provider && config.edge_id == IdMode::StatusOnly => Ids::StatusOnly,
            _ => mode.resolve_for(provider, &config.logs),
        }
    }

    /// The mode in which lines of the same content came into the lake with ids of another kind than `ids`, if any did.
    pub(super) async fn taken_in_by(
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
            // without a summary it was begun and not ended
            let before = row_of(&tables.side.edge_files, &key[..ID_DIGITS]).await?;
            let landed = before.map(|before| before.summary).is_none_or(|done| {
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
        let configured = &self.shared.config.edge_provider;
        if configured == provider || self.shared.registry.journals().await?.is_empty() {
            return Ok(None);
        }
        Ok(Some(configured.clone()))
    }

    pub(super) async fn workers(&self, format: Format, ids: Ids, import_id: &str) -> Result<Vec<Worker>, Failure> {
        let Shared { directory, keys, registry, enricher, config, .. } = &*self.shared;
        let journals = registry.journals().await?;
        let edge_ids = config.edge_id.resolve(&config.edge_provider);
        let events = OwnEvents::of(edge_ids, &journals, config.max_skew);
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
}

fn fits(name: &str, format: Format, head: &[u8], settings: &Settings) -> Result<Format, ImportError> {
    let fit = format.recognise(&ingest::edge::format::Sample::of(head), settings);
    if fit.fits() { Ok(format) } else { Err(ImportError::WrongFormat { name: name.to_owned(), format, why: fit.why }) }
}
