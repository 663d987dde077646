//! Fastly real-time log streaming: a JSON object a line, bare or behind a syslog header.
//!
//! ```text
//! <134>2026-03-14T09:26:01Z cache-fra-1 shortlinks[411]: {"timestamp":"2026-03-14T09:26:01+0000","client_ip":"…","host":"…",
//!  "url":"/k7Qp2","request_method":"GET","response_state":"HIT","response_status":302,"fastly_is_edge":true,"request_id":"…"}
//! ```
//! A service logs what its format says. The keys are those of the control panel's default format and a `request_id`,
//! unless `edge_logs.fastly.fields` names others. With shielding a request has two lines, the shield's being told by
//! `fastly_is_edge` or the number of visits.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::field_names::FieldProblem;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::json::Value;
use super::judge::{Entry, Found, Outcome};
use super::keyed::Keys;
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Verb};

const KEY: &str = "edge_logs.fastly.fields";

/// The places of values.
const TIME: usize = 0;
const URL: usize = 1;
const STATUS: usize = 2;
const METHOD: usize = 3;
const HOST: usize = 4;
const QUERY: usize = 5;
const ADDRESS: usize = 6;
const AGENT: usize = 7;
const REFERRER: usize = 8;
const COUNTRY: usize = 9;
const LANGUAGE: usize = 10;
const ID: usize = 11;
const STATE: usize = 12;
const IS_EDGE: usize = 13;
const VISITS: usize = 14;
const PLACES: usize = 15;

/// For each place: the key that a log has for it if nothing else is configured, our name, and other names for it.
const FIELDS: [(&str, &[&str]); PLACES] = [
    ("timestamp", &["time", "timestamp"]),
    ("url", &["url", "uri", "path"]),
    ("response_status", &["status", "response_status"]),
    ("request_method", &["method", "request_method"]),
    ("host", &["host", "domain"]),
    ("", &["query"]),
    ("client_ip", &["client_ip", "ip", "address"]),
    ("request_user_agent", &["user_agent", "request_user_agent", "ua"]),
    ("request_referer", &["referrer", "referer", "request_referer"]),
    ("geo_country", &["country", "geo_country"]),
    ("request_accept_language", &["language", "request_accept_language"]),
    ("request_id", &["request_id"]),
    ("response_state", &["state", "response_state", "cache"]),
    ("fastly_is_edge", &["is_edge", "fastly_is_edge"]),
    ("visits_this_service", &["visits", "visits_this_service"]),
];

/// Which keys a log has, as configured.
fn keys(fields: &BTreeMap<String, String>) -> [String; PLACES] {
    let mut keys = FIELDS.map(|(key, _)| key.to_owned());
    for (name, key) in fields {
        if let Some(place) = FIELDS.iter().position(|(_, names)| names.contains(&name.as_str())) {
            keys[place].clone_from(key);
        }
    }
    keys
}

/// What is wrong with `edge_logs.fastly.fields`.
pub fn problems(fields: &BTreeMap<String, String>) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let mut named = [false; PLACES];
    for name in fields.keys() {
        match FIELDS.iter().position(|(_, names)| names.contains(&name.as_str())) {
            None => {
                let known = FIELDS.iter().map(|(_, names)| names[0]).collect();
                problems.push(FieldProblem::Unknown { given: name.clone(), known });
            }
            Some(place) if named[place] => problems.push(FieldProblem::Twice { given: name.clone() }),
            Some(place) => named[place] = true,
        }
    }
    let keys = keys(fields);
    for (place, key) in keys.iter().enumerate() {
        if !key.is_empty() && keys[..place].contains(key) {
            problems.push(FieldProblem::Twice { given: key.clone() });
        }
    }
    for (place, what) in [(TIME, "a key for time"), (URL, "a key for url"), (STATUS, "a key for status")] {
        if keys[place].is_empty() {
            problems.push(FieldProblem::Missing { what });
        }
    }
    problems
}

#[derive(Debug)]
struct Fastly {
    keys: Keys,
    has_id: bool,
    /// Time, URL or status have keys of the operator's own, which another writer may use too.
    own_keys: bool,
}

impl Fastly {
    fn new(settings: &Settings) -> Self {
        let keys = keys(&settings.fastly);
        let own_keys = (TIME..=STATUS).any(|place| keys[place] != FIELDS[place].0);
        let places = keys.into_iter().enumerate().filter(|(_, key)| !key.is_empty());
        Self { keys: Keys::new(places.map(|(place, key)| (key, place))), has_id: true, own_keys }
    }

    /// Whether these are values of a line of ours. Where keys are common ones, one that only Fastly has must be there.
    fn is_ours(&self, values: &[Value<'_>; PLACES]) -> bool {
        (TIME..=STATUS).all(|place| values[place].is_present())
            && (!self.own_keys || (STATE..=VISITS).any(|place| values[place].is_present()))
    }
}

/// How many of the first lines are such objects.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let (arena, fastly) = (Arena::new(), Fastly::new(settings));
    let (mut matched, mut objects, mut problem) = (0, 0, None);
    for line in &sample.lines {
        match fastly.keys.values::<PLACES>(line, &arena) {
            Ok(values) => {
                objects += 1;
                matched += usize::from(fastly.is_ours(&values));
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let of = sample.lines.len();
    let keys = keys(&settings.fastly);
    let [time, url, status, ..] = &keys;
    let whose = if settings.fastly.is_empty() { "Fastly's keys" } else { "the keys of edge_logs.fastly.fields" };
    let why = match problem {
        _ if matched > 0 => format!("{matched} of the first {of} lines are JSON objects with {whose}"),
        _ if objects > 0 && fastly.own_keys => {
            format!("JSON objects, but without {time}, {url}, {status} and one of {}", keys[STATE..].join(", "))
        }
        _ if objects > 0 => format!("JSON objects, but without {time}, {url} and {status} ({KEY} can name other keys)"),
        Some(problem) => format!("no JSON object a line ({problem})"),
        None => "no lines".to_owned(),
    };
    Fit { matched, of, why }
}

/// Why another format is not to take a file: it is as configured for Fastly.
pub(super) fn takes(sample: &Sample<'_>, settings: &Settings) -> Option<Fit> {
    if settings.fastly.is_empty() {
        return None;
    }
    let fit = recognise(sample, settings);
    fit.fits().then(|| Fit { matched: 0, of: fit.of, why: format!("{}, which goes before", fit.why) })
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
    let (arena, fastly) = (Arena::new(), Fastly::new(settings));
    let objects = sample.lines.iter().filter_map(|line| fastly.keys.values::<PLACES>(line, &arena).ok());
    let with_id: Vec<bool> = objects.map(|values| values[ID].is_present()).collect();
    // With nothing to go by, an id is expected: then each line without one says so by itself.
    Arc::new(Fastly { has_id: with_id.is_empty() || with_id.contains(&true), ..fastly })
}

impl Layout for Fastly {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        let values = self.keys.values::<PLACES>(line, arena).map_err(|_| Reject::BAD_JSON);
        found(values.and_then(|values| entry(&values, arena)).into());
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

fn entry<'a>(values: &[Value<'a>; PLACES], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let text = |place: usize| values[place].text(arena);
    let url = text(URL).as_bytes();
    let target = target::split(url);
    let verb = match values[METHOD].is_present() {
        true => Verb::read(text(METHOD).as_bytes()).ok_or(Reject::BAD_REQUEST)?,
        false => Verb::Unlogged,
    };
    let host = if text(HOST).is_empty() { arena.text(target::host(url)) } else { text(HOST) };
    let id = text(ID).as_bytes();
    let request = EdgeRequest {
        time: clock::any(text(TIME).as_bytes()).ok_or(Reject::BAD_TIMESTAMP)?,
        class: EdgeClass::Origin,
        host: arena.lower(host),
        path: arena.text(target.path),
        code: target::code(target.path, arena),
        query: if target.query.is_empty() { text(QUERY) } else { arena.text(target.query) },
        method: None,
        status: text(STATUS).parse().map_err(|_| Reject::BAD_STATUS)?,
        address: address(text(ADDRESS).as_bytes()),
        user_agent: text(AGENT),
        referrer: text(REFERRER),
        country: text(COUNTRY),
        language: text(LANGUAGE),
        line_key: well_formed_key(id).then_some(id),
    };
    let is_shield =
        matches!(text(IS_EDGE), "false" | "0") || text(VISITS).parse::<u32>().is_ok_and(|visits| visits > 0);
    let outcome = if is_shield { Outcome::NotViewer } else { outcome(text(STATE)) };
    Ok(Entry { request, verb, outcome })
}

/// How a request ended, by `fastly_info.state`: a first word, and what it came to behind hyphens.
fn outcome(state: &str) -> Outcome {
    let has = |word: &str| state.split('-').any(|part| part == word);
    match state.split('-').next().unwrap_or_default() {
        _ if has("SYNTH") || has("ERROR") || state == "NONE" => Outcome::EdgeMade,
        "HIT" if !has("REFRESH") => Outcome::Edge,
        // MISS, PASS, HITPASS; a revalidation; what isn't logged or known is left to the id.
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::testing::{requests, requests_with, verdicts, verdicts_with};
    use super::super::{SniffError, sniff};
    use super::*;

    const LINE: &str = r#"<134>2026-03-14T09:26:10Z cache-fra-eddf8230021 shortlinks[411]: {"timestamp":"2026-03-14T10:26:10+0100","client_ip":"2001:db8:44::9","geo_country":"DE","host":"Go.example.com","url":"/k7Qp2?q=a|b","request_method":"GET","request_referer":"https://ö.example/","request_user_agent":"weird \"agent\"\tä","response_state":"HIT","response_status":302,"response_body_size":0,"fastly_is_edge":true,"request_id":"fc84c813d96f14c23e057c0a0a5d1268"}"#;

    fn configured(pairs: &[(&str, &str)]) -> Settings {
        let fastly = pairs.iter().map(|(name, key)| ((*name).to_owned(), (*key).to_owned())).collect();
        Settings { fastly, ..Settings::default() }
    }

    #[test]
    fn a_line_is_read_whole() {
        requests(Format::Fastly, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:10Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/k7Qp2", "k7Qp2"));
            assert_eq!((request.query, request.referrer), ("q=a|b", "https://ö.example/"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:44::9"));
            assert_eq!((request.user_agent, request.country), ("weird \"agent\"\tä", "DE"));
            assert_eq!(request.line_key, Some(&b"fc84c813d96f14c23e057c0a0a5d1268"[..]));
        });
        assert_eq!(verdicts(Format::Fastly, LINE), ["edge"]);
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (r#""HIT""#, r#""HIT-CLUSTER""#, "edge"),
            (r#""HIT""#, r#""HIT-STALE-WAIT-CLUSTER""#, "edge"),
            (r#""HIT""#, r#""HIT-REFRESH""#, "origin"),
            (r#""HIT""#, r#""MISS-WAIT-CLUSTER""#, "origin"),
            (r#""HIT""#, r#""HITPASS-WAIT""#, "origin"),
            (r#""HIT""#, r#""PASS""#, "origin"),
            (r#""HIT""#, r#""SOMETHING""#, "origin"),
            (r#""HIT""#, r#""""#, "origin"),
            (r#""HIT""#, r#""HIT-SYNTH""#, "edge_redirect"),
            (r#""HIT""#, r#""BG-ERROR-RECV""#, "edge_redirect"),
            (r#""HIT""#, r#""NONE""#, "edge_redirect"),
            (r#""HIT","response_status":302"#, r#""ERROR","response_status":503"#, "not_redirect"),
            (r#"edge":true"#, r#"edge":false"#, "not_viewer"),
            (r#"edge":true"#, r#"edge":"0""#, "not_viewer"),
            (r#"edge":true"#, r#"edge":"1","visits_this_service":0"#, "edge"),
            (r#""fastly_is_edge":true"#, r#""visits_this_service":"1""#, "not_viewer"),
            (r#""GET""#, r#""FASTLYPURGE""#, "method"),
            (r#""GET""#, r#""""#, "bad_request"),
            (r#""request_method":"GET","#, "", "edge"),
            ("302", r#""302""#, "edge"),
            ("302", "null", "bad_status"),
            ("/k7Qp2", "https://go.example.com/k7Qp2", "edge"),
            (r#""url":"/k"#, r#""url":"k"#, "bad_request"),
            ("2026-03-14T10:26:10+0100", "1773480370", "edge"),
            ("2026-03-14T10:26:10+0100", "(null)", "bad_timestamp"),
            ("fc84c813d96f14c23e057c0a0a5d1268", "", "no_request_id"),
            (r#"weird \"agent\""#, r"bad %22agent\x22", "bad_json"),
            (r#","request_id":"fc84c813d96f14c23e057c0a0a5d1268"}"#, "", "bad_json"),
            (r#""host""#, r#""url":"/x","host""#, "bad_json"),
            ("<134>2026-03-14T09:26:10Z cache-fra-eddf8230021 shortlinks[411]: ", "", "edge"),
            ("<134>2026-03-14T09:26:10Z", "2026-03-14T09:26:10Z", "edge"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(Format::Fastly, &changed), [verdict], "{from} -> {to}");
        }
        assert_eq!(verdicts(Format::Fastly, "<134>2026-03-14T09:26:14Z c s[411]: (null)"), ["bad_json"]);
    }

    #[test]
    fn keys_can_be_configured() {
        let settings = configured(&[
            ("time", "t"),
            ("url", "u"),
            ("status", "s"),
            ("client_ip", "ip"),
            ("request_id", "rid"),
            ("query", "q"),
            ("state", "st"),
        ]);
        let line = r#"{"t":"1773480370.5","u":"http://Go.example.com:80/k","q":"a=1","s":"302","ip":"203.0.113.9","rid":"r1","st":"HIT","request_method":"GET","timestamp":"no","request_id":"other"}"#;
        requests_with(Format::Fastly, line, &settings, |request| {
            assert_eq!((request.host, request.code, request.query), ("go.example.com", "k", "a=1"));
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:10.500Z");
            assert_eq!(request.line_key, Some(&b"r1"[..]));
        });
        assert_eq!(verdicts_with(Format::Fastly, line, &settings), ["edge"]);
        let sniffed = sniff(line.as_bytes(), &settings).unwrap().unwrap();
        assert_eq!(sniffed.why, "1 of the first 1 lines are JSON objects with the keys of edge_logs.fastly.fields");
        let Err(SniffError::None { readings, .. }) = sniff(line.as_bytes(), &Settings::default()) else { panic!() };
        let ours = readings.iter().find(|reading| reading.format == Format::Fastly).unwrap();
        assert!(ours.why.contains("without timestamp, url and response_status"), "{}", ours.why);
    }

    #[test]
    fn a_log_with_nginxs_names_is_fastlys_only_where_it_says_what_fastly_says() {
        let settings =
            configured(&[("time", "time"), ("url", "uri"), ("status", "status"), ("client_ip", "remote_addr")]);
        let nginx = r#"{"time":"2026-03-14T09:26:10Z","remote_addr":"203.0.113.9","method":"GET","uri":"/k","status":"302","cache":"HIT","request_id":"r1"}"#;
        let ours = nginx.replace("\"cache\"", "\"response_state\"");
        assert_eq!(sniff(nginx.as_bytes(), &settings).unwrap().unwrap().format, Format::NginxJson);
        assert_eq!(sniff(ours.as_bytes(), &settings).unwrap().unwrap().format, Format::Fastly);
    }

    #[test]
    fn configured_names_are_checked() {
        let problems = |pairs: &[(&str, &str)]| problems(&configured(pairs).fastly);
        assert_eq!(problems(&[]), []);
        assert_eq!(problems(&[("time", "t"), ("response_state", "s"), ("request_id", "id")]), []);
        assert!(
            matches!(&problems(&[("reqest_id", "x")])[..], [FieldProblem::Unknown { given, known }] if given == "reqest_id" && known.contains(&"request_id"))
        );
        assert_eq!(
            problems(&[("status", "s"), ("response_status", "s")]),
            [FieldProblem::Twice { given: "status".to_owned() }]
        );
        assert_eq!(problems(&[("request_id", "host")]), [FieldProblem::Twice { given: "host".to_owned() }]);
        assert_eq!(problems(&[("url", "")]), [FieldProblem::Missing { what: "a key for url" }]);
    }

    #[test]
    fn a_layout_without_an_id_is_told() {
        let has_id = |file: &str| FileParser::new(Format::Fastly, file.as_bytes(), Settings::default()).layout_has_id();
        assert!(has_id(LINE));
        assert!(!has_id(&LINE.replace("request_id", "other_id")));
    }
}
