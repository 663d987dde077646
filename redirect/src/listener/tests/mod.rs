//! The listener as its peers and its journals see it, on a real socket.

mod answers;
mod cache;
mod client;
mod connections;
mod events;
mod scripted;

use std::net::SocketAddr;
use std::sync::Arc;

use ingest::journal::{Journal, JournalConfig, JournalPartition, Journals, WorkerJournal};
use ingest::stream::{Body, Partition, Record};
use schemas::{Analytics, Link, LinkStatus, UtcMicros};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::lookup::Lookup;
use super::{Listener, ListenerConfig, ListenerError, ListenerMetrics};
use crate::links::{Change, Domains, LinkStore, NewLink, Which};
use client::{Client, Reply};

/// The domain that links of these tests are on.
const DOMAIN: &str = "sho.rt";

/// A running listener with its link store and journal.
struct Rig {
    store: LinkStore,
    address: SocketAddr,
    journal: Journal,
    metrics: ListenerMetrics,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ListenerError>>,
    _folder: TempDir,
}

fn domains() -> Domains {
    Domains::new(&[DOMAIN, "second.example"]).unwrap()
}

impl Rig {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With a configuration changed from one that trusts nobody and knows no edge.
    async fn with(change: impl FnOnce(&mut ListenerConfig)) -> Self {
        Self::build(change, None, JournalConfig { max_bytes: 16 << 20, reserve: 1 << 20, ..JournalConfig::default() })
            .await
    }

    /// With another source of links.
    async fn with_lookup(lookup: Arc<dyn Lookup>, change: impl FnOnce(&mut ListenerConfig)) -> Self {
        Self::build(change, Some(lookup), JournalConfig { reserve: 0, ..JournalConfig::default() }).await
    }

    async fn build(
        change: impl FnOnce(&mut ListenerConfig),
        lookup: Option<Arc<dyn Lookup>>,
        journals: JournalConfig,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links.db");
        let store = LinkStore::open(path.to_str().unwrap(), domains()).await.unwrap();
        let journals = Journals::open(&folder.path().join("journals"), journals).unwrap();
        let journal = journals.open_journal(schemas::JournalId::new(), UtcMicros(0), 0).unwrap();
        let mut config = ListenerConfig::new("127.0.0.1:0".parse().unwrap(), domains());
        change(&mut config);
        let metrics = ListenerMetrics::default();
        let lookup = lookup.unwrap_or_else(|| Arc::new(store.clone()));
        let keys = Arc::new(store.clone());
        let listener =
            Listener::with_ports(config, lookup, keys, vec![WorkerJournal::new(journal.clone())], metrics.clone())
                .unwrap();
        let address = listener.local_addr();
        let stop = CancellationToken::new();
        let running = tokio::spawn(listener.run(stop.clone()));
        Self { store, address, journal, metrics, stop, running, _folder: folder }
    }

    async fn link(&self, code: &str, analytics: Analytics) -> Link {
        let mut link = NewLink::to("https://example.com/landing?a=b");
        link.code = Some(code.to_owned());
        link.analytics = analytics;
        self.store.create(link, UtcMicros::now()).await.unwrap()
    }

    async fn change(&self, code: &str, change: Change) {
        let which = Which { workspace: None, domain: None, code: code.to_owned() };
        self.store.change(&which, &change, UtcMicros::now()).await.unwrap();
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// One request on a connection of its own; `head` without the line that ends it.
    async fn ask(&self, head: &str) -> Reply {
        self.client().await.ask(head).await
    }

    /// `GET path` for the tests' domain.
    async fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {DOMAIN}\r\n")).await
    }

    /// All events in the journal, as bytes.
    async fn events(&self) -> Vec<bytes::Bytes> {
        self.journal.sync().unwrap();
        let mut partition = JournalPartition::new(&self.journal);
        let end = partition.end().await.unwrap();
        let mut records: Vec<Record> = Vec::new();
        while (records.len() as u64) < end {
            records.extend(partition.read(records.len() as u64, 1 << 20).await.unwrap());
        }
        let click = |record: Record| match record.body {
            Body::Click(bytes) => Some(bytes),
            _ => None,
        };
        records.into_iter().filter_map(click).collect()
    }

    /// The value of a metric, by its name and labels as shown.
    fn metric(&self, name: &str) -> f64 {
        let mut registry = prometheus_client::registry::Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    /// Stops it, and waits until it has.
    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }
}

/// A target as a store gives it.
fn target(analytics: Analytics) -> crate::links::Target {
    crate::links::Target {
        link_id: schemas::LinkId::new(),
        workspace: "default".into(),
        revision: 1,
        destination: "https://example.com/".into(),
        analytics,
        status: LinkStatus::Active,
        reason: None,
    }
}
