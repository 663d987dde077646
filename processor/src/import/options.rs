//! What an import is told.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ingest::edge::{Format, IdMode, ReadLimits, Settings};
use ingest::events::Naming;
use serde::{Deserialize, Serialize};

use super::ahead::Ahead;
use crate::settle::{Edge, Waits};

/// A word that is none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not one of {choices}")]
pub struct NotAChoice {
    /// What was given.
    pub given: String,
    /// What could have been.
    pub choices: &'static str,
}

/// What a redirect for a code that the link store lacks becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownCodes {
    /// A click of workspace `default`, without a link.
    #[default]
    Keep,
    /// A line ignored.
    Ignore,
}

impl UnknownCodes {
    /// The word that is written and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Ignore => "ignore",
        }
    }
}

impl FromStr for UnknownCodes {
    type Err = NotAChoice;

    fn from_str(word: &str) -> Result<Self, NotAChoice> {
        match word {
            "keep" => Ok(Self::Keep),
            "ignore" => Ok(Self::Ignore),
            _ => Err(NotAChoice { given: word.to_owned(), choices: "keep, ignore" }),
        }
    }
}

/// What holds for one file.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The file holds events made elsewhere, which are known like this; none: it is an edge's log.
    pub events: Option<Naming>,
    /// The log's format; none: found out from its first lines.
    pub format: Option<Format>,
    /// Whose word decides.
    pub id: IdMode,
    /// Name of the continuous source that the file belongs to.
    pub source: Option<String>,
    /// What becomes of unknown codes. A tenant's are ignored in any case.
    pub unknown_codes: UnknownCodes,
    /// Write nothing, only say what would happen.
    pub dry_run: bool,
    /// The tenant who sends the file: only its links are known. None: an operator.
    pub workspace: Option<String>,
}

/// What an import was told, in words: `edge_files` keeps it, so that the file can be taken in again in the same way.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    id: String,
    unknown_codes: String,
    workspace: Option<String>,
    format: Option<String>,
    /// Of events: what they stand for, and whose they are.
    #[serde(default)]
    events: Option<(String, String)>,
}

impl ImportOptions {
    /// As JSON; without the source, which is a column of its own.
    pub(super) fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Told {
            id: self.id.to_string(),
            unknown_codes: self.unknown_codes.as_str().to_owned(),
            workspace: self.workspace.clone(),
            format: self.format.map(|format| format.to_string()),
            events: self.events.as_ref().map(|naming| (naming.stand().to_string(), naming.provider().to_string())),
        })
    }

    /// What [`ImportOptions::to_json`] wrote; `None` for a format or word that this version doesn't know.
    pub(super) fn from_json(text: &str, source: Option<String>) -> Option<Self> {
        let told: Told = serde_json::from_str(text).ok()?;
        let naming = |(stand, provider): (String, String)| Naming::new(stand.parse().ok()?, &provider).ok();
        let events = match told.events {
            Some(events) => Some(naming(events)?),
            None => None,
        };
        Some(Self {
            events,
            format: told.format.map(|format| format.parse()).transpose().ok()?,
            id: told.id.parse().ok()?,
            source,
            unknown_codes: told.unknown_codes.parse().ok()?,
            dry_run: false,
            workspace: told.workspace,
        })
    }
}

/// What holds for all imports of a process.
#[derive(Clone, Debug)]
pub struct ImportConfig {
    /// How long records wait.
    pub waits: Waits,
    /// How far two records of one id may be apart.
    pub max_skew: Duration,
    /// After how long every redirect has heard of a link's change (`[redirect] takedown_limit`).
    pub takedown_limit: Duration,
    /// How long after its end a day may still change without anybody's doing (`[edge] settle`).
    pub settle: Duration,
    /// Host names served (`[redirect] domains`). A log's host without its port is taken for the one with; the first
    /// stands for hosts that a log doesn't have.
    pub domains: Vec<String>,
    /// The edge in front of our own redirect (`[edge]`): only its lines may have our events under their ids.
    pub edge: Edge,
    /// What formats can't know by themselves (`[edge_logs]`).
    pub logs: Settings,
    /// What a file may cost.
    pub limits: ReadLimits,
    /// Threads that parse; 0: one a core.
    pub threads: usize,
    /// A chunk ends with the block in which it reaches so many lines: enough to make good files, few enough that their
    /// rows take little memory. A file that was begun is gone on with in chunks of the same size.
    pub chunk_lines: u64,
    /// Where a stream is kept until its content's hash is known.
    pub spool_dir: PathBuf,
}

impl Default for ImportConfig {
    fn default() -> Self {
        Self {
            waits: Waits::default(),
            max_skew: Duration::from_secs(600),
            takedown_limit: Duration::from_secs(30),
            settle: Duration::from_secs(48 * 3_600),
            domains: Vec::new(),
            edge: Edge::default(),
            logs: Settings::default(),
            limits: ReadLimits::default(),
            threads: 0,
            chunk_lines: 100_000,
            spool_dir: std::env::temp_dir(),
        }
    }
}

/// Bytes to take in.
pub enum Body {
    /// A file, which can be read twice.
    File(File),
    /// A stream, which can't: it is spooled to disk first.
    Stream(Box<dyn Read + Send>),
    /// What [`Importer::read_ahead`](super::Importer::read_ahead) has read.
    Ahead(Box<Ahead>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Stream(_) => "Stream",
            Self::Ahead(_) => "Ahead",
        })
    }
}

/// One log to take in.
#[derive(Debug)]
pub struct Input {
    /// Its name, for people.
    pub name: String,
    /// Its bytes: plain, gzip or zstd.
    pub body: Body,
    /// Where the same bytes can be read again: an absolute path or an address. None of what can't be.
    pub location: Option<String>,
    /// What the SHA-256 of its bytes must be, in hexadecimal; none: whatever it is.
    pub sha256: Option<String>,
}

impl Input {
    /// A file on disk.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let location = std::path::absolute(path)?.to_str().map(str::to_owned);
        Ok(Self { name: path.display().to_string(), body: Body::File(file), location, sha256: None })
    }

    /// A file that is open already, under a name.
    pub fn file(name: impl Into<String>, file: File) -> Self {
        Self { body: Body::File(file), ..Self::stream(name, io::empty()) }
    }

    /// A stream under a name.
    pub fn stream(name: impl Into<String>, bytes: impl Read + Send + 'static) -> Self {
        Self { name: name.into(), body: Body::Stream(Box::new(bytes)), location: None, sha256: None }
    }

    /// The same, with the address at which it can be read again.
    #[must_use]
    pub fn with_location(self, location: impl Into<String>) -> Self {
        Self { location: Some(location.into()), ..self }
    }

    /// The same, to be refused if its bytes are others than those whose SHA-256 is given, in hexadecimal.
    #[must_use]
    pub fn expecting(self, sha256: impl Into<String>) -> Self {
        Self { sha256: Some(sha256.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use ingest::events::Stand;

    use super::*;

    #[test]
    fn words_are_read_and_others_named() {
        assert_eq!("ignore".parse::<UnknownCodes>().unwrap(), UnknownCodes::Ignore);
        let error = "keep them".parse::<UnknownCodes>().unwrap_err();
        assert_eq!(error.to_string(), "\"keep them\" is not one of keep, ignore");
    }

    #[test]
    fn what_was_told_can_be_told_again() {
        let told = ImportOptions {
            events: Naming::new(Stand::Import, "bit.ly").ok(),
            format: Some(Format::CloudFrontV1),
            id: IdMode::StatusOnly,
            source: Some("s".into()),
            unknown_codes: UnknownCodes::Ignore,
            dry_run: false,
            workspace: Some("w".into()),
        };
        let again = |options: &ImportOptions| {
            let read = ImportOptions::from_json(&options.to_json().unwrap(), options.source.clone()).unwrap();
            format!("{read:?}") == format!("{options:?}")
        };
        assert!(again(&told) && again(&ImportOptions::default()));
        assert!(ImportOptions::from_json("{\"id\":\"other\",\"unknown_codes\":\"keep\"}", None).is_none());
    }
}
