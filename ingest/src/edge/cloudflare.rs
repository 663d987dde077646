//! Cloudflare Logpush, data set `http_requests`: one object a line, the fields that the job selects.
//!
//! ```text
//! {"EdgeStartTimestamp":1773480413123456789,"RayID":"ca99d56c1e6a985b","ClientRequestHost":"go.example.com",
//!  "ClientRequestMethod":"GET","ClientRequestURI":"/k7Qp2","EdgeResponseStatus":302,"CacheCacheStatus":"hit",…}
//! ```
//! Times are written as the job says: nanoseconds or seconds since 1970, or RFC 3339 with none, three or nine decimals.
//! Values are as the client sent them, with no layer of encoding; a missing one is an empty text, `00` for a Ray ID.

use std::sync::Arc;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::fields::{self, Keys, Place, Values};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject, asked};
use super::target::{self, Target, Verb};

const PLACES: usize = 22;
const ID: usize = 1;

/// Headers that a job adds as custom fields.
static HEADERS: Keys = Keys::new(&[("sec-gpc", Place::Slot(20)), ("dnt", Place::Slot(21))]);

static KEYS: Keys = Keys::new(&[
    ("EdgeStartTimestamp", Place::Slot(0)),
    ("RayID", Place::Slot(ID)),
    ("ParentRayID", Place::Slot(2)),
    ("ClientRequestSource", Place::Slot(3)),
    ("ClientIP", Place::Slot(4)),
    ("ClientCountry", Place::Slot(5)),
    ("ClientRequestHost", Place::Slot(6)),
    ("ClientRequestMethod", Place::Slot(7)),
    ("ClientRequestURI", Place::Slot(8)),
    ("ClientRequestPath", Place::Slot(9)),
    ("ClientRequestReferer", Place::Slot(10)),
    ("ClientRequestUserAgent", Place::Slot(11)),
    ("EdgeResponseStatus", Place::Slot(12)),
    ("CacheCacheStatus", Place::Slot(13)),
    ("OriginResponseStatus", Place::Slot(14)),
    ("WorkerSubrequest", Place::Slot(15)),
    ("WorkerStatus", Place::Slot(16)),
    ("EdgeEndTimestamp", Place::Slot(17)),
    ("ClientRegionCode", Place::Slot(18)),
    ("ClientCity", Place::Slot(19)),
    ("RequestHeaders", Place::Within(&HEADERS)),
]);

/// How many of the first lines are such objects.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let lacks = "EdgeStartTimestamp, ClientRequestURI (or ClientRequestPath) and EdgeResponseStatus";
    fields::fit::<PLACES>(sample, &KEYS, "Cloudflare's", lacks, |values| {
        let is = |slot: usize| values[slot].is_present();
        (is(0) || is(17)) && (is(8) || is(9)) && is(12)
    })
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(Cloudflare { has_id: fields::has::<PLACES>(sample, &KEYS, ID) })
}

#[derive(Debug)]
struct Cloudflare {
    has_id: bool,
}

impl Layout for Cloudflare {
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
    let bytes = |slot: usize| text(slot).as_bytes();
    // A job that doesn't select the end is the rule, one that doesn't select the start is not.
    let time = clock::any(bytes(0)).or_else(|| clock::any(bytes(17))).ok_or(Reject::BAD_TIMESTAMP)?;
    let verb = Verb::read(bytes(7)).ok_or(Reject::BAD_REQUEST)?;
    let uri = if values[8].is_some() { bytes(8) } else { bytes(9) };
    let Target { path, query } = target::split(uri);
    let id = bytes(ID);
    let request = EdgeRequest {
        time,
        class: EdgeClass::Origin,
        host: arena.lower(text(6)),
        path: arena.text(path),
        code: target::code(path, arena),
        query: arena.text(query),
        method: None,
        status: text(12).parse().map_err(|_| Reject::BAD_STATUS)?,
        address: address(bytes(4)),
        user_agent: text(11),
        referrer: text(10),
        country: text(5),
        region: text(18),
        city: text(19),
        asked: asked(text(20), text(21)),
        language: "",
        line_key: (well_formed_key(id) && !is_no_ray(id)).then_some(id),
    };
    Ok(Entry { request, verb, outcome: outcome(values, arena) })
}

/// A Ray ID that isn't there is noughts.
fn is_no_ray(id: &[u8]) -> bool {
    id.iter().all(|byte| *byte == b'0')
}

fn outcome<'a>(values: &Values<'a, PLACES>, arena: &'a Arena) -> Outcome {
    let text = |slot: usize| values[slot].text(arena);
    // 0, 1 and 9 are the numbers of the words.
    let is_viewers = matches!(text(3), "" | "eyeball" | "orangeToOrange" | "unknown" | "0" | "1" | "9");
    if !is_viewers || text(15) == "true" || !is_no_ray(text(2).as_bytes()) {
        return Outcome::NotViewer;
    }
    let asked = match values[14].is_some() {
        true => Some(!matches!(text(14), "0" | "00")),
        false => None,
    };
    match arena.lower(text(13)) {
        "hit" | "stale" | "updating" | "stream_hit" => Outcome::Edge,
        // Not from the cache, and not from the origin either: a rule's answer, or a program's.
        "dynamic" | "unknown" | "none" | "" if asked == Some(false) => by_itself(text(16)),
        "unknown" | "none" if asked.is_none() => by_itself(text(16)),
        _ => Outcome::Origin,
    }
}

/// Answered at the edge: by a Worker, if one ran.
fn by_itself(worker_status: &str) -> Outcome {
    if matches!(worker_status, "" | "unknown") { Outcome::EdgeMade } else { Outcome::Function }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const FORMAT: Format = Format::Cloudflare;
    const LINE: &str = r#"{"CacheCacheStatus":"hit","CacheTieredFill":false,"ClientCity":"Berlin","ClientCountry":"de","ClientRegionCode":"BE","RequestHeaders":{"dnt":"1","accept":"*/*"},"ClientIP":"2001:db8:9::1","ClientRequestHost":"Go.example.com","ClientRequestMethod":"GET","ClientRequestPath":"/%E5%A5%BD","ClientRequestReferer":"https://news.example.org/?a=%20","ClientRequestScheme":"https","ClientRequestSource":"eyeball","ClientRequestURI":"/%E5%A5%BD?s=a%20b","ClientRequestUserAgent":"He said \"hi\" \\ bye","EdgeResponseStatus":302,"EdgeStartTimestamp":1773480413123456789,"OriginResponseStatus":0,"ParentRayID":"00","RayID":"ca99d56c1e6a985b","WorkerSubrequest":false}"#;

    #[test]
    fn a_line_is_read_whole() {
        requests(FORMAT, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123456Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=a%20b", "https://news.example.org/?a=%20"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:9::1"));
            assert_eq!((request.user_agent, request.country), ("He said \"hi\" \\ bye", "de"));
            assert_eq!((request.region, request.city), ("BE", "Berlin"));
            assert_eq!((request.asked.gpc, request.asked.dnt), (false, true));
            assert_eq!(request.line_key, Some(&b"ca99d56c1e6a985b"[..]));
        });
        assert_eq!(verdicts(FORMAT, LINE), ["edge"]);
    }

    #[test]
    fn every_spelling_of_a_time_is_exact() {
        for (spelling, time) in [
            ("1773480413", "2026-03-14T09:26:53Z"),
            ("1773480413123456789", "2026-03-14T09:26:53.123456Z"),
            ("1773480413123456001", "2026-03-14T09:26:53.123456Z"),
            ("\"1773480413123456789\"", "2026-03-14T09:26:53.123456Z"),
            ("\"2026-03-14T09:26:53Z\"", "2026-03-14T09:26:53Z"),
            ("\"2026-03-14T09:26:53.123Z\"", "2026-03-14T09:26:53.123Z"),
            ("\"2026-03-14T09:26:53.123456789Z\"", "2026-03-14T09:26:53.123456Z"),
        ] {
            let line = LINE.replace("1773480413123456789", spelling);
            assert_eq!(verdicts(FORMAT, &line), ["edge"], "{spelling}");
            requests(FORMAT, &line, |request| assert_eq!(request.time.to_string(), time, "{spelling}"));
        }
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        let origin = r#""OriginResponseStatus":302"#;
        for (from, to, verdict) in [
            (r#""hit""#, r#""HIT""#, "edge"),
            (r#""hit""#, r#""stale""#, "edge"),
            (r#""hit""#, r#""updating""#, "edge"),
            (r#""hit""#, r#""stream_hit""#, "edge"),
            (r#""hit""#, r#""miss""#, "origin"),
            (r#""hit""#, r#""expired""#, "origin"),
            (r#""hit""#, r#""revalidated""#, "origin"),
            (r#""hit""#, r#""deferred""#, "origin"),
            (r#""hit""#, r#""dynamic""#, "edge_redirect"),
            (r#""hit""#, r#""unknown""#, "edge_redirect"),
            (r#""hit""#, r#""none","WorkerStatus":"ok""#, "edge_redirect"),
            (r#""eyeball""#, r#""edgeWorkerFetch""#, "not_viewer"),
            (r#""eyeball""#, r#""healthcheck""#, "not_viewer"),
            (r#""eyeball""#, r#""orangeToOrange""#, "edge"),
            (r#""eyeball""#, r#""""#, "edge"),
            (r#""00""#, r#""67c1c09048bc0d44""#, "not_viewer"),
            (r#""00""#, r#""""#, "edge"),
            (r#"request":false"#, r#"request":true"#, "not_viewer"),
            ("302", r#""302""#, "edge"),
            ("302", "301", "not_redirect"),
            ("302", "0", "aborted"),
            ("302", "499", "aborted"),
            ("302", r#""""#, "bad_status"),
            (r#""GET""#, r#""HEAD""#, "edge"),
            (r#""GET""#, r#""POST""#, "method"),
            ("ClientRequestMethod", "Method", "bad_request"),
            ("ClientRequestURI", "URI", "edge"),
            ("1773480413123456789", "\"yesterday\"", "bad_timestamp"),
            ("ca99d56c1e6a985b", "", "no_request_id"),
            ("ca99d56c1e6a985b", "00", "no_request_id"),
            (r#""WorkerSubrequest":false}"#, "", "bad_json"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(FORMAT, &changed), [verdict], "{from} -> {to}");
        }
        for (status, verdict) in
            [("dynamic", "origin"), ("unknown", "origin"), ("none", "origin"), ("", "origin"), ("new-word", "origin")]
        {
            let changed =
                LINE.replace(r#""OriginResponseStatus":0"#, origin).replace("\"hit\"", &format!("\"{status}\""));
            assert_eq!(verdicts(FORMAT, &changed), [verdict], "{status}");
        }
        // a job without the origin's status
        for (status, verdict) in [("dynamic", "origin"), ("unknown", "edge_redirect"), ("miss", "origin")] {
            let changed = LINE.replace("OriginResponseStatus", "x").replace("\"hit\"", &format!("\"{status}\""));
            assert_eq!(verdicts(FORMAT, &changed), [verdict], "{status}");
        }
    }

    #[test]
    fn a_job_that_selects_no_id_is_told() {
        let has_id = |file: &str| FileParser::new(FORMAT, file.as_bytes(), Settings::default()).layout_has_id();
        assert!(has_id(LINE) && has_id(""));
        assert!(!has_id(&LINE.replace("\"RayID\"", "\"Ray\"")));
    }
}
