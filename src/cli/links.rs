//! Links, workspaces, tokens.

use clap::Subcommand;
use schemas::{Analytics, Scope};

use super::{Json, Named};

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
