//! A line: one JSON object with `code` and `time`, and whatever else is known.
//!
//! | key | |
//! | --- | --- |
//! | `code` | the link's code, as it is in the link store |
//! | `time` | RFC 3339 with its zone, or seconds or milliseconds since 1970 |
//! | `domain`, `request_id`, `method`, `ip`, `user_agent`, `referrer`, `query`, `country`, `region`, `city`, `language` | where known |
//! | `private` | true where the client asked for privacy |
//!
//! Other keys are left alone. A method other than GET and HEAD is no click.

use std::sync::Arc;

use schemas::privacy::Asked;
use schemas::{Method, UtcMicros};
use serde::Deserialize;

use crate::edge::address::address;
use crate::edge::clock;
use crate::edge::format::Layout;
use crate::edge::json::{self, Value};
use crate::edge::judge::Found;
use crate::edge::{Arena, EdgeClass, EdgeRequest, Ignored, Line, Reject, line_key_of, well_formed_key};

/// No code.
pub const NO_CODE: Reject = Reject { reason: "no_code" };
/// A request id that no edge can have given.
pub const BAD_REQUEST_ID: Reject = Reject { reason: "bad_request_id" };

/// The answer's status: events tell of redirects, and none of them says which.
const STATUS: u16 = 302;
/// A time of so many digits before the point is in milliseconds: in seconds it would be past the year 5138.
const MILLISECONDS_DIGITS: usize = 12;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Object<'a> {
    #[serde(borrow)]
    code: Value<'a>,
    #[serde(borrow)]
    time: Value<'a>,
    #[serde(borrow)]
    domain: Value<'a>,
    #[serde(borrow)]
    request_id: Value<'a>,
    #[serde(borrow)]
    method: Value<'a>,
    #[serde(borrow)]
    ip: Value<'a>,
    #[serde(borrow)]
    user_agent: Value<'a>,
    #[serde(borrow)]
    referrer: Value<'a>,
    #[serde(borrow)]
    query: Value<'a>,
    #[serde(borrow)]
    country: Value<'a>,
    #[serde(borrow)]
    region: Value<'a>,
    #[serde(borrow)]
    city: Value<'a>,
    #[serde(borrow)]
    private: Value<'a>,
    #[serde(borrow)]
    language: Value<'a>,
}

/// Whether a line looks like an event: a JSON object with a code or a time.
pub fn is_event(line: &[u8]) -> bool {
    let arena = Arena::new();
    json::object::<Object<'_>>(line, &arena).is_ok_and(|object| object.code.is_present() || object.time.is_present())
}

/// How lines of events are read.
#[derive(Clone, Debug)]
pub struct EventLines {
    provider: Arc<str>,
}

impl EventLines {
    /// Of requests that came through `provider`.
    pub fn of(provider: &Arc<str>) -> Self {
        Self { provider: Arc::clone(provider) }
    }

    fn read<'a>(&self, object: Object<'a>, arena: &'a Arena) -> Result<Line<'a>, Reject> {
        let text = |value: &Value<'a>| value.text(arena);
        let code = code(&object.code, arena);
        if code.is_empty() {
            return Err(NO_CODE);
        }
        let time = instant(text(&object.time), arena).ok_or(Reject::BAD_TIMESTAMP)?;
        let line_key = match line_key_of(&self.provider, text(&object.request_id).as_bytes()) {
            [] => None,
            key if well_formed_key(key) => Some(key),
            _ => return Err(BAD_REQUEST_ID),
        };
        let method = match text(&object.method) {
            "" => None,
            get if get.eq_ignore_ascii_case("GET") => Some(Method::Get),
            head if head.eq_ignore_ascii_case("HEAD") => Some(Method::Head),
            _ => return Ok(Line::Ignored(Ignored::Method)),
        };
        let query = text(&object.query);
        Ok(Line::Request(EdgeRequest {
            time,
            class: EdgeClass::Origin,
            host: arena.lower(text(&object.domain)),
            path: "",
            code,
            query: query.strip_prefix('?').unwrap_or(query),
            method,
            status: STATUS,
            address: address(text(&object.ip).as_bytes()),
            user_agent: text(&object.user_agent),
            referrer: text(&object.referrer),
            country: text(&object.country),
            region: text(&object.region),
            city: text(&object.city),
            asked: Asked { outright: matches!(text(&object.private), "true" | "1"), ..Asked::default() },
            language: text(&object.language),
            line_key,
        }))
    }
}

impl Layout for EventLines {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        let read = json::object(line, arena).and_then(|object| self.read(object, arena));
        found(Found::Judged(read.unwrap_or_else(Line::Reject)));
    }

    fn has_id(&self) -> bool {
        true
    }
}

/// A code, which may be a lone hyphen as well.
fn code<'a>(value: &Value<'a>, arena: &'a Arena) -> &'a str {
    match value {
        Value::Text(text) if text == "-" => "-",
        value => value.text(arena),
    }
}

fn instant(text: &str, arena: &Arena) -> Option<UtcMicros> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[digits..];
    if digits >= MILLISECONDS_DIGITS && (rest.is_empty() || rest.starts_with('.')) {
        let (seconds, millis) = text[..digits].split_at(digits - 3);
        let fraction = rest.strip_prefix('.').unwrap_or_default();
        return clock::epoch_seconds(arena.keep(&format!("{seconds}.{millis}{fraction}")).as_bytes());
    }
    clock::rfc3339(text.as_bytes()).or_else(|| clock::epoch_seconds(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::edge::FileParser;
    use crate::edge::block::{Block, Tail};

    const LINE: &str = r#"{"code":"k7Qp2","time":"2026-03-14T10:26:53.123+01:00","domain":"Go.example.com","request_id":"87edc48b25ee78e4","method":"GET","ip":"203.0.113.10:4711","user_agent":"say \"hi\"","referrer":"https://news.example.org/a","query":"?utm_source=x","country":"nl","region":"NH","city":"Amsterdam","private":true,"language":"nl-NL,nl;q=0.9","status":301,"revenue":{"eur":1}}"#;

    fn parse(provider: &str, text: &[u8], mut show: impl FnMut(u64, Line<'_>)) {
        let bytes = bytes::Bytes::copy_from_slice(text);
        let block = Block::new(bytes, 1, Tail::Unterminated, 64 << 10);
        let job = FileParser::of(Arc::new(EventLines::of(&provider.into()))).job(block);
        job.parse(&Arena::new(), |raw, line| show(raw.number, line));
    }

    fn verdict(line: &str) -> String {
        let mut verdict = String::new();
        parse("nginx", line.as_bytes(), |_, line| {
            verdict = match line {
                Line::Header => "header".to_owned(),
                Line::ParentHit { .. } => "parent_hit".to_owned(),
                Line::Ignored(why) => why.as_str().to_owned(),
                Line::Reject(why) => why.reason.to_owned(),
                Line::Request(request) => request.time.to_string(),
            };
        });
        verdict
    }

    #[test]
    fn a_line_is_read_whole() {
        parse("nginx", LINE.as_bytes(), |_, line| {
            let Line::Request(event) = line else { panic!("{line:?}") };
            assert_eq!(event.time.to_string(), "2026-03-14T09:26:53.123Z");
            assert_eq!((event.host, event.code, event.query), ("go.example.com", "k7Qp2", "utm_source=x"));
            assert_eq!((event.method, event.status), (Some(Method::Get), 302));
            assert_eq!(event.address, Some([203, 0, 113, 10].into()));
            assert_eq!((event.user_agent, event.referrer), ("say \"hi\"", "https://news.example.org/a"));
            assert_eq!((event.country, event.language), ("nl", "nl-NL,nl;q=0.9"));
            assert_eq!((event.region, event.city, event.asked.outright), ("NH", "Amsterdam", true));
            assert_eq!(event.line_key, Some(&b"87edc48b25ee78e4"[..]));
        });
        parse("nginx", br#"{"time":1773480413,"code":"-"}"#, |_, line| {
            let Line::Request(event) = line else { panic!("{line:?}") };
            assert_eq!((event.code, event.method, event.address, event.line_key), ("-", None, None, None));
            assert_eq!((event.host, event.user_agent, event.query), ("", "", ""));
        });
    }

    #[test]
    fn every_spelling_of_a_time_is_read_and_others_are_named() {
        let of = |time: &str| verdict(&format!(r#"{{"code":"k","time":{time}}}"#));
        for time in [
            "\"2026-03-14T09:26:53.5Z\"",
            "\"2026-03-14T10:26:53.500+01:00\"",
            "1773480413.5",
            "\"1773480413.500\"",
            "1773480413500",
            "\"1773480413500\"",
            "1773480413500.0",
            "1.7734804135e12",
        ] {
            assert_eq!(of(time), "2026-03-14T09:26:53.500Z", "{time}");
        }
        for time in [
            "\"2026-03-14T09:26:53\"",
            "\"14/Mar/2026:09:26:53 +0000\"",
            "\"yesterday\"",
            "\"\"",
            "null",
            "true",
            "[1773480413]",
            "-1",
            "1773480413500000",
            "12",
        ] {
            assert_eq!(of(time), "bad_timestamp", "{time}");
        }
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, expected) in [
            ("GET", "head", "2026-03-14T09:26:53.123Z"),
            ("GET", "POST", "method"),
            ("\"GET\"", "null", "2026-03-14T09:26:53.123Z"),
            ("\"k7Qp2\"", "7", "2026-03-14T09:26:53.123Z"),
            ("\"k7Qp2\"", "\"\"", "no_code"),
            ("\"k7Qp2\"", "[]", "no_code"),
            ("\"code\"", "\"Code\"", "no_code"),
            ("87edc48b25ee78e4", "a b", "bad_request_id"),
            ("87edc48b25ee78e4", &"x".repeat(257), "bad_request_id"),
            ("87edc48b25ee78e4", "-", "2026-03-14T09:26:53.123Z"),
            ("203.0.113.10:4711", "hidden", "2026-03-14T09:26:53.123Z"),
            ("\"status\":301", "\"code\":\"x\"", "bad_json"),
            ("{\"code\"", "[{\"code\"", "bad_json"),
            ("}}", "}", "bad_json"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdict(&changed), expected, "{from} -> {to}");
        }
        assert_eq!(verdict("  "), "header");
        assert!(is_event(LINE.as_bytes()) && is_event(b"{\"time\":1}"));
        assert!(!is_event(b"{\"msec\":\"1\"}") && !is_event(b"code,time"));
    }

    #[test]
    fn a_headers_whole_value_is_the_edges_id() {
        for (provider, id, key) in [
            ("cloudflare", "8f1e2d3c4b5a6978-AMS", "8f1e2d3c4b5a6978"),
            ("alb", "Self=1-c-d;Root=1-a-b", "1-c-d"),
            ("cloudfront", "a1-_w==", "a1-_w=="),
        ] {
            let line = format!(r#"{{"code":"k","time":1773480413,"request_id":"{id}"}}"#);
            parse(provider, line.as_bytes(), |_, line| {
                let Line::Request(event) = line else { panic!("{line:?}") };
                assert_eq!(event.line_key, Some(key.as_bytes()), "{provider}");
            });
        }
    }

    proptest! {
        /// Whatever the bytes, each line meets one verdict, in order.
        #[test]
        fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop_oneof![
            Just(LINE.as_bytes().to_vec()),
            Just(br#"{"code":"k","time":1e400,"request_id":5,"ip":[]}"#.to_vec()),
            prop::sample::select(vec!["{", "}", "\"", "\n", "\r\n", "\u{feff}", "\\u", "[", ":", "1"]).prop_map(|t| t.into()),
            prop::collection::vec(any::<u8>(), 0..20),
        ], 0..12)) {
            let bytes = pieces.concat();
            let (mut lines, mut last) = (0u64, 0);
            parse("nginx", &bytes, |number, _| {
                lines += 1;
                assert!(number == last + 1);
                last = number;
            });
            let expected = bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
            prop_assert_eq!(lines, expected);
        }
    }
}
