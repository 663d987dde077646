//! Which requests of one visitor are a machine's, as several of them show together. Pure.
//!
//! ```text
//! requests of a stretch, by visitor and time ─► many links within seconds        ─► scanner
//!                                            ─► codes that grow letter by letter ─► preview
//! each request, its link, its network        ─► made within seconds of the link, from a hosting network ─► scanner
//! ```

use std::collections::HashMap;
use std::time::Duration;

use schemas::{ClickId, LinkId, UtcMicros};

use crate::classify::Sign;
use crate::settle::ids::IdMap;

/// The least codes that make a word being typed.
const KEYSTROKES: usize = 3;

/// Which signals count, and from when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BehaviourConfig {
    /// A request within so long of its link's creation from a hosting network is a scanner's; zero: never.
    pub new_link: Duration,
    /// A visitor on so many links within [`within`](Self::within) is a scanner; zero: none is.
    pub many_links: usize,
    /// Whether codes of which each begins with the one before are those of a link being typed.
    pub keystrokes: bool,
    /// Requests of one visitor farther apart than that have nothing to do with each other.
    pub within: Duration,
}

impl Default for BehaviourConfig {
    fn default() -> Self {
        Self { new_link: Duration::from_secs(10), many_links: 20, keystrokes: true, within: Duration::from_secs(10) }
    }
}

impl BehaviourConfig {
    /// A visitor with fewer requests than that shows nothing; `None` when visitors aren't looked at.
    pub(super) fn least_requests(&self) -> Option<u8> {
        let many = (self.many_links > 0).then_some(self.many_links);
        let least = if self.keystrokes { Some(KEYSTROKES) } else { many };
        least.map(|least| least.min(usize::from(u8::MAX)) as u8)
    }

    /// Whether nothing is looked for.
    pub fn is_off(&self) -> bool {
        self.new_link.is_zero() && self.many_links == 0 && !self.keystrokes
    }
}

/// A request that an agent alone would call a person's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) id: ClickId,
    pub(super) time: UtcMicros,
    /// `None` when it isn't known, or tells many from one another not.
    pub(super) visitor: Option<i64>,
    pub(super) link: LinkId,
    /// Its domain and code.
    pub(super) name: (&'a str, &'a str),
    pub(super) is_hosted: bool,
}

/// The requests that are no person's, each with the sign that comes first.
pub(super) fn signs(requests: &mut [Request<'_>], config: &BehaviourConfig) -> IdMap<Sign> {
    let mut found = IdMap::default();
    for request in requests.iter().filter(|request| is_early(request, config.new_link)) {
        note(&mut found, request, Sign::NewLink);
    }
    requests.sort_unstable_by_key(|request| (request.visitor, request.time, request.id));
    for group in requests.chunk_by(|a, b| a.visitor == b.visitor).filter(|group| group[0].visitor.is_some()) {
        if config.many_links > 0 {
            many_links(group, config, &mut found);
        }
        if config.keystrokes {
            keystrokes(group, config.within, &mut found);
        }
    }
    found
}

fn note(found: &mut IdMap<Sign>, request: &Request<'_>, sign: Sign) {
    let known = found.entry(request.id).or_insert(sign);
    *known = sign.min(*known);
}

fn is_early(request: &Request<'_>, limit: Duration) -> bool {
    let age = request.link.made_at().map(|made| request.time.0 - made.0);
    !limit.is_zero() && request.is_hosted && age.is_some_and(|age| age >= 0 && age <= UtcMicros(0).plus(limit).0)
}

/// Marks all requests of every span of `within` that has enough links in it.
fn many_links(group: &[Request<'_>], config: &BehaviourConfig, found: &mut IdMap<Sign>) {
    if group.len() < config.many_links {
        return;
    }
    let mut links: HashMap<LinkId, usize> = HashMap::new();
    let (mut first, mut marked) = (0, 0);
    for (at, request) in group.iter().enumerate() {
        *links.entry(request.link).or_default() += 1;
        while group[first].time.plus(config.within) < request.time {
            if let Some(count) = links.get_mut(&group[first].link) {
                *count -= 1;
                if *count == 0 {
                    links.remove(&group[first].link);
                }
            }
            first += 1;
        }
        if links.len() >= config.many_links {
            group[first.max(marked)..=at].iter().for_each(|one| note(found, one, Sign::ManyLinks));
            marked = at + 1;
        }
    }
}

/// Marks runs of requests whose codes each begin with the one before and are longer.
fn keystrokes(group: &[Request<'_>], within: Duration, found: &mut IdMap<Sign>) {
    let grows = |a: &Request<'_>, b: &Request<'_>| {
        a.name.0 == b.name.0
            && b.name.1.len() > a.name.1.len()
            && b.name.1.starts_with(a.name.1)
            && b.time <= a.time.plus(within)
    };
    for run in group.chunk_by(grows).filter(|run| run.len() >= KEYSTROKES) {
        run.iter().for_each(|one| note(found, one, Sign::Keystrokes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schemas::time::SECOND;

    const CONFIG: BehaviourConfig = BehaviourConfig {
        new_link: Duration::from_secs(10),
        many_links: 4,
        keystrokes: true,
        within: Duration::from_secs(5),
    };

    fn link(number: u128) -> LinkId {
        LinkId(uuid::Uuid::from_u128(number))
    }

    fn request(id: u128, seconds: i64, visitor: i64, of: u128, code: &str) -> Request<'_> {
        Request {
            id: ClickId::from(id),
            time: UtcMicros(seconds * SECOND),
            visitor: Some(visitor),
            link: link(of),
            name: ("s.example", code),
            is_hosted: false,
        }
    }

    fn found(requests: &mut [Request<'_>]) -> Vec<(u128, Sign)> {
        let mut found: Vec<(u128, Sign)> =
            signs(requests, &CONFIG).into_iter().map(|(id, sign)| (id.as_u128(), sign)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn who_opens_more_links_within_seconds_than_people_do_is_a_scanner() {
        let mut fast: Vec<Request<'_>> = (1..=4).map(|n| request(n, n as i64, 7, n, "x")).collect();
        fast.push(request(5, 30, 7, 5, "x")); // later on, like anybody
        fast.push(request(6, 2, 8, 1, "x")); // somebody else
        fast.reverse();
        let many = |ids: &[u128]| ids.iter().map(|id| (*id, Sign::ManyLinks)).collect::<Vec<_>>();
        assert_eq!(found(&mut fast), many(&[1, 2, 3, 4]));
        let mut slow: Vec<Request<'_>> = (1..=8).map(|n| request(n, 2 * n as i64, 7, n, "x")).collect();
        assert_eq!(found(&mut slow), [], "as many, but in their time");
        let mut same: Vec<Request<'_>> = (1..=9).map(|n| request(n, 1, 7, n % 3, "x")).collect();
        assert_eq!(found(&mut same), [], "the same links again and again");
        let mut unknown: Vec<Request<'_>> =
            (1..=9).map(|n| Request { visitor: None, ..request(n, 1, 0, n, "x") }).collect();
        assert_eq!(found(&mut unknown), [], "nobody knows whether it is one visitor");
    }

    #[test]
    fn codes_that_grow_letter_by_letter_are_being_typed() {
        let mut typed = [
            request(1, 1, 7, 1, "spr"),
            request(2, 2, 7, 2, "spri"),
            request(3, 3, 7, 3, "spring"),
            request(4, 90, 7, 4, "spring1"),
        ];
        let keys = |ids: &[u128]| ids.iter().map(|id| (*id, Sign::Keystrokes)).collect::<Vec<_>>();
        assert_eq!(found(&mut typed), keys(&[1, 2, 3]), "the fourth is somebody who has read it");
        assert_eq!(found(&mut typed[..2]), [], "two may be chance");
        typed[2].name.0 = "other.example";
        assert_eq!(found(&mut typed[..3]), []);
        typed[2].name.0 = "s.example";
        typed[2].time = UtcMicros(8 * SECOND);
        assert_eq!(found(&mut typed[..3]), [], "a pause of six seconds");
    }

    #[test]
    fn a_hosting_network_at_a_link_just_made_is_a_scanner() {
        let fresh = LinkId::new();
        let made = fresh.made_at().unwrap();
        let at = |id, seconds: i64, is_hosted| Request {
            time: UtcMicros(made.0 + seconds * SECOND),
            link: fresh,
            is_hosted,
            visitor: None,
            ..request(id, 0, 0, 0, "x")
        };
        let mut requests = [at(1, 3, true), at(2, 3, false), at(3, 11, true), at(4, -1, true)];
        assert_eq!(found(&mut requests), [(1, Sign::NewLink)]);
        let off = BehaviourConfig { new_link: Duration::ZERO, ..CONFIG };
        assert!(signs(&mut requests, &off).is_empty());
        let mut imported = [Request { is_hosted: true, ..request(9, 3, 1, 1, "x") }];
        assert_eq!(found(&mut imported), [], "a link whose id tells no time");
    }

    proptest! {
        /// Whoever is marked has enough links in some span around it, and whoever isn't has not; in any order.
        #[test]
        fn a_mark_is_what_counting_says(
            mut seen in proptest::collection::vec((0i64..3, 0i64..40, 0u128..8), 0..60),
            turn in 0usize..60,
        ) {
            let len = seen.len().max(1);
            seen.rotate_left(turn % len);
            let mut requests: Vec<Request<'_>> =
                seen.iter().zip(1..).map(|((who, at, of), id)| request(id, *at, *who, *of, "x")).collect();
            let config = BehaviourConfig { keystrokes: false, ..CONFIG };
            let marked = signs(&mut requests.clone(), &config);
            for one in requests.clone() {
                let is_many = requests.iter().filter(|last| last.visitor == one.visitor && last.time >= one.time).any(|last| {
                    let span = requests.iter().filter(|other| {
                        other.visitor == one.visitor && other.time <= last.time && other.time.plus(config.within) >= last.time
                    });
                    let links: std::collections::HashSet<LinkId> = span.map(|other| other.link).collect();
                    one.time.plus(config.within) >= last.time && links.len() >= config.many_links
                });
                prop_assert_eq!(marked.contains_key(&one.id), is_many, "{:?}", one);
            }
            requests.reverse();
            prop_assert_eq!(signs(&mut requests, &config), marked);
        }
    }
}
