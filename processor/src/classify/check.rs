//! What a rules file must hold beyond its form.
//!
//! Everything that is wrong is reported at once, each fault with the place it is at, so that whoever edits a file
//! needs one round.

use std::collections::HashMap;

use schemas::Class;

use super::rules::{RulesFile, Test};
use super::token::{Token, TokenError};

/// First parts of reasons that no group gives.
const RESERVED: [&str; 6] = ["behaviour", "header", "method", "network", "person", "shape"];
/// The most agents: far more than a matcher of this kind is meant for, and fewer than it can number.
const MOST_AGENTS: usize = 20_000;

impl RulesFile {
    /// All faults of the file; none when it may be taken.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.version < 1 {
            faults.push(format!("version is {}, expected 1 or more", self.version));
        }
        self.check_ids(&mut faults);
        self.check_reasons(&mut faults);
        self.check_tokens(&mut faults);
        for group in self.group.iter().filter(|group| group.all) {
            for (agent, tokens) in &group.agents {
                if !(2..=32).contains(&tokens.len()) {
                    faults.push(format!("{}/{agent}: needs 2 to 32 tokens to ask for all of them", group.id));
                }
            }
        }
        for group in &self.group {
            if RESERVED.contains(&group.id.split('/').next().unwrap_or_default()) {
                faults.push(format!("{}: an id begins with none of {}", group.id, RESERVED.join(", ")));
            }
            if group.class == Class::Human {
                faults.push(format!("{}: names machines; people's browsers belong to people.apps", group.id));
            }
        }
        let agents: usize = self.group.iter().map(|group| group.agents.len()).sum();
        if agents > MOST_AGENTS {
            faults.push(format!("there are {agents} agents, expected at most {MOST_AGENTS}"));
        }
        for shape in &self.shape {
            if (shape.test == Test::Word) == shape.words.is_empty() {
                faults.push(format!("{}: words belong to test \"word\", and it needs some", shape.id));
            }
        }
        faults
    }

    fn check_ids(&self, faults: &mut Vec<String>) {
        let groups = self.group.iter().map(|group| &group.id);
        let shapes = self.shape.iter().map(|shape| &shape.id);
        let headers = self.header.iter().map(|header| &header.id);
        let methods = self.method.iter().map(|method| &method.id);
        let mut seen = HashMap::new();
        for id in groups.chain(shapes).chain(headers).chain(methods) {
            if seen.insert(id, ()).is_some() {
                faults.push(format!("{id}: id is used twice"));
            }
            if id.is_empty() || !id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-/".contains(&b))
            {
                faults.push(format!("{id:?}: an id is of lower-case letters, digits, '-' and '/'"));
            }
        }
    }

    /// A rule without a reason can't be told from a mistake.
    fn check_reasons(&self, faults: &mut Vec<String>) {
        let groups = self.group.iter().flat_map(|group| [(&group.id, &group.why), (&group.id, &group.source)]);
        let shapes = self.shape.iter().map(|shape| (&shape.id, &shape.why));
        let headers = self.header.iter().map(|header| (&header.id, &header.why));
        let methods = self.method.iter().map(|method| (&method.id, &method.why));
        for (id, why) in groups.chain(shapes).chain(headers).chain(methods) {
            if why.trim().is_empty() {
                faults.push(format!("{id}: says neither why nor from where"));
            }
        }
        let people = &self.people;
        for list in [&people.engines, &people.browsers, &people.apps, &people.sites] {
            if list.why.trim().is_empty() {
                faults.push("people: a list doesn't say why".to_owned());
            }
        }
    }

    fn check_tokens(&self, faults: &mut Vec<String>) {
        let mut seen: HashMap<String, String> = HashMap::new();
        for group in &self.group {
            for (agent, tokens) in &group.agents {
                let place = format!("{}/{agent}", group.id);
                if tokens.is_empty() || agent.trim().is_empty() {
                    faults.push(format!("{place}: needs a name and a token"));
                }
                for text in tokens {
                    self.check_token(text, &place, faults);
                    // a token of several conjunctions is no duplicate
                    if group.all {
                        continue;
                    }
                    if let Some(other) = seen.insert(text.to_ascii_lowercase(), place.clone()) {
                        faults.push(format!("{place}: token {text:?} is also of {other}"));
                    }
                }
            }
        }
        let people = &self.people;
        for list in [&people.engines, &people.browsers, &people.apps, &people.sites] {
            for text in &list.tokens {
                self.check_token(text, "people", faults);
                if list.tokens.iter().filter(|other| other.eq_ignore_ascii_case(text)).count() > 1 {
                    faults.push(format!("people: token {text:?} is there twice"));
                }
            }
        }
        for header in &self.header {
            for app in &header.apps {
                if !people.apps.tokens.contains(app) {
                    faults.push(format!("{}: {app:?} is not one of people.apps", header.id));
                }
            }
        }
    }

    fn check_token(&self, text: &str, place: &str, faults: &mut Vec<String>) {
        match Token::parse(text, false) {
            Err(error) => faults.push(format!("{place}: token {text:?} {error}")),
            Ok(token)
                if !token.may_be_bare()
                    && self.bare_words.iter().any(|word| word.eq_ignore_ascii_case(token.text())) =>
            {
                faults.push(format!("{place}: token {text:?} {}", TokenError::BareWord));
            }
            Ok(_) => {}
        }
    }
}
