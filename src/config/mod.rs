//! Configuration: one struct a section, as `interface` names them. Values come from defaults, then the TOML file,
//! then the environment (`HIGHWATER_SECTION__KEY`), then flags; [`fn@load`] merges them, [`check`] judges them.

mod behaviour;
mod check;
mod classify;
mod edge_logs;
mod fluvio;
mod kubernetes;
mod load;
mod partitions;
mod privacy;
mod retention;
mod units;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub(crate) use behaviour::Behaviour;
pub(crate) use check::problems;
pub(crate) use classify::Classify;
pub(crate) use load::{Loaded, load, near};
pub(crate) use partitions::Partitions;
pub(crate) use privacy::{Geo, Privacy};
pub(crate) use retention::Retention;
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

/// `[redirect]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Redirect {
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    /// Host names served; the first is the default for new links and for logs without a host.
    pub(crate) domains: Vec<String>,
    /// Peers whose forwarding headers are believed.
    #[serde(deserialize_with = "units::nets")]
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Refuse every other peer.
    pub(crate) edge_only: bool,
    /// Threads; 0 = one a core.
    pub(crate) workers: usize,
    /// How long the edge may store a redirect.
    pub(crate) s_maxage: Span,
    /// How long a browser may.
    pub(crate) max_age: Span,
    /// How long a node may.
    pub(crate) cache_ttl: Span,
    /// How long a node remembers that a code is unknown.
    pub(crate) negative_ttl: Span,
    /// Within this a takedown is in force everywhere.
    pub(crate) takedown_limit: Span,
}

/// `[edge]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Edge {
    /// Which CDN is in front.
    pub(crate) provider: String,
    /// How its request ids are judged.
    pub(crate) id: IdMode,
    /// Header with its request id; empty: the provider's.
    pub(crate) request_id_header: String,
    /// Header with the client's address.
    pub(crate) client_ip_header: String,
    /// Header with the client's country; empty: the provider's.
    pub(crate) country_header: String,
    /// Header with its region; empty: the provider's.
    pub(crate) region_header: String,
    /// Header with its city; empty: the provider's.
    pub(crate) city_header: String,
    /// How far clocks may differ.
    pub(crate) skew: Span,
    /// How long an edge may ask again under one id.
    pub(crate) repeat: Span,
    /// How far two records of one id may be apart.
    pub(crate) max_skew: Span,
    /// How long an origin-class line waits for its event.
    pub(crate) recover_after: Span,
    /// How long logs may take until numbers are final.
    pub(crate) settle: Span,
}

/// How request ids of a provider are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdMode {
    /// As is known of the provider.
    Auto,
    /// The union by id decides.
    Trusted,
    /// The cache status decides.
    StatusOnly,
}

/// `[edge_logs]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EdgeLogs {
    /// Folders and prefixes to watch.
    pub(crate) watch: Vec<String>,
    /// How often.
    pub(crate) poll: Span,
    /// The largest upload.
    pub(crate) max_upload: Size,
    /// Uploads of one workspace at once.
    pub(crate) max_uploads: usize,
    /// The longest line.
    pub(crate) max_line: Size,
    /// The most bytes that a log may unpack to.
    pub(crate) max_unpacked: Size,
    /// The most bytes that it may unpack to for each of its own.
    pub(crate) max_ratio: u64,
    /// How long an upload's bytes are kept once it has been taken in.
    pub(crate) keep_staged: Span,
    /// CloudFront real-time logs.
    pub(crate) cloudfront_realtime: FieldList,
    /// nginx logs.
    pub(crate) nginx: NginxLogs,
    /// Fastly logs.
    pub(crate) fastly: FieldMap,
    /// Akamai logs.
    pub(crate) akamai: AkamaiLogs,
    /// HAProxy logs.
    pub(crate) haproxy: HaproxyLogs,
}

/// A list of field names, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FieldList {
    /// The names.
    pub(crate) fields: Vec<String>,
}

/// Field names of ours by those of a log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FieldMap {
    /// Our name to theirs.
    pub(crate) fields: std::collections::BTreeMap<String, String>,
}

/// Akamai's streams.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AkamaiLogs {
    /// The names of a structured stream's fields, in order.
    pub(crate) fields: Vec<String>,
    /// The field that holds the id which the origin sees too; empty: none does.
    pub(crate) id_field: String,
}

/// HAProxy's logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HaproxyLogs {
    /// The zone of the clock that its dates are of.
    pub(crate) timezone: String,
    /// The captured request headers, in order; empty: user-agent, referer.
    pub(crate) captures: Vec<String>,
}

/// nginx's log format.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NginxLogs {
    /// The text of `log_format`.
    pub(crate) log_format: String,
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

/// `[journal]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Journal {
    /// How often journals are synced to disk.
    pub(crate) sync: Span,
    /// Disk budget of all journals of a node.
    pub(crate) max_bytes: Size,
    /// The part of it that is kept for billed clicks.
    pub(crate) reserve: Size,
    /// A journal silent for so long with unsent events is given up.
    pub(crate) retire_after: Span,
}

/// `[process]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Process {
    /// The oldest row of a commit is at most so old.
    pub(crate) commit_after: Span,
    /// Memory of the window of ids.
    pub(crate) window_bytes: Size,
    /// Clicks that were read and make a commit at once; at twice as many reading stops.
    pub(crate) buffer_bytes: Size,
    /// The lag that is promised.
    pub(crate) lag_limit: Span,
    /// Which partitions of a topic this process reads.
    pub(crate) partitions: Partitions,
    /// How long a process that shares a topic is waited for without a word.
    pub(crate) lease: Span,
}

/// `[stream]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Stream {
    /// Which backend.
    pub(crate) backend: Backend,
    /// Fluvio's settings.
    pub(crate) fluvio: Fluvio,
}

/// The stream's backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Backend {
    /// The journals themselves.
    #[default]
    Embedded,
    /// A Fluvio topic.
    Fluvio,
}

/// `[stream.fluvio]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fluvio {
    /// The cluster's address.
    pub(crate) endpoint: String,
    /// The topic.
    pub(crate) topic: String,
    /// Its partitions.
    pub(crate) partitions: u32,
    /// Copies of each partition.
    pub(crate) replication: u32,
    /// How long it keeps records.
    pub(crate) retention: Span,
    /// The most that a partition takes on a broker's disk.
    pub(crate) partition_bytes: Size,
    /// How batches are compressed.
    pub(crate) compression: Compression,
    /// Whether connections are encrypted.
    pub(crate) tls: Tls,
    /// The cluster's domain: its brokers are names below it.
    pub(crate) tls_domain: String,
    /// Our private key, a PEM file.
    pub(crate) tls_key: PathBuf,
    /// Our certificate, a PEM file.
    pub(crate) tls_cert: PathBuf,
    /// Who signs the brokers' certificates, a PEM file.
    pub(crate) tls_ca: PathBuf,
    /// Whether brokers are reached by their local addresses.
    pub(crate) local_addresses: bool,
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Compression {
    /// The least work.
    #[default]
    Lz4,
    /// The least bytes.
    Zstd,
    /// Snappy.
    Snappy,
    /// gzip.
    Gzip,
}

/// Whether and how connections to the cluster are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tls {
    /// Not at all.
    #[default]
    Off,
    /// Encrypted, whoever the brokers are.
    Anonymous,
    /// Both sides show certificates.
    Verified,
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

impl Default for HaproxyLogs {
    fn default() -> Self {
        Self { timezone: "UTC".into(), captures: Vec::new() }
    }
}

impl Default for Redirect {
    fn default() -> Self {
        Self {
            listen: loopback(8080),
            domains: vec!["localhost:8080".into()],
            trusted_proxies: ["127.0.0.0/8", "::1/128"].iter().filter_map(|net| net.parse().ok()).collect(),
            edge_only: false,
            workers: 0,
            s_maxage: seconds(10),
            max_age: seconds(0),
            cache_ttl: seconds(5),
            negative_ttl: seconds(2),
            takedown_limit: seconds(30),
        }
    }
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            provider: "none".into(),
            id: IdMode::Auto,
            request_id_header: String::new(),
            client_ip_header: "x-forwarded-for".into(),
            country_header: String::new(),
            region_header: String::new(),
            city_header: String::new(),
            skew: seconds(5),
            repeat: seconds(60),
            max_skew: seconds(600),
            recover_after: seconds(900),
            settle: seconds(48 * 3600),
        }
    }
}

impl Default for EdgeLogs {
    fn default() -> Self {
        Self {
            watch: Vec::new(),
            poll: seconds(10),
            max_upload: Size(1 << 30),
            max_uploads: 4,
            max_line: Size(64 << 10),
            max_unpacked: Size(1 << 40),
            max_ratio: 500,
            keep_staged: seconds(7 * 24 * 3600),
            cloudfront_realtime: FieldList::default(),
            nginx: NginxLogs::default(),
            fastly: FieldMap::default(),
            akamai: AkamaiLogs::default(),
            haproxy: HaproxyLogs::default(),
        }
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            sync: Span(Duration::from_millis(50)),
            max_bytes: Size(10 << 30),
            reserve: Size(1 << 30),
            retire_after: seconds(6 * 3600),
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self {
            commit_after: Span(Duration::from_millis(400)),
            window_bytes: Size(64 << 20),
            buffer_bytes: Size(48 << 20),
            lag_limit: seconds(300),
            partitions: Partitions::Shared,
            lease: seconds(15),
        }
    }
}

impl Default for Fluvio {
    fn default() -> Self {
        Self {
            endpoint: "127.0.0.1:9003".into(),
            topic: "clicks".into(),
            partitions: 4,
            replication: 1,
            retention: seconds(7 * 24 * 3600),
            partition_bytes: Size(100 << 30),
            compression: Compression::Lz4,
            tls: Tls::Off,
            tls_domain: String::new(),
            tls_key: PathBuf::new(),
            tls_cert: PathBuf::new(),
            tls_ca: PathBuf::new(),
            local_addresses: false,
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
