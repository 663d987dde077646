//! A list as it is kept: prefixes, what they mean, where they are from and since when.

use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use schemas::UtcMicros;
use serde::{Deserialize, Serialize};

/// The longest name.
const MOST_NAME_BYTES: usize = 40;
/// The most prefixes: more than the largest cloud publishes.
const MOST_PREFIXES: usize = 500_000;
/// Shorter prefixes say nothing of an operator: they are registries' blocks.
const LEAST_LENGTH: (u8, u8) = (8, 16);

/// The most IPv4 addresses that scanners have, a sixteenth of all: the largest cloud has a fortieth, and no scanner a cloud.
const MOST_OF_SCANNERS: u64 = 1 << 28;
/// The most IPv4 addresses that are for rent: half of all is no list of hosting any more.
const MOST_OF_HOSTING: u64 = 1 << 31;
/// Addresses inside of machines and houses (RFC 1918, 5735, 4193, 4291): behind a proxy that isn't trusted all people have one.
const PRIVATE: [&str; 9] = [
    "10.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "0.0.0.0/8",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];

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
#[derive(Debug, PartialEq, thiserror::Error)]
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
    /// Part of the addresses that nobody on the public internet has.
    #[error("{prefix} is of {space}, which no scanner on the internet has: take it out of the list")]
    Private {
        /// What is in the list.
        prefix: IpNet,
        /// What it is part of, or holds.
        space: IpNet,
    },
    /// All of it together is far too much.
    #[error(
        "its prefixes are {share:.0} % of all IPv4 addresses: expected at most {most:.0} % of a list of meaning {meaning}"
    )]
    Everybody {
        /// In percent.
        share: f64,
        /// In percent.
        most: f64,
        /// What the list means.
        meaning: &'static str,
    },
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
        self.prefixes.iter().find(is_wide).map_or(Ok(()), |net| Err(ListError::TooWide(*net)))?;
        self.check_reach()
    }

    /// Looks at what all prefixes cover together.
    fn check_reach(&self) -> Result<(), ListError> {
        let most = match self.meaning {
            Meaning::Scanner => MOST_OF_SCANNERS,
            Meaning::Hosting => MOST_OF_HOSTING,
            Meaning::Confirm | Meaning::People => return Ok(()),
        };
        if self.meaning == Meaning::Scanner {
            for space in PRIVATE.iter().filter_map(|space| space.parse::<IpNet>().ok()) {
                let meets = |net: &&IpNet| net.contains(&space) || space.contains(*net);
                if let Some(prefix) = self.prefixes.iter().find(meets) {
                    return Err(ListError::Private { prefix: *prefix, space });
                }
            }
        }
        let v4: Vec<Ipv4Net> =
            self.prefixes.iter().filter_map(|net| if let IpNet::V4(v4) = net { Some(*v4) } else { None }).collect();
        let covered: u64 = Ipv4Net::aggregate(&v4).iter().map(|net| 1u64 << (32 - net.prefix_len())).sum();
        if covered <= most {
            return Ok(());
        }
        let percent = |addresses: u64| addresses as f64 * 100.0 / (1u64 << 32) as f64;
        Err(ListError::Everybody { share: percent(covered), most: percent(most), meaning: self.meaning.as_str() })
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
        let scanner = list(Meaning::Scanner, "11.0.0.0/8");
        assert_eq!(scanner.check(), Ok(()));
        assert_eq!(list(Meaning::Scanner, "2001::/16").check(), Ok(()));
        for (meaning, wide) in [
            (Meaning::Scanner, "0.0.0.0/0"),
            (Meaning::Scanner, "12.0.0.0/7"),
            (Meaning::People, "::/0"),
            (Meaning::Hosting, "2000::/15"),
        ] {
            assert!(matches!(list(meaning, wide).check(), Err(ListError::TooWide(_))), "{wide}");
        }
        assert_eq!(List { prefixes: vec![], ..scanner.clone() }.check(), Err(ListError::Empty));
        let agents = vec!["A".to_owned()];
        assert_eq!(List { agents, ..scanner.clone() }.check(), Err(ListError::NeedlessAgents("scanner")));
        let confirming = list(Meaning::Confirm, "11.0.0.0/8");
        assert_eq!(List { agents: vec![], ..confirming }.check(), Err(ListError::NoAgents));
        for name in ["", "A", "a b", "-a", "a+b", "a/b", &"a".repeat(41)] {
            assert!(matches!(check_name(name), Err(ListError::Name(_))), "{name}");
        }
    }

    #[test]
    fn a_list_of_everybody_is_no_list_of_scanners() {
        let of = |meaning, prefixes: Vec<String>| {
            let prefixes = prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
            List { prefixes, ..list(meaning, "11.0.0.0/8") }.check().map_err(|error| error.to_string())
        };
        let eights = |range: std::ops::Range<u16>| range.map(|first| format!("{first}.0.0.0/8")).collect::<Vec<_>>();
        assert_eq!(of(Meaning::Scanner, eights(11..27)), Ok(()), "a sixteenth");
        let said = of(Meaning::Scanner, eights(11..28)).unwrap_err();
        assert!(said.contains("7 % of all IPv4 addresses") && said.contains("at most 6 %"), "{said}");
        let twice = eights(11..27).into_iter().chain(["11.1.0.0/16".to_owned(), "11.0.0.0/8".to_owned()]).collect();
        assert_eq!(of(Meaning::Scanner, twice), Ok(()), "an address counts once");
        assert_eq!(of(Meaning::Hosting, eights(0..128)), Ok(()));
        assert!(of(Meaning::Hosting, eights(0..129)).unwrap_err().contains("meaning hosting"));
        assert_eq!(of(Meaning::People, eights(0..256)), Ok(()), "they make no scanners");
        for (prefix, space) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1/32", "127.0.0.0/8"),
            ("172.20.1.0/24", "172.16.0.0/12"),
            ("192.0.0.0/8", "192.168.0.0/16"),
            ("::1/128", "::1/128"),
            ("fd00::/16", "fc00::/7"),
        ] {
            let said = of(Meaning::Scanner, vec!["192.0.2.0/24".to_owned(), prefix.to_owned()]).unwrap_err();
            assert!(said.contains(&format!("{prefix} is of {space}")), "{said}");
            assert_eq!(of(Meaning::Hosting, vec![prefix.to_owned()]), Ok(()), "a proxy of one's own");
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
