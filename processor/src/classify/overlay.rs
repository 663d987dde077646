//! An operator's rules over the built-in ones: groups that go first, more apps of people, rules switched off.
//!
//! The file has the built-in file's form, as far as it has the same parts, and is checked in the same way; so a bare word
//! is no token in it either, and neither is what ordinary people's agents hold. It can't undo what holds whatever the rules
//! are: that a `HEAD` is nobody's click.

use serde::Deserialize;

use super::matcher::{Matcher, slug};
use super::ordinary::Ordinary;
use super::rules::{Group, People, RulesError, RulesFile, TokenList};

/// The versions that an operator's file may have: together with the release's, one number tells both apart.
pub(super) const VERSIONS: std::ops::Range<i32> = 1..1_000;

/// An operator's file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Overlay {
    /// Raised with every change of meaning.
    version: i32,
    /// Built-in rules that don't hold here, by the id that `class_reason` shows: a whole group, one agent of it, a shape, a
    /// header's rule.
    #[serde(default)]
    off: Vec<String>,
    /// More of what people's browsers look like.
    #[serde(default)]
    people: MorePeople,
    /// Agents by token; they go before the built-in groups.
    #[serde(default)]
    group: Vec<Group>,
}

/// What an operator knows of people's browsers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MorePeople {
    apps: Option<TokenList>,
    sites: Option<TokenList>,
}

impl Overlay {
    /// Puts the file's text over the built-in rules.
    ///
    /// # Errors
    /// When it can't be read or has faults; all of them are named.
    pub(super) fn over(text: &str, mut base: RulesFile) -> Result<RulesFile, RulesError> {
        let Self { version, off, people, group } = toml::from_str(text)?;
        let mut faults = Vec::new();
        // before anything is switched off
        let built_in = Matcher::new(&base)?;
        if !VERSIONS.contains(&version) {
            faults.push(format!("version is {version}, expected 1 to {}", VERSIONS.end - 1));
        }
        for added in &group {
            if base.group.iter().any(|known| known.id == added.id) {
                faults.push(format!("{}: is the id of a built-in group", added.id));
            }
        }
        for id in &off {
            if let Err(why) = base.switch_off(id) {
                faults.push(format!("off: {id:?} {why}"));
            }
        }
        let own = RulesFile {
            version: version.max(VERSIONS.start),
            bare_words: std::mem::take(&mut base.bare_words),
            people: People {
                engines: TokenList::empty(),
                browsers: TokenList::empty(),
                apps: people.apps.unwrap_or_else(TokenList::empty),
                sites: people.sites.unwrap_or_else(TokenList::empty),
            },
            method: Vec::new(),
            header: Vec::new(),
            group,
            shape: Vec::new(),
        };
        faults.extend(own.faults());
        faults.extend(Ordinary::read()?.faults(&own, &built_in));
        if !faults.is_empty() {
            return Err(RulesError::Faults(faults));
        }
        base.people.apps.add(own.people.apps);
        base.people.sites.add(own.people.sites);
        base.group.splice(0..0, own.group);
        base.version = base.version * VERSIONS.end + version;
        Ok(base)
    }
}

impl TokenList {
    fn empty() -> Self {
        Self { why: "none".to_owned(), tokens: Vec::new() }
    }

    /// Adds what isn't there yet.
    fn add(&mut self, more: Self) {
        for token in more.tokens {
            if !self.tokens.iter().any(|known| known.eq_ignore_ascii_case(&token)) {
                self.tokens.push(token);
            }
        }
    }
}

impl RulesFile {
    /// Takes out what `id` names.
    fn switch_off(&mut self, id: &str) -> Result<(), &'static str> {
        if self.method.iter().any(|rule| rule.id == id) {
            return Err("can't be switched off: no HEAD is a person's click");
        }
        if id == "network" || id.starts_with("network/") {
            return Err("is a list of networks: `highwater networks remove` takes it away");
        }
        if id == "behaviour" || id.starts_with("behaviour/") {
            return Err("is switched off in [behaviour] of the configuration");
        }
        let before = (self.group.len(), self.shape.len(), self.header.len());
        self.group.retain(|group| group.id != id);
        self.shape.retain(|shape| shape.id != id);
        self.header.retain(|header| header.id != id);
        let mut found = before != (self.group.len(), self.shape.len(), self.header.len());
        for group in &mut self.group {
            if let Some(wanted) = id.strip_prefix(&group.id).and_then(|rest| rest.strip_prefix('/')) {
                let before = group.agents.len();
                group.agents.retain(|agent, _| slug(agent) != wanted);
                found |= group.agents.len() < before;
            }
        }
        if found { Ok(()) } else { Err("is no built-in rule: expected an id as class_reason shows it") }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Classifier, Request};
    use schemas::{Class, Method};

    const FILE: &str = r#"
        version = 7
        off = ["seo/moz", "feed", "shape/contact", "header/x-moz"]
        [people]
        apps = { why = "our own app's browser", tokens = ["AcmeApp/"] }
        [[group]]
        id = "own"
        class = "monitor"
        why = "our probes"
        source = "ourselves"
        [group.agents]
        "Acme probe" = ["AcmeProbe/"]
        "Slack" = ["Slackbot-LinkExpanding"]
    "#;

    fn class(classifier: &Classifier, user_agent: &str) -> (Class, String) {
        let verdict = classifier.agent(user_agent);
        (verdict.class, verdict.reason.as_ref().to_owned())
    }

    #[test]
    fn an_operators_rules_go_first_and_switch_off_what_they_name() {
        let (plain, own) = (Classifier::builtin().unwrap(), Classifier::with_operator(FILE).unwrap());
        for (agent, before, after) in [
            ("AcmeProbe/1.0", "shape/no-browser", "own/acme-probe"),
            ("Slackbot-LinkExpanding 1.0", "preview/slack", "own/slack"),
            ("Slackbot 1.0", "preview/slack", "preview/slack"),
            ("Mozilla/5.0 (X11; DotBot/1.2) Gecko/20100101", "seo/moz", "shape/bot-name"),
            ("NewsBlur/1", "feed/newsblur", "shape/no-browser"),
            ("Mozilla/5.0 (X11) Gecko/20100101 Firefox/9 AcmeApp/2 (scan)", "person", "person/app"),
            ("Mozilla/5.0 (X11) Gecko/20100101 Foo (+https://a.test)", "shape/contact", "person"),
        ] {
            assert_eq!(class(&plain, agent).1, before, "{agent}");
            assert_eq!(class(&own, agent).1, after, "{agent}");
        }
        let ahead = Request { method: Some(Method::Get), user_agent: "", purpose: "x-moz: prefetch" };
        assert_eq!(plain.judge(&ahead).class, Class::Prefetch);
        assert_eq!(own.judge(&ahead).class, Class::Unknown);
    }

    #[test]
    fn one_number_tells_release_and_file_apart() {
        let release = Classifier::builtin().unwrap().version();
        assert_eq!(release % 1_000, 0);
        assert_eq!(Classifier::with_operator(FILE).unwrap().version(), release + 7);
        assert_eq!(Classifier::with_operator(FILE).unwrap().agent("curl/8").rules_version, release + 7);
    }

    #[test]
    fn an_operators_file_is_checked_as_the_built_in_one() {
        let group = |line: &str| {
            format!(
                "version = 1\n[[group]]\nid = \"own\"\nclass = \"feed\"\nwhy = \"w\"\nsource = \"s\"\n[group.agents]\n{line}\n"
            )
        };
        for (text, fault) in [
            (group("A = [\"News\"]"), "own/A: token \"News\" is a bare word"),
            (group("A = [\"ab\"]"), "shorter than three bytes"),
            (group("A = [\"Abc\"]\nB = [\"abc\"]"), "token \"abc\" is also of own/A"),
            (group("A = [\"Abc\"]").replace("\"own\"", "\"preview\""), "preview: is the id of a built-in group"),
            (group("A = [\"Abc\"]").replace("\"own\"", "\"network\""), "network: "),
            (group("A = [\"Abc\"]").replace("\"feed\"", "\"human\""), "own: names machines"),
            (group("A = [\"Abc\"]").replace("why", "wy"), "unknown field `wy`"),
            (group("A = [\"Abc\"]").replace("version = 1\n", ""), "missing field `version`"),
            ("version = 0".to_owned(), "version is 0, expected 1 to 999"),
            ("version = 1000".to_owned(), "version is 1000, expected 1 to 999"),
            ("version = 1\noff = [\"seo/mozz\"]".to_owned(), "off: \"seo/mozz\" is no built-in rule"),
            ("version = 1\noff = [\"network/mail\"]".to_owned(), "`highwater networks remove`"),
            ("version = 1\noff = [\"behaviour/new-link\"]".to_owned(), "switched off in [behaviour]"),
            ("version = 1\noff = [\"method/head\"]".to_owned(), "can't be switched off"),
            ("version = 1\n[people]\napps = { why = \"\", tokens = [] }".to_owned(), "doesn't say why"),
            ("version = 1\n[people]\nengines = { why = \"w\", tokens = [] }".to_owned(), "unknown field `engines`"),
        ] {
            let said = Classifier::with_operator(&text).unwrap_err().to_string();
            assert!(said.contains(fault), "{said:?} doesn't say {fault:?}");
        }
    }

    #[test]
    fn nothing_that_can_be_switched_off_makes_a_head_a_click() {
        let file: super::RulesFile = toml::from_str(super::super::RULES).unwrap();
        let ids = file.group.iter().map(|g| &g.id).chain(file.shape.iter().map(|s| &s.id));
        let ids: Vec<&String> = ids.chain(file.header.iter().map(|h| &h.id)).collect();
        let nothing = Classifier::with_operator(&format!("version = 1\noff = {ids:?}")).unwrap();
        for user_agent in ["", "curl/8", "Mozilla/5.0 (X11) Gecko/20100101 Firefox/9"] {
            let request = Request { method: Some(Method::Head), user_agent, purpose: "" };
            assert_eq!(nothing.judge(&request).class, Class::Probe);
        }
    }
}
