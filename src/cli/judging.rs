//! How requests are judged, and what is kept of them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use schemas::Method;

use super::Json;

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
