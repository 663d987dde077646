//! The enricher itself: what both ways have in common, and what each adds.

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use ingest::edge::EdgeRequest;
use schemas::click::{AgentInfo, ClickRow, Verdict};
use schemas::link::DEFAULT_WORKSPACE;
use schemas::privacy::Privacy;
use schemas::tables::UNWEIGHED;
use schemas::visitor::{VisitorKey, visitor};
use schemas::{Class, ClickEvent, ClickId, LinkHistory, LinkId, Method, Revision, Source, UtcMicros};

use super::cache::KnownAgent;
use super::force::{Force, Rules, shown_agent};
use super::intern::{Destination, Destinations};
use super::place::{self, Located};
use super::short::{Short, network};
use super::{agent, locale, referrer, utm};
use crate::classify::{Classifier, Mark, Request, RulesError};
use crate::geo::Geo;
use crate::networks::Networks;

thread_local! {
    static DESTINATIONS: RefCell<Destinations> = RefCell::default();
}

/// How an [`Enricher`] is set up.
#[derive(Clone, Debug)]
pub struct EnrichConfig {
    /// Host names served here: a referrer among them says nothing. Ports are ignored.
    pub own_domains: Vec<String>,
    /// Memory for what is known of user agents, in bytes.
    pub cache_bytes: usize,
    /// Where addresses are.
    pub geo: Arc<Geo>,
    /// Who asks for privacy, and what is kept of queries.
    pub privacy: Privacy,
}

impl Default for EnrichConfig {
    fn default() -> Self {
        Self { own_domains: Vec::new(), cache_bytes: 16 << 20, geo: Arc::default(), privacy: Privacy::default() }
    }
}

/// What an importer adds to a line of an edge log.
#[derive(Clone, Copy, Debug)]
pub struct EdgeLine<'a> {
    /// Identity of the request.
    pub click_id: ClickId,
    /// What the row will be, or become.
    pub source: Source,
    /// The import that brings it.
    pub import_id: Option<&'a str>,
    /// When the row is made.
    pub ingest_time: UtcMicros,
    /// The key of the request's day; `None` leaves the visitor out.
    pub visitor_key: Option<&'a VisitorKey>,
    /// The domain of a code that the link store lacks.
    pub domain: &'a str,
    /// The link is `internal`: what its row weighs is found out when it is settled.
    pub is_internal: bool,
}

/// Turns requests into rows of `clicks`.
#[derive(Debug)]
pub struct Enricher {
    force: RwLock<Arc<Force>>,
    cache_bytes: usize,
    geo: Arc<Geo>,
    privacy: Privacy,
    /// Lower case, without ports.
    own_domains: Vec<String>,
}

/// What both ways have in common: a request of a link, as far as it is known.
struct Seen<'a> {
    click_id: ClickId,
    event_time: UtcMicros,
    ingest_time: UtcMicros,
    workspace: &'a str,
    link_id: Option<LinkId>,
    domain: &'a str,
    code: &'a str,
    revision: Option<i32>,
    destination: &'a str,
    source: Source,
    import_id: Option<&'a str>,
    method: Option<Method>,
    status: u16,
    address: Option<IpAddr>,
    visitor: Option<i64>,
    user_agent: &'a str,
    purpose: &'a str,
    referrer: &'a str,
    query: &'a str,
    language: &'a str,
    place: place::Told<'a>,
    weight: f64,
    private: bool,
}

/// What a request tells, worked out.
struct Told<'a> {
    seen: &'a Seen<'a>,
    known: &'a KnownAgent,
    verdict: Cow<'a, Verdict>,
    destination: Option<&'a Destination>,
    referrer: Option<Cow<'a, str>>,
    place: Located<'a>,
    language: Option<Short>,
    /// Of the click's own query.
    utm: Option<[Option<Cow<'a, str>>; 5]>,
    client_net: Option<Short>,
    /// The listed parameters of the click's own query.
    query: Option<Cow<'a, str>>,
}

impl Told<'_> {
    fn row(&self) -> ClickRow<'_> {
        let Self { seen, known, .. } = self;
        let mut utm = self.destination.map(|destination| destination.utm.as_texts()).unwrap_or_default();
        for (text, own) in utm.iter_mut().zip(self.utm.iter().flatten()) {
            *text = own.as_deref().or(*text);
        }
        ClickRow {
            click_id: seen.click_id,
            event_time: seen.event_time,
            ingest_time: seen.ingest_time,
            workspace: seen.workspace,
            link_id: seen.link_id,
            domain: seen.domain,
            code: seen.code,
            revision: seen.revision,
            destination: self.destination.map(|destination| &*destination.text),
            source: seen.source,
            verdict: &self.verdict,
            method: seen.method,
            status: i32::from(seen.status),
            country: self.place.country(),
            region: self.place.region(),
            city: self.place.city().filter(|_| !seen.private),
            agent_info: &known.info,
            import_id: seen.import_id,
            referrer: self.referrer.as_deref(),
            utm,
            language: self.language.as_deref(),
            user_agent: known.user_agent.as_deref(),
            client_net: self.client_net.as_deref(),
            visitor: seen.visitor,
            weight: seen.weight,
            query: self.query.as_deref(),
            private: seen.private,
        }
    }
}

impl Enricher {
    /// With the rules of this release.
    ///
    /// # Errors
    /// When the rules are wrong, which this crate's tests rule out.
    pub fn new(config: &EnrichConfig) -> Result<Self, RulesError> {
        Ok(Self::with_rules(Classifier::builtin()?, config))
    }

    /// With an operator's rules, and networks, too. Begins to load uap-core's rules on threads of their own, since that takes a moment: the
    /// first agent waits for what is left of it.
    pub fn with_rules(rules: impl Into<Rules>, config: &EnrichConfig) -> Self {
        agent::load_ahead();
        let own_domains = config.own_domains.iter().map(|domain| referrer::without_port(domain).to_ascii_lowercase());
        let force = RwLock::new(Arc::new(Force::new(rules.into(), config.cache_bytes)));
        let (cache_bytes, geo, privacy) = (config.cache_bytes, Arc::clone(&config.geo), config.privacy.clone());
        Self { force, cache_bytes, geo, privacy, own_domains: own_domains.collect() }
    }

    /// Where addresses are.
    pub fn geo(&self) -> &Arc<Geo> {
        &self.geo
    }

    /// The rules in force.
    pub fn classifier(&self) -> Arc<Classifier> {
        Arc::clone(self.force().classifier())
    }

    /// Puts other rules in force, with the networks that are: every row that is made from now on is by them, and nothing that
    /// was made of agents before is used again.
    pub fn put_in_force(&self, classifier: Classifier) {
        self.exchange(|force| force.with_classifier(classifier, self.cache_bytes));
    }

    /// Puts other networks in force, with the rules that are.
    pub fn put_networks_in_force(&self, networks: Networks) {
        self.exchange(|force| force.with_networks(networks, self.cache_bytes));
    }

    fn exchange(&self, other: impl FnOnce(&Force) -> Force) {
        let mut force = self.force.write().unwrap_or_else(PoisonError::into_inner);
        let other = Arc::new(other(&force));
        let before = std::mem::replace(&mut *force, other);
        drop(force);
        // it may be large, and nobody is to wait for its going
        drop(before);
    }

    fn force(&self) -> Arc<Force> {
        Arc::clone(&self.force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the row of an event of the redirect's own to `then`.
    pub fn event_row<R>(
        &self,
        event: &ClickEvent<'_>,
        ingest_time: UtcMicros,
        then: impl FnOnce(&ClickRow<'_>) -> R,
    ) -> R {
        let seen = Seen {
            click_id: event.click_id,
            event_time: event.event_time,
            ingest_time,
            workspace: event.workspace,
            link_id: Some(event.link_id),
            domain: event.domain,
            code: event.code,
            revision: Some(event.revision),
            destination: event.destination,
            source: Source::Origin,
            import_id: None,
            method: Some(event.method),
            status: event.status,
            address: event.address,
            visitor: event.visitor.filter(|_| !event.private),
            user_agent: event.user_agent,
            purpose: event.purpose,
            referrer: event.referrer,
            query: event.query,
            language: event.language,
            place: place::Told { country: event.country, region: event.region, city: event.city },
            weight: 1.0,
            private: event.private,
        };
        self.told(&seen, |told| then(&told.row()))
    }

    /// The class of an event without purpose headers, by the hash of its agent, and by its address if that matters; `None`
    /// when no event of that agent has been seen lately.
    pub fn class_of(&self, agent_hash: u64, is_head: bool, address: impl FnOnce() -> Option<IpAddr>) -> Option<Class> {
        self.force().class_of(agent_hash, is_head, address)
    }

    /// Whether an address is one behind which there are many people, as a relay's.
    pub fn is_peoples(&self, address: IpAddr) -> bool {
        self.force().is_peoples(address)
    }

    /// Whether any networks are known to be hosting ones.
    pub fn has_hosting(&self) -> bool {
        self.force().has_hosting()
    }

    /// The list of hosting networks that an address is in, if it is in one and isn't people's.
    pub fn hosting(&self, address: IpAddr) -> Option<Arc<str>> {
        self.force().hosting(address).map(Arc::from)
    }

    /// Gives the row of a line of an edge log to `then`. A link's own domain and code are put into the row, so that a log
    /// by another name of the host, or by none, reports like the origin's events. `link` is `None` for a code that the
    /// link store lacks; its revision is `None` when the link didn't exist at that time.
    pub fn edge_row<R>(
        &self,
        request: &EdgeRequest<'_>,
        line: EdgeLine<'_>,
        link: Option<(&LinkHistory, Option<&Revision>)>,
        then: impl FnOnce(&ClickRow<'_>) -> R,
    ) -> R {
        let (history, revision) = (link.map(|(history, _)| history), link.and_then(|(_, revision)| revision));
        let private = self.privacy.is_private(request.asked);
        let who = line.visitor_key.zip(request.address).filter(|_| !private);
        let seen = Seen {
            click_id: line.click_id,
            event_time: request.time,
            ingest_time: line.ingest_time,
            workspace: history.map_or(DEFAULT_WORKSPACE, |history| &history.workspace),
            link_id: history.map(|history| history.link_id),
            domain: history.map_or(line.domain, |history| &history.domain),
            code: history.map_or(request.code, |history| &history.code),
            revision: revision.map(|revision| revision.revision),
            destination: revision.map_or("", |revision| &revision.destination),
            source: line.source,
            import_id: line.import_id,
            method: request.method,
            status: request.status,
            address: request.address,
            visitor: who.map(|(key, address)| visitor(key, address, shown_agent(request.user_agent))),
            user_agent: request.user_agent,
            purpose: "",
            referrer: request.referrer,
            query: request.query,
            language: request.language,
            place: place::Told { country: request.country, region: request.region, city: request.city },
            weight: if line.is_internal { UNWEIGHED } else { 1.0 },
            private,
        };
        self.told(&seen, |told| then(&told.row()))
    }

    /// Works out what the parts of a request tell.
    fn told<R>(&self, seen: &Seen<'_>, then: impl FnOnce(&Told<'_>) -> R) -> R {
        let force = self.force();
        let known = force.known(seen.user_agent);
        let request = Request { method: seen.method, user_agent: seen.user_agent, purpose: seen.purpose };
        DESTINATIONS.with_borrow_mut(|destinations| {
            then(&Told {
                seen,
                verdict: force.verdict(&known, &request, seen.address),
                known: &known,
                destination: destinations.get(seen.destination),
                referrer: referrer::host(seen.referrer).filter(|host| !self.is_own(host, seen.domain)),
                place: Located::of(seen.place, seen.address, &self.geo),
                language: locale::language(seen.language),
                utm: utm::of_query(seen.query),
                client_net: seen.address.filter(|_| !seen.private).map(network),
                query: self.privacy.listed(seen.query),
            })
        })
    }

    /// What follows for a row from its agent, its method, and what its reason keeps of headers (which said that it was
    /// fetched ahead) and of its network.
    pub(super) fn judged(
        &self,
        user_agent: &str,
        method: Option<Method>,
        ahead: Option<Verdict>,
        mark: Option<Mark<'_>>,
    ) -> (Verdict, Arc<AgentInfo>) {
        let force = self.force();
        let known = force.known(user_agent);
        let verdict = match (method, ahead) {
            (Some(Method::Head), _) => known.head.clone(),
            (_, Some(ahead)) => ahead,
            (_, None) => known.verdict.clone(),
        };
        let verdict = match mark {
            Some(mark) => force.classifier().with_mark(&verdict, mark),
            None => verdict,
        };
        (verdict, Arc::clone(&known.info))
    }

    fn is_own(&self, host: &str, domain: &str) -> bool {
        referrer::without_port(domain).eq_ignore_ascii_case(host) || self.own_domains.iter().any(|own| own == host)
    }
}
