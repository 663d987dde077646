//! Ordinary agents, which an operator's rules are held against before they are taken (`ordinary.toml`).
//!
//! A token can be right in form and take everybody, as `Safari/` does. So a group of an operator's may take none of a few
//! agents of people, and a word of an app or a site may be in none of a few agents of machines.
//!
//! Invariant: by the built-in rules the former are people, the latter machines whom only their shape gives away.

use schemas::Class;
use serde::Deserialize;

use super::matcher::Matcher;
use super::rules::{Group, RulesError, RulesFile};
use super::token::Token;

/// The agents, as data.
const ORDINARY: &str = include_str!("../../ordinary.toml");

/// The file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ordinary {
    person: Vec<Sample>,
    machine: Vec<Sample>,
}

/// An agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    /// Whose it is.
    what: String,
    agent: String,
}

impl Ordinary {
    /// The agents of this release.
    pub(super) fn read() -> Result<Self, RulesError> {
        Ok(toml::from_str(ORDINARY)?)
    }

    /// What an operator's rules would do to these agents, one fault a token. `built_in` says what is an engine and a browser.
    pub(super) fn faults(&self, own: &RulesFile, built_in: &Matcher) -> Vec<String> {
        let mut faults = Vec::new();
        for group in &own.group {
            for agent in group.agents.iter() {
                self.taken(group, agent, built_in, &mut faults);
            }
        }
        for (list, tokens) in [("apps", &own.people.apps.tokens), ("sites", &own.people.sites.tokens)] {
            for text in tokens {
                let Ok(token) = Token::parse(text, false) else { continue };
                if let Some(sample) = self.machine.iter().find(|sample| token.is_in(&sample.agent)) {
                    let Sample { what, agent } = sample;
                    faults.push(format!(
                        "people.{list}: token {text:?} would take {agent:?}, {what}, for a person's browser"
                    ));
                }
            }
        }
        faults
    }

    /// The people whom a rule of an operator's takes.
    fn taken(
        &self,
        group: &Group,
        (name, texts): (&String, &Vec<String>),
        built_in: &Matcher,
        faults: &mut Vec<String>,
    ) {
        let tokens = texts.iter().filter_map(|text| Some((text, Token::parse(text, group.exact).ok()?)));
        let tokens: Vec<(&String, Token)> = tokens.collect();
        let people: Vec<&Sample> =
            self.person.iter().filter(|sample| built_in.scan(&sample.agent).allows(group.only)).collect();
        let mut say = |what: String, taken: &mut dyn Iterator<Item = &&Sample>| {
            let Some(Sample { what: whose, agent }) = taken.next() else { return };
            let more = match taken.count() {
                0 => String::new(),
                more => format!(" (and {more} more like it)"),
            };
            faults.push(format!(
                "{}/{name}: {what} would take {agent:?}, a person's browser ({whose}), for {}{more}",
                group.id,
                named(group.class)
            ));
        };
        if group.all {
            if tokens.len() == texts.len() && !tokens.is_empty() {
                let has_all = |sample: &&&Sample| tokens.iter().all(|(_, token)| token.is_in(&sample.agent));
                say(format!("all of {texts:?}"), &mut people.iter().filter(has_all));
            }
            return;
        }
        for (text, token) in &tokens {
            say(format!("token {text:?}"), &mut people.iter().filter(|sample| token.is_in(&sample.agent)));
        }
    }
}

fn named(class: Class) -> String {
    format!("class {:?}", class.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::Classifier;
    use super::*;

    fn said(text: &str) -> String {
        Classifier::with_operator(text).map_or_else(|error| error.to_string(), |_| "taken".to_owned())
    }

    fn group(more: &str, tokens: &str) -> String {
        format!(
            "version = 1\n[[group]]\nid = \"own\"\nclass = \"monitor\"\nwhy = \"w\"\nsource = \"s\"\n{more}\n[group.agents]\nA = [{tokens}]\n"
        )
    }

    #[test]
    fn the_agents_are_what_they_stand_for() {
        let (ordinary, built_in) = (Ordinary::read().unwrap(), Classifier::builtin().unwrap());
        for sample in &ordinary.person {
            let verdict = built_in.agent(&sample.agent);
            assert_eq!(verdict.class, Class::Human, "{}: {}", sample.what, verdict.reason);
        }
        for sample in &ordinary.machine {
            let verdict = built_in.agent(&sample.agent);
            assert!(verdict.reason.starts_with("shape/"), "{}: {}", sample.what, verdict.reason);
        }
    }

    #[test]
    fn a_rule_that_takes_people_is_refused_with_its_token_and_a_person() {
        for token in [
            "Mozilla",
            "Mozilla/",
            "*ozilla",
            "^Mozilla/5.0 (",
            "Safari/",
            "safari",
            "AppleWebKit",
            "KHTML",
            "Gecko",
            "Chrome",
            "Firefox",
            "Windows NT",
            "Macintosh",
            "Android",
            "iPhone",
            "Mobile/15E148",
            "wv)",
            "FBAN/",
            "FB_IAB/",
            "Instagram",
            "X11; Linux",
            "537.36$",
            "SMART-TV",
            "^Nokia",
            "SamsungBrowser",
        ] {
            let said = said(&group("", &format!("\"AcmeProbe/\", \"{token}\"")));
            let expected = format!("own/A: token {token:?} would take ");
            assert!(said.contains(&expected) && said.contains("a person's browser ("), "{token}: {said}");
            assert!(said.contains("for class \"monitor\"") && !said.contains("AcmeProbe"), "{said}");
        }
        let two = said(&group("", "\"Chrome\", \"Gecko\""));
        assert!(two.contains("\"Chrome\" would") && two.contains("\"Gecko\" would"), "all at once: {two}");
        let all = said(&group("all = true", "\"Windows NT\", \"Chrome\""));
        assert!(all.contains("all of [\"Windows NT\", \"Chrome\"] would take"), "{all}");
        for blank in ["   ", "*    ", "---", " / ", "(); "] {
            let said = said(&group("", &format!("\"{blank}\"")));
            assert!(said.contains("has neither letter nor digit"), "{blank:?}: {said}");
        }
    }

    #[test]
    fn a_rule_that_takes_nobody_is_taken() {
        for (more, tokens) in [
            ("", "\"AcmeProbe/\", \"^acme-check\""),
            ("", "\"Chrome/49.0.2623\""),
            ("all = true", "\"AcmeProbe\", \"Chrome\""),
            ("exact = true", "\"chrome\""),
            ("only = \"no_engine\"", "\"Mozilla/5.0 (Windows\""),
        ] {
            assert_eq!(said(&group(more, tokens)), "taken", "{more} {tokens}");
        }
    }

    #[test]
    fn no_word_of_an_app_makes_machines_people() {
        for (list, token, fault) in [
            ("apps", "bot", "people: token \"bot\" is a bare word"),
            ("apps", "*bot/", "people.apps: token \"*bot/\" would take "),
            ("apps", "Mozilla/", "people.apps: token \"Mozilla/\" would take "),
            ("apps", "Chrome/", "people.apps: token \"Chrome/\" would take "),
            ("apps", "compatible", "people.apps: token \"compatible\" would take "),
            ("apps", "*crawler", "people.apps: token \"*crawler\" would take "),
            ("sites", "http://", "people.sites: token \"http://\" would take "),
            ("sites", "https://", "people.sites: token \"https://\" would take "),
            ("sites", "www.", "people.sites: token \"www.\" would take "),
            ("sites", "*.com", "people.sites: token \"*.com\" would take "),
            ("apps", "AcmeApp/", "taken"),
            ("sites", "acme.test", "taken"),
        ] {
            let said = said(&format!("version = 1\n[people]\n{list} = {{ why = \"w\", tokens = [\"{token}\"] }}"));
            assert!(said.contains(fault), "{list} {token}: {said}");
        }
    }
}
