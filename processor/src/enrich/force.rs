//! The rules in force, and what they have made of user agents: both change together, so that no verdict outlives its rules.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use schemas::click::Verdict;
use schemas::{Class, Method};

use super::agent;
use super::cache::{AgentCache, KnownAgent};
use super::facts::AgentKnown;
use crate::classify::{Classifier, Mark, Request};
use crate::networks::Networks;

/// The longest user agent that is kept, in bytes: as long as the wire format lets one be.
const MAX_AGENT_BYTES: usize = schemas::event::MAX_TEXT_BYTES;

/// What requests are judged by.
#[derive(Debug)]
pub struct Rules {
    /// Agents, methods and headers.
    pub classifier: Classifier,
    /// Where requests come from.
    pub networks: Networks,
}

impl From<Classifier> for Rules {
    /// Rules that look at no address.
    fn from(classifier: Classifier) -> Self {
        Self { classifier, networks: Networks::default() }
    }
}

/// Rules, and what follows from them.
#[derive(Debug)]
pub(super) struct Force {
    classifier: Arc<Classifier>,
    networks: Arc<Networks>,
    agents: AgentCache,
}

impl Force {
    /// With nothing known yet; what will be takes at most about `cache_bytes`.
    pub(super) fn new(rules: Rules, cache_bytes: usize) -> Self {
        let Rules { classifier, networks } = rules;
        let (classifier, networks) = (Arc::new(classifier), Arc::new(networks));
        Self { classifier, networks, agents: AgentCache::new(cache_bytes) }
    }

    /// By other rules, and the same networks.
    pub(super) fn with_classifier(&self, classifier: Classifier, cache_bytes: usize) -> Self {
        let (classifier, networks) = (Arc::new(classifier), Arc::clone(&self.networks));
        Self { classifier, networks, agents: AgentCache::new(cache_bytes) }
    }

    /// By the same rules, and other networks.
    pub(super) fn with_networks(&self, networks: Networks, cache_bytes: usize) -> Self {
        let (classifier, networks) = (Arc::clone(&self.classifier), Arc::new(networks));
        Self { classifier, networks, agents: AgentCache::new(cache_bytes) }
    }

    pub(super) fn classifier(&self) -> &Arc<Classifier> {
        &self.classifier
    }

    /// What is known of an agent, from the cache or worked out.
    pub(super) fn known(&self, user_agent: &str) -> Arc<KnownAgent> {
        let user_agent = shown_agent(user_agent);
        let hash = schemas::event::agent_hash(user_agent);
        if let Some(known) = self.agents.get(hash, user_agent) {
            return known;
        }
        let verdict = self.classifier.agent(user_agent);
        let request = Request { method: Some(Method::Head), user_agent, purpose: "" };
        let head = self.classifier.with_request(&verdict, &request);
        let machine = !matches!(verdict.class, Class::Human | Class::Unknown);
        let is_ordinary = self.classifier.is_ordinary(&verdict);
        let known = Arc::new(KnownAgent {
            user_agent: (!user_agent.is_empty()).then(|| user_agent.into()),
            info: Arc::new(agent::describe(user_agent, machine)),
            verdict,
            head,
            is_ordinary,
        });
        self.agents.put(hash, &known);
        known
    }

    /// The verdict on a request, of whose agent this is known.
    pub(super) fn verdict<'k>(
        &self,
        known: &'k KnownAgent,
        request: &Request<'_>,
        address: Option<IpAddr>,
    ) -> Cow<'k, Verdict> {
        let verdict = match (request.method, request.purpose.is_empty()) {
            (Some(Method::Head), _) => Cow::Borrowed(&known.head),
            (_, true) => Cow::Borrowed(&known.verdict),
            (_, false) => Cow::Owned(self.classifier.with_request(&known.verdict, request)),
        };
        let mark = |address| mark(&self.networks, address, request.user_agent, verdict.agent.as_deref());
        match address.and_then(mark) {
            Some(mark) => Cow::Owned(self.classifier.with_mark(&verdict, mark)),
            None => verdict,
        }
    }

    /// The class of a request without purpose headers, by the hash of its agent; its address is asked for only where it
    /// could make another of it.
    pub(super) fn class_of(
        &self,
        agent_hash: u64,
        is_head: bool,
        address: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<Class> {
        let (class, is_ordinary) = self.agents.class_of(agent_hash, is_head)?;
        let is_scanner = is_ordinary
            && self.networks.has_scanners()
            && address().is_some_and(|address| matches!(self.networks.mark(address, None), Some(Mark::Scanner(_))));
        Some(if is_scanner { Class::Scanner } else { class })
    }

    /// Whether an address is one behind which there are many people.
    pub(super) fn is_peoples(&self, address: IpAddr) -> bool {
        self.networks.is_peoples(address)
    }

    /// Whether any networks are hosting ones.
    pub(super) fn has_hosting(&self) -> bool {
        self.networks.has_hosting()
    }

    /// The list of hosting networks that an address is in.
    pub(super) fn hosting(&self, address: IpAddr) -> Option<&str> {
        self.networks.hosting(address)
    }
}

/// What an address says of a request with this user agent, which rules have given this name. Where a CDN has put its own name
/// there it hides who was, who may be told later: that a scanner was there has to outlast that, and that it was the CDN's
/// own address doesn't.
pub fn mark<'n>(networks: &'n Networks, address: IpAddr, user_agent: &str, agent: Option<&str>) -> Option<Mark<'n>> {
    let is_hidden = AgentKnown::of(Some(user_agent)) == AgentKnown::Hidden;
    let scanner = if is_hidden { networks.mark(address, None) } else { None };
    scanner.or_else(|| networks.mark(address, agent))
}

/// An agent as it is judged and kept: a log's dash stands for none.
pub(super) fn shown_agent(user_agent: &str) -> &str {
    if user_agent == "-" { "" } else { schemas::event::cut(user_agent, MAX_AGENT_BYTES) }
}
