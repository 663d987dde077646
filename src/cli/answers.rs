//! Questions.

use clap::{Args, ValueEnum};

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
