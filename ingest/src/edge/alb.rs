//! AWS Application Load Balancer access logs: blank-separated, texts between quotes, columns ever added at the end.
//!
//! ```text
//! type time elb client:port target:port … elb_status target_status received sent "request" "agent" cipher protocol
//!  target_group "trace" "domain" "certificate" priority creation_time "actions" …
//! ```
//! The balancer keeps no cache: what was forwarded reached the origin, the rest it answered itself. It logs no referrer.
//! Columns behind the actions are left alone, and older lines may end before them.

use std::sync::Arc;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target;
use schemas::privacy::Asked;

/// Columns that every line has, up to the trace.
const NEEDED: usize = 18;
/// The actions' place.
const ACTIONS: usize = 22;
const TYPES: [&[u8]; 6] = [b"http", b"https", b"h2", b"grpcs", b"ws", b"wss"];

/// How many of the first lines are such lines.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let (arena, of) = (Arena::new(), sample.lines.len());
    let is_line = |line: &&&[u8]| columns(line).is_ok_and(|columns| columns.is_ours());
    let lines = sample.lines.iter().filter(is_line).count();
    let matched = sample.lines.iter().filter(is_line).filter(|line| entry(line, &arena).is_ok()).count();
    let why = match lines {
        0 => "no line begins with a protocol, a time, a balancer and its client".to_owned(),
        _ => format!("{matched} of the first {of} lines are an Application Load Balancer's"),
    };
    Fit { matched, of, why }
}

/// The columns are always the same.
pub fn layout(_sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(Alb)
}

#[derive(Debug)]
struct Alb;

impl Layout for Alb {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        true
    }
}

/// The columns of a line up to the actions, still escaped.
struct Columns<'a>([&'a [u8]; ACTIONS + 1]);

impl Columns<'_> {
    fn is_ours(&self) -> bool {
        TYPES.contains(&self.0[0]) && clock::rfc3339(self.0[1]).is_some()
    }
}

fn columns(line: &[u8]) -> Result<Columns<'_>, Reject> {
    let mut columns: [&[u8]; ACTIONS + 1] = [b""; ACTIONS + 1];
    let mut rest = line;
    for (place, column) in columns.iter_mut().enumerate() {
        let quoted = rest.strip_prefix(b"\"");
        let end = match quoted {
            Some(inner) => closing_quote(inner).ok_or(Reject::CUT_SHORT)?,
            None => memchr::memchr(b' ', rest).unwrap_or(rest.len()),
        };
        let inner = quoted.unwrap_or(rest);
        *column = &inner[..end];
        let after = &inner[end + usize::from(quoted.is_some())..];
        let Some(next) = after.strip_prefix(b" ") else {
            return if place + 1 >= NEEDED { Ok(Columns(columns)) } else { Err(Reject::CUT_SHORT) };
        };
        rest = next;
    }
    Ok(Columns(columns))
}

/// Where the quote is that closes a text; a backslash takes the next byte with it.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
    }
}

fn entry<'a>(line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let columns = columns(line)?;
    if !TYPES.contains(&columns.0[0]) {
        return Err(Reject::BAD_LINE);
    }
    let text = |place: usize| if columns.0[place] == b"-" { b"" } else { arena.backslash(columns.0[place]) };
    let request_line = text(12);
    let (verb, target) = target::request_line(request_line).ok_or(Reject::BAD_REQUEST)?;
    let url = &request_line[memchr::memchr(b' ', request_line).map_or(0, |blank| blank + 1)..];
    let request = EdgeRequest {
        time: clock::rfc3339(columns.0[1]).ok_or(Reject::BAD_TIMESTAMP)?,
        class: EdgeClass::Origin,
        host: arena.lower(arena.text(target::host(url))),
        path: arena.text(target.path),
        code: target::code(target.path, arena),
        query: arena.text(target.query),
        method: None,
        status: status(columns.0[8])?,
        address: address(columns.0[3]),
        user_agent: arena.text(text(13)),
        referrer: "",
        country: "",
        region: "",
        city: "",
        asked: Asked::default(),
        language: "",
        line_key: trace_id(text(17)),
    };
    Ok(Entry { request, verb, outcome: outcome(&columns) })
}

/// A hyphen: there was no answer.
fn status(column: &[u8]) -> Result<u16, Reject> {
    match column {
        b"-" => Ok(0),
        _ => std::str::from_utf8(column).ok().and_then(|text| text.parse().ok()).ok_or(Reject::BAD_STATUS),
    }
}

/// The balancer's own id of a request: `Self` where the client sent a `Root` along, else `Root`.
fn trace_id(trace: &[u8]) -> Option<&[u8]> {
    let part = |name: &[u8]| trace.split(|byte| *byte == b';').find_map(|part| part.trim_ascii().strip_prefix(name));
    part(b"Self=").or_else(|| part(b"Root=")).filter(|id| well_formed_key(id))
}

/// How a request ended, by what was done with it. A target that is a function has no address, but a status.
fn outcome(columns: &Columns<'_>) -> Outcome {
    let is_there = |place: usize| !matches!(columns.0[place], b"-" | b"");
    let was_asked = is_there(4) || is_there(9);
    let actions = columns.0[ACTIONS];
    let forwards =
        actions.is_empty() || actions == b"-" || actions.split(|byte| *byte == b',').any(|a| a == b"forward");
    if forwards && was_asked { Outcome::Origin } else { Outcome::EdgeMade }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const LINE: &str = r#"https 2026-03-14T09:26:53.123456Z app/links/50dc6c495c0c9188 [2001:db8:31::8]:51006 198.51.100.250:8080 0.001 0.002 0.000 302 302 221 390 "GET https://Go.example.com:443/%E5%A5%BD?s=a%20b HTTP/1.1" "bad \x22agent\x22 1.0" TLS_AES_128_GCM_SHA256 TLSv1.3 arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/links/73e2d6bc24d8a067 "Self=1-69b52a1d-bbb;Root=1-69b52a1d-aaa" "go.example.com" "arn:aws:acm:eu-central-1:123456789012:certificate/0000" 0 2026-03-14T09:26:53.120000Z "waf,forward" "-" "-" "198.51.100.250:8080" "302" "-" "-" TID_e39994d056999d79ff5a35b02cf2af94"#;

    #[test]
    fn a_line_is_read_whole() {
        requests(Format::Alb, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123456Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=a%20b", ""));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Origin));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:31::8"));
            assert_eq!(request.user_agent, "bad \"agent\" 1.0");
            assert_eq!(request.line_key, Some(&b"1-69b52a1d-bbb"[..]));
        });
        assert_eq!(verdicts(Format::Alb, LINE), ["origin"]);
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            ("waf,forward", "redirect", "edge_redirect"),
            ("waf,forward", "fixed-response", "edge_redirect"),
            ("waf,forward", "authenticate", "edge_redirect"),
            ("\"waf,forward\"", "\"-\"", "origin"),
            (" 302 302 ", " 403 - ", "not_redirect"),
            (" 302 302 ", " 460 - ", "aborted"),
            (" 302 302 ", " - - ", "aborted"),
            (" 302 302 ", " x 302 ", "bad_status"),
            // a function as the target
            ("198.51.100.250:8080 0.001", "- 0.001", "origin"),
            ("198.51.100.250:8080 0.001 0.002 0.000 302 302", "- -1 -1 -1 302 -", "edge_redirect"),
            (
                "GET https://Go.example.com:443/%E5%A5%BD?s=a%20b HTTP/1.1",
                "- https://go.example.com:443- -",
                "bad_request",
            ),
            ("GET ", "HEAD ", "origin"),
            ("GET ", "POST ", "method"),
            ("2026-03-14T09:26:53.123456Z", "yesterday", "bad_timestamp"),
            ("https ", "tcp ", "bad_line"),
            ("Self=1-69b52a1d-bbb;Root=1-69b52a1d-aaa", "-", "no_request_id"),
            ("Self=1-69b52a1d-bbb;Root=1-69b52a1d-aaa", "Root=", "no_request_id"),
            ("\u{22} \"go.example.com\"", "", "cut_short"),
        ] {
            let mut changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            if verdict == "cut_short" {
                changed.truncate(LINE.find(from).unwrap());
            }
            assert_eq!(verdicts(Format::Alb, &changed), [verdict], "{from} -> {to}");
        }
    }

    #[test]
    fn columns_may_be_added_and_may_be_missing() {
        let upto = |text: &str| LINE[..LINE.find(text).unwrap() + text.len()].to_owned();
        for line in [
            format!("{LINE} \"-\" \"-\" \"-\" \"new, quoted\""),
            upto("\"waf,forward\" \"-\" \"-\""),
            upto("\"waf,forward\""),
            upto("certificate/0000\""),
            upto("Root=1-69b52a1d-aaa\""),
        ] {
            assert_eq!(verdicts(Format::Alb, &line), ["origin"], "{line}");
        }
        for end in ["Root=1-69b52a1d-aaa", "\"waf,for", "GET https://Go.example.com:443/%E5", "TLSv1.3", "302 302"] {
            assert_eq!(verdicts(Format::Alb, &upto(end)), ["cut_short"], "{end}");
        }
    }

    #[test]
    fn hosts_and_blanks_as_clients_send_them() {
        let with = |url: &str| LINE.replace("https://Go.example.com:443/%E5%A5%BD?s=a%20b", url);
        for (url, host, path, query) in [
            ("https://[2001:db8::80]:443/k7Qp2", "2001:db8::80", "/k7Qp2", ""),
            ("http://192.0.2.1:80/x?wget+ y", "192.0.2.1", "/x", "wget+ y"),
            ("https://go.example.com:443/a b", "go.example.com", "/a b", ""),
        ] {
            requests(Format::Alb, &with(url), |request| {
                assert_eq!((request.host, request.path, request.query), (host, path, query));
            });
            assert_eq!(verdicts(Format::Alb, &with(url)), ["origin"]);
        }
    }
}
