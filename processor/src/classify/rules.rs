//! The rules file as written. What it must hold beyond its form is checked in [`super::check`].

use std::collections::BTreeMap;

use schemas::{Class, Method};
use serde::Deserialize;

/// Why a rules file is not taken.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Not TOML, or not of the expected form: unknown key, unknown class, wrong type.
    #[error("rules are not readable: {0}")]
    Form(#[from] toml::de::Error),
    /// Readable, but wrong; one line a fault.
    #[error("rules are wrong: {}", .0.join("; "))]
    Faults(Vec<String>),
    /// The tokens can't be built into one matcher.
    #[error("tokens can't be compiled: {0}")]
    Matcher(#[from] aho_corasick::BuildError),
}

/// A rules file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RulesFile {
    /// Stored with every verdict; raised with every change of meaning.
    pub(super) version: i32,
    /// Words that alone prove nothing: no token may be one of them.
    pub(super) bare_words: Vec<String>,
    /// What people's browsers look like.
    pub(super) people: People,
    /// What a method says.
    #[serde(default)]
    pub(super) method: Vec<MethodRule>,
    /// What a request's purpose headers say.
    #[serde(default)]
    pub(super) header: Vec<HeaderRule>,
    /// Agents by token; an earlier group goes before a later one.
    #[serde(default)]
    pub(super) group: Vec<Group>,
    /// Agents by shape; the first that holds decides.
    #[serde(default)]
    pub(super) shape: Vec<Shape>,
}

/// What people's browsers look like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct People {
    /// Marks of an engine that renders pages.
    pub(super) engines: TokenList,
    /// Browsers of people that don't call themselves `Mozilla` or `Opera`.
    pub(super) browsers: TokenList,
    /// Apps whose built-in browser is a person's.
    pub(super) apps: TokenList,
    /// Addresses that browsers of people carry in their names.
    pub(super) sites: TokenList,
}

/// Tokens and why they are in the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenList {
    /// The reason, for readers.
    pub(super) why: String,
    /// See `rules.toml` for the marks that a token may carry.
    pub(super) tokens: Vec<String>,
}

/// What a method says of a client that its agent would call a person.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MethodRule {
    pub(super) id: String,
    pub(super) method: Method,
    pub(super) class: Class,
    pub(super) why: String,
}

/// What a header says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderRule {
    pub(super) id: String,
    /// Lower case.
    pub(super) name: String,
    /// The value begins with one of these, in any case.
    pub(super) begins: Vec<String>,
    pub(super) class: Class,
    pub(super) agent: String,
    /// The rule holds only for agents with one of these tokens of `people.apps`; empty: for all.
    #[serde(default)]
    pub(super) apps: Vec<String>,
    pub(super) why: String,
}

/// When a group's tokens count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Only {
    /// Always.
    #[default]
    Always,
    /// The agent has no mark of an engine.
    NoEngine,
    /// The agent is of no browser at all: neither `Mozilla/`, `Opera/` nor one of `people.browsers`.
    NoBrowser,
}

/// Agents of one class, by token.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// First half of the reason that is stored: `id/agent`.
    pub(super) id: String,
    pub(super) class: Class,
    /// Why these tokens mean that class.
    pub(super) why: String,
    /// Where the facts are from.
    pub(super) source: String,
    #[serde(default)]
    pub(super) only: Only,
    /// All tokens of an agent must be there, not just one.
    #[serde(default)]
    pub(super) all: bool,
    /// Letters must match in case too.
    #[serde(default)]
    pub(super) exact: bool,
    /// Agent's name → its tokens.
    pub(super) agents: BTreeMap<String, Vec<String>>,
}

/// What a shape looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Test {
    /// There is no agent, or a dash for it.
    Missing,
    /// There is no letter in it, or bytes that no header may hold.
    Absurd,
    /// A product's name ends in one of `words`.
    Word,
    /// It names a site, a page or a mailbox to complain to.
    Contact,
    /// No browser begins like that, and a product names itself.
    NoBrowser,
    /// No browser begins like that, and nothing names itself.
    NoName,
    /// It begins as a browser and has no engine, but a `compatible` comment that names a product.
    SelfNamed,
    /// It begins as a browser, but a later comment names a product behind the word `compatible`.
    NamedLater,
    /// The comment that names the engine names something else too.
    EngineComment,
    /// It begins as a browser, but no engine follows.
    NoEngine,
}

/// Agents by what they look like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    pub(super) id: String,
    pub(super) test: Test,
    pub(super) class: Class,
    #[serde(default)]
    pub(super) only: Only,
    #[serde(default)]
    pub(super) words: Vec<String>,
    /// Names that are people's all the same.
    #[serde(default)]
    pub(super) except: Vec<String>,
    pub(super) why: String,
}

impl RulesFile {
    /// Reads and checks a file.
    pub(super) fn read(text: &str) -> Result<Self, RulesError> {
        let file: Self = toml::from_str(text)?;
        let faults = file.faults();
        if faults.is_empty() { Ok(file) } else { Err(RulesError::Faults(faults)) }
    }
}
