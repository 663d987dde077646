//! Links by host and code, looked up once an import and thread; or once for several imports, where one follows the other
//! within [`FRESH`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::ports::{LinkDirectory, PortError};
use schemas::code::is_code;
use schemas::link::{DEFAULT_WORKSPACE, MAX_CODE_BYTES};
use schemas::{Analytics, LinkHistory, LinkId, Revision, UtcMicros};

use super::options::UnknownCodes;

/// Looked-up codes kept at once; when there are more, all are forgotten.
const MOST_KEPT: usize = 200_000;
/// How long what was looked up is good for the file that comes next.
const FRESH: Duration = Duration::from_secs(60);

/// A code that counts: a link, or a code without one.
#[derive(Debug)]
pub(super) struct Known(Option<LinkHistory>);

impl Known {
    /// Whether there is a link.
    pub(super) fn is_link(&self) -> bool {
        self.0.is_some()
    }

    /// The link, and its revision in force at `time`; no revision when the link is younger than that.
    pub(super) fn at(&self, time: UtcMicros) -> Option<(&LinkHistory, Option<&Revision>)> {
        self.0.as_ref().map(|history| (history, history.at(time)))
    }

    /// The link, if there is one.
    pub(super) fn link_id(&self) -> Option<LinkId> {
        self.0.as_ref().map(|history| history.link_id)
    }

    /// Whose it is.
    pub(super) fn workspace(&self) -> &str {
        self.0.as_ref().map_or(DEFAULT_WORKSPACE, |history| &history.workspace)
    }

    /// Its own domain; none of a code without a link.
    pub(super) fn domain(&self) -> Option<&str> {
        self.0.as_ref().map(|history| &*history.domain)
    }

    /// The promise that holds for a click at `time`. A click older than its link (codes moved here from elsewhere,
    /// with logs of before) is held to the link's first promise.
    pub(super) fn analytics(&self, time: UtcMicros) -> Analytics {
        let revision = self.0.as_ref().and_then(|history| history.at(time).or(history.revisions.first()));
        revision.map_or(Analytics::Billed, |revision| revision.analytics)
    }

    /// Whether the redirect may have answered a request at `time` by this promise: the one that holds, or one that held so
    /// shortly before or after that it may not have heard of the change, or by another clock.
    pub(super) fn may_have_promised(&self, analytics: Analytics, time: UtcMicros, heard: Heard) -> bool {
        let Some(history) = &self.0 else { return false };
        let mut near = history.between(time.minus(heard.within), time.plus(heard.apart));
        near.any(|revision| revision.analytics == analytics) || self.analytics(time) == analytics
    }
}

/// How far from a line's time a promise may have held that its request was answered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// Before it: a redirect goes by what a link was for so long, and clocks are apart.
    within: Duration,
    /// After it: how far apart two records of a request are.
    apart: Duration,
}

impl Heard {
    /// Where every redirect has heard of a change after `takedown_limit`, and two records of a request are at most `apart`.
    pub(super) fn of(takedown_limit: Duration, apart: Duration) -> Self {
        Self { within: takedown_limit + apart, apart }
    }
}

/// Which codes count, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// The tenant whose links alone are known.
    pub(super) workspace: Option<String>,
    pub(super) unknown_codes: UnknownCodes,
    /// Host names served.
    pub(super) domains: Vec<String>,
    /// Whether a code without a host may be a link of any domain: of the first that has one of the tenant's. Else it
    /// is of the first domain.
    pub(super) any_domain: bool,
}

impl Scope {
    /// Whether a path's code is worth looking up. Where unknown codes are kept, whatever another shortener may have
    /// used for one is.
    fn may_count(&self, code: &str) -> bool {
        let keeps = self.workspace.is_none() && self.unknown_codes == UnknownCodes::Keep;
        let could_be = || (1..=MAX_CODE_BYTES).contains(&code.len()) && !code.chars().any(char::is_control);
        is_code(code) || (keeps && could_be())
    }

    /// Whether a link is one of those that are known.
    fn is_ours(&self, link: &LinkHistory) -> bool {
        self.workspace.as_ref().is_none_or(|ours| *ours == link.workspace)
    }

    fn judge(&self, ours: Option<LinkHistory>) -> Option<Known> {
        match ours {
            None if self.workspace.is_some() || self.unknown_codes == UnknownCodes::Ignore => None,
            history => Some(Known(history)),
        }
    }

    /// The domains that a host may stand for, the likeliest first.
    fn domains_of(&self, host: &str) -> Vec<String> {
        match host {
            "" if self.any_domain => self.domains.clone(),
            "" => self.domains.iter().take(1).cloned().collect(),
            host => vec![self.domain_of(host).to_owned()],
        }
    }

    /// The domain that a log's host stands for: logs often leave the port out.
    fn domain_of<'a>(&'a self, host: &'a str) -> &'a str {
        let served = |domain: &&String| domain.eq_ignore_ascii_case(host);
        let without_port = |domain: &&String| bare(domain).eq_ignore_ascii_case(bare(host));
        self.domains.iter().find(served).or_else(|| self.domains.iter().find(without_port)).map_or(host, String::as_str)
    }
}

/// A host name without its port.
fn bare(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Where a code's link is kept, until [`Links::bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// Of what can't be a code.
const NO_SLOT: Slot = Slot(u32::MAX);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    slot: Slot,
    domains: Vec<String>,
    code: String,
}

/// Links looked up so far.
#[derive(Debug)]
pub(super) struct Links {
    directory: Arc<dyn LinkDirectory>,
    scope: Scope,
    since: Instant,
    /// Where each host's codes are in `codes`.
    hosts: HashMap<String, usize>,
    /// The host asked for last, most often the next one too; and where its codes are.
    last: Option<(String, usize)>,
    /// By host and code.
    codes: Vec<HashMap<String, Slot, ahash::RandomState>>,
    /// By slot; `None`: its lines don't count.
    kept: Vec<Option<Known>>,
    missing: Vec<Missing>,
}

impl Links {
    pub(super) fn new(directory: Arc<dyn LinkDirectory>, scope: Scope) -> Self {
        let (hosts, codes, kept, missing) = (HashMap::new(), Vec::new(), Vec::new(), Vec::new());
        Self { directory, scope, since: Instant::now(), hosts, last: None, codes, kept, missing }
    }

    /// Whether what was looked up is good for a file that begins now, with this scope.
    pub(super) fn are_good_for(&self, scope: &Scope) -> bool {
        self.scope == *scope && self.since.elapsed() < FRESH
    }

    /// Where a code's link will be once it is looked up; notes it to be, unless it has been, or can't be a code.
    pub(super) fn slot(&mut self, host: &str, code: &str) -> Slot {
        let of_host = self.of_host(host);
        if let Some(slot) = of_host.and_then(|at| self.codes[at].get(code)) {
            return *slot;
        }
        if !self.scope.may_count(code) {
            return NO_SLOT;
        }
        let slot = Slot(self.kept.len() as u32);
        self.kept.push(None);
        let of_host = of_host.unwrap_or_else(|| self.add_host(host));
        self.codes[of_host].insert(code.to_owned(), slot);
        let mut domains = self.scope.domains_of(host);
        if domains.is_empty() {
            // the link store knows what stands for none
            domains.push(String::new());
        }
        self.missing.push(Missing { slot, domains, code: code.to_owned() });
        slot
    }

    /// Where a host's codes are.
    fn of_host(&mut self, host: &str) -> Option<usize> {
        if let Some((_, at)) = self.last.as_ref().filter(|(last, _)| last == host) {
            return Some(*at);
        }
        let at = *self.hosts.get(host)?;
        self.last = Some((host.to_owned(), at));
        Some(at)
    }

    fn add_host(&mut self, host: &str) -> usize {
        let at = self.codes.len();
        self.codes.push(HashMap::default());
        self.hosts.insert(host.to_owned(), at);
        at
    }

    /// Looks up what is wanted.
    pub(super) async fn look_up(&mut self) -> Result<(), PortError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let each = |missing: &Missing| {
            let Missing { domains, code, .. } = missing.clone();
            domains.into_iter().map(move |domain| (domain, code.clone()))
        };
        let asked: Vec<(String, String)> = self.missing.iter().flat_map(each).collect();
        let mut histories = self.directory.histories(&asked).await?.into_iter();
        for missing in std::mem::take(&mut self.missing) {
            let found = histories.by_ref().take(missing.domains.len()).collect::<Vec<_>>().into_iter();
            self.kept[missing.slot.0 as usize] =
                self.scope.judge(found.flatten().find(|link| self.scope.is_ours(link)));
        }
        Ok(())
    }

    /// What a code was found to be; none: its lines don't count.
    pub(super) fn at(&self, slot: Slot) -> Option<&Known> {
        self.kept.get(slot.0 as usize)?.as_ref()
    }

    /// Forgets what was looked up when it has become too much. Between blocks only.
    pub(super) fn bound(&mut self) {
        if self.kept.len() > MOST_KEPT {
            self.hosts.clear();
            self.last = None;
            self.codes.clear();
            self.kept.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Directory;
    use super::*;

    fn links(workspace: Option<&str>, unknown_codes: UnknownCodes) -> Links {
        let scope = Scope {
            workspace: workspace.map(str::to_owned),
            unknown_codes,
            domains: vec!["go.example.com:8080".into(), "other.example.com".into()],
            any_domain: false,
        };
        let directory = Directory::default()
            .with("w", "go.example.com:8080", "k", &[(10, Analytics::Internal), (20, Analytics::Billed)])
            .with("v", "other.example.com", "k", &[(10, Analytics::Off)]);
        Links::new(Arc::new(directory), scope)
    }

    async fn get<'a>(links: &'a mut Links, host: &str, code: &str) -> Option<&'a Known> {
        let slot = links.slot(host, code);
        links.look_up().await.unwrap();
        assert_eq!(links.slot(host, code), slot);
        links.at(slot)
    }

    fn link(known: &Known) -> (&str, &str) {
        known.0.as_ref().map_or(("", ""), |history| (&*history.workspace, &*history.domain))
    }

    #[tokio::test]
    async fn hosts_without_their_port_are_the_domain_with_it() {
        let mut links = links(None, UnknownCodes::Ignore);
        for host in ["go.example.com", "go.example.com:8080", "GO.example.com:80"] {
            let known = get(&mut links, host, "k").await.unwrap();
            assert_eq!(link(known), ("w", "go.example.com:8080"), "{host}");
        }
        assert_eq!(link(get(&mut links, "", "k").await.unwrap()).0, "w", "no host: the first domain");
        assert_eq!(link(get(&mut links, "other.example.com", "k").await.unwrap()).0, "v");
        assert!(get(&mut links, "third.example.com", "k").await.is_none());
    }

    #[tokio::test]
    async fn a_click_is_judged_by_the_revision_of_its_time_and_never_by_none() {
        let mut links = links(None, UnknownCodes::Ignore);
        let known = get(&mut links, "go.example.com", "k").await.unwrap();
        let at = |time| {
            let revision = known.at(UtcMicros(time)).unwrap().1.map(|revision| revision.revision);
            (revision, known.analytics(UtcMicros(time)))
        };
        assert_eq!(at(5), (None, Analytics::Internal));
        assert_eq!(at(15), (Some(1), Analytics::Internal));
        assert_eq!(at(20), (Some(2), Analytics::Billed));
    }

    #[tokio::test]
    async fn a_request_may_have_been_answered_by_what_a_link_was_shortly_before() {
        let mut links = links(None, UnknownCodes::Keep);
        let heard = Heard::of(Duration::from_micros(7), Duration::from_micros(2));
        let known = get(&mut links, "go.example.com", "k").await.unwrap();
        let may = |time| {
            [Analytics::Internal, Analytics::Billed].map(|sort| known.may_have_promised(sort, UtcMicros(time), heard))
        };
        // internal from 10 on, billed from 20 on
        let expected = [(5, [true, false]), (17, [true, false]), (18, [true, true]), (28, [true, true])];
        for (time, expected) in expected.into_iter().chain([(29, [false, true])]) {
            assert_eq!(may(time), expected, "{time}");
        }
        let unknown = get(&mut links, "x.example.com", "new").await.unwrap();
        assert!(!unknown.may_have_promised(Analytics::Internal, UtcMicros(0), heard));
    }

    #[test]
    fn what_was_looked_up_is_good_for_the_next_file_if_the_same_codes_count() {
        let links = links(None, UnknownCodes::Keep);
        let same = links.scope.clone();
        assert!(links.are_good_for(&same));
        for other in [
            Scope { workspace: Some("w".into()), ..same.clone() },
            Scope { unknown_codes: UnknownCodes::Ignore, ..same.clone() },
            Scope { any_domain: true, ..same },
        ] {
            assert!(!links.are_good_for(&other), "{other:?}");
        }
    }

    #[tokio::test]
    async fn unknown_codes_are_kept_or_not_and_foreign_ones_never() {
        let mut keeping = links(None, UnknownCodes::Keep);
        let unknown = get(&mut keeping, "x.example.com", "new").await.unwrap();
        assert!(unknown.at(UtcMicros(0)).is_none() && unknown.analytics(UtcMicros(0)) == Analytics::Billed);
        let mut others = links(None, UnknownCodes::Keep);
        for (code, counts) in [("p/1", true), ("a b", true), ("", false), ("a\n", false), (&*"x".repeat(129), false)] {
            assert_eq!(get(&mut others, "x.example.com", code).await.is_some(), counts, "{code:?}");
        }
        assert!(get(&mut links(None, UnknownCodes::Ignore), "go.example.com", "p/1").await.is_none());
        assert!(get(&mut links(None, UnknownCodes::Ignore), "x.example.com", "new").await.is_none());
        let mut tenant = links(Some("w"), UnknownCodes::Keep);
        assert!(get(&mut tenant, "other.example.com", "k").await.is_none(), "another workspace's link");
        assert!(get(&mut tenant, "x.example.com", "new").await.is_none());
        assert!(get(&mut tenant, "go.example.com", "k").await.is_some());
    }
}
