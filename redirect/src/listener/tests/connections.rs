//! Connections: kept, limited, cut off, drained.

use std::sync::Arc;
use std::time::Duration;

use ingest::journal::WorkerJournal;
use schemas::Analytics;

use super::scripted::Scripted;
use super::{DOMAIN, Rig, target};
use crate::listener::{Listener, ListenerConfig, ListenerError, ListenerMetrics, Waits};

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {DOMAIN}\r\n")
}

/// A long time for what a test doesn't look at.
const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn one_connection_serves_many_requests_also_when_sent_at_once() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Billed).await;
    let mut client = rig.client().await;
    for _ in 0..5 {
        assert_eq!(client.ask(&request("/k")).await.status, 302);
    }
    client.send(format!("{}\r\n", request("/k")).repeat(10)).await;
    for _ in 0..10 {
        assert_eq!(client.reply(false).await.status, 302);
    }
    assert_eq!(rig.events().await.len(), 15);
    assert_eq!(rig.metric("highwater_redirect_connections"), 1.0);
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let rig = Rig::new().await;
    let huge = format!("GET /k HTTP/1.1\r\nHost: {DOMAIN}\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    for (bytes, status) in [
        (huge.as_bytes(), " 431 "),
        (b"\x16\x03\x01\x02\x00", " 400 "),
        (b"GET /\xff HTTP/1.1\r\nHost: sho.rt\r\n\r\n", " 400 "),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", " 400 "),
    ] {
        let mut client = rig.client().await;
        client.send(bytes).await;
        let said = client.closed().await;
        assert!(said.lines().next().is_some_and(|line| line.contains(status)), "{status} {said:?}");
    }
    assert_eq!(rig.get("/k").await.status, 404, "it goes on");
}

#[tokio::test]
async fn an_answer_is_sent_whatever_follows_its_request() {
    let rig = Rig::new().await;
    rig.link("k", Analytics::Billed).await;
    rig.get("/k").await;
    let get = request("/k");
    let chunked = format!("{get}Transfer-Encoding: chunked\r\n\r\n");
    for (bytes, then) in [
        (format!("{get}\r\n\u{16}\u{3}\u{1}\r\n\r\n"), Some("400")),
        (format!("{get}\r\nGET /k\u{1} HTTP/1.1\r\n\r\n"), Some("400")),
        (format!("{get}\r\nGET /k HTTP/1.1\r\nX: {}", "x".repeat(40_000)), Some("431")),
        (format!("{chunked}zz\r\nno chunk\r\n"), None),
        (format!("{chunked}5\r\nabcdeXX"), None),
        (format!("{get}Content-Length: 100000\r\n\r\n{}", "x".repeat(50_000)), None),
    ] {
        let written = rig.events().await.len();
        let mut client = rig.client().await;
        client.send(&bytes).await;
        assert_eq!(client.reply(false).await.status, 302, "{bytes:.120?}");
        let said = client.closed().await;
        assert_eq!(said.split(' ').nth(1), then, "{bytes:.120?}");
        assert_eq!(rig.events().await.len(), written + 1, "{bytes:.120?}");
    }
    let mut client = rig.client().await;
    client.send(format!("{get}\r\nGET /k HTT")).await;
    assert_eq!(client.reply(false).await.status, 302, "before the next head is whole");
}

#[tokio::test]
async fn a_peer_that_sends_no_more_still_gets_its_answer() {
    let source = Arc::new(Scripted::new());
    source.set("k", Some(target(Analytics::Billed)));
    let rig = Rig::with_lookup(Arc::clone(&source) as _, |_| ()).await;
    for _ in 0..2 {
        source.close();
        let mut client = rig.client().await;
        client.send(format!("{}\r\n", request("/k"))).await;
        client.finish().await;
        source.open(1);
        assert_eq!(client.reply(false).await.status, 302);
        assert_eq!(client.closed().await, "");
    }
    assert_eq!(rig.events().await.len(), 2);
}

#[tokio::test]
async fn slow_and_silent_peers_are_cut_off() {
    let slow = Waits { header: Duration::from_millis(20), idle: LONG };
    let rig = Rig::with(|config| config.waits = slow).await;
    rig.client().await.closed().await;
    let mut client = rig.client().await;
    client.send("GET /k HTTP/1.1\r\nHos").await;
    client.closed().await;
    let mut client = rig.client().await;
    client.ask(&request("/k")).await;
    client.send("GET /k HTTP/1.1\r\nHos").await;
    client.closed().await;

    let rig =
        Rig::with(|config| config.waits = Waits { header: Duration::from_millis(500), idle: Duration::ZERO }).await;
    let mut client = rig.client().await;
    client.ask(&request("/k")).await;
    client.closed().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let rig = Rig::with(|config| config.connections = 1).await;
    let mut first = rig.client().await;
    assert_eq!(first.ask(&request("/k")).await.status, 404);
    let mut second = rig.client().await;
    second.send(format!("{}\r\n", request("/k"))).await;
    assert_eq!(first.ask(&request("/k")).await.status, 404);
    assert_eq!(rig.metric("highwater_redirect_connections"), 1.0);
    drop(first);
    assert_eq!(second.reply(false).await.status, 404);
}

#[tokio::test]
async fn a_drain_finishes_what_is_under_way_and_no_more() {
    let source = Arc::new(Scripted::new());
    source.set("k", Some(target(Analytics::Billed)));
    let rig = Rig::with_lookup(Arc::clone(&source) as _, |_| ()).await;
    let mut idle = rig.client().await;
    assert_eq!(idle.ask(&request("/none")).await.status, 404);
    source.close();
    let mut busy = rig.client().await;
    busy.send(format!("{}\r\n", request("/k"))).await;
    while source.asked() < 2 {
        tokio::task::yield_now().await;
    }
    rig.stop.cancel();
    assert_eq!(idle.closed().await, "");
    source.open(1);
    let reply = busy.reply(false).await;
    assert_eq!(reply.status, 302);
    assert_eq!(busy.closed().await, "");
    let (address, journal) = (rig.address, rig.journal.clone());
    rig.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    journal.sync().unwrap();
    assert!(journal.stats().end > 0);
}

#[tokio::test]
async fn a_drain_does_not_wait_for_ever() {
    let source = Arc::new(Scripted::new());
    let rig = Rig::with_lookup(Arc::clone(&source) as _, |config| {
        config.drain = Duration::from_millis(20);
        config.cache.deadline = LONG;
    })
    .await;
    source.close();
    let mut stuck = rig.client().await;
    stuck.send(format!("{}\r\n", request("/k"))).await;
    while source.asked() < 1 {
        tokio::task::yield_now().await;
    }
    rig.stop().await;
    assert_eq!(stuck.closed().await, "");
}

#[tokio::test]
async fn what_can_not_be_is_refused_at_the_beginning() {
    let rig = Rig::new().await;
    let bind = |change: fn(&mut ListenerConfig), journals| {
        let mut config = ListenerConfig::new(rig.address, super::domains());
        change(&mut config);
        Listener::bind(config, rig.store.clone(), journals, ListenerMetrics::default()).unwrap_err()
    };
    let taken = bind(|_| (), vec![WorkerJournal::new(rig.journal.clone())]);
    assert!(taken.to_string().contains(&format!("redirect.listen ({})", rig.address)), "{taken}");
    let late = bind(|config| config.ttls.s_maxage = LONG, vec![WorkerJournal::new(rig.journal.clone())]);
    assert!(matches!(late, ListenerError::Takedown { .. }), "{late}");
    let free: fn(&mut ListenerConfig) = |config| config.listen.set_port(0);
    assert!(matches!(bind(free, Vec::new()), ListenerError::NoJournal));
}
