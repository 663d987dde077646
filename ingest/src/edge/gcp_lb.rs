//! Google Cloud's external application load balancer and Cloud CDN: entries of Cloud Logging, one object a line, as
//! sinks export them.
//!
//! ```text
//! {"httpRequest":{"requestMethod":"GET","requestUrl":"https://go.example.com/k7Qp2","status":302,"cacheHit":true,…},
//!  "insertId":"1m8c116a9ee279x","jsonPayload":{"statusDetails":"response_from_cache"},"timestamp":"2026-03-14T…Z",…}
//! ```
//! What is false, empty or nought is left out. An entry is known by `insertId` and `timestamp`; the trace can be the
//! client's own, so that several requests have the same. Cloud CDN logs what it asks of the backend by itself as
//! entries of their own, which name the client's as their parent.

use std::sync::Arc;

use schemas::UtcMicros;
use schemas::privacy::Asked;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::fields::{self, Keys, Place, Values};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Target, Verb};

const PLACES: usize = 15;
const ID: usize = 0;
const URL: usize = 3;
const DETAILS: usize = 12;

static KEYS: Keys = Keys::new(&[
    ("insertId", Place::Slot(ID)),
    ("timestamp", Place::Slot(1)),
    ("httpRequest", Place::Within(&REQUEST)),
    ("jsonPayload", Place::Within(&PAYLOAD)),
]);
static REQUEST: Keys = Keys::new(&[
    ("requestMethod", Place::Slot(2)),
    ("requestUrl", Place::Slot(URL)),
    ("status", Place::Slot(4)),
    ("remoteIp", Place::Slot(5)),
    ("userAgent", Place::Slot(6)),
    ("referer", Place::Slot(7)),
    ("cacheHit", Place::Slot(8)),
    ("cacheLookup", Place::Slot(9)),
    ("cacheValidatedWithOriginServer", Place::Slot(10)),
    ("serverIp", Place::Slot(11)),
]);
static PAYLOAD: Keys = Keys::new(&[
    ("statusDetails", Place::Slot(DETAILS)),
    ("parentInsertId", Place::Slot(13)),
    ("remoteIp", Place::Slot(14)),
]);

/// How many of the first lines are entries of Cloud Logging. Those of other logs may stand between requests, but a file
/// without requests is none of ours.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let lacks = "timestamp, and requestUrl in httpRequest";
    let is_entry = |values: &Values<'_, PLACES>| values[1].is_present() && values[ID].is_present();
    let is_request = |values: &Values<'_, PLACES>| values[1].is_present() && values[URL].is_present();
    let requests = fields::fit::<PLACES>(sample, &KEYS, "Cloud Logging's", lacks, is_request);
    if requests.matched == 0 {
        return requests;
    }
    fields::fit::<PLACES>(sample, &KEYS, "Cloud Logging's", lacks, |values| is_request(values) || is_entry(values))
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(GcpLb { has_id: fields::has::<PLACES>(sample, &KEYS, ID) })
}

#[derive(Debug)]
struct GcpLb {
    has_id: bool,
}

impl Layout for GcpLb {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        fields::each::<PLACES>(line, arena, &KEYS, &mut |values| {
            found(values.and_then(|values| entry(&values, arena)).into());
        });
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

fn entry<'a>(values: &Values<'a, PLACES>, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let text = |slot: usize| values[slot].text(arena);
    // An entry of another log: it has no httpRequest, or one of a backend's own making.
    if !values[URL].is_present() && !values[2].is_present() {
        return Err(Reject::NOT_ACCESS);
    }
    let time = clock::any(text(1).as_bytes()).ok_or(Reject::BAD_TIMESTAMP)?;
    let url = text(URL).as_bytes();
    let Target { path, query } = target::split(url);
    let peer = if values[5].is_some() { text(5) } else { text(14) };
    let status = if values[4].is_some() { text(4).parse().map_err(|_| Reject::BAD_STATUS)? } else { 0 };
    let request = EdgeRequest {
        time,
        class: EdgeClass::Origin,
        host: arena.lower(arena.text(target::host(url))),
        path: arena.text(path),
        code: target::code(path, arena),
        query: arena.text(query),
        method: None,
        status,
        address: address(peer.as_bytes()),
        user_agent: text(6),
        referrer: text(7),
        country: "",
        region: "",
        city: "",
        asked: Asked::default(),
        language: "",
        line_key: key(text(ID), time, arena),
    };
    let verb = Verb::read(text(2).as_bytes()).ok_or(Reject::BAD_REQUEST)?;
    Ok(Entry { request, verb, outcome: outcome(values, arena) })
}

/// `insertId` and `timestamp` together, the latter in one spelling.
fn key<'a>(id: &str, time: UtcMicros, arena: &'a Arena) -> Option<&'a [u8]> {
    let key = arena.display(&format_args!("{id}@{}", time.0)).as_bytes();
    (well_formed_key(id.as_bytes()) && well_formed_key(key)).then_some(key)
}

fn outcome<'a>(values: &Values<'a, PLACES>, arena: &'a Arena) -> Outcome {
    let text = |slot: usize| values[slot].text(arena);
    if values[13].is_some() {
        return Outcome::NotViewer;
    }
    let is = |slot: usize| text(slot) == "true";
    match text(DETAILS) {
        "client_disconnected_before_any_response" => Outcome::Aborted,
        "response_from_cache_validated" => Outcome::Origin,
        _ if is(8) && is(10) => Outcome::Origin,
        "response_from_cache" | "byte_range_caching" => Outcome::Edge,
        _ if is(8) => Outcome::Edge,
        // Sent by the balancer's own rules.
        details
            if details == "direct_response" || details.starts_with("denied_by") || details.starts_with("banned_by") =>
        {
            Outcome::EdgeMade
        }
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const FORMAT: Format = Format::GcpLb;
    const LINE: &str = r#"{"httpRequest":{"latency":"0.001115s","remoteIp":"203.0.113.16:49194","requestMethod":"GET","requestSize":"210","requestUrl":"https://Go.example.com:443/%E5%A5%BD?s=a%20b","status":302,"userAgent":"Mozilla/5.0 (X11)","referer":"https://news.example.org/","cacheHit":true,"cacheLookup":true},"insertId":"1m8c116a9ee279x","jsonPayload":{"@type":"type.googleapis.com/google.cloud.loadbalancing.type.LoadBalancerLogEntry","statusDetails":"response_from_cache"},"receiveTimestamp":"2026-03-14T09:26:59Z","resource":{"labels":{"zone":"global"},"type":"http_load_balancer"},"timestamp":"2026-03-14T09:26:53.123456789Z","trace":"projects/p/traces/40eff8f1a2ed804c80054fe3225249f1"}"#;
    const OTHER: &str = r#"{"insertId":"1abc","textPayload":"not a request","timestamp":"2026-03-14T09:27:13Z"}"#;

    #[test]
    fn a_line_is_read_whole() {
        requests(FORMAT, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123456Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=a%20b", "https://news.example.org/"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address, Some([203, 0, 113, 16].into()));
            assert_eq!(request.user_agent, "Mozilla/5.0 (X11)");
            assert_eq!(request.line_key, Some(&b"1m8c116a9ee279x@1773480413123456"[..]));
        });
        assert_eq!(verdicts(FORMAT, LINE), ["edge"]);
    }

    #[test]
    fn an_entry_is_known_by_id_and_time_however_that_is_written() {
        let key = |line: &str| {
            let mut key = Vec::new();
            requests(FORMAT, line, |request| key.extend_from_slice(request.line_key.unwrap()));
            key
        };
        let line = LINE.replace(".123456789Z", ".5Z");
        assert_eq!(key(&line), key(&LINE.replace("09:26:53.123456789Z", "10:26:53.500000+01:00")));
        assert_eq!(key(&line), key(&line.replace("40eff8f1", "ffffffff")), "the trace doesn't matter");
        assert_ne!(key(&line), key(&line.replace("53.5Z", "54.5Z")));
        assert_ne!(key(&line), key(&line.replace("1m8c", "1m8d")));
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (r#""cacheLookup":true"#, r#""cacheLookup":true,"cacheValidatedWithOriginServer":true"#, "origin"),
            ("response_from_cache", "response_from_cache_validated", "origin"),
            ("response_from_cache", "byte_range_caching", "edge"),
            ("response_from_cache", "client_disconnected_after_partial_response", "edge"),
            ("response_from_cache", "client_disconnected_before_any_response", "aborted"),
            (r#""cacheHit":true,"#, "", "edge"),
            (r#""status":302,"#, r#""status":"302","#, "edge"),
            (r#""status":302,"#, "", "aborted"),
            ("302", "304", "not_redirect"),
            ("302", "\"x\"", "bad_status"),
            (r#""@type""#, r#""parentInsertId":"1me8b75f39ea57x","@type""#, "not_viewer"),
            (r#""GET""#, r#""HEAD""#, "edge"),
            (r#""GET""#, r#""PUT""#, "method"),
            (r#""requestMethod":"GET","#, "", "bad_request"),
            ("https://Go.example.com:443/", "http://[2001:db8::80]:80/", "edge"),
            ("requestUrl", "url", "bad_request"),
            (r#""timestamp":"2026"#, r#""timestamp":"x2026"#, "bad_timestamp"),
            ("1m8c116a9ee279x", "", "no_request_id"),
            ("\"httpRequest\"", "\"request\"", "not_access"),
            (r#"249f1"}"#, r#"249f1""#, "bad_json"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(FORMAT, &changed), [verdict], "{from} -> {to}");
        }
        let uncached = LINE.replace(r#","cacheHit":true"#, "");
        for (details, verdict) in [
            ("response_sent_by_backend", "origin"),
            ("direct_response", "edge_redirect"),
            ("denied_by_security_policy", "edge_redirect"),
            ("something_new", "origin"),
            ("", "origin"),
        ] {
            assert_eq!(verdicts(FORMAT, &uncached.replace("response_from_cache", details)), [verdict], "{details}");
        }
        requests(FORMAT, &LINE.replace("Go.example.com:443", "[2001:db8::80]:80"), |request| {
            assert_eq!((request.host, request.code), ("2001:db8::80", "好"));
        });
        requests(FORMAT, &LINE.replace("203.0.113.16:49194", "2001:db8::5"), |request| {
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8::5"));
        });
    }

    #[test]
    fn entries_of_other_logs_do_no_harm_among_requests() {
        assert_eq!(verdicts(FORMAT, &format!("{OTHER}\n{LINE}\n")), ["not_access", "edge"]);
        let fits = |file: &str| recognise(&Sample::of(file.as_bytes()), &Settings::default()).fits();
        assert!(fits(&format!("{OTHER}\n{OTHER}\n{OTHER}\n{LINE}\n")));
        assert!(!fits(&format!("{OTHER}\n")));
    }

    #[test]
    fn entries_without_an_id_are_told() {
        let has_id = |file: &str| FileParser::new(FORMAT, file.as_bytes(), Settings::default()).layout_has_id();
        assert!(has_id(LINE) && has_id(""));
        assert!(!has_id(&LINE.replace("insertId", "id")));
    }
}
