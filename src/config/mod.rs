//! Configuration: one struct a section, as `interface` names them. Values come from defaults, then the TOML file,
//! then the environment (`HIGHWATER_SECTION__KEY`), then flags; [`fn@load`] merges them, [`check`] judges them.

mod behaviour;
mod check;
mod classify;
mod edge_logs;
mod kubernetes;
mod load;
mod near;
mod partitions;
mod places;
mod privacy;
mod process;
mod redirect;
mod retention;
mod stream;
mod told;
mod units;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use behaviour::Behaviour;
pub(crate) use check::problems;
pub(crate) use classify::Classify;
pub(crate) use edge_logs::EdgeLogs;
pub(crate) use load::{Loaded, load};
pub(crate) use near::near;
pub(crate) use partitions::Partitions;
pub(crate) use privacy::{Geo, Privacy};
pub(crate) use process::{Journal, Process};
pub(crate) use redirect::{Edge, IdMode, Redirect};
pub(crate) use retention::Retention;
pub(crate) use stream::{Backend, Compression, Stream, Tls};
pub(crate) use units::{Size, Span};

/// Everything that can be configured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Everything that must survive a restart.
    pub(crate) data_dir: PathBuf,
    /// Where the lake is: a folder or an object-store URL; empty: `lake` in the data folder.
    pub(crate) lake: String,
    /// The redirect listener.
    pub(crate) redirect: Redirect,
    /// The CDN in front of it.
    pub(crate) edge: Edge,
    /// The CDN's logs.
    pub(crate) edge_logs: EdgeLogs,
    /// The management listener.
    pub(crate) manage: Manage,
    /// The query listener.
    pub(crate) query: Query,
    /// Health and metrics.
    pub(crate) ops: Ops,
    /// The link store.
    pub(crate) links: Links,
    /// The redirect workers' journals.
    pub(crate) journal: Journal,
    /// The processors.
    pub(crate) process: Process,
    /// Where clients are.
    pub(crate) geo: Geo,
    /// Which requests several others show to be no person's.
    pub(crate) behaviour: Behaviour,
    /// What is not to be known of them.
    pub(crate) privacy: Privacy,
    /// What carries clicks from journals to processors.
    pub(crate) stream: Stream,
    /// Who is a person.
    pub(crate) classify: Classify,
    /// How long rows are kept.
    pub(crate) retention: Retention,
}

macro_rules! listener {
    ($(#[$meta:meta])* $name:ident, $default:literal) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $name {
            /// Address to listen on.
            pub listen: SocketAddr,
        }

        impl Default for $name {
            fn default() -> Self {
                Self { listen: loopback($default) }
            }
        }
    };
}
listener!(
    /// `[manage]`
    Manage, 8081
);
listener!(
    /// `[query]`
    Query, 8082
);
listener!(
    /// `[ops]`
    Ops, 8083
);

/// `[links]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Links {
    /// Database URL; empty: SQLite in the data folder.
    pub(crate) url: String,
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

const fn seconds(n: u64) -> Span {
    Span(Duration::from_secs(n))
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./highwater-data"),
            lake: String::new(),
            redirect: Redirect::default(),
            edge: Edge::default(),
            edge_logs: EdgeLogs::default(),
            manage: Manage::default(),
            query: Query::default(),
            ops: Ops::default(),
            links: Links::default(),
            journal: Journal::default(),
            process: Process::default(),
            geo: Geo::default(),
            behaviour: Behaviour::default(),
            privacy: Privacy::default(),
            stream: Stream::default(),
            classify: Classify::default(),
            retention: Retention::default(),
        }
    }
}

impl Config {
    /// Where the lake is.
    pub(crate) fn lake_root(&self) -> String {
        if self.lake.is_empty() { self.data_dir.join("lake").display().to_string() } else { self.lake.clone() }
    }

    /// Where the link store is.
    pub(crate) fn link_store(&self) -> String {
        if self.links.url.is_empty() {
            self.data_dir.join("links.sqlite").display().to_string()
        } else {
            self.links.url.clone()
        }
    }

    /// The folder of the journals.
    pub(crate) fn journal_dir(&self) -> PathBuf {
        self.data_dir.join("journals")
    }

    /// Whether `listen` can be reached from this machine only.
    pub(crate) fn is_loopback(listen: SocketAddr) -> bool {
        listen.ip().is_loopback()
    }

    /// The file that holds the first operator token.
    pub(crate) fn admin_token_file(&self) -> PathBuf {
        self.data_dir.join("admin.token")
    }

    /// The default configuration file, taken when present.
    pub(crate) fn default_file() -> &'static Path {
        Path::new("./highwater.toml")
    }
}
