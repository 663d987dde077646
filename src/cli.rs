//! The command line: what can be asked, and nothing of how it is done.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ingest::events::Stand;
use schemas::{Analytics, Method, Scope};

/// Click analytics for short links that stay exact when a link goes viral.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// What is the same for every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn journal(text: &str) -> Result<schemas::JournalId, String> {
    text.parse().map_err(|error| format!("{error}: no journal's id; `highwater journal list` shows them"))
}

/// Flags accepted anywhere on the line.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Configuration file [default: $HIGHWATER_CONFIG, else ./highwater.toml if present]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data folder: everything that must survive a restart [default: ./highwater-data]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every role in one process on embedded parts
    Up(Up),
    /// Run the redirect listener alone
    Redirect,
    /// Run the management API alone
    Manage,
    /// Run the processors (hot path and settler) alone
    Process(Process),
    /// Run reports, SQL and the dashboard alone
    Query,
    /// Make and change links
    #[command(subcommand)]
    Link(Link),
    /// Make workspaces, and say how long they keep their rows
    #[command(subcommand)]
    Workspace(Workspace),
    /// Make API tokens
    #[command(subcommand)]
    Token(Token),
    /// Bring CDN or load-balancer logs into the lake
    Backfill(Backfill),
    /// Bring click events made elsewhere into the lake: another redirector's, or another product's export
    Import(Import),
    /// See what edge logs came in
    #[command(subcommand)]
    EdgeLogs(EdgeLogs),
    /// See the redirect workers' journals, or give one up
    #[command(subcommand)]
    Journal(Journal),
    /// A report in the terminal
    Report(Box<Report>),
    /// SQL on the lake, as the operator
    Sql(Sql),
    /// Watch click events pass
    #[command(subcommand)]
    Stream(Stream),
    /// Recount: duplicates, sums over classes, journals against the lake
    Verify(Json),
    /// Judge one request, or a labelled set of user agents
    Classify(Classify),
    /// Published lists of networks: who confirms an agent, who scans, who rents out servers, where people are
    #[command(subcommand)]
    Networks(Networks),
    /// Settle what can be settled, compact and clean the lake once
    Compact(Json),
    /// Take out rows that are older than their workspace keeps any, as `process` does once a day
    Retention(Retention),
    /// Judge history anew: class and agent of clicks that are there, by the rules in force
    Reclassify(Reclassify),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// `up`
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Also make sample links and play visitors, so that there is something to see at once
    #[arg(long)]
    pub(crate) demo: bool,
}

/// Arguments of `process`.
#[derive(Debug, Args)]
pub(crate) struct Process {
    /// Partitions of the topic to read, whatever others do: 0-3, 0,2,5-7, or 0/3 (every third from 0 on) [default: a fair
    /// share, agreed with the others]
    #[arg(long, value_name = "PARTITIONS")]
    pub(crate) partitions: Option<crate::config::Partitions>,
}

/// Machine-readable output.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which link.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The code: the path of the short link
    pub(crate) code: String,
    /// Its host name [default: the first configured domain]
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `link …`
#[derive(Debug, Subcommand)]
pub(crate) enum Link {
    /// Make a link
    Add {
        /// Where it leads
        url: String,
        /// Its code [default: seven random characters]
        #[arg(long)]
        code: Option<String>,
        /// Its host name [default: the first configured domain]
        #[arg(long)]
        domain: Option<String>,
        /// The workspace it belongs to
        #[arg(long, default_value = schemas::link::DEFAULT_WORKSPACE)]
        workspace: String,
        /// What it promises about its clicks: billed, internal or off
        #[arg(long, default_value = "billed")]
        analytics: Analytics,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List links
    List {
        /// Only this workspace's
        #[arg(long)]
        workspace: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one link
    Show(Named),
    /// Take a link down: 410, until it is enabled again
    Disable {
        /// Which
        #[command(flatten)]
        link: Named,
        /// Why, shown to visitors
        #[arg(long)]
        reason: String,
    },
    /// Bring a disabled link back
    Enable(Named),
    /// Delete a link for good; its code is never given out again
    Delete(Named),
}

/// `workspace …`
#[derive(Debug, Subcommand)]
pub(crate) enum Workspace {
    /// Make a workspace
    Add {
        /// Its name
        name: String,
    },
    /// List workspaces, and how long each keeps its rows
    List(Json),
    /// Set how long a workspace keeps its rows
    Set {
        /// Its name
        name: String,
        /// Days, such as 400d; forever; or default: as retention.keep says
        #[arg(long)]
        keep: schemas::Keep,
    },
}

/// `token …`
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token; it is shown once
    #[command(group = clap::ArgGroup::new("whose").required(true).args(["workspace", "operator"]))]
    Add {
        /// The workspace it is for
        #[arg(long)]
        workspace: Option<String>,
        /// What it may do: read, write or admin
        #[arg(long, default_value = "read", conflicts_with = "operator")]
        scope: Scope,
        /// A token that belongs to no workspace and sees all
        #[arg(long)]
        operator: bool,
    },
    /// The tokens there are, without their secrets
    List(Json),
    /// Take a token back: from now on nobody comes with it
    Revoke {
        /// Its id, as `token list` shows it
        id: String,
    },
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
        /// Even one of another machine that is heard of
        #[arg(long, conflicts_with = "lost")]
        force: bool,
    },
}

/// `report`
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The link's code; none: every link
    pub(crate) code: Option<String>,
    /// Its host name [default: every domain]
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// Group by a dimension, such as country, device, class, agent, referrer
    #[arg(long, value_name = "DIM", conflicts_with = "interval")]
    pub(crate) by: Option<String>,
    /// A series by minute, hour, day, week or month
    #[arg(long)]
    pub(crate) interval: Option<String>,
    /// First instant or day
    #[arg(long)]
    pub(crate) start: Option<String>,
    /// End: exclusive for instants, inclusive for days
    #[arg(long)]
    pub(crate) end: Option<String>,
    /// IANA name of the time zone
    #[arg(long)]
    pub(crate) timezone: Option<String>,
    /// Which class counts (human, all, or any class); repeatable [default: human; all with --by class or agent]
    #[arg(long)]
    pub(crate) class: Vec<String>,
    /// Print JSON, as the API does
    #[arg(long)]
    pub(crate) json: bool,
}

/// Formats of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultFormat {
    /// For people
    Table,
    /// An array of objects
    Json,
    /// Comma-separated values
    Csv,
    /// Arrow IPC stream
    Arrow,
    /// A Parquet file
    Parquet,
}

/// `sql`
#[derive(Debug, Args)]
pub(crate) struct Sql {
    /// One read-only statement
    pub(crate) sql: String,
    /// How to print the result
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: ResultFormat,
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

/// `classify`
#[derive(Debug, Args)]
pub(crate) struct Classify {
    /// User agent
    #[arg(long, default_value = "", conflicts_with = "tsv")]
    pub(crate) ua: String,
    /// Request method: GET or HEAD
    #[arg(long, default_value = "GET")]
    pub(crate) method: Method,
    /// A request header, as 'Name: value'; repeatable
    #[arg(long, value_name = "K: V")]
    pub(crate) header: Vec<String>,
    /// The client's address
    #[arg(long)]
    pub(crate) address: Option<std::net::IpAddr>,
    /// Judge a labelled set: tab-separated, first columns user_agent and category. Categories that begin with `human` are
    /// people's (`human_inapp`: in the browser of an app), all others machines'
    #[arg(long, value_name = "FILE")]
    pub(crate) tsv: Option<PathBuf>,
    /// Also print each wrong line
    #[arg(long, requires = "tsv")]
    pub(crate) verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `retention`
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Retention {
    /// Change nothing; say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reclassify`
#[derive(Debug, Args)]
pub(crate) struct Reclassify {
    /// First instant (RFC 3339) or UTC day of the clicks
    #[arg(long, value_name = "TIME")]
    pub(crate) start: query::Bound,
    /// End: exclusive for instants, inclusive for days
    #[arg(long, value_name = "TIME")]
    pub(crate) end: query::Bound,
    /// Only clicks of this workspace
    #[arg(long, value_name = "NAME")]
    pub(crate) workspace: Option<String>,
    /// Change nothing; say what would move
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `networks …`
#[derive(Debug, Subcommand)]
pub(crate) enum Networks {
    /// Fetch a list and put it in the place of that with its name; running nodes take it up by themselves
    Update(NetworkUpdate),
    /// The lists there are, and whether they are still believed
    List(Json),
    /// Take a list away
    Remove {
        /// Its name
        name: String,
    },
}

/// `networks update`
#[derive(Debug, Args)]
pub(crate) struct NetworkUpdate {
    /// Where the list is: an https URL, a file, or - for standard input; as operators publish them, in JSON, as text, or as
    /// CSV whose first column is a prefix
    pub(crate) source: String,
    /// What it is called here, and in class_reason
    #[arg(long)]
    pub(crate) name: String,
    /// What it means to be in it [default: what it meant before]
    #[arg(long = "as", value_enum, value_name = "MEANING")]
    pub(crate) meaning: Option<Meaning>,
    /// Of a list that confirms: the agent whose operator's networks these are, by its name in column `agent`; repeatable
    /// [default: those of before]
    #[arg(long = "agent", value_name = "AGENT")]
    pub(crate) agents: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What it means to be in a list of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Meaning {
    /// The operator of an agent: confirms it, and decides nothing
    Confirm,
    /// Scanners that look like people's browsers, such as mail gateways
    Scanner,
    /// Servers for rent: no verdict by itself
    Hosting,
    /// People behind a relay: never scanners
    People,
}

/// `config …`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Validate; ends with 1 and names what is wrong
    Check,
    /// Show the effective values and where each came from
    Show(Json),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &[&str]) -> String {
        Cli::try_parse_from(line).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_or_wrong_is_said_with_the_way_out() {
        let said = refused(&["highwater", "token", "add"]);
        assert!(said.contains("--workspace") && said.contains("--operator"), "{said}");
        assert!(Cli::try_parse_from(["highwater", "token", "add", "--operator"]).is_ok());
        assert!(Cli::try_parse_from(["highwater", "token", "add", "--workspace", "a", "--scope", "write"]).is_ok());
        refused(&["highwater", "token", "add", "--workspace", "a", "--operator"]);
        refused(&["highwater", "token", "add", "--operator", "--scope", "write"]);
        let said = refused(&["highwater", "journal", "retire", "abc"]);
        assert!(said.contains("`highwater journal list`"), "{said}");
    }
}
