//! What comes in: logs, imports, journals, the stream.

use clap::{Args, Subcommand, ValueEnum};
use ingest::events::Stand;

use super::Json;

fn journal(text: &str) -> Result<schemas::JournalId, String> {
    text.parse().map_err(|error| format!("{error}: no journal's id; `highwater journal list` shows them"))
}

/// How request ids are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdMode {
    /// As is known of the provider
    Auto,
    /// The union by id decides
    Trusted,
    /// The cache status decides
    StatusOnly,
}

/// What becomes of codes that the link store lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnknownCodes {
    /// A click of workspace `default`
    Keep,
    /// An ignored line
    Ignore,
}

/// `backfill`
#[derive(Debug, Args)]
pub(crate) struct Backfill {
    /// Files, folders, globs, `-` for standard input, or s3://, gs://, az:// and file:// URLs: an object, all below a
    /// prefix that ends with `/`, or a pattern
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// The logs' format: auto, or a name from docs/formats.md
    #[arg(long, default_value = "auto")]
    pub(crate) format: String,
    /// How their request ids are judged [default: as configured for the edge, else auto]
    #[arg(long, value_enum)]
    pub(crate) id: Option<IdMode>,
    /// Name of the continuous source that these logs belong to
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// What becomes of lines whose code no link has: clicks of workspace `default` (keep), or nothing (ignore)
    #[arg(long, value_enum, default_value = "keep")]
    pub(crate) unknown_codes: UnknownCodes,
    /// Write nothing; say what would come
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the summaries as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `import`
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// NDJSON, plain, gzip or zstd, one object a line with `code` and `time` and, where known, `domain`, `request_id`,
    /// `method`, `ip`, `user_agent`, `referrer`, `query`, `country`, `language`: files, folders, globs, or `-` for
    /// standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// What the events stand for: origin (the origin's own events of requests that came through an edge, whose logs are
    /// settled against them by request id) or import (clicks that another product has counted)
    #[arg(long = "as", value_name = "WHAT", default_value_t)]
    pub(crate) stand: Stand,
    /// The edge that they came through, or a name for the product [default: as configured for the edge]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// What becomes of lines whose code no link has: clicks of workspace `default` (keep), or nothing (ignore)
    #[arg(long, value_enum, default_value = "keep")]
    pub(crate) unknown_codes: UnknownCodes,
    /// Write nothing; say what would come
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the summaries as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `edge-logs …`
#[derive(Debug, Subcommand)]
pub(crate) enum EdgeLogs {
    /// List the logs taken in
    List(Json),
    /// Show one log's summary, as of now
    Show {
        /// Its id
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Decide an hour whose request ids don't meet: what its lines without an event are
    Settle {
        /// Whose lines they are, as `/v1/status` names them: a provider, or a provider and a workspace (nginx/acme)
        #[arg(long)]
        provider: String,
        /// The hour in UTC, as 2026-11-01T10
        #[arg(long, value_parser = hour)]
        hour: schemas::UtcMicros,
        /// What they are
        #[arg(long = "as", value_enum)]
        settle_as: SettleAs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End a continuous source of which no more is to come, so that `final_through` waits for it no longer
    EndSource {
        /// Its name, as `/v1/status` shows it
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take an import back: its rows go, and logs that overlap with it are taken in again
    Revert {
        /// Its id
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What lines without an event are, when request ids don't meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SettleAs {
    /// Clicks whose events were lost
    Recovered,
    /// Clicks that are counted, under other ids
    Counted,
}

/// An hour as `2026-11-01T10`, or any instant of it.
fn hour(text: &str) -> Result<schemas::UtcMicros, String> {
    let whole = if text.len() == "2026-11-01T10".len() { format!("{text}:00:00Z") } else { text.to_owned() };
    let instant = chrono::DateTime::parse_from_rfc3339(&whole)
        .map_err(|_| format!("{text:?} is no hour: expected one in UTC as 2026-11-01T10, or an instant of it"))?;
    Ok(schemas::UtcMicros(schemas::UtcMicros::from(instant.to_utc()).hour() * schemas::time::HOUR))
}

/// `journal …`
#[derive(Debug, Subcommand)]
pub(crate) enum Journal {
    /// List the journals and how far each is
    List(Json),
    /// Give a journal up: it no longer holds `complete_through` back, what it still holds is late, and what is lost of it
    /// is named by answers
    Retire {
        /// Its id
        #[arg(required_unless_present = "lost", value_parser = journal)]
        id: Option<schemas::JournalId>,
        /// Every journal of which the lake has lost what it held, as when it can't be restored
        #[arg(long, conflicts_with = "id")]
        lost: bool,
        /// Even one that a process goes on with, here or on another machine
        #[arg(long, conflicts_with = "lost")]
        force: bool,
    },
}

/// `stream …`
#[derive(Debug, Subcommand)]
pub(crate) enum Stream {
    /// Print click events as they pass
    Tail {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// Begin with the oldest event still in the journals
        #[arg(long)]
        from_start: bool,
        /// Stop after so many events
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Begin another generation of the topic: when it was made anew, has lost records, or gets other partitions. Journals
    /// send what the lake lacks; nothing is counted twice
    Renew,
}
