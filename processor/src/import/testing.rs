//! Stand-ins for the link store, and an enricher.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::enrich::{EnrichConfig, Enricher};
use async_trait::async_trait;
use ingest::ports::{JournalState, Landed, LinkDirectory, PortError, RegisteredJournal, Registry, VisitorKeys};
use schemas::visitor::VisitorKey;
use schemas::{Analytics, JournalId, LinkHistory, LinkId, LinkStatus, Revision, UtcMicros};

/// The enricher that tests share, as making one takes a moment.
pub(crate) fn enricher() -> Arc<Enricher> {
    static SHARED: OnceLock<Arc<Enricher>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(Enricher::new(&EnrichConfig::default()).unwrap())))
}

/// Links by domain and code.
#[derive(Debug, Default)]
pub(crate) struct Directory(HashMap<(String, String), LinkHistory>);

impl Directory {
    /// With one more link; each revision has its time and promise.
    pub(crate) fn with(mut self, workspace: &str, domain: &str, code: &str, revisions: &[(i64, Analytics)]) -> Self {
        let revisions = revisions.iter().zip(1..).map(|((at, analytics), revision)| Revision {
            revision,
            effective_at: UtcMicros(*at),
            destination: format!("https://example.com/{code}/{revision}"),
            analytics: *analytics,
            status: LinkStatus::Active,
        });
        let history = LinkHistory {
            link_id: LinkId::new(),
            workspace: workspace.to_owned(),
            domain: domain.to_owned(),
            code: code.to_owned(),
            revisions: revisions.collect(),
        };
        self.0.insert((domain.to_owned(), code.to_owned()), history);
        self
    }
}

impl Directory {
    /// The identity of a link that is there.
    pub(crate) fn link_id(&self, domain: &str, code: &str) -> LinkId {
        self.0[&(domain.to_owned(), code.to_owned())].link_id
    }
}

#[async_trait]
impl LinkDirectory for Directory {
    async fn histories(&self, keys: &[(String, String)]) -> Result<Vec<Option<LinkHistory>>, PortError> {
        Ok(keys.iter().map(|key| self.0.get(key).cloned()).collect())
    }
}

/// Every day's key is its number.
#[derive(Debug)]
pub(crate) struct Keys;

#[async_trait]
impl VisitorKeys for Keys {
    async fn key_of(&self, day: i32) -> Result<VisitorKey, PortError> {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&day.to_le_bytes());
        Ok(VisitorKey(key))
    }
}

/// A registry whose journals a test sets.
#[derive(Debug, Default)]
pub(crate) struct Journals {
    registered: Mutex<Vec<RegisteredJournal>>,
    final_through: Mutex<Option<UtcMicros>>,
}

impl Journals {
    /// With one open journal that the lake holds up to `through`.
    pub(crate) fn open(registered_at: UtcMicros, through: UtcMicros) -> Self {
        let journals = Self::default();
        journals.set(registered_at, through);
        journals
    }

    /// Sets the one open journal.
    pub(crate) fn set(&self, registered_at: UtcMicros, through: UtcMicros) {
        let journal = RegisteredJournal {
            id: JournalId::new(),
            node: "node".into(),
            registered_at,
            state: JournalState::Open,
            through,
            committed: 0,
            forwarded: false,
        };
        *self.registered.lock().unwrap() = vec![journal];
    }

    /// Sets up to where numbers are final.
    pub(crate) fn set_final(&self, through: UtcMicros) {
        *self.final_through.lock().unwrap() = Some(through);
    }
}

#[async_trait]
impl Registry for Journals {
    async fn register(&self, _: JournalId, _: &str, now: UtcMicros) -> Result<UtcMicros, PortError> {
        Ok(now)
    }

    async fn journals(&self) -> Result<Vec<RegisteredJournal>, PortError> {
        Ok(self.registered.lock().unwrap().clone())
    }

    async fn publish(&self, _: &[Landed], now: UtcMicros) -> Result<UtcMicros, PortError> {
        self.complete_through(now).await
    }

    async fn set_state(&self, _: JournalId, _: JournalState) -> Result<(), PortError> {
        Ok(())
    }

    async fn complete_through(&self, now: UtcMicros) -> Result<UtcMicros, PortError> {
        Ok(self.registered.lock().unwrap().iter().map(|journal| journal.through).min().unwrap_or(now))
    }

    async fn final_through(&self) -> Result<Option<UtcMicros>, PortError> {
        Ok(*self.final_through.lock().unwrap())
    }
}
