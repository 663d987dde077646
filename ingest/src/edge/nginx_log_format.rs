//! nginx with a `log_format` of the operator's own: `edge_logs.nginx.log_format` holds its text.
//!
//! ```text
//! pieces:  value  " - "  value  " ["  value  "] \""  value  "\" " …
//! line:    203.0.113.9 - jo [x] doe [14/Mar/2026:09:26:53 +0000] "GET /k HTTP/2.0" …
//! ```
//! A value ends where the literal behind it begins, the first time that leaves the rest of the line readable: a user's
//! name may hold what looks like a bracket of ours. Escaped values hold no bare quote, so nothing is tried twice there.
//! Where the configured format reads a file, the built-in nginx formats leave it alone.

use std::sync::Arc;

use schemas::UtcMicros;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found};
use super::nginx;
use super::nginx_directive::{Directive, Piece, SLOTS, Slot};
use super::request::{EdgeClass, EdgeRequest, Reject, asked};
use super::target::{self, Verb};

/// Places tried in one line; no line of the format needs more.
const MOST_TRIES: u32 = 2_000;
const KEY: &str = "edge_logs.nginx.log_format";

/// How many of the first lines are as configured.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let of = sample.lines.len();
    let why_not = |why: String| Fit { matched: 0, of, why };
    if settings.nginx_log_format.is_empty() {
        return why_not(format!("{KEY} is not configured"));
    }
    match Directive::parse(&settings.nginx_log_format) {
        Ok(directive) => {
            let (arena, layout) = (Arena::new(), NginxLogFormat(directive));
            let matched = sample.lines.iter().filter(|line| layout.entry(line, &arena).is_ok()).count();
            Fit { matched, of, why: format!("{matched} of the first {of} lines are as {KEY} says") }
        }
        Err(error) => why_not(format!("{KEY} can't be used: {error}")),
    }
}

/// Why another format of nginx's is not to take a file: it is as configured.
pub(super) fn takes(sample: &Sample<'_>, settings: &Settings) -> Option<Fit> {
    let fit = recognise(sample, settings);
    fit.fits().then(|| Fit { matched: 0, of: fit.of, why: format!("{}, which goes before", fit.why) })
}

/// The configured layout.
pub fn layout(_sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
    // A text that can't be used reads no line: recognising says why, and so does the check of the configuration.
    Arc::new(NginxLogFormat(Directive::parse(&settings.nginx_log_format).unwrap_or_default()))
}

#[derive(Debug)]
struct NginxLogFormat(Directive);

impl Layout for NginxLogFormat {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(self.entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        self.0.has(Slot::Id)
    }
}

/// A line's values, still escaped.
#[derive(Debug, Default)]
struct Values<'a>([Option<&'a [u8]>; SLOTS]);

impl<'a> Values<'a> {
    fn raw(&self, slot: Slot) -> Option<&'a [u8]> {
        self.0[slot as usize]
    }
}

impl NginxLogFormat {
    fn entry<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        let values = self.values(line)?;
        let bytes = |slot| match values.raw(slot).unwrap_or_default() {
            b"-" => b"",
            raw if self.0.escaped => arena.nginx(raw),
            raw => raw,
        };
        let text = |slot| arena.text(bytes(slot));
        let column = |slot| values.raw(slot).map(|_| text(slot));
        let (verb, whole, target) = match values.raw(Slot::Request) {
            Some(_) => {
                let line = bytes(Slot::Request);
                let (verb, target) = target::request_line(line).ok_or(Reject::BAD_REQUEST)?;
                (verb, &line[memchr::memchr(b' ', line).map_or(0, |blank| blank + 1)..], target)
            }
            None => {
                let (method, whole) = (values.raw(Slot::Method), bytes(Slot::Target));
                let verb = method.map_or(Some(Verb::Unlogged), |_| Verb::read(bytes(Slot::Method)));
                (verb.ok_or(Reject::BAD_REQUEST)?, whole, target::split(whole))
            }
        };
        let query = if target.query.is_empty() { bytes(Slot::Query) } else { target.query };
        let host = [Slot::Host, Slot::HttpHost].into_iter().map(bytes).find(|host| !host.is_empty());
        let id = bytes(Slot::Id);
        let request = EdgeRequest {
            time: time(&values, bytes).ok_or(Reject::BAD_TIMESTAMP)?,
            class: EdgeClass::Origin,
            host: arena.lower(arena.text(host.unwrap_or_else(|| target::host(whole)))),
            path: arena.text(target.path),
            code: target::code(target.path, arena),
            query: arena.text(query),
            method: None,
            status: text(Slot::Status).parse().map_err(|_| Reject::BAD_STATUS)?,
            address: address(bytes(Slot::Address)),
            user_agent: text(Slot::Agent),
            referrer: text(Slot::Referrer),
            country: text(Slot::Country),
            region: text(Slot::Region),
            city: text(Slot::City),
            asked: asked(text(Slot::Gpc), text(Slot::Dnt)),
            language: text(Slot::Language),
            line_key: (well_formed_key(id) && !nginx::is_cut_id(id)).then_some(id),
        };
        Ok(Entry { request, verb, outcome: nginx::outcome(column(Slot::Cache), column(Slot::Upstream)) })
    }

    /// The values of a line, which may stand behind a syslog header.
    fn values<'a>(&self, line: &'a [u8]) -> Result<Values<'a>, Reject> {
        let begins = match self.0.pieces.first() {
            None => return Err(Reject::BAD_LINE),
            Some(Piece::Literal(text)) => line.starts_with(text),
            Some(_) => line.first() != Some(&b'<'),
        };
        let behind_header = || memchr::memmem::find(line, b": ").filter(|_| line.first() == Some(&b'<'));
        let start = if begins { 0 } else { behind_header().map_or(0, |colon| colon + 2) };
        let mut reading = Reading::new(&self.0, line, true);
        if reading.read(0, start) {
            return Ok(reading.values);
        }
        if reading.cut {
            return Err(Reject::CUT_SHORT);
        }
        // Where a status or time that is none is all that is wrong, the line still has its places.
        let stuck = self.0.pieces.get(reading.furthest);
        let mut reading = Reading::new(&self.0, line, false);
        match matches!(stuck, Some(Piece::Value(Some(Slot::Msec | Slot::Status)))) && reading.read(0, start) {
            true => Ok(reading.values),
            false => Err(Reject::BAD_LINE),
        }
    }
}

/// The finest of the times that there are.
fn time<'a>(values: &Values<'a>, bytes: impl Fn(Slot) -> &'a [u8]) -> Option<UtcMicros> {
    let slots = [Slot::Msec, Slot::Iso, Slot::Local].into_iter().filter(|slot| values.raw(*slot).is_some());
    slots.map(bytes).find_map(clock::any)
}

/// A line on its way through the pieces.
struct Reading<'a, 'd> {
    directive: &'d Directive,
    line: &'a [u8],
    /// Values must look as they should.
    strict: bool,
    values: Values<'a>,
    tries: u32,
    /// The last piece that was come to.
    furthest: usize,
    /// The line ended inside of that.
    cut: bool,
}

impl<'a, 'd> Reading<'a, 'd> {
    fn new(directive: &'d Directive, line: &'a [u8], strict: bool) -> Self {
        Self { directive, line, strict, values: Values::default(), tries: 0, furthest: 0, cut: false }
    }

    /// Reads the pieces from `piece` on, in the line from `at` on; false where they don't fit.
    fn read(&mut self, piece: usize, at: usize) -> bool {
        self.tries += 1;
        if piece > self.furthest {
            (self.furthest, self.cut) = (piece, false);
        }
        let rest = &self.line[at..];
        let (slot, slash) = match self.directive.pieces.get(piece) {
            None => return rest.is_empty(),
            Some(Piece::Literal(text)) => {
                self.cut |= piece == self.furthest && rest.len() < text.len() && text.starts_with(rest);
                return rest.starts_with(text) && self.read(piece + 1, at + text.len());
            }
            Some(Piece::Value(slot)) => (*slot, false),
            Some(Piece::UntilSlash(slot)) => (*slot, true),
        };
        let mut from = 0;
        while self.tries < MOST_TRIES {
            let Some(end) = self.end(piece, rest, from, slash) else {
                self.cut |= from == 0 && piece == self.furthest && piece > 0;
                break;
            };
            if may_be(slot, &rest[..end], self.strict) && self.read(piece + 1, at + end) {
                // the first of several counts
                if let Some(slot) = slot {
                    self.values.0[slot as usize] = Some(&rest[..end]);
                }
                return true;
            }
            from = end + 1;
        }
        false
    }

    /// Where a value of `rest` may end, not before `from`.
    fn end(&self, piece: usize, rest: &[u8], from: usize, slash: bool) -> Option<usize> {
        if slash {
            return memchr::memchr(b'/', rest).filter(|end| *end >= from);
        }
        let Some(Piece::Literal(text)) = self.directive.pieces.get(piece + 1) else {
            return (from == 0).then_some(rest.len());
        };
        match text.first() {
            // An escaped value has no bare quote: the first one is the literal's.
            Some(b'"') if self.directive.escaped => bare_quote(rest).filter(|end| *end >= from),
            _ => memchr::memmem::find(rest.get(from..)?, text).map(|end| from + end),
        }
    }
}

/// The first quote without a backslash before it.
fn bare_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Whether a variable may have this value, as far as that helps to find where it ends.
fn may_be(slot: Option<Slot>, value: &[u8], strict: bool) -> bool {
    let numeral = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    match slot {
        Some(Slot::Local) => value.len() == 26 && value[2] == b'/',
        Some(Slot::Msec | Slot::Status) if strict => value.iter().all(numeral),
        Some(
            Slot::Msec | Slot::Iso | Slot::Address | Slot::Host | Slot::Method | Slot::Status | Slot::Cache | Slot::Id,
        ) => !value.contains(&b' '),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
