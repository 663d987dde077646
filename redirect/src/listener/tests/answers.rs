//! Statuses and headers, as interface §2 says.

use std::sync::Arc;

use schemas::{Analytics, wire};

use super::scripted::Scripted;
use super::{DOMAIN, Rig, target};
use crate::links::{Change, Edit};

/// Fetches ahead of a click, as browsers and apps announce them.
const AHEAD: [&str; 8] = [
    "Sec-Purpose: prefetch;prerender",
    "Purpose: prefetch",
    "X-Moz: prefetch",
    "X-Purpose: preview",
    "X-Sec-Purpose: prefetch",
    "Sec-Speculation-Tags: null",
    "Next-Router-Prefetch: 1",
    "X-Native-Host: OneOutlook/1.2023.927.100",
];
const DESTINATION: &str = "https://example.com/landing?a=b";

#[tokio::test]
async fn a_link_redirects_with_what_its_promise_allows() {
    let rig = Rig::new().await;
    for (code, analytics, cache_control) in [
        ("b", Analytics::Billed, "private, max-age=0"),
        ("i", Analytics::Internal, "max-age=0, s-maxage=10"),
        ("o", Analytics::Off, "max-age=0, s-maxage=10"),
    ] {
        rig.link(code, analytics).await;
        for method in ["GET", "HEAD"] {
            let reply = rig.ask(&format!("{method} /{code} HTTP/1.1\r\nHost: {DOMAIN}\r\n")).await;
            assert_eq!(reply.status, 302);
            assert_eq!(reply.header("location"), Some(DESTINATION));
            assert_eq!(reply.header("cache-control"), Some(cache_control));
            assert_eq!(reply.header("referrer-policy"), Some("strict-origin-when-cross-origin"));
            assert_eq!(reply.header("x-robots-tag"), Some("noindex"));
            for unwanted in ["etag", "set-cookie", "vary", "last-modified", "expires"] {
                assert!(!reply.names().contains(&unwanted), "{unwanted}");
            }
            assert_eq!(reply.body, "");
        }
        for announced in AHEAD {
            let ahead = format!("GET /{code} HTTP/1.1\r\nHost: {DOMAIN}\r\n{announced}\r\n");
            let reply = rig.ask(&ahead).await;
            assert_eq!((reply.status, reply.header("cache-control")), (302, Some("no-store")), "{announced}");
        }
    }
    let asked = 3 * (2 + AHEAD.len());
    assert_eq!(rig.metric("highwater_redirects_total{result=\"redirect\"}"), asked as f64);
    let events = rig.events().await;
    let ahead = events.iter().filter(|bytes| !wire::decode(bytes).unwrap().purpose.is_empty()).count();
    assert_eq!(ahead, 2 * AHEAD.len(), "of those that leave events each says why; links of analytics off leave none");
}

#[tokio::test]
async fn one_code_may_be_written_in_many_ways() {
    let rig = Rig::new().await;
    rig.link("k7Qp2", Analytics::Billed).await;
    rig.link("été", Analytics::Billed).await;
    for path in ["/k7Qp2", "/k7Qp2/", "/k7Qp2?utm_source=x", "/k7Qp2/?a=/b?c", "/%6B7Qp2", "/%C3%A9t%c3%a9", "/été"] {
        assert_eq!(rig.get(path).await.status, 302, "{path}");
    }
    let long = format!("/{}", "x".repeat(129));
    for path in [
        "/",
        "/K7qp2",
        "/k7Qp2//",
        "//k7Qp2",
        "/k7Qp2/x",
        "/k7Qp2%2F",
        "/%",
        "/%zz",
        "/%C3",
        "/%00",
        "/k7Qp2%20",
        &long,
    ] {
        assert_eq!(rig.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_code_is_forgotten_soon() {
    let rig = Rig::new().await;
    let reply = rig.get("/unknown").await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.header("cache-control"), Some("max-age=0, s-maxage=2"));
    assert_eq!(reply.header("location"), None);
    assert_eq!(reply.header("x-robots-tag"), Some("noindex"));
    // made in this process: there at once
    rig.link("unknown", Analytics::Billed).await;
    assert_eq!(rig.get("/unknown").await.status, 302);
}

#[tokio::test]
async fn changes_are_seen_at_once() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Billed).await;
    let mut client = rig.client().await;
    for i in 0..100 {
        let destination = format!("https://example.com/{i}");
        rig.change("k", Change::Edit(Edit { destination: Some(destination.clone()), ..Edit::default() })).await;
        let reply = client.ask(&format!("GET /k HTTP/1.1\r\nHost: {DOMAIN}\r\n")).await;
        assert_eq!(reply.header("location"), Some(destination.as_str()));
    }
}

#[tokio::test]
async fn a_link_taken_down_says_why_and_leads_nowhere() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Internal).await;
    assert_eq!(rig.get("/k").await.status, 302);
    rig.change("k", Change::Disable { reason: "phishing <b>".into() }).await;
    for method in ["GET", "HEAD"] {
        let reply = rig.ask(&format!("{method} /k HTTP/1.1\r\nHost: {DOMAIN}\r\n")).await;
        assert_eq!(reply.status, 410);
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("location"), None);
        assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(reply.header("x-robots-tag"), Some("noindex"));
        let shown = reply.body.contains("phishing &lt;b&gt;");
        assert_eq!(shown, method == "GET");
        assert!(!reply.body.contains("example.com"));
        assert_ne!(reply.header("content-length"), Some("0"), "{method}: as long as the page");
    }
    rig.change("k", Change::Enable).await;
    assert_eq!(rig.get("/k").await.status, 302);
    rig.change("k", Change::Delete).await;
    let reply = rig.get("/k").await;
    assert_eq!((reply.status, reply.header("location")), (410, None));
    assert_eq!(rig.metric("highwater_redirects_total{result=\"disabled\"}"), 2.0);
    assert_eq!(rig.metric("highwater_redirects_total{result=\"deleted\"}"), 1.0);
}

#[tokio::test]
async fn only_get_and_head_are_answered() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Billed).await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE", "get"] {
        let reply = rig.ask(&format!("{method} /k HTTP/1.1\r\nHost: {DOMAIN}\r\nContent-Length: 0\r\n")).await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert!(rig.events().await.is_empty());
}

#[tokio::test]
async fn the_host_chooses_the_domain_and_no_other_stands_in() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Billed).await;
    for (host, status) in [
        ("Host: sho.rt\r\n", 302),
        ("hOST: SHO.RT\r\n", 302),
        ("Host: sho.rt:443\r\n", 302),
        ("Host: sho.rt.\r\n", 302),
        ("Host: second.example\r\n", 404),
        ("Host: elsewhere.example\r\n", 404),
        ("Host: 127.0.0.1\r\n", 404),
        ("Host: x@sho.rt\r\n", 404),
        ("Host: \r\n", 404),
        ("Host: \u{e9}\r\n", 404),
        ("", 400),
        ("Host: sho.rt\r\nHost: sho.rt\r\n", 400),
    ] {
        assert_eq!(rig.ask(&format!("GET /k HTTP/1.1\r\n{host}")).await.status, status, "{host}");
    }
    let absolute = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n");
    assert_eq!(rig.ask(&absolute("http://sho.rt/k", "second.example")).await.status, 302);
    assert_eq!(rig.ask(&absolute("http://second.example/k", "sho.rt")).await.status, 404);
}

#[tokio::test]
async fn behind_an_edge_only_it_is_answered() {
    let rig = Rig::with(|config| config.edge_only = true).await;
    rig.link("k", Analytics::Billed).await;
    let reply = rig.get("/k").await;
    assert_eq!((reply.status, reply.header("location")), (403, None));
    let trusting = Rig::with(|config| {
        config.edge_only = true;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    trusting.link("k", Analytics::Billed).await;
    assert_eq!(trusting.get("/k").await.status, 302);
}

#[tokio::test]
async fn a_failing_store_is_503_only_for_what_is_not_remembered() {
    let source = Arc::new(Scripted::new());
    source.set("known", Some(target(Analytics::Billed)));
    let rig = Rig::with_lookup(Arc::clone(&source) as _, |config| config.ttls.cache = std::time::Duration::ZERO).await;
    assert_eq!(rig.get("/known").await.status, 302);
    source.fail(true);
    assert_eq!(rig.get("/known").await.status, 302);
    let reply = rig.get("/unknown").await;
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    source.fail(false);
    assert_eq!(rig.get("/unknown").await.status, 404);
}
