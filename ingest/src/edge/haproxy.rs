//! HAProxy with `option httplog`, behind a syslog header or bare, the unique id behind the request.
//!
//! ```text
//! Mar 14 09:26:53 lb1 haproxy[14389]: 203.0.113.10:33317 [14/Mar/2026:09:26:53.123] fe~ links/s1 0/0/1/2/3 302 250 - - ----
//!  1/1/0/0/0 0/0 {Mozilla/5.0 (X11)|https://news.example.org/} "GET /k7Qp2 HTTP/1.1" CB00710A:8225_0A000001:01BB_69B52A1D_0001:3835
//! ```
//! The date has no zone: `edge_logs.haproxy.timezone`. Which headers the braces hold, and in what order, only the
//! balancer's configuration knows: `edge_logs.haproxy.captures`. Values are escaped as `#HH`. HAProxy's cache never
//! holds a redirect, so what has a server reached the origin.

use std::sync::Arc;

use chrono_tz::{TZ_VARIANTS, Tz};
use schemas::UtcMicros;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::field_names::{FieldProblem, list_problems};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject, asked};
use super::target;

/// Headers that a capture may hold.
const CAPTURES: &[&str] = &[
    "host",
    "user-agent",
    "referer",
    "accept-language",
    "x-request-id",
    "cf-ipcountry",
    "cf-region-code",
    "cf-ipcity",
    "sec-gpc",
    "dnt",
];
/// What braces hold when nothing else is configured.
const USUAL: [&str; 2] = ["user-agent", "referer"];

/// What is wrong with `edge_logs.haproxy.captures`.
pub fn problems(captures: &[String]) -> Vec<FieldProblem> {
    list_problems(captures, CAPTURES, &[])
}

/// The names that `edge_logs.haproxy.timezone` may have.
pub fn zones() -> impl Iterator<Item = &'static str> {
    TZ_VARIANTS.iter().map(|zone| zone.name())
}

/// A line taken apart, values still escaped.
struct Parts<'a> {
    client: &'a [u8],
    time: &'a [u8],
    server: &'a [u8],
    status: &'a [u8],
    /// How the session ended.
    ending: &'a [u8],
    captures: &'a [u8],
    request: &'a [u8],
    tail: &'a [u8],
}

/// How many of the first lines are such lines.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let (arena, of) = (Arena::new(), sample.lines.len());
    let lines: Vec<Parts<'_>> = sample.lines.iter().filter_map(|line| parts(line).ok()).collect();
    let haproxy = Haproxy::new(sample, settings);
    let matched = sample.lines.iter().filter(|line| haproxy.entry(line, &arena).is_ok()).count();
    let most = lines.iter().map(|parts| held(parts.captures).count()).max().unwrap_or_default();
    let why = match lines.len() {
        0 => "no line is like `client:port [date] frontend backend/server times status bytes … \"request\"`".to_owned(),
        _ if most > haproxy.captures.len() => format!(
            "{matched} of the first {of} lines are HAProxy's, but they hold {most} captured headers: which, \
             edge_logs.haproxy.captures must say, else they are not read"
        ),
        _ => format!("{matched} of the first {of} lines are HAProxy's, {} taken for the clock's zone", haproxy.zone),
    };
    Fit { matched, of, why }
}

/// The first lines tell whether a unique id stands behind the request.
pub fn layout(sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(Haproxy::new(sample, settings))
}

#[derive(Debug)]
struct Haproxy {
    zone: Tz,
    captures: Vec<String>,
    has_id: bool,
}

impl Haproxy {
    fn new(sample: &Sample<'_>, settings: &Settings) -> Self {
        let captures = match settings.haproxy_captures.is_empty() {
            true => USUAL.map(str::to_owned).to_vec(),
            false => settings.haproxy_captures.clone(),
        };
        let mut lines = sample.lines.iter().filter_map(|line| parts(line).ok()).peekable();
        // With nothing to go by, an id is expected: then each line without one says so by itself.
        let behind = lines.peek().is_none() || lines.any(|parts| unique_id(parts.tail).is_some());
        let has_id = behind || captures.iter().any(|name| name == "x-request-id");
        Self { zone: settings.haproxy_timezone, captures, has_id }
    }
}

impl Layout for Haproxy {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(self.entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

impl Haproxy {
    fn entry<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        let parts = parts(line)?;
        let request_line = arena.hash(parts.request);
        let (verb, target) = target::request_line(request_line).ok_or(Reject::BAD_REQUEST)?;
        let url = &request_line[memchr::memchr(b' ', request_line).map_or(0, |blank| blank + 1)..];
        let captured = |name: &str| self.captured(parts.captures, name).map_or(&b""[..], |raw| arena.hash(raw));
        let host = match captured("host") {
            b"" => target::host(url),
            host => host,
        };
        let id = unique_id(parts.tail).unwrap_or_else(|| captured("x-request-id"));
        let request = EdgeRequest {
            time: self.instant(parts.time).ok_or(Reject::BAD_TIMESTAMP)?,
            class: EdgeClass::Origin,
            host: arena.lower(arena.text(host)),
            path: arena.text(target.path),
            code: target::code(target.path, arena),
            query: arena.text(target.query),
            method: None,
            status: status(parts.status)?,
            address: client(parts.client),
            user_agent: arena.text(captured("user-agent")),
            referrer: arena.text(captured("referer")),
            country: arena.text(captured("cf-ipcountry")),
            region: arena.text(captured("cf-region-code")),
            city: arena.text(captured("cf-ipcity")),
            asked: asked(arena.text(captured("sec-gpc")), arena.text(captured("dnt"))),
            language: arena.text(captured("accept-language")),
            line_key: well_formed_key(id).then_some(id),
        };
        Ok(Entry { request, verb, outcome: outcome(&parts) })
    }

    /// A captured header, still escaped. Where there are more than are named, none can be told.
    fn captured<'a>(&self, captures: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let place = self.captures.iter().position(|known| known == name)?;
        let value = held(captures).nth(place)?;
        (held(captures).count() <= self.captures.len()).then_some(value)
    }

    fn instant(&self, text: &[u8]) -> Option<UtcMicros> {
        let local = || clock::in_zone(clock::local(text)?, self.zone);
        // Another log-format may write the zone.
        local().or_else(|| clock::common_log(text))
    }
}

/// Takes a line apart.
fn parts(line: &[u8]) -> Result<Parts<'_>, Reject> {
    let (before, time, rest) = dated(line).ok_or(Reject::BAD_LINE)?;
    let client = memchr::memrchr(b' ', before).map_or(before, |blank| &before[blank + 1..]);
    let mut rest = rest;
    let mut next = || word(&mut rest);
    let [_frontend, server, times, status, _bytes] = [next()?, next()?, next()?, next()?, next()?];
    let [_cookie, _set_cookie, ending, connections, _queues] = [next()?, next()?, next()?, next()?, next()?];
    // A log of connections has no such columns, and none of an error has them all.
    if !server.contains(&b'/') || !has_slashes(times, 4) || !has_slashes(connections, 4) {
        return Err(Reject::BAD_LINE);
    }
    let (captures, rest) = braced(rest)?;
    let inner = rest.strip_prefix(b"\"").ok_or(if rest.is_empty() { Reject::CUT_SHORT } else { Reject::BAD_LINE })?;
    let end = memchr::memchr(b'"', inner).ok_or(Reject::CUT_SHORT)?;
    let (request, tail) = (&inner[..end], &inner[end + 1..]);
    Ok(Parts { client, time, server, status, ending, captures, request, tail })
}

/// The next word, which a blank ends.
fn word<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Reject> {
    let blank = memchr::memchr(b' ', rest).ok_or(Reject::CUT_SHORT)?;
    let word = &rest[..blank];
    *rest = &rest[blank + 1..];
    Ok(word)
}

/// What stands before a date in brackets, the date, and what stands behind it.
fn dated(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    memchr::memmem::find_iter(line, b" [").find_map(|at| {
        let (inner, rest) = (&line[at + 2..], memchr::memmem::find(&line[at + 2..], b"] ")?);
        let time = &inner[..rest];
        let is_date = time.len() >= 20 && time[2] == b'/' && time[6] == b'/' && time[11] == b':';
        is_date.then(|| (&line[..at], time, &inner[rest + 2..]))
    })
}

fn has_slashes(text: &[u8], count: usize) -> bool {
    memchr::memchr_iter(b'/', text).count() == count
}

/// The first of the captures in braces, which are the request's, and what follows them all. There are no braces where
/// nothing is captured.
fn braced(text: &[u8]) -> Result<(&[u8], &[u8]), Reject> {
    let mut rest = text;
    let mut first = None;
    while let Some(inner) = rest.strip_prefix(b"{") {
        let end = memchr::memmem::find(inner, b"} ").ok_or(Reject::CUT_SHORT)?;
        first = first.or(Some(&inner[..end]));
        rest = &inner[end + 2..];
    }
    Ok((first.unwrap_or_default(), rest))
}

/// The captures, one by one.
fn held(captures: &[u8]) -> impl Iterator<Item = &[u8]> {
    captures.split(|byte| *byte == b'|').take(if captures.is_empty() { 0 } else { usize::MAX })
}

/// The id behind the request; `None` where nothing stands there.
fn unique_id(tail: &[u8]) -> Option<&[u8]> {
    let tail = tail.trim_ascii();
    let word = tail.split(|byte| *byte == b' ').next().filter(|word| !word.is_empty())?;
    Some(word.strip_prefix(b"\"").map_or(word, |inner| inner.strip_suffix(b"\"").unwrap_or(inner)))
}

/// The address of `address:port`; IPv6 has no brackets, its port stands behind the last colon.
fn client(text: &[u8]) -> Option<std::net::IpAddr> {
    let colon = memchr::memrchr(b':', text)?;
    address(&text[..colon])
}

/// -1: there was no answer.
fn status(column: &[u8]) -> Result<u16, Reject> {
    match column {
        b"-1" => Ok(0),
        _ => std::str::from_utf8(column).ok().and_then(|text| text.parse().ok()).ok_or(Reject::BAD_STATUS),
    }
}

/// How a request ended: its server, or what answered in place of one, and the session's first two letters.
fn outcome(parts: &Parts<'_>) -> Outcome {
    let server = memchr::memchr(b'/', parts.server).map_or(&b""[..], |slash| &parts.server[slash + 1..]);
    match server {
        b"<CACHE>" => Outcome::Edge,
        _ if server.first() == Some(&b'<') => Outcome::EdgeMade,
        // A rule of the proxy's own answered, or refused.
        _ if parts.ending.starts_with(b"LR") || parts.ending.starts_with(b"PR") => Outcome::EdgeMade,
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests;
