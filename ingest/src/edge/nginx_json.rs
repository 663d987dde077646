//! nginx with `log_format … escape=json`: one JSON object a line, keys named by nginx's variables, or in short.
//!
//! ```text
//! {"time_iso8601":"…","msec":"1773480413.123","remote_addr":"…","host":"…","request_method":"GET","request_uri":"/k7Qp2",
//!  "status":"302","http_referer":"","http_user_agent":"…","upstream_cache_status":"HIT","request_id":"…"}
//! ```
//! `$msec` is preferred to the other times, being finer. A missing value is an empty text. Bytes from 0x80 on are
//! copied as they came, so a line need not be UTF-8.

use std::sync::Arc;

use schemas::UtcMicros;
use serde::Deserialize;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::json::{self, Value};
use super::judge::{Entry, Found};
use super::request::{EdgeClass, EdgeRequest, Reject, asked};
use super::target::{self, Target, Verb};
use super::{fastly, nginx, nginx_log_format};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Object<'a> {
    #[serde(borrow)]
    msec: Value<'a>,
    #[serde(borrow)]
    time_iso8601: Value<'a>,
    #[serde(borrow)]
    time: Value<'a>,
    #[serde(borrow)]
    time_local: Value<'a>,
    #[serde(borrow)]
    remote_addr: Value<'a>,
    #[serde(borrow)]
    host: Value<'a>,
    #[serde(borrow)]
    http_host: Value<'a>,
    #[serde(borrow)]
    request: Value<'a>,
    #[serde(borrow)]
    request_method: Value<'a>,
    #[serde(borrow)]
    method: Value<'a>,
    #[serde(borrow)]
    request_uri: Value<'a>,
    #[serde(borrow)]
    uri: Value<'a>,
    #[serde(borrow)]
    status: Value<'a>,
    #[serde(borrow)]
    http_referer: Value<'a>,
    #[serde(borrow)]
    referer: Value<'a>,
    #[serde(borrow)]
    http_user_agent: Value<'a>,
    #[serde(borrow)]
    ua: Value<'a>,
    #[serde(borrow)]
    http_accept_language: Value<'a>,
    #[serde(borrow)]
    geoip_country_code: Value<'a>,
    #[serde(borrow)]
    geoip_region: Value<'a>,
    #[serde(borrow)]
    geoip_city: Value<'a>,
    #[serde(borrow)]
    http_sec_gpc: Value<'a>,
    #[serde(borrow)]
    http_dnt: Value<'a>,
    #[serde(borrow)]
    upstream_cache_status: Value<'a>,
    #[serde(borrow)]
    cache: Value<'a>,
    #[serde(borrow)]
    upstream_status: Value<'a>,
    #[serde(borrow)]
    request_id: Value<'a>,
}

impl Object<'_> {
    /// Whether the keys are those of an nginx access log.
    fn is_access_line(&self) -> bool {
        let time = [&self.msec, &self.time_iso8601, &self.time, &self.time_local];
        let target = [&self.request, &self.request_uri, &self.uri];
        time.iter().any(|value| value.is_present())
            && target.iter().any(|value| value.is_present())
            && self.status.is_present()
            && self.remote_addr.is_present()
    }
}

/// How many of the first lines are such objects.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let arena = Arena::new();
    let (mut matched, mut objects, mut problem) = (0, 0, None);
    for line in &sample.lines {
        match json::parse::<Object<'_>>(line, &arena) {
            Ok(object) => {
                objects += 1;
                matched += usize::from(object.is_access_line());
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let of = sample.lines.len();
    let taken = || nginx_log_format::takes(sample, settings).or_else(|| fastly::takes(sample, settings));
    if let Some(fit) = (matched > 0).then(taken).flatten() {
        return fit;
    }
    let why = match problem {
        _ if matched > 0 => format!("{matched} of the first {of} lines are JSON objects with nginx's names"),
        _ if objects > 0 => "JSON objects, but none with time, request_uri (or uri), status and remote_addr".to_owned(),
        Some(problem) => format!("no JSON object a line ({problem})"),
        None => "no lines".to_owned(),
    };
    Fit { matched, of, why }
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    let arena = Arena::new();
    let objects = sample.lines.iter().filter_map(|line| json::parse::<Object<'_>>(line, &arena).ok());
    let with_id: Vec<bool> = objects.map(|object| object.request_id.is_present()).collect();
    // With nothing to go by, an id is expected: then each line without one says so by itself.
    Arc::new(NginxJson { has_id: with_id.is_empty() || with_id.contains(&true) })
}

#[derive(Debug)]
struct NginxJson {
    has_id: bool,
}

impl Layout for NginxJson {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(json::object(line, arena).and_then(|object| entry(object, arena)).into());
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

fn entry<'a>(object: Object<'a>, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let text = |value: &Value<'a>| value.text(arena);
    let cache = object.upstream_cache_status.or(object.cache);
    let column = |value: &Value<'a>| value.is_present().then(|| text(value));
    let outcome = nginx::outcome(column(&cache), column(&object.upstream_status));
    let time = [&object.msec, &object.time_iso8601, &object.time, &object.time_local]
        .into_iter()
        .find_map(|value| instant(text(value)))
        .ok_or(Reject::BAD_TIMESTAMP)?;
    let method = text(&object.request_method.or(object.method));
    let uri = text(&object.request_uri.or(object.uri));
    let (verb, Target { path, query }) = if uri.is_empty() {
        target::request_line(text(&object.request).as_bytes()).ok_or(Reject::BAD_REQUEST)?
    } else {
        (Verb::read(method.as_bytes()).ok_or(Reject::BAD_REQUEST)?, target::split(uri.as_bytes()))
    };
    let id = text(&object.request_id).as_bytes();
    let request = EdgeRequest {
        time,
        class: EdgeClass::Origin,
        host: arena.lower(text(&object.host.or(object.http_host))),
        path: arena.text(path),
        code: target::code(path, arena),
        query: arena.text(query),
        method: None,
        status: text(&object.status).parse().map_err(|_| Reject::BAD_STATUS)?,
        address: address(text(&object.remote_addr).as_bytes()),
        user_agent: text(&object.http_user_agent.or(object.ua)),
        referrer: text(&object.http_referer.or(object.referer)),
        country: text(&object.geoip_country_code),
        region: text(&object.geoip_region),
        city: text(&object.geoip_city),
        asked: asked(text(&object.http_sec_gpc), text(&object.http_dnt)),
        language: text(&object.http_accept_language),
        line_key: (well_formed_key(id) && !nginx::is_cut_id(id)).then_some(id),
    };
    Ok(Entry { request, verb, outcome })
}

fn instant(text: &str) -> Option<UtcMicros> {
    clock::any(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const LINE: &str = r#"{"time_iso8601":"2026-03-14T10:26:53+01:00","msec":"1773480413.123","remote_addr":"203.0.113.10","host":"Go.example.com","request_method":"GET","request_uri":"/%E5%A5%BD?s=1","status":"302","http_referer":"https://news.example.org/","http_user_agent":"say \"hi\"","upstream_cache_status":"HIT","http_sec_gpc":"1","http_dnt":"0","geoip_country_code":"NL","geoip_region":"07","geoip_city":"Amsterdam","request_id":"87edc48b25ee78e474b46ddef4d1cff6","scheme":"http"}"#;

    #[test]
    fn a_line_by_variable_names_is_read_whole() {
        requests(Format::NginxJson, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
            assert_eq!(
                (request.host, request.path, request.code, request.query),
                ("go.example.com", "/%E5%A5%BD", "好", "s=1")
            );
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address, Some([203, 0, 113, 10].into()));
            assert_eq!((request.country, request.region, request.city), ("NL", "07", "Amsterdam"));
            assert_eq!((request.asked.gpc, request.asked.dnt), (true, false));
            assert_eq!((request.user_agent, request.referrer), ("say \"hi\"", "https://news.example.org/"));
            assert_eq!(request.line_key, Some(&b"87edc48b25ee78e474b46ddef4d1cff6"[..]));
        });
        assert_eq!(verdicts(Format::NginxJson, LINE), ["edge"]);
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (r#""HIT""#, r#""MISS""#, "origin"),
            (r#""HIT""#, r#""""#, "edge_redirect"),
            (r#""HIT""#, r#""","upstream_status":"302""#, "origin"),
            (r#""302""#, "302", "edge"),
            (r#""302""#, r#""499""#, "aborted"),
            (r#""302""#, r#""404""#, "not_redirect"),
            (r#""302""#, r#""-""#, "bad_status"),
            (r#""GET""#, r#""HEAD""#, "edge"),
            (r#""GET""#, r#""POST""#, "method"),
            (r#""GET""#, r#""""#, "bad_request"),
            (r#"/%E5%A5%BD?s=1"#, "", "bad_request"),
            (r#""1773480413.123""#, "1773480413.123", "edge"),
            (r#""1773480413.123""#, r#""-""#, "edge"),
            (r#"0","host"#, r#":80","host"#, "edge"),
            ("1cff6\"", "1cff\"", "no_request_id"),
            ("87edc48b25ee78e474b46ddef4d1cff6", "", "no_request_id"),
            (r#"\"hi\""#, r#"\x22hi\x22"#, "bad_json"),
            (r#","scheme":"http"}"#, "", "bad_json"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(Format::NginxJson, &changed), [verdict], "{from} -> {to}");
        }
        let timeless = LINE.replace("1773480413.123", "").replace("2026-03-14T10", "2026-03-14T25");
        assert_eq!(verdicts(Format::NginxJson, &timeless), ["bad_timestamp"]);
    }

    #[test]
    fn short_names_and_a_whole_request_line_do_too() {
        let line = r#"{"time":"14/Mar/2026:09:26:53 +0000","remote_addr":"2001:db8::7","request":"GET /k HTTP/1.1","status":302,"cache":"MISS","ua":"x","request_id":"op-1"}"#;
        requests(Format::NginxJson, line, |request| {
            assert_eq!((request.code, request.user_agent, request.class), ("k", "x", EdgeClass::Origin));
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53Z");
        });
        assert_eq!(verdicts(Format::NginxJson, line), ["origin"]);
    }

    #[test]
    fn a_layout_without_an_id_is_told() {
        let has_id =
            |file: &str| FileParser::new(Format::NginxJson, file.as_bytes(), Settings::default()).layout_has_id();
        assert!(has_id(LINE));
        assert!(has_id(&LINE.replace("87edc48b25ee78e474b46ddef4d1cff6", "")));
        assert!(!has_id(&LINE.replace("request_id", "connection")));
    }
}
