//! What a redirect leaves in the journal.

use ingest::edge::IdMode;
use ingest::journal::JournalConfig;
use ingest::ports::VisitorKeys;
use schemas::privacy::Privacy;
use schemas::visitor::visitor;
use schemas::{Analytics, ClickEvent, ClickId, Method, UtcMicros, wire};

use super::super::{Edge, OwnHeaders};
use super::{DOMAIN, Rig};
use crate::links::{Change, Edit};

const ID: &str = "0123456789abcdef0123456789abcdef";

/// The headers in which the edge says where a client is.
const PLACE: OwnHeaders<'_> = OwnHeaders { request_id: "", country: "x-country", region: "x-region", city: "x-city" };

/// A listener behind an edge on this machine.
async fn behind(provider: &str, id: IdMode) -> Rig {
    Rig::with(|config| {
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        config.edge = Edge::new(provider, id, PLACE).unwrap();
    })
    .await
}

fn decode(events: &[bytes::Bytes]) -> Vec<ClickEvent<'_>> {
    events.iter().map(|bytes| wire::decode(bytes).unwrap()).collect()
}

#[tokio::test]
async fn an_event_says_all_that_the_request_said() {
    let rig = behind("nginx", IdMode::Auto).await;
    let link = rig.link("k7Qp2", Analytics::Billed).await;
    rig.change("k7Qp2", Change::Edit(Edit { destination: Some("https://example.com/new".into()), ..Edit::default() }))
        .await;
    let before = UtcMicros::now();
    let reply = rig
        .ask(&format!(
            "HEAD /%6b7Qp2/?utm_source=x&é=1 HTTP/1.1\r\nHost: SHO.rt\r\nUser-Agent: UA/1.0\r\n\
             Referer: https://t.co/x\r\nAccept-Language: de-AT\r\nX-Request-Id: {ID}\r\nX-Country: AT\r\n\
             X-Region: 9\r\nX-City: Vienna\r\nX-Forwarded-For: 198.51.100.9, 203.0.113.7:4711, 127.0.0.5\r\nPurpose: prefetch\r\n"
        ))
        .await;
    assert_eq!(reply.status, 302);
    let bytes = rig.events().await;
    let events = decode(&bytes);
    let [event] = &events[..] else { panic!("{events:?}") };
    assert!(before <= event.event_time && event.event_time <= UtcMicros::now());
    let address = "203.0.113.7".parse().unwrap();
    let key = rig.store.key_of(event.event_time.day()).await.unwrap();
    let expected = ClickEvent {
        click_id: ClickId::from_edge("nginx", ID.as_bytes(), "k7Qp2"),
        link_id: link.id,
        event_time: event.event_time,
        analytics: Analytics::Billed,
        visitor: Some(visitor(&key, address, "UA/1.0")),
        agent_hash: schemas::event::agent_hash("UA/1.0"),
        workspace: "default",
        domain: DOMAIN,
        code: "k7Qp2",
        revision: 2,
        destination: "https://example.com/new",
        method: Method::Head,
        status: 302,
        address: Some(address),
        no_edge_id: false,
        private: false,
        user_agent: "UA/1.0",
        referrer: "https://t.co/x",
        language: "de-AT",
        query: "utm_source=x",
        country: "AT",
        region: "9",
        city: "Vienna",
        purpose: "purpose: prefetch",
        provider: "nginx",
    };
    assert_eq!(*event, expected);
}

#[tokio::test]
async fn who_asks_for_privacy_has_no_visitor_and_of_a_query_only_what_may_be_is_kept() {
    for (gpc, dnt) in [(true, true), (true, false), (false, true)] {
        let rig = Rig::with(|config| config.privacy = Privacy { gpc, dnt, query: vec!["ref".to_owned()] }).await;
        rig.link("k", Analytics::Billed).await;
        for header in ["Sec-GPC: 1", "DNT: 1", "DNT: 0"] {
            let head = format!("GET /k?email=a&ref=1&utm_term=t HTTP/1.1\r\nHost: {DOMAIN}\r\n{header}\r\n");
            assert_eq!(rig.ask(&head).await.status, 302);
        }
        let bytes = rig.events().await;
        let events = decode(&bytes);
        assert_eq!(events.iter().map(|event| event.private).collect::<Vec<_>>(), [gpc, dnt, false]);
        for event in events {
            assert_eq!(event.visitor.is_none(), event.private);
            assert_eq!(event.query, "ref=1&utm_term=t");
        }
    }
}

#[tokio::test]
async fn whoever_is_not_trusted_is_not_believed() {
    let rig = Rig::with(|config| config.edge = Edge::new("nginx", IdMode::Auto, PLACE).unwrap()).await;
    rig.link("k", Analytics::Billed).await;
    let forged = format!(
        "GET /k HTTP/1.1\r\nHost: {DOMAIN}\r\nX-Request-Id: {ID}\r\nX-Forwarded-For: 203.0.113.7\r\nX-Country: AT\r\n\
         X-Region: 9\r\nX-City: Vienna\r\n"
    );
    for _ in 0..2 {
        assert_eq!(rig.ask(&forged).await.status, 302);
    }
    let bytes = rig.events().await;
    let events = decode(&bytes);
    assert_eq!(events.len(), 2);
    assert_ne!(events[0].click_id, events[1].click_id, "an id said twice doesn't make a click vanish");
    for event in events {
        assert_eq!(event.address, Some("127.0.0.1".parse().unwrap()));
        assert_eq!((event.provider, event.no_edge_id, event.country), ("", false, ""));
        assert_eq!((event.region, event.city), ("", ""));
    }
}

#[tokio::test]
async fn an_edge_that_asks_without_an_id_is_marked() {
    let rig = behind("nginx", IdMode::Auto).await;
    rig.link("k", Analytics::Billed).await;
    assert_eq!(rig.get("/k").await.status, 302);
    let bytes = rig.events().await;
    let events = decode(&bytes);
    assert!(events[0].no_edge_id && events[0].provider.is_empty());
    assert_eq!(rig.metric("highwater_no_edge_id_total"), 1.0);
}

#[tokio::test]
async fn only_what_is_to_be_counted_here_leaves_an_event() {
    for (id, expected) in [(IdMode::Trusted, 2), (IdMode::StatusOnly, 1)] {
        let rig = behind("nginx", id).await;
        for (code, analytics) in [("b", Analytics::Billed), ("i", Analytics::Internal), ("o", Analytics::Off)] {
            rig.link(code, analytics).await;
            assert_eq!(rig.get(&format!("/{code}")).await.status, 302);
        }
        assert_eq!(rig.events().await.len(), expected, "{id}");
        assert_eq!(rig.metric("highwater_events_total{outcome=\"written\"}"), expected as f64);
        assert_eq!(rig.metric("highwater_events_total{outcome=\"not_wanted\"}"), (3 - expected) as f64);
    }
}

#[tokio::test]
async fn no_redirect_no_event() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Billed).await;
    rig.change("k", Change::Disable { reason: "spam".into() }).await;
    for path in ["/k", "/unknown", "/", "/%"] {
        rig.get(path).await;
    }
    assert!(rig.events().await.is_empty());
}

#[tokio::test]
async fn an_answered_click_is_with_the_kernel() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Billed).await;
    let mut client = rig.client().await;
    for answered in 1..=20 {
        client.ask(&format!("GET /k HTTP/1.1\r\nHost: {DOMAIN}\r\n")).await;
        // `end` counts marks too
        assert!(rig.journal.stats().end >= answered);
    }
    assert_eq!(rig.events().await.len(), 20);
}

#[tokio::test]
async fn bytes_that_are_no_text_harm_nothing() {
    let rig = behind("nginx", IdMode::Auto).await;
    rig.link("k", Analytics::Billed).await;
    let mut client = rig.client().await;
    let mut request = format!("GET /k HTTP/1.1\r\nHost: {DOMAIN}\r\n").into_bytes();
    for header in [
        "User-Agent",
        "Referer",
        "Accept-Language",
        "X-Forwarded-For",
        "X-Country",
        "X-City",
        "Purpose",
        "X-Request-Id",
    ] {
        request.extend_from_slice(header.as_bytes());
        request.extend_from_slice(b": a\xff\xe9b\r\n");
    }
    request.extend_from_slice(b"\r\n");
    client.send(request).await;
    assert_eq!(client.reply(false).await.status, 302);
    let long = "x".repeat(3_000);
    let reply = client.ask(&format!("GET /k?{long} HTTP/1.1\r\nHost: {DOMAIN}\r\nUser-Agent: {long}\r\n")).await;
    assert_eq!(reply.status, 302);
    let bytes = rig.events().await;
    let events = decode(&bytes);
    assert_eq!(events[0].user_agent, "a\u{fffd}\u{fffd}b");
    assert_eq!(events[0].address, Some("127.0.0.1".parse().unwrap()));
    assert!(events[0].no_edge_id);
    assert_eq!(events[1].user_agent, &long[..schemas::event::MAX_TEXT_BYTES]);
}

#[tokio::test]
async fn a_full_journal_stops_no_redirect_and_each_loss_is_counted() {
    let tiny =
        JournalConfig { max_bytes: 128 << 10, reserve: 32 << 10, segment_bytes: 64 << 10, ..JournalConfig::default() };
    let rig = Rig::build(|_| (), None, tiny).await;
    rig.link("i", Analytics::Internal).await;
    rig.link("b", Analytics::Billed).await;
    let agent = "x".repeat(2_000);
    let mut client = rig.client().await;
    for code in ["i", "b"] {
        for _ in 0..100 {
            let head = format!("GET /{code} HTTP/1.1\r\nHost: {DOMAIN}\r\nUser-Agent: {agent}\r\n");
            assert_eq!(client.ask(&head).await.status, 302);
        }
    }
    let stats = rig.journal.stats();
    assert!(stats.dropped.count > 0 && stats.lost.count > 0, "{stats:?}");
    let of = |labels: &str| rig.metric(&format!("highwater_events_total{{{labels}}}"));
    assert_eq!(of("outcome=\"dropped\",reason=\"nearly_full\""), stats.dropped.count as f64);
    assert_eq!(of("outcome=\"lost\",reason=\"full\""), stats.lost.count as f64);
    assert_eq!(of("outcome=\"written\"") as u64, 200 - stats.dropped.count - stats.lost.count);
}
