//! nginx's combined format, with cache status and request id behind it:
//!
//! ```text
//! $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" \
//!     $upstream_cache_status $request_id
//! ```
//! Quotes, backslashes and bytes outside printable ASCII are `\xHH` in values; a missing value is a hyphen. What
//! stands behind the agent is told by the file's first lines, so that plain combined logs, and those with more
//! columns, can be read too; columns that aren't known are left alone.

use std::sync::Arc;

use super::arena::Arena;
use super::combined::{Kind, Parts, Survey, parts, tail};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found};
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Verb};
use super::{nginx, nginx_log_format};
use schemas::privacy::Asked;

/// Where the columns behind the agent are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct NginxCombined {
    cache: Option<usize>,
    id: Option<usize>,
}

/// How many of the first lines are combined.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let of = sample.lines.len();
    let survey = Survey::of(sample);
    let (matched, whole_urls) = (survey.lines, survey.whole_urls);
    if matched == 0 {
        let why = "no line is like `address - user [time] \"request\" status bytes \"referrer\" \"agent\"`";
        return Fit { matched, of, why: why.to_owned() };
    }
    if survey.is_varnish() {
        let why = match whole_urls * 2 > matched {
            true => {
                format!("like nginx's combined format, but {whole_urls} of {matched} request lines hold a whole URL")
            }
            false => "like nginx's combined format, but with Varnish's words behind the agent".to_owned(),
        };
        return Fit { matched: 0, of, why };
    }
    if let Some(fit) = nginx_log_format::takes(sample, settings) {
        return fit;
    }
    let NginxCombined { cache, id } = columns(&survey);
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
    Arc::new(columns(&Survey::of(sample)))
}

fn columns(survey: &Survey) -> NginxCombined {
    let id = survey.most(Kind::RequestId);
    let before = |place: usize| place.checked_sub(1).filter(|place| survey.count(Kind::Hyphen, *place) > 0);
    let cache = survey.most(Kind::NginxCache).or(id.and_then(before));
    match (cache, id) {
        // Nothing to go by in the values, but two columns are there, or no line at all: as documented.
        (None, None) if survey.mostly_two_words() => NginxCombined { cache: Some(0), id: Some(1) },
        (Some(cache), None) if survey.mostly_two_words() && survey.any_after(Kind::Hyphen, cache) => {
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
            region: "",
            city: "",
            asked: Asked::default(),
            language: "",
            line_key: id.filter(|id| well_formed_key(id) && !nginx::is_cut_id(id)),
        };
        debug_assert!(verb != Verb::Unlogged);
        Ok(Entry { request, verb, outcome: nginx::outcome(cache, None) })
    }
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
            let columns = columns(&Survey::of(&Sample::of(file.as_bytes())));
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
