//! nginx's combined format, with cache status and request id behind it:
//!
//! ```text
//! $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" \
//!     $upstream_cache_status $request_id
//! ```
//! Quotes, backslashes and bytes outside printable ASCII are `\xHH` in values; a missing value is a hyphen. What
//! stands behind the agent is told by the file's first lines, so that plain combined logs, and those with more
//! columns, can be read too; columns that aren't known are left alone.

use std::net::IpAddr;
use std::sync::Arc;

use schemas::UtcMicros;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found};
use super::nginx;
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Verb};

/// Columns looked at behind the agent.
const TAIL: usize = 12;

/// A line taken apart, values still escaped.
struct Parts<'a> {
    address: Option<IpAddr>,
    time: UtcMicros,
    request: &'a [u8],
    status: u16,
    referrer: &'a [u8],
    agent: &'a [u8],
    tail: &'a [u8],
}

/// Where the columns behind the agent are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct NginxCombined {
    cache: Option<usize>,
    id: Option<usize>,
}

/// How many of the first lines are combined.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let of = sample.lines.len();
    let lines = || sample.lines.iter().filter_map(|line| parts(line).ok());
    let matched = lines().count();
    let whole_urls = lines().filter(|parts| memchr::memmem::find(parts.request, b" http").is_some()).count();
    if matched == 0 {
        let why = "no line is like `address - user [time] \"request\" status bytes \"referrer\" \"agent\"`";
        return Fit { matched, of, why: why.to_owned() };
    }
    if whole_urls * 2 > matched {
        let why = format!("like nginx's combined format, but {whole_urls} of {matched} request lines hold a whole URL");
        return Fit { matched: 0, of, why };
    }
    let NginxCombined { cache, id } = columns(sample);
    let behind = match (cache, id) {
        (Some(_), Some(_)) => "cache status and request id behind the agent",
        (Some(_), None) => "a cache status, but no request id, behind the agent",
        (None, Some(_)) => "a request id, but no cache status, behind the agent",
        (None, None) => "neither cache status nor request id behind the agent",
    };
    let why = format!("{matched} of the first {of} lines are nginx's combined format, with {behind}");
    Fit { matched, of, why }
}

/// The columns behind the agent follow from the first lines.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(columns(sample))
}

fn columns(sample: &Sample<'_>) -> NginxCombined {
    let (mut lines, mut words) = (0, 0);
    let (mut caches, mut ids, mut hyphens) = ([0; TAIL], [0; TAIL], [0; TAIL]);
    for parts in sample.lines.iter().filter_map(|line| parts(line).ok()) {
        lines += 1;
        let mut count = 0;
        for (place, word) in tail(parts.tail).take(TAIL).enumerate() {
            let is_cache = nginx::CACHE_TOKENS.iter().any(|token| token.as_bytes() == word);
            caches[place] += usize::from(is_cache);
            ids[place] += usize::from(nginx::is_request_id(word));
            hyphens[place] += usize::from(word == b"-");
            count += 1;
        }
        // A quoted column can be neither.
        words += usize::from(count >= 2 && !parts.tail.contains(&b'"'));
    }
    let most =
        |counts: [usize; TAIL]| (0..TAIL).rev().max_by_key(|place| counts[*place]).filter(|place| counts[*place] > 0);
    let id = most(ids);
    let before = |place: usize| place.checked_sub(1).filter(|place| hyphens[*place] > 0);
    let cache = most(caches).or(id.and_then(before));
    match (cache, id) {
        // Nothing to go by in the values, but two columns are there, or no line at all: as documented.
        (None, None) if words * 2 >= lines => NginxCombined { cache: Some(0), id: Some(1) },
        (Some(cache), None) if words * 2 >= lines && hyphens[cache + 1..].iter().any(|count| *count > 0) => {
            NginxCombined { cache: Some(cache), id: Some(cache + 1) }
        }
        (cache, id) => NginxCombined { cache, id },
    }
}

impl Layout for NginxCombined {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(parts(line).and_then(|parts| self.entry(&parts, arena)).into());
    }

    fn has_id(&self) -> bool {
        self.id.is_some()
    }
}

impl NginxCombined {
    fn entry<'a>(&self, parts: &Parts<'a>, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        let (mut cache, mut id) = (None, None);
        for (place, word) in tail(parts.tail).enumerate() {
            if self.cache == Some(place) {
                cache = Some(arena.text(word));
            }
            if self.id == Some(place) {
                id = Some(word);
            }
        }
        if self.cache.is_some() != cache.is_some() || self.id.is_some() != id.is_some() {
            return Err(Reject::CUT_SHORT);
        }
        let value = |raw: &'a [u8]| if raw == b"-" { &b""[..] } else { arena.backslash(raw) };
        let (verb, target) = target::request_line(value(parts.request)).ok_or(Reject::BAD_REQUEST)?;
        let request = EdgeRequest {
            time: parts.time,
            class: EdgeClass::Origin,
            host: "",
            path: arena.text(target.path),
            code: target::code(target.path, arena),
            query: arena.text(target.query),
            method: None,
            status: parts.status,
            address: parts.address,
            user_agent: arena.text(value(parts.agent)),
            referrer: arena.text(value(parts.referrer)),
            country: "",
            language: "",
            line_key: id.filter(|id| well_formed_key(id) && !nginx::is_cut_id(id)),
        };
        debug_assert!(verb != Verb::Unlogged);
        Ok(Entry { request, verb, outcome: nginx::outcome(cache, None) })
    }
}

/// Takes a line apart up to the agent.
fn parts(line: &[u8]) -> Result<Parts<'_>, Reject> {
    // The user may hold blanks and brackets but no quote: the first one opens the request.
    let quote = memchr::memchr(b'"', line).ok_or(Reject::BAD_LINE)?;
    let before = line[..quote].strip_suffix(b"] ").ok_or(Reject::BAD_LINE)?;
    let bracket = before.len().checked_sub(27).filter(|at| before[*at] == b'[').ok_or(Reject::BAD_TIMESTAMP)?;
    let time = clock::common_log(&before[bracket + 1..]).ok_or(Reject::BAD_TIMESTAMP)?;
    let blank = memchr::memchr(b' ', before).ok_or(Reject::BAD_LINE)?;
    let (request, rest) = quoted(&line[quote..])?;
    let rest = rest.strip_prefix(b" ").ok_or(Reject::CUT_SHORT)?;
    let (status, rest) = word(rest)?;
    let (_bytes, rest) = word(rest)?;
    let (referrer, rest) = quoted(rest)?;
    let (agent, tail) = quoted(rest.strip_prefix(b" ").ok_or(Reject::CUT_SHORT)?)?;
    let status = std::str::from_utf8(status).ok().and_then(|status| status.parse().ok()).ok_or(Reject::BAD_STATUS)?;
    Ok(Parts { address: address(&before[..blank]), time, request, status, referrer, agent, tail })
}

/// A quoted value, still escaped, and what follows its closing quote. A backslash takes the next byte with it.
fn quoted(text: &[u8]) -> Result<(&[u8], &[u8]), Reject> {
    let inner = match text {
        [b'"', inner @ ..] => inner,
        [] => return Err(Reject::CUT_SHORT),
        _ => return Err(Reject::BAD_LINE),
    };
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', inner.get(from..).unwrap_or_default()).ok_or(Reject::CUT_SHORT)?;
        if inner[at] == b'"' {
            return Ok((&inner[..at], &inner[at + 1..]));
        }
        from = at + 2;
    }
}

/// A bare value and what follows its blank.
fn word(text: &[u8]) -> Result<(&[u8], &[u8]), Reject> {
    let blank = memchr::memchr(b' ', text).ok_or(Reject::CUT_SHORT)?;
    Ok((&text[..blank], &text[blank + 1..]))
}

/// The columns behind the agent, bare or quoted.
fn tail(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let (value, after) = match rest {
            [] => return None,
            [b'"', ..] => quoted(rest).unwrap_or((rest, b"")),
            _ => word(rest).unwrap_or((rest, b"")),
        };
        rest = after;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const LINE: &str = r#"2001:db8:31::5 - jo [x] doe [14/Mar/2026:11:26:53 +0200] "GET /%E5%A5%BD?s=1 HTTP/2.0" 302 0 "https://news.example.org/" "bad \x22agent\x22 \x5C \xE5\xA5\xBD" HIT 2ceb65d3ed0c5af6e38ef489d8072a59"#;

    #[test]
    fn a_line_is_read_whole() {
        requests(Format::NginxCombined, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53Z");
            assert_eq!((request.host, request.path, request.code, request.query), ("", "/%E5%A5%BD", "好", "s=1"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:31::5"));
            assert_eq!((request.user_agent, request.referrer), ("bad \"agent\" \\ 好", "https://news.example.org/"));
            assert_eq!(request.line_key, Some(&b"2ceb65d3ed0c5af6e38ef489d8072a59"[..]));
        });
        assert_eq!(verdicts(Format::NginxCombined, LINE), ["edge"]);
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (" HIT ", " EXPIRED ", "origin"),
            (" HIT ", " - ", "edge_redirect"),
            (" 302 ", " 499 ", "aborted"),
            (" 302 ", " 404 ", "not_redirect"),
            (" 302 ", " x ", "bad_status"),
            ("GET ", "HEAD ", "edge"),
            ("GET ", "DELETE ", "method"),
            ("GET /%E5%A5%BD?s=1 HTTP/2.0", "", "bad_request"),
            ("GET /%E5%A5%BD?s=1 HTTP/2.0", r"\x16\x03\x01\x02\x00", "bad_request"),
            ("GET /%E5%A5%BD?s=1 HTTP/2.0", "GET /a b HTTP/1.1", "edge"),
            ("GET /%E5%A5%BD?s=1 HTTP/2.0", "GET k HTTP/1.1", "bad_request"),
            ("Mar", "Mrz", "bad_timestamp"),
            ("14/", "32/", "bad_timestamp"),
            (r#" HIT 2ceb65d3ed0c5af6e38ef489d8072a59"#, "", "cut_short"),
            ("2ceb65d3ed0c5af6e38ef489d8072a59", "", "cut_short"),
            ("2ceb65d3ed0c5af6e38ef489d8072a59", "2ceb65d3", "no_request_id"),
            ("2ceb65d3ed0c5af6e38ef489d8072a59", "-", "no_request_id"),
            (r#"\xBD" HIT 2ceb65d3ed0c5af6e38ef489d8072a59"#, "", "cut_short"),
            ("[14/Mar/2026:11:26:53 +0200] ", "", "bad_line"),
            ("2a59", r#"2a59 0.002 "new""#, "edge"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            // The layout comes from the good lines around it.
            let verdicts = verdicts(Format::NginxCombined, &format!("{LINE}\n{changed}\n{LINE}\n"));
            assert_eq!(verdicts, ["edge", verdict, "edge"], "{from} -> {to}");
        }
    }

    #[test]
    fn the_columns_behind_the_agent_are_found() {
        let start = LINE.strip_suffix(" HIT 2ceb65d3ed0c5af6e38ef489d8072a59").unwrap();
        let id = "2ceb65d3ed0c5af6e38ef489d8072a59";
        for (tail, cache, place) in [
            (format!(" HIT {id}"), Some(0), Some(1)),
            (format!(" {id} HIT"), Some(1), Some(0)),
            (format!(" 0.002 \"10.0.0.1, 10.0.0.2\" MISS {id} more"), Some(2), Some(3)),
            (format!(" - {id}"), Some(0), Some(1)),
            (" - -".to_owned(), Some(0), Some(1)),
            (" HIT -".to_owned(), Some(0), Some(1)),
            (" HIT".to_owned(), Some(0), None),
            (String::new(), None, None),
            (" \"-\"".to_owned(), None, None),
            (" \"203.0.113.9\"".to_owned(), None, None),
        ] {
            let file = format!("{start}{tail}\n");
            let columns = columns(&Sample::of(file.as_bytes()));
            assert_eq!((columns.cache, columns.id), (cache, place), "{tail}");
            let parser = FileParser::new(Format::NginxCombined, file.as_bytes(), Settings::default());
            assert_eq!(parser.layout_has_id(), place.is_some());
        }
    }

    #[test]
    fn a_plain_combined_line_is_the_origins_as_far_as_it_says() {
        let start = LINE.strip_suffix(" HIT 2ceb65d3ed0c5af6e38ef489d8072a59").unwrap();
        let mut classes = Vec::new();
        requests(Format::NginxCombined, start, |request| classes.push((request.class, request.line_key.is_some())));
        assert_eq!(classes, [(EdgeClass::Origin, false)]);
    }
}
