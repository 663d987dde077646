//! varnishncsa: the combined format with Varnish's words behind it, and the whole URL in the request line.
//!
//! ```text
//! %h %l %u %t "%r" %s %b "%{Referer}i" "%{User-agent}i" %{Varnish:handling}x %{Varnish:vxid}x "%{X-Request-Id}o"
//! ```
//! What stands behind the agent is told by the file's first lines. The `vxid` of a client's request is not that of the
//! request to the origin, so an id of one's own is needed. Lines of the backend side are not a client's.

use std::sync::Arc;

use super::arena::Arena;
use super::combined::{Kind, Parts, Survey, parts, tail};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target;
use schemas::privacy::Asked;

/// Where the columns behind the agent are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Varnish {
    handling: Option<usize>,
    id: Option<usize>,
    side: Option<usize>,
}

/// How many of the first lines are Varnish's.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let of = sample.lines.len();
    let survey = Survey::of(sample);
    if survey.lines == 0 {
        let why = "no line is like `address - user [time] \"request\" status bytes \"referrer\" \"agent\"`";
        return Fit { matched: 0, of, why: why.to_owned() };
    }
    if !survey.is_varnish() {
        let why = "like varnishncsa's format, but without whole URLs, and without Varnish's words behind the agent";
        return Fit { matched: 0, of, why: why.to_owned() };
    }
    let Varnish { handling, id, .. } = columns(&survey);
    let behind = match (handling, id) {
        (Some(_), Some(_)) => "handling and request id behind the agent",
        (Some(_), None) => "handling, but no request id, behind the agent",
        (None, Some(_)) => "a request id, but no handling, behind the agent",
        (None, None) => "neither handling nor request id behind the agent",
    };
    let matched = survey.lines;
    Fit { matched, of, why: format!("{matched} of the first {of} lines are varnishncsa's format, with {behind}") }
}

/// The columns behind the agent follow from the first lines.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(columns(&Survey::of(sample)))
}

fn columns(survey: &Survey) -> Varnish {
    let (handling, side) = (survey.most(Kind::Handling), survey.most(Kind::Side));
    let nothing_known = survey.lines == 0;
    // Not by their form: an id of one's own, quoted as in the documented layout.
    let quoted = || survey.most(Kind::Quoted).filter(|place| handling.is_some_and(|handling| handling < *place));
    let id = survey.most(Kind::RequestId).or_else(quoted);
    match nothing_known {
        true => Varnish { handling: Some(0), id: Some(2), side: None },
        false => Varnish { handling, id, side },
    }
}

impl Layout for Varnish {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(parts(line).and_then(|parts| self.entry(&parts, arena)).into());
    }

    fn has_id(&self) -> bool {
        self.id.is_some()
    }
}

impl Varnish {
    fn entry<'a>(&self, parts: &Parts<'a>, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        let (mut handling, mut id, mut side) = (None, None, None);
        for (place, word) in tail(parts.tail).enumerate() {
            let place = Some(place);
            if self.handling == place {
                handling = Some(word);
            }
            if self.id == place {
                id = Some(word);
            }
            if self.side == place {
                side = Some(word);
            }
        }
        if self.handling.is_some() != handling.is_some() || self.id.is_some() != id.is_some() {
            return Err(Reject::CUT_SHORT);
        }
        let value = |raw: &'a [u8]| if raw == b"-" { &b""[..] } else { arena.c_string(raw) };
        let line = value(parts.request);
        let (verb, target) = target::request_line(line).ok_or(Reject::BAD_REQUEST)?;
        let url = &line[memchr::memchr(b' ', line).map_or(0, |blank| blank + 1)..];
        let request = EdgeRequest {
            time: parts.time,
            class: EdgeClass::Origin,
            host: arena.lower(arena.text(target::host(url))),
            path: arena.text(target.path),
            code: target::code(target.path, arena),
            query: arena.text(target.query),
            method: None,
            status: parts.status,
            address: parts.address,
            user_agent: arena.text(value(parts.agent)),
            referrer: arena.text(value(parts.referrer)),
            country: "",
            region: "",
            city: "",
            asked: Asked::default(),
            language: "",
            line_key: id.filter(|id| well_formed_key(id)),
        };
        let outcome = if side == Some(b"b") { Outcome::NotViewer } else { outcome(handling) };
        Ok(Entry { request, verb, outcome })
    }
}

/// How a request ended, by `%{Varnish:handling}x`.
fn outcome(handling: Option<&[u8]>) -> Outcome {
    match handling {
        // A copy past its time, delivered in its grace, is a hit too.
        Some(b"hit" | b"streaming-hit") => Outcome::Edge,
        Some(b"synth") => Outcome::EdgeMade,
        // miss, hitmiss, hitpass, pass, pipe; what isn't known is left to the id.
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::sniff;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const LINE: &str = r#"2001:db8:31::9 - - [14/Mar/2026:10:26:58 +0100] "GET http://Go.example.com:80/%E5%A5%BD?s=1 HTTP/1.1" 302 - "https://news.example.org/" "bad \"agent\"\t\xE5\xA5\xBD" hit 32781 "1b589641cd71050564a63ddd34889fe8""#;

    #[test]
    fn a_line_is_read_whole() {
        requests(Format::Varnish, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:58Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=1", "https://news.example.org/"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:31::9"));
            assert_eq!(request.user_agent, "bad \"agent\"\t好");
            assert_eq!(request.line_key, Some(&b"1b589641cd71050564a63ddd34889fe8"[..]));
        });
        assert_eq!(verdicts(Format::Varnish, LINE), ["edge"]);
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (" hit ", " streaming-hit ", "edge"),
            (" hit ", " miss ", "origin"),
            (" hit ", " hitmiss ", "origin"),
            (" hit ", " hitpass ", "origin"),
            (" hit ", " pass ", "origin"),
            (" hit ", " pipe ", "origin"),
            (" hit ", " - ", "origin"),
            (" hit ", " synth ", "edge_redirect"),
            (" 302 ", " 404 ", "not_redirect"),
            (" 302 ", " - ", "aborted"),
            (" 302 ", " x ", "bad_status"),
            ("GET ", "HEAD ", "edge"),
            ("GET ", "PURGE ", "method"),
            ("GET http://Go.example.com:80/%E5%A5%BD?s=1", "- http://--", "bad_request"),
            ("Mar", "Mrz", "bad_timestamp"),
            ("1b589641cd71050564a63ddd34889fe8", "-", "no_request_id"),
            ("1b589641cd71050564a63ddd34889fe8", "", "no_request_id"),
            (" \"1b589641cd71050564a63ddd34889fe8\"", "", "cut_short"),
            ("34889fe8\"", "348", "cut_short"),
            ("\" hit 32781", "\"", "cut_short"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            // The layout comes from the good lines around it.
            let verdicts = verdicts(Format::Varnish, &format!("{LINE}\n{changed}\n{LINE}\n"));
            assert_eq!(verdicts, ["edge", verdict, "edge"], "{from} -> {to}");
        }
    }

    #[test]
    fn the_columns_behind_the_agent_are_found() {
        let start = LINE.strip_suffix(r#" hit 32781 "1b589641cd71050564a63ddd34889fe8""#).unwrap();
        let id = "1b589641cd71050564a63ddd34889fe8";
        for (tail, handling, place, side) in [
            (format!(" hit 32781 \"{id}\""), Some(0), Some(2), None),
            (format!(" {id} miss"), Some(1), Some(0), None),
            (format!(" c hit \"{id}\" 0.001"), Some(1), Some(2), Some(0)),
            (" hit 32781 \"req-17\"".to_owned(), Some(0), Some(2), None),
            (" hit 32781".to_owned(), Some(0), None, None),
            (" \"203.0.113.1\"".to_owned(), None, None, None),
            (String::new(), None, None, None),
        ] {
            let file = format!("{start}{tail}\n");
            let columns = columns(&Survey::of(&Sample::of(file.as_bytes())));
            assert_eq!(columns, Varnish { handling, id: place, side }, "{tail}");
            let parser = FileParser::new(Format::Varnish, file.as_bytes(), Settings::default());
            assert_eq!(parser.layout_has_id(), place.is_some());
        }
    }

    #[test]
    fn backend_lines_are_no_clients() {
        let both = format!("{LINE} c\n{} b\n", LINE.replace("\" hit", "\" miss"));
        assert_eq!(verdicts(Format::Varnish, &both), ["edge", "not_viewer"]);
    }

    #[test]
    fn it_is_told_from_nginx() {
        let nginx = LINE.replace("http://Go.example.com:80", "").replace(" hit 32781 ", " HIT ");
        let own = LINE.replace("http://Go.example.com:80", "");
        for (line, format) in [(LINE, Format::Varnish), (&own, Format::Varnish), (&nginx, Format::NginxCombined)] {
            assert_eq!(sniff(line.as_bytes(), &Settings::default()).unwrap().unwrap().format, format, "{line}");
        }
    }
}
