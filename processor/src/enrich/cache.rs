//! What is known of user agents: bounded, shared by all threads.
//!
//! Sixteen shards, each two generations: what is asked for moves into the young one, and when that is full it becomes
//! the old one, whose former content goes. So an agent in use stays, and memory is bounded by bytes whatever agents
//! come. Two threads that miss at once work the same thing out twice, which is harmless.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use schemas::Class;
use schemas::click::{AgentInfo, Verdict};

/// A power of two.
const SHARDS: usize = 16;
/// An entry's own size, beside its text: maps, reference counts, versions.
const ENTRY_BYTES: usize = 512;

/// What follows from an agent alone.
#[derive(Debug)]
pub(super) struct KnownAgent {
    /// `None` when there is none.
    pub(super) user_agent: Option<Arc<str>>,
    pub(super) info: Arc<AgentInfo>,
    /// Of any request but a HEAD.
    pub(super) verdict: Verdict,
    /// Of a HEAD.
    pub(super) head: Verdict,
    /// Whether a network may make a scanner of it; never of a HEAD.
    pub(super) is_ordinary: bool,
}

impl KnownAgent {
    fn is_of(&self, user_agent: &str) -> bool {
        self.user_agent.as_deref().unwrap_or("") == user_agent
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.user_agent.as_ref().map_or(0, |text| text.len())
    }
}

/// The keys are hashes already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Generation = HashMap<u64, Arc<KnownAgent>, BuildHasherDefault<AsIs>>;

#[derive(Debug, Default)]
struct Shard {
    young: Generation,
    young_bytes: usize,
    old: Generation,
}

impl Shard {
    fn put(&mut self, hash: u64, known: Arc<KnownAgent>, limit: usize) {
        if self.young_bytes + known.bytes() > limit {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += known.bytes();
        if let Some(before) = self.young.insert(hash, known) {
            self.young_bytes -= before.bytes();
        }
    }
}

/// The cache.
#[derive(Debug)]
pub(super) struct AgentCache {
    shards: [RwLock<Shard>; SHARDS],
    /// Bytes of one generation of one shard.
    limit: usize,
}

impl AgentCache {
    /// A cache of at most about `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self { shards: std::array::from_fn(|_| RwLock::default()), limit: bytes / SHARDS / 2 }
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        // the map uses the low bits
        &self.shards[(hash >> 60) as usize % SHARDS]
    }

    /// What is known of an agent. The text is compared: two agents may share a hash.
    pub(super) fn get(&self, hash: u64, user_agent: &str) -> Option<Arc<KnownAgent>> {
        let shard = self.shard(hash);
        let read = shard.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.young.get(&hash) {
            return known.is_of(user_agent).then(|| Arc::clone(known));
        }
        let known = Arc::clone(read.old.get(&hash).filter(|known| known.is_of(user_agent))?);
        drop(read);
        self.put(hash, &known);
        Some(known)
    }

    /// The class of requests of the agent with this hash, if one is known, and whether a network may make a scanner of it:
    /// what two agents of one hash are is not told apart.
    pub(super) fn class_of(&self, hash: u64, is_head: bool) -> Option<(Class, bool)> {
        let class = |known: &KnownAgent| match is_head {
            true => (known.head.class, false),
            false => (known.verdict.class, known.is_ordinary),
        };
        let read = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.young.get(&hash) {
            return Some(class(known));
        }
        let known = Arc::clone(read.old.get(&hash)?);
        drop(read);
        self.put(hash, &known);
        Some(class(&known))
    }

    /// Keeps what has been worked out.
    pub(super) fn put(&self, hash: u64, known: &Arc<KnownAgent>) {
        let mut write = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        write.put(hash, Arc::clone(known), self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::Device;

    fn known(user_agent: &str) -> Arc<KnownAgent> {
        let verdict = Verdict { class: Class::Human, agent: None, reason: "r".into(), rules_version: 1 };
        let info =
            AgentInfo { device: Device::Unknown, browser: None, browser_version: None, os: None, os_version: None };
        Arc::new(KnownAgent {
            user_agent: (!user_agent.is_empty()).then(|| user_agent.into()),
            info: Arc::new(info),
            verdict: verdict.clone(),
            head: verdict,
            is_ordinary: true,
        })
    }

    #[test]
    fn a_shared_hash_is_no_shared_agent() {
        let cache = AgentCache::new(1 << 20);
        cache.put(7, &known("a"));
        assert!(cache.get(7, "a").is_some());
        assert!(cache.get(7, "b").is_none());
        cache.put(7, &known("b"));
        assert!(cache.get(7, "b").is_some());
        cache.put(0, &known(""));
        assert!(cache.get(0, "").is_some());
    }

    #[test]
    fn a_class_is_known_by_the_hash_of_an_agent_that_was_seen() {
        let cache = AgentCache::new(64 * 1024);
        assert_eq!(cache.class_of(7, false), None);
        let mut agent = Arc::try_unwrap(known("a")).unwrap();
        agent.head.class = Class::Probe;
        cache.put(7, &Arc::new(agent));
        let (get, head) = (cache.class_of(7, false), cache.class_of(7, true));
        assert_eq!((get, head), (Some((Class::Human, true)), Some((Class::Probe, false))));
        // asked for, it stays
        for hash in 8..10_000u64 {
            cache.put(hash, &known(&format!("agent {hash}")));
            assert!(cache.class_of(7, false).is_some());
        }
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let cache = AgentCache::new(64 * 1024);
        cache.put(1, &known("used"));
        for hash in 2..10_000u64 {
            cache.put(hash, &known(&format!("agent {hash}")));
            assert!(cache.get(1, "used").is_some(), "lost after {hash}");
        }
        let shard = cache.shard(1).read().unwrap();
        assert!(shard.young_bytes <= cache.limit);
        assert!((shard.young.len() + shard.old.len()) * ENTRY_BYTES <= 2 * cache.limit);
        drop(shard);
        assert!(cache.get(2, "agent 2").is_none());
    }
}
