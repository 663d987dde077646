//! What an agent's form says when no token names it: the whole text, its first product, the names in it.
//!
//! Guards go first. An agent with the mark of an app's browser is a person's, whatever words its device list holds;
//! and inside the comment that names an Android device (`Linux; Android 8.0; CUBOT_P20`) makers write what they like.

use std::sync::Arc;

use schemas::Class;

use super::matcher::Findings;
use super::rules::{Only, Shape, Test};
use super::text::{
    bare_site, clean_name, compatible, device_comment, first_product, in_engine_comment, is_absurd, is_explorer,
    mailbox, name_around, named_in_comment, named_later,
};

/// A shape, ready to judge.
#[derive(Debug)]
pub(super) struct CompiledShape {
    test: Test,
    only: Only,
    except: Vec<String>,
    pub(super) class: Class,
    pub(super) reason: Arc<str>,
}

impl CompiledShape {
    pub(super) fn new(shape: &Shape) -> Self {
        Self {
            test: shape.test,
            only: shape.only,
            except: shape.except.clone(),
            class: shape.class,
            reason: shape.id.as_str().into(),
        }
    }

    /// Whether `agent` is of this shape, the `place`th of the file; if so, the name that it gives itself.
    pub(super) fn holds(&self, place: u16, agent: &str, found: &Findings) -> Option<Option<Arc<str>>> {
        if !found.allows(self.only) {
            return None;
        }
        let people = !found.apps.is_empty();
        match self.test {
            Test::Missing => (agent.is_empty() || agent == "-").then_some(None),
            Test::Absurd => is_absurd(agent).then_some(None),
            Test::NoBrowser => (!found.browser && first_product(agent).is_some()).then(|| first_product(agent)),
            Test::NoName => (!found.browser).then_some(None),
            Test::NoEngine => (!people && !found.engine && found.begins).then_some(None),
            Test::EngineComment if people => None,
            Test::EngineComment => {
                in_engine_comment(agent).filter(|name| !self.is_excepted(name)).and_then(clean_name).map(Some)
            }
            Test::SelfNamed if people || found.engine || !found.begins => None,
            Test::NamedLater if people || !found.begins || is_explorer(agent) => None,
            Test::NamedLater => {
                named_later(agent).filter(|name| !self.is_excepted(name)).and_then(clean_name).map(Some)
            }
            Test::SelfNamed => compatible(agent).and_then(clean_name).map(Some),
            Test::Word if people => None,
            Test::Word => {
                let words = found.words.iter().filter(|(shape, ..)| *shape == place);
                let mut device = None;
                words
                    .filter(|(_, start, _)| !device.get_or_insert_with(|| device_comment(agent)).contains(start))
                    .map(|&(_, start, end)| name_around(agent, start, end))
                    .next()
            }
            Test::Contact if people || found.site => None,
            Test::Contact => {
                let device = device_comment(agent);
                // toolbars and providers of access left their sites in Internet Explorer's comment, but no full address
                let explorer = is_explorer(agent);
                let full = |start: &usize| !explorer || agent[*start..].starts_with("http");
                let address = found.addresses.iter().any(|start| !device.contains(start) && full(start));
                let contact = address || mailbox(agent, &device) || (!explorer && bare_site(agent, &device));
                contact.then(|| named_in_comment(agent))
            }
        }
    }
}

impl CompiledShape {
    fn is_excepted(&self, name: &str) -> bool {
        self.except.iter().any(|begin| name.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin)))
    }
}
