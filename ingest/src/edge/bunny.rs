//! bunny.net's raw log, version 1: columns between bars, nothing quoted, no method.
//!
//! ```text
//! HIT|302|1773480413123|390|60367|203.0.113.0|https://news.example.org/|https://go.example.com/k7Qp2|DE|Mozilla/5.0|8fa9…|DE
//! └─────────────────────────────── nine from the left ────────────────────────────────────────────┘ agent └─ two from the right
//! ```
//! An agent may hold bars. Addresses are cut, or dropped, unless the account says otherwise.

use std::net::IpAddr;
use std::sync::Arc;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::format::{Fit, Layout, Sample, Settings};
use super::judge::{Entry, Found, Outcome};
use super::nginx;
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Verb};
use schemas::privacy::Asked;

const COLUMNS: usize = 12;
/// Columns before the agent.
const LEFT: usize = 9;
/// Columns behind the agent.
const RIGHT: usize = 2;

/// How many of the first lines are such rows.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let (arena, of) = (Arena::new(), sample.lines.len());
    let matched = sample.lines.iter().filter(|line| entry(line, &arena).is_ok()).count();
    let bars = sample.lines.iter().filter(|line| columns(line).is_ok()).count();
    let why = match bars {
        0 => format!("no line has {COLUMNS} columns between bars"),
        _ => format!("{matched} of the first {of} lines are bunny.net's {COLUMNS} columns between bars"),
    };
    Fit { matched, of, why }
}

/// The columns are always the same.
pub fn layout(_sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(Bunny)
}

#[derive(Debug)]
struct Bunny;

impl Layout for Bunny {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        true
    }
}

/// The columns, an agent with bars being one.
fn columns(line: &[u8]) -> Result<[&[u8]; COLUMNS], Reject> {
    let mut columns: [&[u8]; COLUMNS] = [b""; COLUMNS];
    let mut rest = line;
    for column in &mut columns[..LEFT] {
        let bar = memchr::memchr(b'|', rest).ok_or(Reject::CUT_SHORT)?;
        (*column, rest) = (&rest[..bar], &rest[bar + 1..]);
    }
    for column in columns[COLUMNS - RIGHT..].iter_mut().rev() {
        let bar = memchr::memrchr(b'|', rest).ok_or(Reject::CUT_SHORT)?;
        (*column, rest) = (&rest[bar + 1..], &rest[..bar]);
    }
    columns[LEFT] = rest;
    Ok(columns)
}

fn entry<'a>(line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let [cache, status, time, _bytes, _zone, ip, referrer, url, _edge, agent, id, country] = columns(line)?;
    let text = |column: &'a [u8]| if column == b"-" { "" } else { arena.text(column) };
    let target = target::split(url);
    let status = std::str::from_utf8(status).ok().and_then(|status| status.parse().ok()).ok_or(Reject::BAD_STATUS)?;
    let request = EdgeRequest {
        time: clock::epoch(time).ok_or(Reject::BAD_TIMESTAMP)?,
        class: EdgeClass::Origin,
        host: arena.lower(arena.text(target::host(url))),
        path: arena.text(target.path),
        code: target::code(target.path, arena),
        query: arena.text(target.query),
        method: None,
        status,
        address: address(ip).filter(|address| !is_dropped(*address)),
        user_agent: text(agent),
        referrer: text(referrer),
        country: text(country),
        region: "",
        city: "",
        asked: Asked::default(),
        language: "",
        // Anything else is what is left of a line that was cut behind a bar of its agent.
        line_key: nginx::is_request_id(id).then_some(id),
    };
    // The redirect to https is logged as a miss, although the origin was never asked.
    let to_https = status == 301 && url.starts_with(b"http://");
    let outcome = if to_https { Outcome::EdgeMade } else { outcome(cache) };
    Ok(Entry { request, verb: Verb::Unlogged, outcome })
}

/// What stands for an address that was dropped: `0.0.0.0` or `::`.
fn is_dropped(address: IpAddr) -> bool {
    address.is_unspecified()
}

fn outcome(cache: &[u8]) -> Outcome {
    match cache {
        b"HIT" | b"STALE" | b"UPDATING" => Outcome::Edge,
        // MISS, BYPASS, REVALIDATED, EXPIRED; what isn't known is left to the id.
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Format;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const LINE: &str = "HIT|302|1773480413123|390|60367|2001:db8:1:2::|https://news.example.org/|https://Go.example.com/%E5%A5%BD?s=a%7Cb|DE|curious|agent|1.0|8fa912192319a0d06b341649d4bd1cf5|NL";

    #[test]
    fn a_row_is_read_whole() {
        requests(Format::Bunny, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=a%7Cb", "https://news.example.org/"));
            assert_eq!((request.method, request.status, request.class), (None, 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:1:2::"));
            assert_eq!((request.user_agent, request.country), ("curious|agent|1.0", "NL"));
            assert_eq!(request.line_key, Some(&b"8fa912192319a0d06b341649d4bd1cf5"[..]));
        });
        assert_eq!(verdicts(Format::Bunny, LINE), ["edge"]);
    }

    #[test]
    fn each_change_to_a_row_has_its_verdict() {
        for (from, to, verdict) in [
            ("HIT", "STALE", "edge"),
            ("HIT", "UPDATING", "edge"),
            ("HIT", "MISS", "origin"),
            ("HIT", "BYPASS", "origin"),
            ("HIT", "REVALIDATED", "origin"),
            ("HIT", "-", "origin"),
            ("|302|", "|404|", "not_redirect"),
            ("|302|", "|0|", "aborted"),
            ("|302|", "|-|", "bad_status"),
            ("1773480413123", "14/Mar/2026", "bad_timestamp"),
            ("1773480413123", "-", "bad_timestamp"),
            ("https://Go.example.com/%E5%A5%BD?s=a%7Cb", "-", "bad_request"),
            ("8fa912192319a0d06b341649d4bd1cf5", "-", "no_request_id"),
            // cut behind a bar of the agent
            ("|1.0|8fa912192319a0d06b341649d4bd1cf5|NL", "|1", "no_request_id"),
            ("|agent|1.0|8fa912192319a0d06b341649d4bd1cf5|NL", "", "cut_short"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(Format::Bunny, &changed), [verdict], "{from} -> {to}");
        }
    }

    #[test]
    fn the_redirect_to_https_is_the_edges_own() {
        let row = "MISS|301|1773480416000|539|60367|203.0.113.0|-|http://go.example.com/k7Qp2|NY|Mozilla/5.0|8bcefd2962ffc6bcec45d27e9d1b5651|NO";
        assert_eq!(verdicts(Format::Bunny, row), ["edge_redirect"]);
        assert_eq!(verdicts(Format::Bunny, &row.replace("http:", "https:")), ["not_redirect"]);
        assert_eq!(verdicts(Format::Bunny, &row.replace("301", "302")), ["origin"]);
    }

    #[test]
    fn dropped_values_are_none() {
        for dropped in ["0.0.0.0", "::", "-"] {
            let row = format!(
                "HIT|302|1773480422000|390|60367|{dropped}|-|https://go.example.com/k7Qp2|DE|-|d45f5b4d184a417a0b1aaded783ac8de|-"
            );
            requests(Format::Bunny, &row, |request| {
                assert_eq!((request.address, request.user_agent, request.country), (None, "", ""));
            });
        }
    }
}
