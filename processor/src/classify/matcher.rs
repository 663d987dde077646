//! One pass over an agent finds every token of every rule.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use schemas::Class;

use super::rules::{Group, Only, RulesError, RulesFile, Test};
use super::token::Token;

/// Marks of an address: not rules, so not in the rules file.
const ADDRESS_MARKS: [&str; 3] = ["http://", "https://", "www."];

/// What a token that was found stands for.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// It decides for a rule alone.
    Rule(u16),
    /// It is part `.1` of a rule that needs all its parts.
    Part(u16, u8),
    Engine,
    Browser,
    /// An app of people, by its place in the list.
    App(u16),
    /// An address that people's browsers carry.
    Site,
    /// A word that ends a name, of that shape.
    Word(u16),
    /// A name that ends in such a word, but is a person's.
    NotWord(u16),
    /// An address begins.
    Address,
}

/// An agent's rule, ready to hand out.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) class: Class,
    pub(super) agent: Arc<str>,
    pub(super) reason: Arc<str>,
    pub(super) only: Only,
    group: usize,
    /// How many parts it needs.
    parts: u32,
}

/// All tokens, compiled.
#[derive(Debug)]
pub(super) struct Matcher {
    automaton: AhoCorasick,
    /// By pattern of the automaton.
    tokens: Vec<(Token, Role)>,
    rules: Vec<Rule>,
}

/// The best rule found so far: the earliest group, then the longest token.
type Candidate = (usize, std::cmp::Reverse<usize>, u16);

/// What one pass has found in an agent.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) engine: bool,
    pub(super) site: bool,
    /// Begins as browsers do.
    pub(super) begins: bool,
    /// Begins as a browser, or is one of people that begins otherwise.
    pub(super) browser: bool,
    /// Where an address begins.
    pub(super) addresses: Vec<usize>,
    /// Apps of people, by place in the list.
    pub(super) apps: Vec<u16>,
    /// Shape and place of words that end a name.
    pub(super) words: Vec<(u16, usize, usize)>,
    not_words: Vec<(u16, usize)>,
    candidates: [Option<Candidate>; 3],
    parts: Vec<(u16, u32)>,
}

impl Findings {
    fn offer(&mut self, only: Only, candidate: Candidate) {
        let best = &mut self.candidates[only as usize];
        if best.is_none_or(|other| candidate < other) {
            *best = Some(candidate);
        }
    }

    /// Whether a condition holds for this agent.
    pub(super) fn allows(&self, only: Only) -> bool {
        match only {
            Only::Always => true,
            Only::NoEngine => !self.engine,
            Only::NoBrowser => !self.browser,
        }
    }
}

impl Matcher {
    /// Compiles the tokens of a checked file.
    pub(super) fn new(file: &RulesFile) -> Result<Self, RulesError> {
        let mut matcher = Self { automaton: AhoCorasick::new([""; 0])?, tokens: Vec::new(), rules: Vec::new() };
        let mut faults = Vec::new();
        for (order, group) in file.group.iter().enumerate() {
            matcher.add_group(order, group, &mut faults);
        }
        let people = &file.people;
        for (list, role) in
            [(&people.engines, Role::Engine), (&people.browsers, Role::Browser), (&people.sites, Role::Site)]
        {
            for text in &list.tokens {
                matcher.add(text, false, role, &mut faults);
            }
        }
        for (place, text) in people.apps.tokens.iter().enumerate() {
            matcher.add(text, false, Role::App(place as u16), &mut faults);
        }
        for (place, shape) in file.shape.iter().enumerate().filter(|(_, shape)| shape.test == Test::Word) {
            let words = shape.words.iter().map(|word| (word, Role::Word(place as u16)));
            let except = shape.except.iter().map(|word| (word, Role::NotWord(place as u16)));
            matcher.tokens.extend(words.chain(except).map(|(word, role)| (Token::name_end(word), role)));
        }
        matcher.tokens.extend(ADDRESS_MARKS.iter().map(|mark| (Token::name_end(mark), Role::Address)));
        if !faults.is_empty() {
            return Err(RulesError::Faults(faults));
        }
        matcher.automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(matcher.tokens.iter().map(|(token, _)| token.text()))?;
        Ok(matcher)
    }

    fn add(&mut self, text: &str, exact: bool, role: Role, faults: &mut Vec<String>) {
        match Token::parse(text, exact) {
            Ok(token) => self.tokens.push((token, role)),
            Err(error) => faults.push(format!("token {text:?} {error}")),
        }
    }

    fn add_group(&mut self, order: usize, group: &Group, faults: &mut Vec<String>) {
        for (agent, texts) in &group.agents {
            let rule = self.rules.len() as u16;
            self.rules.push(Rule {
                class: group.class,
                agent: agent.as_str().into(),
                reason: format!("{}/{}", group.id, slug(agent)).into(),
                only: group.only,
                group: order,
                parts: if group.all { texts.len() as u32 } else { 1 },
            });
            for (part, text) in texts.iter().enumerate() {
                let role = if group.all { Role::Part(rule, part as u8) } else { Role::Rule(rule) };
                self.add(text, group.exact, role, faults);
            }
        }
    }

    /// Names of agents.
    pub(super) fn agents(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.agent)
    }

    /// One pass over `agent`.
    pub(super) fn scan(&self, agent: &str) -> Findings {
        let bytes = agent.as_bytes();
        let begins = begins_as_browser(bytes);
        let mut found = Findings { begins, browser: begins, ..Findings::default() };
        for hit in self.automaton.find_overlapping_iter(bytes) {
            let (token, role) = &self.tokens[hit.pattern().as_usize()];
            let (start, end) = (hit.start(), hit.end());
            if !matches!(role, Role::Address) && !token.fits(bytes, start, end) {
                continue;
            }
            match *role {
                Role::Rule(rule) => self.offer(&mut found, rule, end - start),
                Role::Part(rule, part) => found.parts.push((rule, 1 << part)),
                Role::Engine => found.engine = true,
                Role::Browser => found.browser = true,
                Role::App(place) => found.apps.push(place),
                Role::Site => found.site = true,
                Role::Word(shape) => found.words.push((shape, start, end)),
                Role::NotWord(shape) => found.not_words.push((shape, end)),
                Role::Address => found.addresses.push(start),
            }
        }
        if !found.parts.is_empty() {
            self.join_parts(&mut found);
        }
        if !found.not_words.is_empty() {
            let not_words = std::mem::take(&mut found.not_words);
            found.words.retain(|&(shape, _, end)| !not_words.contains(&(shape, end)));
        }
        found
    }

    fn offer(&self, found: &mut Findings, index: u16, length: usize) {
        let rule = &self.rules[usize::from(index)];
        found.offer(rule.only, (rule.group, std::cmp::Reverse(length), index));
    }

    fn join_parts(&self, found: &mut Findings) {
        let parts = std::mem::take(&mut found.parts);
        for &(index, _) in &parts {
            let seen = parts.iter().filter(|(rule, _)| *rule == index).fold(0u32, |seen, (_, part)| seen | part);
            if seen.count_ones() == self.rules[usize::from(index)].parts {
                self.offer(found, index, 0);
            }
        }
    }

    /// The rule that decides, if any token does.
    pub(super) fn decide(&self, found: &Findings) -> Option<&Rule> {
        let allowed = [Only::Always, Only::NoEngine, Only::NoBrowser].into_iter().filter(|only| found.allows(*only));
        let best = allowed.filter_map(|only| found.candidates[only as usize]).min()?;
        self.rules.get(usize::from(best.2))
    }
}

/// Whether an agent begins as browsers have begun since Netscape's first, or since Opera's. Some proxies of
/// phones write a blank or a dot for the slash.
fn begins_as_browser(agent: &[u8]) -> bool {
    [b"mozilla".as_slice(), b"opera"].iter().any(|begin| {
        agent.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin))
            && agent.get(begin.len()).is_some_and(|next| b"/ .".contains(next))
            && agent.get(begin.len() + 1).is_some_and(u8::is_ascii_digit)
    })
}

/// An agent's name as part of an id.
pub(super) fn slug(name: &str) -> String {
    let mut slug = String::with_capacity(name.len());
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&part.to_ascii_lowercase());
    }
    slug
}
