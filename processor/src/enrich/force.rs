//! The rules in force, and what they have made of user agents: both change together, so that no verdict outlives its rules.

use std::borrow::Cow;
use std::sync::Arc;

use schemas::click::Verdict;
use schemas::{Class, Method};

use super::agent;
use super::cache::{AgentCache, KnownAgent};
use crate::classify::{Classifier, Request};

/// The longest user agent that is kept, in bytes: as long as the wire format lets one be.
const MAX_AGENT_BYTES: usize = schemas::event::MAX_TEXT_BYTES;

/// Rules, and what follows from them.
#[derive(Debug)]
pub(super) struct Force {
    classifier: Arc<Classifier>,
    agents: AgentCache,
}

impl Force {
    /// With nothing known yet; what will be takes at most about `cache_bytes`.
    pub(super) fn new(classifier: Classifier, cache_bytes: usize) -> Self {
        Self { classifier: Arc::new(classifier), agents: AgentCache::new(cache_bytes) }
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
        let known = Arc::new(KnownAgent {
            user_agent: (!user_agent.is_empty()).then(|| user_agent.into()),
            info: Arc::new(agent::describe(user_agent, machine)),
            verdict,
            head,
        });
        self.agents.put(hash, &known);
        known
    }

    /// The verdict on a request, of whose agent this is known.
    pub(super) fn verdict<'k>(&self, known: &'k KnownAgent, request: &Request<'_>) -> Cow<'k, Verdict> {
        match (request.method, request.purpose.is_empty()) {
            (Some(Method::Head), _) => Cow::Borrowed(&known.head),
            (_, true) => Cow::Borrowed(&known.verdict),
            (_, false) => Cow::Owned(self.classifier.with_request(&known.verdict, request)),
        }
    }

    /// The class of a request without purpose headers, by the hash of its agent.
    pub(super) fn class_of(&self, agent_hash: u64, is_head: bool) -> Option<Class> {
        self.agents.class_of(agent_hash, is_head)
    }
}

/// An agent as it is judged and kept: a log's dash stands for none.
pub(super) fn shown_agent(user_agent: &str) -> &str {
    if user_agent == "-" { "" } else { schemas::event::cut(user_agent, MAX_AGENT_BYTES) }
}
