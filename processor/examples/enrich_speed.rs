//! What enriching costs, on one thread: `cargo run --release -p processor --example enrich_speed [EVENTS] [DISTINCT]`.
//!
//! Encodes EVENTS clicks (default 1,000,000) with DISTINCT percent of distinct agents (default 2), then measures
//! loading, the decision on an agent seen for the first time and on one in cache, a look at the lists of networks, rows of
//! either agent, decode + enrich + classify of the whole run without and with lists, and what a click costs that is sampled
//! away by its head.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use processor::classify::Classifier;
use processor::enrich::{EnrichConfig, Enricher, Rules};
use processor::networks::{List, Meaning, Networks};
use processor::sample::{Cap, Thinner};
use schemas::click::ClickRow;
use schemas::sampling::is_kept;
use schemas::{Analytics, ClickEvent, ClickId, JournalId, LinkId, Method, UtcMicros, wire};

/// Forms of agents; `#` becomes a number, which makes them distinct.
const FORMS: [&str; 8] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.#.7 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E# Safari/604.1",
    "Mozilla/5.0 (Linux; Android 14; SM-S#) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Linux; Android 14; SM-A#; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/128.0.0.0 Mobile Safari/537.36 Instagram 350.0.0.# Android (34/14; 420dpi; 1080x2201; samsung; SM-A#; a54; exynos; en_US; 1)",
    "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.#",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.# Safari/605.1.15",
    "facebookexternalhit/1.# (+http://www.facebook.com/externalhit_uatext.php)",
    "python-requests/2.#",
];
const CODES: usize = 1_000;
/// Prefixes of a list of networks.
const PREFIXES: usize = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let events: usize = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let percent: usize = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let agents = distinct_agents((events * percent / 100).max(1));

    let (before, started) = (resident_mib(), Instant::now());
    let enricher = Enricher::new(&EnrichConfig { cache_bytes: 64 << 20, ..EnrichConfig::default() })?;
    println!("enricher made in {:?}", started.elapsed());
    let first = encoded(0, &agents[0]);
    enricher.event_row(&wire::decode(&first)?, UtcMicros(0), use_up);
    println!("first click after {:?}; resident memory {} → {} MiB", started.elapsed(), before, resident_mib());

    let sample = wire::decode(&first)?;
    let networks = decisions(&enricher, &agents, events)?;
    report("enrich, agent seen first", agents.len(), || {
        for agent in &agents {
            let event = ClickEvent { user_agent: agent, ..sample.clone() };
            enricher.event_row(&event, UtcMicros(0), use_up);
        }
    });
    report("enrich, one agent in cache", events, || {
        for _ in 0..events {
            enricher.event_row(&sample, UtcMicros(0), use_up);
        }
    });
    let records: Vec<Vec<u8>> = (0..events).map(|number| encoded(number, &agents[number % agents.len()])).collect();
    let fresh = Enricher::new(&EnrichConfig { cache_bytes: 64 << 20, ..EnrichConfig::default() })?;
    let mut failed = 0;
    report("decode + enrich + classify", events, || {
        for record in &records {
            match wire::decode(record) {
                Ok(event) => fresh.event_row(&event, UtcMicros(0), use_up),
                Err(_) => failed += 1,
            }
        }
    });
    let rules = Rules { classifier: Classifier::builtin()?, networks };
    let listed = Enricher::with_rules(rules, &EnrichConfig { cache_bytes: 64 << 20, ..EnrichConfig::default() });
    report("the same with networks", events, || {
        for record in &records {
            match wire::decode(record) {
                Ok(event) => listed.event_row(&event, UtcMicros(0), use_up),
                Err(_) => failed += 1,
            }
        }
    });
    assert_eq!(failed, 0, "events that don't come back");
    sampled_away(&fresh, &records);
    println!("resident memory {} MiB with {} agents known", resident_mib(), agents.len());
    Ok(())
}

fn use_up(row: &ClickRow<'_>) {
    black_box(row);
}

/// What it costs to decide; the lists of networks that were asked come back.
fn decisions(enricher: &Enricher, agents: &[String], events: usize) -> Result<Networks, Box<dyn std::error::Error>> {
    let classifier = Classifier::builtin()?;
    report("classify an agent", agents.len(), || {
        agents.iter().for_each(|agent| {
            black_box(classifier.agent(agent));
        });
    });
    let hash = schemas::event::agent_hash(&agents[0]);
    report("class of a hash in cache", events, || {
        for _ in 0..events {
            black_box(enricher.class_of(black_box(hash), false, || None));
        }
    });
    report("verdict on an agent in cache", events, || {
        for _ in 0..events {
            black_box(enricher.rejudge(black_box(&agents[0]), Some(Method::Get), ""));
        }
    });
    let networks = networks()?;
    let mut found = 0;
    report("network of an address", events, || {
        for number in 0..events {
            found += usize::from(networks.mark(address(number), None).is_some());
        }
    });
    println!("{found} of {events} addresses are in one of {PREFIXES} networks");
    Ok(networks)
}

/// What a click costs that is sampled away.
fn sampled_away(enricher: &Enricher, records: &[Vec<u8>]) {
    let events = records.len();
    let (cap, mut thinner, mut away) = (Cap::default(), Thinner::default(), 0);
    let (journal, link) = (JournalId::new(), LinkId::default());
    cap.set(Some(1));
    report("sampled away by its head", events, || {
        // as many as a read brings
        for batch in records.chunks(3_000) {
            thinner.begin(cap.get());
            for record in batch {
                if let Ok(head) = wire::decode_head(record) {
                    thinner.count(link, head.event_time);
                }
            }
            for record in batch {
                let Ok(head) = wire::decode_head(record) else { continue };
                let rate = thinner.rate(journal, link, head.event_time, &cap);
                if !is_kept(head.click_id, rate) {
                    away += 1;
                    let is_head = head.signals.is_some_and(|signals| signals.is_head);
                    black_box(enricher.class_of(head.agent_hash, is_head, || wire::decode_address(record)));
                }
            }
        }
    });
    println!("{away} of {events} sampled away");
}

/// As many networks as a cloud has, of every length from /12 to /28.
fn networks() -> Result<Networks, Box<dyn std::error::Error>> {
    let prefixes: Result<Vec<_>, _> =
        (0..PREFIXES).map(|number| format!("{}/{}", address(number * 7 + 1), 12 + number % 17).parse()).collect();
    let (name, source, agents) = ("made-up".to_owned(), String::new(), Vec::new());
    let (meaning, updated_at) = (Meaning::Scanner, UtcMicros(0));
    Ok(Networks::new(&[List { name, meaning, agents, source, updated_at, prefixes: prefixes? }]))
}

/// Addresses from everywhere.
fn address(number: usize) -> IpAddr {
    std::net::Ipv4Addr::from((number as u32).wrapping_mul(2_654_435_761)).into()
}

fn distinct_agents(count: usize) -> Vec<String> {
    (0..count).map(|number| FORMS[number % FORMS.len()].replace('#', &number.to_string())).collect()
}

fn encoded(number: usize, agent: &str) -> Vec<u8> {
    let code = format!("c{}", number % CODES);
    let destination = format!("https://shop.example/product/{}?utm_source=site", number % CODES);
    let event = ClickEvent {
        click_id: ClickId::from(number as u128),
        link_id: LinkId::default(),
        event_time: UtcMicros(number as i64),
        analytics: Analytics::Billed,
        visitor: Some(number as i64),
        agent_hash: schemas::event::agent_hash(agent),
        workspace: "acme",
        domain: "s.example.com",
        code: &code,
        revision: 1,
        destination: &destination,
        method: Method::Get,
        status: 302,
        address: Some(address(number)),
        no_edge_id: false,
        private: false,
        user_agent: agent,
        referrer: "https://news.example.org/story/1",
        language: "en-US,en;q=0.9",
        query: if number.is_multiple_of(4) { "utm_source=post&utm_medium=social" } else { "" },
        country: "NL",
        region: "",
        city: "",
        purpose: "",
        provider: "nginx",
    };
    let mut bytes = Vec::new();
    wire::encode(&event, &mut bytes);
    bytes
}

fn report(what: &str, times: usize, work: impl FnOnce()) {
    let started = Instant::now();
    work();
    let took: Duration = started.elapsed();
    let each = took.as_nanos() as f64 / times as f64;
    println!("{what:<32} {each:>9.0} ns each {:>12.0} a second", 1e9 / each);
}

/// Memory of this process; 0 where the system doesn't say.
fn resident_mib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    (pages * 4096) >> 20
}
