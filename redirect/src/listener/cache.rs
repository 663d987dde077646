//! The links of this process, kept for a few seconds.
//!
//! ```text
//! fresh(key) ── entry younger than its TTL ──────────────────────────────► answer, without a wait
//!    └─ load(key) ── one flight a link, however many ask ──► Lookup ──► entry, answer
//!            └─ store fails: an entry not older than Ttls::stale, else Unavailable
//! ```
//!
//! Invariants:
//! * An entry is as old as the request that had it loaded, so its age is never understated.
//! * Whoever asks after a change made in this process has returned gets the link as changed: changes are taken in
//!   before every look, a change drops the entry and makes a flight under way land nowhere.
//! * Nobody waits longer than [`CacheLimits::deadline`].
//!
//! `moka` was considered: it neither keeps an entry beyond its life for when the store fails, nor lets an invalidation
//! stop a load under way from being put, and both are promises here.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};
use tokio::sync::watch;
use tokio::time::timeout;

use super::flights::{Boarded, Flights, Ticket};
use super::found::Found;
use super::generations::{Generations, Key};
use super::lookup::Lookup;
use super::policy::Ttls;
use crate::links::Changed;

const SHARDS: usize = 16;
/// Loads under way at once.
pub(super) const MOST_FLIGHTS: usize = 8_192;
/// How long after a failed load a stale entry is answered without trying again.
const REST: Duration = Duration::from_secs(1);

/// What bounds the cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// The most links kept.
    pub entries: usize,
    /// How long a lookup may take.
    pub deadline: Duration,
    /// How long it may take when a stale entry could be answered instead.
    pub patience: Duration,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { entries: 100_000, deadline: Duration::from_secs(2), patience: Duration::from_millis(100) }
    }
}

/// The link store can't be asked, and nothing that it told is young enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unavailable;

type Landed = Result<Found, Unavailable>;

/// The cache. One a process, shared by its workers.
#[derive(Debug)]
pub(super) struct LinkCache {
    shards: Box<[RwLock<Generations<Entry>>]>,
    hasher: RandomState,
    /// Its lock is taken before a shard's where both are.
    flights: Arc<Flights<Landed>>,
    changes: Mutex<Receiver<Changed>>,
    changes_taken: AtomicU64,
    source: Arc<dyn Lookup>,
    domains: Vec<String>,
    ttls: Ttls,
    limits: CacheLimits,
    /// Where loads run: they must outlive the request, and the worker, that began them.
    runtime: Handle,
    failing: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    found: Found,
    loaded: Instant,
    /// Set by a failed load.
    rest_until: Option<Instant>,
}

impl LinkCache {
    /// An empty cache of `source`'s links on `domains`. Loads run on `runtime`.
    pub(super) fn new(
        source: Arc<dyn Lookup>,
        domains: Vec<String>,
        ttls: Ttls,
        limits: CacheLimits,
        runtime: Handle,
    ) -> Self {
        let shard = || RwLock::new(Generations::new(limits.entries.div_ceil(SHARDS)));
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
            flights: Arc::new(Flights::new(MOST_FLIGHTS)),
            // the number first: a change in between is then taken in once too often, not once too seldom
            changes_taken: AtomicU64::new(source.changes_sent()),
            changes: Mutex::new(source.changes()),
            source,
            domains,
            ttls,
            limits,
            runtime,
            failing: AtomicBool::new(false),
        }
    }

    /// What is known of a link, if it is young enough at `now`.
    pub(super) fn fresh(&self, key: &Key, now: Instant) -> Option<Found> {
        self.catch_up();
        let shard = self.read(key.as_bytes());
        let entry = shard.get(key.as_bytes())?;
        let ttl = if matches!(entry.found, Found::Missing) { self.ttls.negative } else { self.ttls.cache };
        (now.saturating_duration_since(entry.loaded) < ttl).then(|| entry.found.clone())
    }

    /// Has the link loaded, with all others that ask for it now. `now` is when the request came.
    pub(super) async fn load(self: &Arc<Self>, domain: u16, code: &str, key: &Key, now: Instant) -> Landed {
        let stale = self.stale(key, now);
        if let Some((found, Some(rest_until))) = &stale
            && now < *rest_until
        {
            return Ok(found.clone());
        }
        let patience = if stale.is_some() { self.limits.patience } else { self.limits.deadline };
        let landed = match self.board(domain, code, key, now) {
            Some(mut landed) => match timeout(patience, landed.wait_for(Option::is_some)).await {
                Ok(Ok(landed)) => landed.clone(),
                Ok(Err(_)) | Err(_) => None,
            },
            None => None,
        };
        match (landed, stale) {
            (Some(Ok(found)), _) | (_, Some((found, _))) => Ok(found),
            _ => Err(Unavailable),
        }
    }

    /// A link that may be answered when the store fails, and until when the store is to be left alone.
    fn stale(&self, key: &Key, now: Instant) -> Option<(Found, Option<Instant>)> {
        let shard = self.read(key.as_bytes());
        let entry = shard.get(key.as_bytes())?;
        let answerable =
            !matches!(entry.found, Found::Missing) && now.saturating_duration_since(entry.loaded) < self.ttls.stale();
        answerable.then(|| (entry.found.clone(), entry.rest_until))
    }

    /// The flight of this link, begun if there is none; `None` when there are too many.
    fn board(
        self: &Arc<Self>,
        domain: u16,
        code: &str,
        key: &Key,
        now: Instant,
    ) -> Option<watch::Receiver<Option<Landed>>> {
        match self.flights.board(key.as_bytes()) {
            Boarded::Joined(landed) => Some(landed),
            Boarded::Begun(ticket, landed) => {
                let domain = self.domains.get(usize::from(domain))?.clone();
                self.runtime.spawn(Arc::clone(self).fly(ticket, domain, code.to_owned(), now));
                Some(landed)
            }
            Boarded::Full => None,
        }
    }

    async fn fly(self: Arc<Self>, ticket: Ticket<Landed>, domain: String, code: String, now: Instant) {
        let landed = self.ask(&domain, &code).await;
        let key: Box<[u8]> = ticket.key().into();
        ticket.land(landed, |landed| {
            let mut shard = self.write(&key);
            match landed {
                Ok(found) => shard.put(&key, Entry { found: found.clone(), loaded: now, rest_until: None }),
                Err(Unavailable) => {
                    if let Some(entry) = shard.get_mut(&key) {
                        entry.rest_until = Some(now + REST);
                    }
                }
            }
        });
    }

    /// Asks the store, and says in the log when that begins and ceases to fail.
    async fn ask(&self, domain: &str, code: &str) -> Landed {
        let failure = match timeout(self.limits.deadline, self.source.lookup(domain, code)).await {
            Ok(Ok(target)) => {
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("the link store answers again");
                }
                return Ok(Found::new(target));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {:?}", self.limits.deadline),
        };
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = failure,
                "the link store fails; links are answered from memory while they are young"
            );
        }
        Err(Unavailable)
    }

    /// Takes in the changes made in this process. Costs one comparison when there are none.
    fn catch_up(&self) {
        if self.changes_taken.load(Ordering::Acquire) != self.source.changes_sent() {
            self.take_changes();
        }
    }

    #[cold]
    fn take_changes(&self) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = self.source.changes_sent();
        loop {
            match changes.try_recv() {
                Ok(changed) => self.forget(&changed),
                Err(TryRecvError::Lagged(_)) => self.forget_all(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.changes_taken.store(sent, Ordering::Release);
    }

    fn forget(&self, changed: &Changed) {
        let domain = self.domains.iter().position(|domain| *domain == changed.domain);
        let domain = domain.and_then(|domain| u16::try_from(domain).ok());
        if let Some(key) = domain.and_then(|domain| Key::new(domain, &changed.code)) {
            self.flights.call_off(key.as_bytes(), || self.write(key.as_bytes()).remove(key.as_bytes()));
        }
    }

    fn forget_all(&self) {
        self.flights.call_off_all(|| {
            for shard in &self.shards {
                shard.write().unwrap_or_else(PoisonError::into_inner).clear();
            }
        });
    }

    fn read(&self, key: &[u8]) -> RwLockReadGuard<'_, Generations<Entry>> {
        self.shard(key).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: &[u8]) -> RwLockWriteGuard<'_, Generations<Entry>> {
        self.shard(key).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, key: &[u8]) -> &RwLock<Generations<Entry>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}
