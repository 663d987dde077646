//! What is known of the network that a request comes from: published lists, each with what it means.
//!
//! ```text
//! lists ──new──► one trie a family: longest prefix ─► all that holds for it and the prefixes around it
//!                                                       │ mark ─► class_reason, confirmed or scanner
//!                                                       └ hosting ─► a signal for rules of behaviour
//! ```
//! A list may confirm what an agent says it is, or make scanners of agents that look like people's; it never makes a person of
//! a machine, nor a machine of an app's browser (that is [`Classifier::with_mark`]'s part). Networks of people, such as
//! relays, win over both. What holds for a prefix holds for all that are inside of it; of two lists that say the same, the
//! one with the longer prefix is named.
//!
//! An IPv4 address in IPv6 form is an IPv4 address.
//!
//! [`Classifier::with_mark`]: crate::classify::Classifier::with_mark

mod formats;
mod list;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;
use schemas::visitor::canonical;

pub use formats::{FormatError, prefixes};
pub use list::{List, ListError, Meaning, check_name};

use crate::classify::Mark;

/// Lists, ready to be asked. Cheap to share: read only.
#[derive(Debug, Default)]
pub struct Networks {
    lists: Vec<Head>,
    v4: PrefixMap<Ipv4Net, u32>,
    v6: PrefixMap<Ipv6Net, u32>,
    /// What holds somewhere, each once; the tries have its place.
    holds: Vec<Holds>,
    marks: bool,
    scans: bool,
}

/// A list without its prefixes.
#[derive(Debug)]
struct Head {
    name: Arc<str>,
    agents: Vec<String>,
}

/// What holds for a network: places of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Holds {
    people: bool,
    scanner: Option<u16>,
    hosting: Option<u16>,
    /// Of the longest prefix first.
    confirms: Vec<u16>,
}

impl Holds {
    /// What holds further in, where one more list has a prefix.
    fn with(mut self, place: u16, meaning: Meaning) -> Self {
        match meaning {
            Meaning::People => self.people = true,
            Meaning::Scanner => self.scanner = Some(place),
            Meaning::Hosting => self.hosting = Some(place),
            Meaning::Confirm => {
                self.confirms.retain(|known| *known != place);
                self.confirms.insert(0, place);
            }
        }
        self
    }
}

impl Networks {
    /// Of checked lists; of two lists of one name the first is taken.
    pub fn new<'a>(lists: impl IntoIterator<Item = &'a List>) -> Self {
        let (mut networks, mut places) = (Self::default(), HashMap::new());
        let (mut v4, mut v6) = (BTreeMap::new(), BTreeMap::new());
        for list in lists.into_iter().take(usize::from(u16::MAX)) {
            let place = networks.lists.len() as u16;
            if networks.lists.iter().any(|known| *known.name == *list.name) {
                continue;
            }
            networks.lists.push(Head { name: list.name.as_str().into(), agents: list.agents.clone() });
            networks.scans |= list.meaning == Meaning::Scanner;
            networks.marks |= matches!(list.meaning, Meaning::Scanner | Meaning::Confirm);
            for prefix in &list.prefixes {
                match prefix.trunc() {
                    IpNet::V4(net) => v4.entry(net).or_insert_with(Vec::new).push((place, list.meaning)),
                    IpNet::V6(net) => v6.entry(net).or_insert_with(Vec::new).push((place, list.meaning)),
                }
            }
        }
        let mut place_of = |holds: &Holds, all: &mut Vec<Holds>| {
            *places.entry(holds.clone()).or_insert_with(|| {
                all.push(holds.clone());
                all.len() as u32 - 1
            })
        };
        // by address, the wider first: what is around a prefix comes before it
        let mut around: Vec<(Ipv4Net, Holds)> = Vec::new();
        for (net, own) in v4 {
            around.retain(|(outer, _)| outer.contains(&net));
            let holds = inside(around.last().map(|(_, holds)| holds), &own);
            networks.v4.insert(net, place_of(&holds, &mut networks.holds));
            around.push((net, holds));
        }
        let mut around: Vec<(Ipv6Net, Holds)> = Vec::new();
        for (net, own) in v6 {
            around.retain(|(outer, _)| outer.contains(&net));
            let holds = inside(around.last().map(|(_, holds)| holds), &own);
            networks.v6.insert(net, place_of(&holds, &mut networks.holds));
            around.push((net, holds));
        }
        networks
    }

    fn find(&self, address: IpAddr) -> Option<&Holds> {
        let place = match canonical(address) {
            IpAddr::V4(v4) => self.v4.get_lpm(&Ipv4Net::from(v4))?.1,
            IpAddr::V6(v6) => self.v6.get_lpm(&Ipv6Net::from(v6))?.1,
        };
        self.holds.get(*place as usize)
    }

    /// What an address says of a request whose agent has this name: that it is the operator's of that agent, else that its
    /// network is a scanner's. A confirmation goes first, however wide the lists are: it is of this agent, which is no
    /// ordinary browser's, while a scanner's list is of those alone.
    pub fn mark(&self, address: IpAddr, agent: Option<&str>) -> Option<Mark<'_>> {
        if !self.marks {
            return None;
        }
        let holds = self.find(address)?;
        let is_of = |agent: &str, place: u16| {
            let list = self.lists.get(usize::from(place));
            list.is_some_and(|list| list.agents.iter().any(|known| known.eq_ignore_ascii_case(agent)))
        };
        let confirming = agent.and_then(|agent| holds.confirms.iter().find(|place| is_of(agent, **place)));
        if let Some(place) = confirming {
            return self.name(*place).map(Mark::Confirmed);
        }
        holds.scanner.filter(|_| !holds.people).and_then(|place| self.name(place)).map(Mark::Scanner)
    }

    /// The list of hosting networks that an address is in; none of people's.
    pub fn hosting(&self, address: IpAddr) -> Option<&str> {
        self.find(address).filter(|holds| !holds.people)?.hosting.and_then(|place| self.name(place))
    }

    /// Whether an address is one behind which there are many people.
    pub fn is_peoples(&self, address: IpAddr) -> bool {
        self.find(address).is_some_and(|holds| holds.people)
    }

    /// Whether any networks are hosting ones.
    pub fn has_hosting(&self) -> bool {
        self.holds.iter().any(|holds| holds.hosting.is_some())
    }

    /// Whether an address can make a scanner of an ordinary-looking agent.
    pub fn has_scanners(&self) -> bool {
        self.scans
    }

    fn name(&self, place: u16) -> Option<&str> {
        self.lists.get(usize::from(place)).map(|list| &*list.name)
    }
}

/// What holds for a prefix with lists of its own, inside of another.
fn inside(outer: Option<&Holds>, own: &[(u16, Meaning)]) -> Holds {
    // of two with one prefix the first is named
    own.iter().rev().fold(outer.cloned().unwrap_or_default(), |holds, (place, meaning)| holds.with(*place, *meaning))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemas::UtcMicros;

    use super::*;

    fn list(name: &str, meaning: Meaning, agents: &[&str], prefixes: &[&str]) -> List {
        List {
            name: name.into(),
            meaning,
            agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
            source: "test".into(),
            updated_at: UtcMicros(0),
            prefixes: prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect(),
        }
    }

    fn sample() -> Networks {
        Networks::new(&[
            list("mail", Meaning::Scanner, &[], &["40.94.0.0/16", "2001:db8:5::/48"]),
            list("inner", Meaning::Scanner, &[], &["40.94.7.0/24"]),
            list("relay", Meaning::People, &[], &["40.94.7.128/25", "100.64.0.0/10"]),
            list("cloud", Meaning::Hosting, &[], &["40.0.0.0/8", "2001:db8::/32"]),
            list("googlebot", Meaning::Confirm, &["Google", "Google AI"], &["66.249.64.0/19", "40.94.9.0/24"]),
            list("google", Meaning::Confirm, &["google"], &["66.249.0.0/16"]),
        ])
    }

    fn mark(address: &str, agent: Option<&str>) -> Option<String> {
        sample().mark(address.parse().unwrap(), agent).map(|mark| format!("{mark:?}"))
    }

    #[test]
    fn the_longest_prefix_names_the_list_and_people_win() {
        for (address, agent, expected) in [
            ("40.94.1.2", None, Some("Scanner(\"mail\")")),
            ("::ffff:40.94.1.2", None, Some("Scanner(\"mail\")")),
            ("40.94.7.2", None, Some("Scanner(\"inner\")")),
            ("40.94.7.200", None, None),
            ("100.64.1.1", None, None),
            ("40.93.1.2", None, None),
            ("2001:db8:5::1", Some("Google"), Some("Scanner(\"mail\")")),
            ("2001:db8:6::1", None, None),
            ("66.249.64.1", Some("Google"), Some("Confirmed(\"googlebot\")")),
            ("66.249.64.1", Some("google ai"), Some("Confirmed(\"googlebot\")")),
            ("66.249.1.1", Some("Google"), Some("Confirmed(\"google\")")),
            ("66.249.64.1", Some("Bing"), None),
            ("66.249.64.1", None, None),
            ("40.94.9.1", Some("Google"), Some("Confirmed(\"googlebot\")")),
            ("40.94.9.1", Some("Bing"), Some("Scanner(\"mail\")")),
            ("40.94.9.1", None, Some("Scanner(\"mail\")")),
        ] {
            assert_eq!(mark(address, agent).as_deref(), expected, "{address} {agent:?}");
        }
    }

    #[test]
    fn hosting_is_a_signal_and_no_mark() {
        let networks = sample();
        assert!(networks.has_hosting() && !Networks::default().has_hosting());
        let peoples = |address: &str| networks.is_peoples(address.parse().unwrap());
        assert!(peoples("40.94.7.200") && !peoples("40.94.1.2") && !peoples("8.8.8.8"));
        for (address, expected) in [
            ("40.1.2.3", Some("cloud")),
            ("40.94.1.2", Some("cloud")),
            ("40.94.7.200", None),
            ("2001:db8:5::1", Some("cloud")),
            ("41.0.0.1", None),
        ] {
            assert_eq!(networks.hosting(address.parse().unwrap()), expected, "{address}");
        }
        assert!(networks.has_scanners());
        let confirming = Networks::new(&[list("a", Meaning::Confirm, &["A"], &["10.0.0.0/8"])]);
        assert!(!confirming.has_scanners());
        assert_eq!(Networks::default().mark("10.0.0.1".parse().unwrap(), None), None);
    }

    #[test]
    fn of_two_lists_with_one_prefix_the_first_is_named() {
        let lists = [
            list("a", Meaning::Scanner, &[], &["10.0.0.0/8"]),
            list("b", Meaning::Scanner, &[], &["10.0.0.0/8"]),
            list("a", Meaning::People, &[], &["10.0.0.0/8"]),
        ];
        assert_eq!(Networks::new(&lists).mark("10.0.0.1".parse().unwrap(), None), Some(Mark::Scanner("a")));
    }

    const MEANINGS: [Meaning; 4] = [Meaning::Confirm, Meaning::Scanner, Meaning::Hosting, Meaning::People];

    proptest! {
        /// Against a look at every prefix of every list.
        #[test]
        fn a_trie_finds_what_a_look_at_every_prefix_finds(
            lists in proptest::collection::vec((0usize..4, proptest::collection::vec((0u32..64, 24u8..=32), 0..6)), 0..6),
            probe in 0u32..64,
        ) {
            let lists: Vec<List> = lists.into_iter().enumerate().map(|(number, (meaning, prefixes))| {
                let prefixes = prefixes.into_iter().map(|(bits, length)| {
                    IpNet::from(Ipv4Net::new(bits.into(), length).unwrap().trunc())
                });
                List { prefixes: prefixes.collect(), ..list(&format!("l{number}"), MEANINGS[meaning], &["A"], &[]) }
            }).collect();
            let networks = Networks::new(&lists);
            let address = IpAddr::V4(probe.into());
            let longest = |meaning: Meaning| {
                let of = lists.iter().filter(|list| list.meaning == meaning);
                let hits = of.filter_map(|list| {
                    let hits = list.prefixes.iter().filter(|prefix| prefix.contains(&address));
                    hits.map(IpNet::prefix_len).max().map(|length| (std::cmp::Reverse(length), list.name.as_str()))
                });
                hits.min().map(|(_, name)| name)
            };
            let people = longest(Meaning::People).is_some();
            let scanner = longest(Meaning::Scanner).filter(|_| !people).map(Mark::Scanner);
            let confirmed = longest(Meaning::Confirm).map(Mark::Confirmed);
            prop_assert_eq!(networks.mark(address, Some("A")), confirmed.or(scanner));
            prop_assert_eq!(networks.mark(address, Some("B")), scanner);
            prop_assert_eq!(networks.mark(address, None), scanner);
            prop_assert_eq!(networks.hosting(address), longest(Meaning::Hosting).filter(|_| !people));
        }
    }
}
