//! The enricher itself: what both ways have in common, and what each adds.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use ingest::edge::EdgeRequest;
use schemas::click::{AgentInfo, Utm, Verdict};
use schemas::link::DEFAULT_WORKSPACE;
use schemas::visitor::{VisitorKey, visitor};
use schemas::{Class, Click, ClickEvent, ClickId, LinkHistory, LinkId, Method, Revision, Source, UtcMicros};

use super::cache::{AgentCache, KnownAgent};
use super::intern::Texts;
use super::{agent, locale, referrer, utm};
use crate::classify::{Classifier, Request, RulesError};

/// The longest user agent that is kept, in bytes: as long as the wire format lets one be.
const MAX_AGENT_BYTES: usize = schemas::event::MAX_TEXT_BYTES;

thread_local! {
    static TEXTS: RefCell<Texts> = RefCell::new(Texts::new());
}

/// How an [`Enricher`] is set up.
#[derive(Clone, Debug)]
pub struct EnrichConfig {
    /// Host names served here: a referrer among them says nothing. Ports are ignored.
    pub own_domains: Vec<String>,
    /// Memory for what is known of user agents, in bytes.
    pub cache_bytes: usize,
}

impl Default for EnrichConfig {
    fn default() -> Self {
        Self { own_domains: Vec::new(), cache_bytes: 16 << 20 }
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
    pub import_id: Option<&'a Arc<str>>,
    /// When the row is made.
    pub ingest_time: UtcMicros,
    /// The key of the request's day; `None` leaves the visitor out.
    pub visitor_key: Option<&'a VisitorKey>,
}

/// Turns requests into rows of `clicks`.
#[derive(Debug)]
pub struct Enricher {
    classifier: Classifier,
    agents: AgentCache,
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
    import_id: Option<&'a Arc<str>>,
    method: Option<Method>,
    status: u16,
    address: Option<IpAddr>,
    visitor: Option<i64>,
    user_agent: &'a str,
    purpose: &'a str,
    referrer: &'a str,
    query: &'a str,
    language: &'a str,
    country: &'a str,
}

impl Enricher {
    /// With the rules of this release. Begins to load uap-core's rules on threads of their own, since that takes
    /// a moment: the first agent waits for what is left of it.
    ///
    /// # Errors
    /// When the rules are wrong, which this crate's tests rule out.
    pub fn new(config: &EnrichConfig) -> Result<Self, RulesError> {
        let enricher = Self::with_classifier(Classifier::builtin()?, config);
        agent::load_ahead();
        Ok(enricher)
    }

    /// With rules of one's own.
    pub fn with_classifier(classifier: Classifier, config: &EnrichConfig) -> Self {
        let own_domains = config.own_domains.iter().map(|domain| referrer::without_port(domain).to_ascii_lowercase());
        Self { classifier, agents: AgentCache::new(config.cache_bytes), own_domains: own_domains.collect() }
    }

    /// The rules in force.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// The row of an event of the redirect's own.
    pub fn click(&self, event: &ClickEvent<'_>, ingest_time: UtcMicros) -> Click {
        self.row(&Seen {
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
            visitor: event.visitor,
            user_agent: event.user_agent,
            purpose: event.purpose,
            referrer: event.referrer,
            query: event.query,
            language: event.language,
            country: event.country,
        })
    }

    /// The row of a line of an edge log. A link's own domain and code are put into the row, so that a log by another
    /// name of the host, or by none, reports like the origin's events. `link` is `None` for a code that the link
    /// store lacks; its revision is `None` when the link didn't exist at that time.
    pub fn edge_click(
        &self,
        request: &EdgeRequest<'_>,
        line: EdgeLine<'_>,
        link: Option<(&LinkHistory, Option<&Revision>)>,
    ) -> Click {
        let (history, revision) = (link.map(|(history, _)| history), link.and_then(|(_, revision)| revision));
        let who = line.visitor_key.zip(request.address);
        self.row(&Seen {
            click_id: line.click_id,
            event_time: request.time,
            ingest_time: line.ingest_time,
            workspace: history.map_or(DEFAULT_WORKSPACE, |history| &history.workspace),
            link_id: history.map(|history| history.link_id),
            domain: history.map_or(request.host, |history| &history.domain),
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
            country: request.country,
        })
    }

    fn row(&self, seen: &Seen<'_>) -> Click {
        let known = self.known(seen.user_agent);
        let referrer = referrer::host(seen.referrer).filter(|host| !self.is_own(host, seen.domain));
        TEXTS.with_borrow_mut(|texts| {
            let (destination, of_destination) = texts.destination(seen.destination);
            Click {
                click_id: seen.click_id,
                event_time: seen.event_time,
                ingest_time: seen.ingest_time,
                workspace: texts.share(seen.workspace),
                link_id: seen.link_id,
                domain: texts.share(seen.domain),
                code: texts.share(seen.code),
                revision: seen.revision,
                destination,
                source: seen.source,
                verdict: self.verdict(&known, seen),
                method: seen.method,
                status: i32::from(seen.status),
                country: locale::country(seen.country).map(|country| texts.share(&country)),
                region: None,
                city: None,
                agent_info: Arc::clone(&known.info),
                import_id: seen.import_id.map(Arc::clone),
                referrer: referrer.map(|host| texts.share(&host)),
                utm: utm_of(seen.query, of_destination, texts),
                language: locale::language(seen.language).map(|language| texts.share(&language)),
                user_agent: known.user_agent.clone(),
                client_net: seen.address.map(|address| texts.network(address)),
                visitor: seen.visitor,
                weight: 1.0,
            }
        })
    }

    fn verdict(&self, known: &KnownAgent, seen: &Seen<'_>) -> Verdict {
        match (seen.method, seen.purpose.is_empty()) {
            (Some(Method::Head), _) => known.head.clone(),
            (_, true) => known.verdict.clone(),
            (method, false) => {
                let request = Request { method, user_agent: seen.user_agent, purpose: seen.purpose };
                self.classifier.with_request(&known.verdict, &request)
            }
        }
    }

    /// What follows for a row from its agent, its method, and what its headers said of fetching ahead.
    pub(super) fn judged(
        &self,
        user_agent: &str,
        method: Option<Method>,
        ahead: Option<Verdict>,
    ) -> (Verdict, Arc<AgentInfo>) {
        let known = self.known(user_agent);
        let verdict = match (method, ahead) {
            (Some(Method::Head), _) => known.head.clone(),
            (_, Some(ahead)) => ahead,
            (_, None) => known.verdict.clone(),
        };
        (verdict, Arc::clone(&known.info))
    }

    /// What is known of an agent, from the cache or worked out.
    fn known(&self, user_agent: &str) -> Arc<KnownAgent> {
        let user_agent = shown_agent(user_agent);
        let hash = schemas::event::agent_hash(user_agent);
        if let Some(known) = self.agents.get(hash, user_agent) {
            return known;
        }
        let verdict = self.classifier.agent(user_agent);
        let request = Request { method: Some(Method::Head), user_agent, purpose: "" };
        let head = self.classifier.with_request(&verdict, &request);
        let machine = !matches!(verdict.class, Class::Human | Class::Unknown);
        let known = Arc::new(KnownAgent {
            user_agent: (!user_agent.is_empty()).then(|| user_agent.into()),
            info: Arc::new(agent::describe(user_agent, machine)),
            verdict,
            head,
        });
        self.agents.put(hash, &known);
        known
    }

    fn is_own(&self, host: &str, domain: &str) -> bool {
        referrer::without_port(domain).eq_ignore_ascii_case(host) || self.own_domains.iter().any(|own| own == host)
    }
}

/// An agent as it is judged and kept: a log's dash stands for none.
fn shown_agent(user_agent: &str) -> &str {
    if user_agent == "-" { "" } else { schemas::event::cut(user_agent, MAX_AGENT_BYTES) }
}

/// Each campaign parameter of the click, or else of the destination.
fn utm_of(query: &str, of_destination: Utm, texts: &mut Texts) -> Utm {
    let Some(of_click) = utm::of_query(query) else { return of_destination };
    let [source, medium, campaign, term, content] = of_click.map(|value| value.map(|value| texts.share(&value)));
    Utm {
        source: source.or(of_destination.source),
        medium: medium.or(of_destination.medium),
        campaign: campaign.or(of_destination.campaign),
        term: term.or(of_destination.term),
        content: content.or(of_destination.content),
    }
}
