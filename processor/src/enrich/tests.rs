//! Whole rows: from an event, from a log line, and both alike.

use std::sync::Arc;

use ingest::edge::{EdgeClass, EdgeRequest};
use schemas::event::agent_hash;
use schemas::link::DEFAULT_WORKSPACE;
use schemas::privacy::{Asked, Privacy};
use schemas::visitor::{VisitorKey, client_net, visitor};
use schemas::{
    Analytics, Class, Click, ClickBuilder, ClickEvent, ClickId, ClickRows, Device, LinkHistory, LinkId, LinkStatus,
    Method, Revision, Source, UtcMicros, wire,
};

use super::{EdgeLine, EnrichConfig, Enricher, Rules};
use crate::classify::Classifier;
use crate::networks::{List, Meaning, Networks};

const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/998.0.0.0 Safari/537.36";

fn enricher() -> Enricher {
    let config = EnrichConfig { own_domains: vec!["Go.Example.com:8080".into()], ..EnrichConfig::default() };
    Enricher::new(&config).unwrap()
}

/// The row of an event, as it is read back.
fn event_click(enricher: &Enricher, event: &ClickEvent<'_>, now: UtcMicros) -> Click {
    let mut rows = ClickBuilder::new();
    enricher.event_row(event, now, |row| rows.push_row(row));
    ClickRows::of(&rows.finish().unwrap()).unwrap().row(0).unwrap()
}

/// The row of a line, as it is read back.
fn edge_click(
    enricher: &Enricher,
    request: &EdgeRequest<'_>,
    line: EdgeLine<'_>,
    link: Option<(&LinkHistory, Option<&Revision>)>,
) -> Click {
    let mut rows = ClickBuilder::new();
    let line = EdgeLine { domain: request.host, ..line };
    enricher.edge_row(request, line, link, |row| rows.push_row(row));
    ClickRows::of(&rows.finish().unwrap()).unwrap().row(0).unwrap()
}

fn event() -> ClickEvent<'static> {
    ClickEvent {
        click_id: ClickId([7; 16]),
        visitor: Some(42),
        workspace: "acme",
        domain: "s.example.com",
        revision: 3,
        destination: "https://shop.example/p?utm_source=site&utm_medium=link",
        address: Some("203.0.113.77".parse().unwrap()),
        user_agent: CHROME,
        referrer: "https://News.example.org/story?id=1",
        language: "nl-nl,en;q=0.5",
        query: "utm_source=post&x=1",
        country: "nl",
        region: "NL-NH",
        city: "Amsterdam",
        ..super::testing::event(7, UtcMicros(1_000_000))
    }
}

fn request() -> EdgeRequest<'static> {
    EdgeRequest {
        time: UtcMicros(1_000_000),
        class: EdgeClass::Edge,
        host: "www.s.example.com",
        path: "/abc",
        code: "abc",
        query: "utm_source=post&x=1",
        method: Some(Method::Get),
        status: 302,
        address: Some("203.0.113.77".parse().unwrap()),
        user_agent: CHROME,
        referrer: "https://News.example.org/story?id=1",
        country: "nl",
        region: "NL-NH",
        city: "Amsterdam",
        asked: Asked::default(),
        language: "nl-nl,en;q=0.5",
        line_key: None,
    }
}

fn line() -> EdgeLine<'static> {
    EdgeLine {
        click_id: ClickId([7; 16]),
        source: Source::Edge,
        import_id: None,
        ingest_time: UtcMicros(2_000_000),
        visitor_key: None,
        domain: "",
        is_internal: false,
    }
}

fn history(link_id: LinkId) -> LinkHistory {
    LinkHistory {
        link_id,
        workspace: "acme".into(),
        domain: "s.example.com".into(),
        code: "abc".into(),
        revisions: vec![Revision {
            revision: 3,
            effective_at: UtcMicros(0),
            destination: "https://shop.example/p?utm_source=site&utm_medium=link".into(),
            analytics: Analytics::Billed,
            status: LinkStatus::Active,
        }],
    }
}

#[test]
fn an_event_becomes_a_row() {
    let click = event_click(&enricher(), &event(), UtcMicros(2_000_000));
    assert_eq!(click.click_id, event().click_id);
    assert_eq!((click.event_time, click.ingest_time), (UtcMicros(1_000_000), UtcMicros(2_000_000)));
    assert_eq!((&*click.workspace, &*click.domain, &*click.code), ("acme", "s.example.com", "abc"));
    assert_eq!((click.revision, click.status, click.source), (Some(3), 302, Source::Origin));
    assert_eq!((click.verdict.class, click.verdict.agent.as_deref()), (Class::Human, None));
    assert_eq!(click.agent_info.device, Device::Desktop);
    assert_eq!(click.agent_info.browser.as_deref(), Some("Chrome"));
    assert_eq!(click.agent_info.os.as_deref(), Some("Windows"));
    assert_eq!(click.referrer.as_deref(), Some("news.example.org"));
    assert_eq!(click.utm.source.as_deref(), Some("post"), "the click's own goes first");
    assert_eq!(click.utm.medium.as_deref(), Some("link"), "what it lacks is the destination's");
    assert_eq!((click.language.as_deref(), click.country.as_deref()), (Some("nl-NL"), Some("NL")));
    assert_eq!((click.region.as_deref(), click.city.as_deref()), (Some("NH"), Some("Amsterdam")));
    assert_eq!(click.client_net.as_deref(), Some("203.0.113.0/24"));
    assert_eq!((click.visitor, click.weight), (Some(42), 1.0));
    assert_eq!(click.user_agent.as_deref(), Some(CHROME));
    assert_eq!(click.import_id, None);
}

#[test]
fn who_asks_for_privacy_is_counted_without_visitor_network_and_city() {
    let enricher = enricher();
    let key = VisitorKey([9; 16]);
    let event = ClickEvent { private: true, ..event() };
    let of_event = event_click(&enricher, &event, UtcMicros(2_000_000));
    let line = EdgeLine { visitor_key: Some(&key), ..line() };
    for asked in [
        Asked { gpc: true, ..Asked::default() },
        Asked { dnt: true, ..Asked::default() },
        Asked { outright: true, ..Asked::default() },
    ] {
        let of_line = edge_click(&enricher, &EdgeRequest { asked, ..request() }, line, None);
        for click in [&of_event, &of_line] {
            assert!(click.private);
            assert_eq!((click.visitor, &click.client_net, &click.city), (None, &None, &None));
            assert_eq!((click.country.as_deref(), click.region.as_deref()), (Some("NL"), Some("NH")));
        }
    }
    let deaf = EnrichConfig { privacy: Privacy { gpc: false, ..Privacy::default() }, ..EnrichConfig::default() };
    let asked = Asked { gpc: true, ..Asked::default() };
    let heard = edge_click(&Enricher::new(&deaf).unwrap(), &EdgeRequest { asked, ..request() }, line, None);
    assert!(!heard.private && heard.visitor.is_some() && heard.client_net.is_some());
}

#[test]
fn of_a_query_the_listed_parameters_are_kept() {
    let privacy = Privacy { query: vec!["x".to_owned()], ..Privacy::default() };
    let enricher = Enricher::new(&EnrichConfig { privacy, ..EnrichConfig::default() }).unwrap();
    let query = "utm_source=post&x=1&token=secret";
    let of_event = event_click(&enricher, &ClickEvent { query, ..event() }, UtcMicros(0));
    let of_line = edge_click(&enricher, &EdgeRequest { query, ..request() }, line(), None);
    assert_eq!((of_event.query.as_deref(), of_line.query.as_deref()), (Some("x=1"), Some("x=1")));
    let click = event_click(&self::enricher(), &ClickEvent { query, ..event() }, UtcMicros(0));
    assert_eq!((click.query, click.utm.source.as_deref()), (None, Some("post")));
}

#[test]
fn a_log_line_of_the_same_request_becomes_the_same_row() {
    let enricher = enricher();
    let event = event();
    let history = history(event.link_id);
    let mut of_event = event_click(&enricher, &event, UtcMicros(2_000_000));
    let of_line = edge_click(&enricher, &request(), line(), Some((&history, history.revisions.first())));
    assert_eq!(of_line.source, Source::Edge);
    of_event.source = Source::Edge;
    of_event.visitor = None;
    assert_eq!(of_line, of_event);
}

#[test]
fn the_visitor_of_a_line_is_the_visitor_of_its_event() {
    let key = VisitorKey([9; 16]);
    let click = edge_click(&enricher(), &request(), EdgeLine { visitor_key: Some(&key), ..line() }, None);
    assert_eq!(click.visitor, Some(visitor(&key, "203.0.113.77".parse().unwrap(), CHROME)));
    let hidden = EdgeRequest { address: None, ..request() };
    let click = edge_click(&enricher(), &hidden, EdgeLine { visitor_key: Some(&key), ..line() }, None);
    assert_eq!((click.visitor, click.client_net), (None, None));
}

#[test]
fn a_code_that_no_link_has_is_kept_as_the_log_names_it() {
    let click = edge_click(&enricher(), &request(), EdgeLine { import_id: Some("i1"), ..line() }, None);
    assert_eq!((&*click.workspace, &*click.domain, &*click.code), (DEFAULT_WORKSPACE, "www.s.example.com", "abc"));
    assert_eq!((click.link_id, click.revision, click.destination), (None, None, None));
    assert_eq!(click.import_id.as_deref(), Some("i1"));
}

#[test]
fn a_link_that_did_not_exist_yet_has_no_destination_but_its_workspace() {
    let history = history(LinkId::new());
    let click = edge_click(&enricher(), &request(), line(), Some((&history, None)));
    assert_eq!((&*click.workspace, click.link_id), ("acme", Some(history.link_id)));
    assert_eq!((click.revision, click.destination), (None, None));
}

#[test]
fn method_and_headers_change_the_class_and_not_the_agent() {
    let enricher = enricher();
    let head = event_click(&enricher, &ClickEvent { method: Method::Head, ..event() }, UtcMicros(0));
    assert_eq!((head.verdict.class, head.agent_info.device), (Class::Probe, Device::Desktop));
    let ahead = event_click(&enricher, &ClickEvent { purpose: "sec-purpose: prefetch", ..event() }, UtcMicros(0));
    assert_eq!(ahead.verdict.class, Class::Prefetch);
    let after = event_click(&enricher, &event(), UtcMicros(0));
    assert_eq!(after.verdict.class, Class::Human, "what one request said is not kept for the next");
    let unknown = edge_click(&enricher, &EdgeRequest { method: None, ..request() }, line(), None);
    assert_eq!((unknown.verdict.class, unknown.method), (Class::Human, None));
}

#[test]
fn machines_are_bots_by_device() {
    let click =
        event_click(&enricher(), &ClickEvent { user_agent: "Slackbot-LinkExpanding 9.0", ..event() }, UtcMicros(0));
    assert_eq!((click.verdict.class, click.agent_info.device), (Class::Preview, Device::Bot));
    assert_eq!(click.verdict.agent.as_deref(), Some("Slack"));
}

#[test]
fn a_missing_agent_is_none_however_the_log_writes_it() {
    for user_agent in ["", "-"] {
        let click = event_click(&enricher(), &ClickEvent { user_agent, ..event() }, UtcMicros(0));
        assert_eq!((click.verdict.class, click.user_agent), (Class::Unknown, None));
    }
}

#[test]
fn own_domains_are_no_referrers() {
    let enricher = enricher();
    for (referrer, expected) in [
        ("https://go.example.com/x", None),
        ("https://s.example.com:8443/", None),
        ("https://other.example.com/", Some("other.example.com")),
    ] {
        let click = event_click(&enricher, &ClickEvent { referrer, ..event() }, UtcMicros(0));
        assert_eq!(click.referrer.as_deref(), expected, "{referrer}");
    }
}

/// Rules may change while rows are made: from then on an agent that was known before is judged anew.
#[test]
fn other_rules_hold_for_agents_that_were_known_before() {
    let enricher = enricher();
    let click =
        |enricher: &Enricher| event_click(enricher, &ClickEvent { user_agent: "AcmeProbe/1", ..event() }, UtcMicros(2));
    let before = click(&enricher);
    assert_eq!(&*before.verdict.reason, "shape/no-browser");
    let own = "version = 3\n[[group]]\nid = \"own\"\nclass = \"monitor\"\nwhy = \"w\"\nsource = \"s\"\n\
               [group.agents]\n\"Acme\" = [\"AcmeProbe/\"]";
    enricher.put_in_force(Classifier::with_operator(own).unwrap());
    let after = click(&enricher);
    assert_eq!((after.verdict.class, &*after.verdict.reason), (Class::Monitor, "own/acme"));
    assert_eq!(after.verdict.rules_version, before.verdict.rules_version + 3);
    assert_eq!(enricher.merged(&before, &before).unwrap().verdict, after.verdict, "and so is a row of theirs");
}

fn watched_networks() -> Enricher {
    let list = |name: &str, meaning, agents: &[&str], prefix: &str| List {
        name: name.into(),
        meaning,
        agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
        source: "test".into(),
        updated_at: UtcMicros(0),
        prefixes: vec![prefix.parse().unwrap()],
    };
    let networks = Networks::new(&[
        list("mail", Meaning::Scanner, &[], "203.0.113.0/24"),
        list("bots", Meaning::Confirm, &["Googlebot"], "198.51.100.0/24"),
        list("cloud", Meaning::Hosting, &[], "192.0.2.0/24"),
    ]);
    Enricher::with_rules(Rules { classifier: Classifier::builtin().unwrap(), networks }, &EnrichConfig::default())
}

#[test]
fn an_address_counts_on_both_ways_in_and_for_what_is_sampled_away() {
    let enricher = watched_networks();
    let agents = [
        CHROME,
        "",
        "-",
        "curl/8",
        "Mozilla/5.0 (compatible; Googlebot/2.1)",
        "Mozilla/5.0 (X11) Gecko/20100101 Instagram 1",
    ];
    for address in [Some("203.0.113.77"), Some("198.51.100.1"), Some("192.0.2.1"), Some("::ffff:203.0.113.1"), None] {
        let address = address.map(|text| text.parse().unwrap());
        for user_agent in agents {
            for method in [Method::Get, Method::Head] {
                let event = ClickEvent { address, user_agent, method, agent_hash: agent_hash(user_agent), ..event() };
                let click = event_click(&enricher, &event, UtcMicros(2));
                let request = EdgeRequest { address, user_agent, method: Some(method), ..request() };
                let row = edge_click(&enricher, &request, line(), None);
                assert_eq!(click.verdict, row.verdict, "{address:?} {user_agent}");
                let mut bytes = Vec::new();
                wire::encode(&event, &mut bytes);
                let hash = agent_hash(if user_agent == "-" { "" } else { user_agent });
                let shed = enricher.class_of(hash, method == Method::Head, || wire::decode_address(&bytes));
                assert_eq!(shed, Some(click.verdict.class), "{address:?} {user_agent}");
                let (agent, reason) = (click.verdict.agent.as_deref(), &*click.verdict.reason);
                let from_mail = address.is_some_and(|address| client_net(address) == "203.0.113.0/24");
                assert_eq!(reason.contains("network/mail"), from_mail, "{reason}");
                assert_eq!(
                    reason.contains("+confirmed/bots"),
                    agent == Some("Googlebot") && click.client_net.as_deref() == Some("198.51.100.0/24")
                );
                assert!(click.verdict.class != Class::Human || !from_mail || reason.starts_with("person/app"));
                assert_eq!(enricher.merged(&click, &click).unwrap().verdict, click.verdict);
            }
        }
    }
    assert_eq!(enricher.hosting("192.0.2.9".parse().unwrap()).as_deref(), Some("cloud"));
}

/// A list of the CDN's own addresses says nothing of its clients, whose agent it hides.
#[test]
fn a_scanners_network_outlasts_the_name_that_a_cdn_puts_before_its_clients() {
    let list = |name: &str, meaning, agents: &[&str], prefixes: &[&str]| List {
        name: name.into(),
        meaning,
        agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
        source: "test".into(),
        updated_at: UtcMicros(0),
        prefixes: prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect(),
    };
    let networks = Networks::new(&[
        list("mail", Meaning::Scanner, &[], &["203.0.113.0/24"]),
        list("cdn", Meaning::Confirm, &["AWS"], &["203.0.113.0/24", "198.51.100.0/24"]),
    ]);
    let rules = Rules { classifier: Classifier::builtin().unwrap(), networks };
    let enricher = Enricher::with_rules(rules, &EnrichConfig::default());
    let line = EdgeRequest { address: None, user_agent: CHROME, ..request() };
    let line = edge_click(&enricher, &line, self::line(), None);
    for (address, reason, class) in [
        ("203.0.113.7", "monitor/aws+network/mail", Class::Scanner),
        ("198.51.100.7", "monitor/aws+confirmed/cdn", Class::Human),
    ] {
        let address = Some(address.parse().unwrap());
        let hidden = ClickEvent { address, user_agent: "Amazon CloudFront", ..event() };
        let click = event_click(&enricher, &hidden, UtcMicros(2));
        assert_eq!(&*click.verdict.reason, reason);
        let line = Click { click_id: click.click_id, workspace: Arc::clone(&click.workspace), ..line.clone() };
        assert_eq!(enricher.merged(&click, &line).unwrap().verdict.class, class, "{reason}");
    }
}
