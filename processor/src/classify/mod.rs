//! Who made a request: people, or which sort of machine (facts: every verdict says which rule made it).
//!
//! ```text
//! method ─► purpose headers ─► token (rules.toml, earlier group first) ─► shape ─► network ─► otherwise a person
//!                                                                           ▲
//!                              in-app browsers and device names are people's ┘ guard
//! ```
//!
//! The rules are data ([`RULES`], and an operator's file over them), checked and compiled once into one multi-pattern
//! matcher; an agent is read in one pass. What an agent alone says ([`Classifier::agent`]) doesn't depend on the request, so callers cache it per agent
//! and add the request's method and headers with [`Classifier::with_request`].
//!
//! Invariants: a `HEAD` is never human; nothing is dropped, only named; a verdict depends on the request and the
//! rules' version alone, so that the same record gets the same class on the hot path and from a log.
//! Rules that can't be read or contradict themselves are refused as a whole, with every fault named.

mod behaviour;
mod check;
mod evaluate;
mod header;
mod mark;
mod matcher;
mod ordinary;
mod overlay;
mod rules;
mod shape;
mod text;
mod token;

use std::sync::Arc;

use schemas::click::Verdict;
use schemas::{Class, Method};

pub(crate) use behaviour::BEHAVIOUR;
pub use behaviour::Sign;
pub use evaluate::{CategoryCount, EvaluateError, Evaluation, HumanCount, MachineCount, WrongLine, evaluate};
pub use rules::RulesError;

pub use mark::Mark;
pub(crate) use mark::parts;

use header::CompiledHeader;
use matcher::Matcher;
use overlay::{Overlay, VERSIONS};
use rules::RulesFile;
use shape::CompiledShape;

/// The rules that this release carries.
pub const RULES: &str = include_str!("../../rules.toml");

/// What of a request says who made it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// `None` where a log has none.
    pub method: Option<Method>,
    /// `User-Agent`; empty when missing.
    pub user_agent: &'a str,
    /// Purpose headers as `name: value` lines; empty when none.
    pub purpose: &'a str,
}

/// What a method says of a client without a better name.
#[derive(Debug)]
struct CompiledMethod {
    method: Method,
    class: Class,
    reason: Arc<str>,
}

/// Compiled rules. Cheap to share: read only.
#[derive(Debug)]
pub struct Classifier {
    version: i32,
    matcher: Matcher,
    shapes: Vec<CompiledShape>,
    headers: Vec<CompiledHeader>,
    methods: Vec<CompiledMethod>,
    person: Arc<str>,
    app: Arc<str>,
}

impl Classifier {
    /// The rules that this release carries.
    ///
    /// # Errors
    /// When they are wrong, which this crate's tests rule out.
    pub fn builtin() -> Result<Self, RulesError> {
        let mut file = RulesFile::read(RULES)?;
        file.version *= VERSIONS.end;
        Self::compile(&file)
    }

    /// Those rules, and over them an operator's, from the text of a file.
    ///
    /// # Errors
    /// When it can't be read or has faults; all of them are named.
    pub fn with_operator(text: &str) -> Result<Self, RulesError> {
        Self::compile(&Overlay::over(text, RulesFile::read(RULES)?)?)
    }

    fn compile(file: &RulesFile) -> Result<Self, RulesError> {
        let methods = file.method.iter().map(|rule| CompiledMethod {
            method: rule.method,
            class: rule.class,
            reason: rule.id.as_str().into(),
        });
        Ok(Self {
            version: file.version,
            matcher: Matcher::new(file)?,
            shapes: file.shape.iter().map(CompiledShape::new).collect(),
            headers: file.header.iter().map(CompiledHeader::new).collect(),
            methods: methods.collect(),
            person: "person".into(),
            app: "person/app".into(),
        })
    }

    /// The version of the rules: a thousand times the release's, and that of an operator's file, if there is one.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Judges a request.
    pub fn judge(&self, request: &Request<'_>) -> Verdict {
        self.with_request(&self.agent(request.user_agent), request)
    }

    /// What an agent alone says.
    pub fn agent(&self, user_agent: &str) -> Verdict {
        let agent = user_agent.trim_matches(|c: char| c.is_ascii_whitespace() || c == '"' || c == '\'');
        let found = self.matcher.scan(agent);
        if let Some(rule) = self.matcher.decide(&found) {
            return self.verdict(rule.class, Some(Arc::clone(&rule.agent)), &rule.reason);
        }
        for (place, shape) in self.shapes.iter().enumerate() {
            if let Some(name) = shape.holds(place as u16, agent, &found) {
                return self.verdict(shape.class, name, &shape.reason);
            }
        }
        self.verdict(Class::Human, None, if found.apps.is_empty() { &self.person } else { &self.app })
    }

    /// What the request adds to what its agent says: a method that people don't use, a fetch ahead of a click.
    pub fn with_request(&self, agent: &Verdict, request: &Request<'_>) -> Verdict {
        if let Some(rule) = self.methods.iter().find(|rule| Some(rule.method) == request.method) {
            return match agent.class {
                Class::Human | Class::Unknown => self.verdict(rule.class, None, &rule.reason),
                _ => agent.clone(),
            };
        }
        if !request.purpose.is_empty()
            && let Some(rule) = self.headers.iter().find(|rule| rule.holds(request.purpose, request.user_agent))
        {
            return self.verdict(rule.class, Some(Arc::clone(&rule.agent)), &rule.reason);
        }
        agent.clone()
    }

    /// Names that rules give to agents.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.matcher.agents().chain(self.headers.iter().map(|header| &*header.agent))
    }

    /// The verdict of the header's rule that gives this reason, whatever a network has added to it; `None` when no header's
    /// does.
    pub fn by_header(&self, reason: &str) -> Option<Verdict> {
        let (reason, _) = parts(reason);
        let rule = self.headers.iter().find(|rule| *rule.reason == *reason)?;
        Some(self.verdict(rule.class, Some(Arc::clone(&rule.agent)), &rule.reason))
    }

    fn verdict(&self, class: Class, agent: Option<Arc<str>>, reason: &Arc<str>) -> Verdict {
        Verdict { class, agent, reason: Arc::clone(reason), rules_version: self.version }
    }
}

#[cfg(test)]
mod tests;
