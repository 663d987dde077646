//! A list as it is kept: prefixes, what they mean, where they are from and since when.

use std::time::Duration;

use ipnet::IpNet;
use schemas::UtcMicros;
use serde::{Deserialize, Serialize};

/// The longest name.
const MOST_NAME_BYTES: usize = 40;
/// The most prefixes: more than the largest cloud publishes.
const MOST_PREFIXES: usize = 500_000;
/// Shorter prefixes say nothing of an operator: they are registries' blocks.
const LEAST_LENGTH: (u8, u8) = (8, 16);

/// What it means to be in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// The operator of some agents: confirms one of them, and nothing else.
    Confirm,
    /// Scanners that look like browsers of people: mail gateways and their like.
    Scanner,
    /// Servers for rent. No verdict; a signal for rules of behaviour.
    Hosting,
    /// People behind a relay: never scanners, whatever other lists say.
    People,
}

impl Meaning {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Scanner => "scanner",
            Self::Hosting => "hosting",
            Self::People => "people",
        }
    }
}

/// Why a list is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The name can't stand in `class_reason`.
    #[error("name {0:?}: expected at most {MOST_NAME_BYTES} lower-case letters, digits and '-'")]
    Name(String),
    /// It confirms nothing.
    #[error("a list that confirms needs the names of the agents that it confirms")]
    NoAgents,
    /// Agents are named for nothing.
    #[error("agents are named, but a list of meaning {0} confirms none")]
    NeedlessAgents(&'static str),
    /// No prefix.
    #[error("there is no prefix in it")]
    Empty,
    /// Far more prefixes than any operator has.
    #[error("there are {0} prefixes in it, expected at most {MOST_PREFIXES}")]
    TooMany(usize),
    /// A prefix of half the world.
    #[error("{0} is too wide: expected /8 or longer, of IPv6 /16 or longer")]
    TooWide(IpNet),
}

/// Published networks, and what they mean.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// What it is called in `class_reason`.
    pub name: String,
    /// What it means to be in it.
    #[serde(rename = "as")]
    pub meaning: Meaning,
    /// Names of agents, as in column `agent`, whose operator's networks these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The address or file that it was fetched from.
    pub source: String,
    /// When.
    pub updated_at: UtcMicros,
    /// The networks.
    pub prefixes: Vec<IpNet>,
}

impl List {
    /// Checks what its form doesn't say.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), ListError> {
        check_name(&self.name)?;
        match (self.meaning, self.agents.is_empty()) {
            (Meaning::Confirm, true) => return Err(ListError::NoAgents),
            (Meaning::Scanner | Meaning::Hosting | Meaning::People, false) => {
                return Err(ListError::NeedlessAgents(self.meaning.as_str()));
            }
            _ => {}
        }
        match self.prefixes.len() {
            0 => return Err(ListError::Empty),
            many if many > MOST_PREFIXES => return Err(ListError::TooMany(many)),
            _ => {}
        }
        let is_wide = |net: &&IpNet| match net {
            IpNet::V4(v4) => v4.prefix_len() < LEAST_LENGTH.0,
            IpNet::V6(v6) => v6.prefix_len() < LEAST_LENGTH.1,
        };
        self.prefixes.iter().find(is_wide).map_or(Ok(()), |net| Err(ListError::TooWide(*net)))
    }

    /// Whether it is too old at `now` to be believed, when lists hold for `max_age`. Addresses of clouds get other tenants;
    /// a relay of people that has moved does no harm.
    pub fn is_expired(&self, now: UtcMicros, max_age: Duration) -> bool {
        self.expires_at(max_age).is_some_and(|expires| expires < now)
    }

    /// Until when it is believed; `None`: for good.
    pub fn expires_at(&self, max_age: Duration) -> Option<UtcMicros> {
        (self.meaning != Meaning::People).then(|| self.updated_at.plus(max_age))
    }
}

/// Checks a list's name.
///
/// # Errors
/// When it can't stand in `class_reason`.
pub fn check_name(name: &str) -> Result<(), ListError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = !name.is_empty() && name.len() <= MOST_NAME_BYTES && name.bytes().all(plain) && !name.starts_with('-');
    if fits { Ok(()) } else { Err(ListError::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(meaning: Meaning, prefix: &str) -> List {
        let agents = if meaning == Meaning::Confirm { vec!["A".to_owned()] } else { Vec::new() };
        let prefixes = vec![prefix.parse().unwrap()];
        List { name: "a-1".into(), meaning, agents, source: "s".into(), updated_at: UtcMicros(0), prefixes }
    }

    #[test]
    fn absurd_lists_are_refused() {
        let scanner = list(Meaning::Scanner, "10.0.0.0/8");
        assert_eq!(scanner.check(), Ok(()));
        assert_eq!(list(Meaning::Scanner, "2001::/16").check(), Ok(()));
        for (meaning, wide) in [
            (Meaning::Scanner, "0.0.0.0/0"),
            (Meaning::Scanner, "10.0.0.0/7"),
            (Meaning::People, "::/0"),
            (Meaning::Hosting, "2000::/15"),
        ] {
            assert!(matches!(list(meaning, wide).check(), Err(ListError::TooWide(_))), "{wide}");
        }
        assert_eq!(List { prefixes: vec![], ..scanner.clone() }.check(), Err(ListError::Empty));
        let agents = vec!["A".to_owned()];
        assert_eq!(List { agents, ..scanner.clone() }.check(), Err(ListError::NeedlessAgents("scanner")));
        let confirming = list(Meaning::Confirm, "10.0.0.0/8");
        assert_eq!(List { agents: vec![], ..confirming }.check(), Err(ListError::NoAgents));
        for name in ["", "A", "a b", "-a", "a+b", "a/b", &"a".repeat(41)] {
            assert!(matches!(check_name(name), Err(ListError::Name(_))), "{name}");
        }
    }

    #[test]
    fn lists_expire_but_for_those_of_people() {
        let day = Duration::from_secs(86_400);
        let at = |days: i64| UtcMicros(days * 86_400_000_000);
        for (meaning, days, expired) in [
            (Meaning::Scanner, 90, false),
            (Meaning::Scanner, 91, true),
            (Meaning::Confirm, 91, true),
            (Meaning::Hosting, 91, true),
            (Meaning::People, 900, false),
        ] {
            assert_eq!(list(meaning, "10.0.0.0/8").is_expired(at(days), 90 * day), expired, "{meaning:?} {days}");
        }
    }

    #[test]
    fn a_list_is_written_and_read() {
        let list = list(Meaning::Confirm, "10.0.0.0/8");
        let text = serde_json::to_string(&list).unwrap();
        assert!(text.contains("\"as\":\"confirm\"") && text.contains("\"10.0.0.0/8\""), "{text}");
        assert_eq!(serde_json::from_str::<List>(&text).unwrap(), list);
    }
}
