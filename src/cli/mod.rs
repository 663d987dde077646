//! The command line: what can be asked, and nothing of how it is done.

mod answers;
mod events;
mod judging;
mod links;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use answers::{Report, ResultFormat, Sql};
pub(crate) use events::{Backfill, EdgeLogs, IdMode, Import, Journal, SettleAs, Stream, UnknownCodes};
pub(crate) use judging::{Classify, Meaning, NetworkUpdate, Networks, Reclassify, Retention};
pub(crate) use links::{Link, Token, Workspace};

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
