//! Akamai DataStream 2: a JSON object a line, or columns between blanks in the order that `edge_logs.akamai.fields` gives.
//!
//! ```text
//! {"version":"2","reqId":"3f2fcdbd","reqTimeSec":"1773480413.123","cliIP":"…","statusCode":"302","reqHost":"…","reqMethod":"GET",
//!  "reqPath":"/k7Qp2","UA":"Mozilla/5.0%20(X11)","edgeIP":"192.0.2.200","cacheStatus":"1","cacheable":"1"}
//! ```
//! Missing fields are left out of JSON, and are hyphens in columns. Agent and referrer are percent-encoded, by some
//! streams as forms are. `reqId` is short and comes again, so a line's key is that, the edge's address and the second,
//! unless `edge_logs.akamai.id_field` names a field that holds an id of one's own.

use std::sync::Arc;

use schemas::UtcMicros;
use schemas::time::SECOND;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::field_names::{FieldProblem, list_problems};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::keyed::Keys;
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Verb};

const KEY: &str = "edge_logs.akamai.fields";

/// The fields that are read; the place in this list is the place of a field's value.
const READ: [&str; PLACES] = [
    "reqTimeSec",
    "statusCode",
    "reqPath",
    "reqMethod",
    "reqHost",
    "queryStr",
    "cliIP",
    "UA",
    "referer",
    "country",
    "accLang",
    "reqId",
    "edgeIP",
    "cacheStatus",
    "cacheable",
    "breadcrumbs",
    "isMidgress",
];
const PLACES: usize = 17;
/// Behind those, the place of the id of one's own.
const OWN_ID: usize = PLACES;
const ALL: usize = PLACES + 1;

/// The fields that a stream can have.
const KNOWN: &[&str] = &[
    "version",
    "streamId",
    "cp",
    "reqId",
    "reqTimeSec",
    "bytes",
    "cliIP",
    "statusCode",
    "proto",
    "reqHost",
    "reqMethod",
    "reqPath",
    "queryStr",
    "reqPort",
    "rspContentLen",
    "rspContentType",
    "UA",
    "tlsOverheadTimeMSec",
    "tlsVersion",
    "objSize",
    "uncompressedSize",
    "overheadBytes",
    "totalBytes",
    "accLang",
    "cookie",
    "range",
    "referer",
    "xForwardedFor",
    "maxAgeSec",
    "reqEndTimeMSec",
    "errorCode",
    "turnAroundTimeMSec",
    "transferTimeMSec",
    "dnsLookupTimeMSec",
    "timeToFirstByte",
    "lastByte",
    "edgeIP",
    "country",
    "state",
    "city",
    "asn",
    "serverCountry",
    "billingRegion",
    "cacheStatus",
    "cacheable",
    "breadcrumbs",
    "isMidgress",
    "securityRules",
    "ewUsageInfo",
    "ewExecutionInfo",
    "customField",
    "fileSizeBucket",
    "brotliPolicy",
    "cmcd",
    "deliveryType",
    "deliveryFormat",
    "edgeAttempts",
    "prefetchMidgressHits",
];

/// What is wrong with `edge_logs.akamai.fields`.
pub fn problems(fields: &[String]) -> Vec<FieldProblem> {
    let needed = [
        ("reqTimeSec", "when it was (reqTimeSec)"),
        ("reqPath", "what was asked for (reqPath)"),
        ("statusCode", "what was answered (statusCode)"),
    ];
    list_problems(fields, KNOWN, &needed)
}

/// What is wrong with `edge_logs.akamai.id_field`. Empty is nothing configured.
pub fn id_problem(field: &str) -> Option<FieldProblem> {
    let unknown = || FieldProblem::Unknown { given: field.to_owned(), known: KNOWN.to_vec() };
    (!field.is_empty() && !KNOWN.contains(&field)).then(unknown)
}

/// The places of values.
const TIME: usize = 0;
const STATUS: usize = 1;
const PATH: usize = 2;
const ID: usize = 11;
const EDGE: usize = 12;

#[derive(Debug)]
struct AkamaiDs2 {
    keys: Keys,
    /// Of a structured stream: each column's place; `None` where it isn't read.
    columns: Vec<Option<usize>>,
    /// The place of the id of one's own.
    own_id: Option<usize>,
    has_id: bool,
}

/// A record's values; empty where there are none.
type Values<'a> = [&'a str; ALL];

impl AkamaiDs2 {
    fn new(settings: &Settings) -> Self {
        let own = settings.akamai_id_field.as_str();
        let place = |name: &str| {
            let read = READ.iter().position(|known| *known == name);
            read.or((name == own).then_some(OWN_ID))
        };
        let names = READ.iter().copied().chain([own]).filter(|name| !name.is_empty());
        let keys = names.filter_map(|name| place(name).map(|place| (name, place)));
        Self {
            keys: Keys::new(keys),
            columns: settings.akamai.iter().map(|name| place(name)).collect(),
            own_id: (!own.is_empty()).then(|| place(own)).flatten(),
            has_id: true,
        }
    }

    fn id_place(&self) -> usize {
        self.own_id.unwrap_or(ID)
    }

    fn values<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Values<'a>, Reject> {
        if line.first() != Some(&b'{') && !self.columns.is_empty() {
            return self.split(line, arena);
        }
        let read = self.keys.values::<ALL>(line, arena).map_err(|_| Reject::BAD_JSON)?;
        Ok(read.map(|value| value.text(arena)))
    }

    /// The columns of a structured line.
    fn split<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Values<'a>, Reject> {
        let separator = if memchr::memchr(b'\t', line).is_some() { b'\t' } else { b' ' };
        let mut values = [""; ALL];
        let mut columns = self.columns.iter();
        let mut start = 0;
        for end in memchr::memchr_iter(separator, line).chain([line.len()]) {
            let place = columns.next().ok_or(Reject::TOO_MANY_COLUMNS)?;
            let column = &line[start..end];
            if let Some(place) = place.filter(|_| column != b"-") {
                values[place] = arena.text(column);
            }
            start = end + 1;
        }
        if columns.next().is_some() { Err(Reject::CUT_SHORT) } else { Ok(values) }
    }

    fn entry<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        let values = self.values(line, arena)?;
        let [time, status, path, method, host, query, ip, agent, referrer, country, language, ..] = values;
        let time = clock::epoch(time.as_bytes()).ok_or(Reject::BAD_TIMESTAMP)?;
        let target = target::split(path.as_bytes());
        let verb = match method {
            "" => Verb::Unlogged,
            method => Verb::read(method.as_bytes()).ok_or(Reject::BAD_REQUEST)?,
        };
        let request = EdgeRequest {
            time,
            class: EdgeClass::Origin,
            host: arena.lower(host),
            path: arena.text(target.path),
            code: target::code(target.path, arena),
            query: if query.is_empty() { arena.text(target.query) } else { query },
            method: None,
            status: status.parse().map_err(|_| Reject::BAD_STATUS)?,
            address: address(ip.as_bytes()),
            user_agent: decoded(agent, arena),
            referrer: decoded(referrer, arena),
            country,
            language: decoded(language, arena),
            line_key: self.line_key(&values, time, arena),
        };
        Ok(Entry { request, verb, outcome: outcome(&values, arena) })
    }

    fn line_key<'a>(&self, values: &Values<'a>, time: UtcMicros, arena: &'a Arena) -> Option<&'a [u8]> {
        let id = Some(values[self.id_place()].as_bytes()).filter(|id| well_formed_key(id))?;
        if self.own_id.is_some() {
            return Some(id);
        }
        let (id, edge, second) = (values[ID], values[EDGE], time.0.div_euclid(SECOND));
        let key = arena.display(&format_args!("{id}/{edge}/{second}")).as_bytes();
        well_formed_key(key).then_some(key)
    }
}

/// How many of the first lines are such records.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let (arena, akamai) = (Arena::new(), AkamaiDs2::new(settings));
    let of = sample.lines.len();
    let is_ours = |line: &&[u8]| akamai.values(line, &arena).is_ok_and(|values| looks_right(&values));
    let matched = sample.lines.iter().filter(|line| is_ours(line)).count();
    let json = sample.lines.iter().map(|line| akamai.keys.values::<ALL>(line, &arena).map(drop));
    let problem = json.clone().find_map(Result::err);
    let why = match problem {
        _ if matched > 0 => format!("{matched} of the first {of} lines are DataStream's records"),
        _ if json.clone().any(|object| object.is_ok()) => {
            "JSON objects, but without reqTimeSec, statusCode and reqPath".to_owned()
        }
        Some(_) if !akamai.columns.is_empty() => {
            format!("neither JSON objects nor the {} columns of {KEY}", akamai.columns.len())
        }
        Some(problem) => format!("no JSON object a line ({problem}), and {KEY} names no columns"),
        None => "no lines".to_owned(),
    };
    Fit { matched, of, why }
}

/// Names alone would do for JSON; columns are told by what they hold.
fn looks_right(values: &Values<'_>) -> bool {
    clock::epoch(values[TIME].as_bytes()).is_some()
        && values[STATUS].parse::<u16>().is_ok()
        && values[PATH].starts_with('/')
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
    let (arena, akamai) = (Arena::new(), AkamaiDs2::new(settings));
    let place = akamai.id_place();
    let records = sample.lines.iter().filter_map(|line| akamai.values(line, &arena).ok());
    let with_id: Vec<bool> = records.map(|values| !values[place].is_empty()).collect();
    // With nothing to go by, an id is expected: then each line without one says so by itself.
    Arc::new(AkamaiDs2 { has_id: with_id.is_empty() || with_id.contains(&true), ..akamai })
}

impl Layout for AkamaiDs2 {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(self.entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

/// A value as the client sent it. In a value encoded as forms are, a plus is a blank: it shows in marks that are
/// encoded only there, and in that no blank is.
fn decoded<'a>(text: &'a str, arena: &'a Arena) -> &'a str {
    let has = |escape: &str| text.as_bytes().windows(3).any(|bytes| bytes.eq_ignore_ascii_case(escape.as_bytes()));
    let as_forms = text.contains('+')
        && !text.contains(' ')
        && !has("%20")
        && ["%28", "%2f", "%3b"].iter().any(|escape| has(escape));
    arena.text(if as_forms { arena.form(text.as_bytes()) } else { arena.percent(text.as_bytes()) })
}

/// How a request ended. A miss at the edge may have been answered by its parent: then the last server along the way,
/// in the breadcrumbs, is that and not the origin.
fn outcome(values: &Values<'_>, arena: &Arena) -> Outcome {
    let [cache, cacheable, breadcrumbs, midgress] = [values[13], values[14], values[15], values[16]];
    let crumbs = arena.percent(breadcrumbs.as_bytes());
    let servers = crumbs.split(|byte| *byte == b'[').skip(1);
    let kinds = servers.filter_map(|server| {
        let mut parts = server.split(|byte| matches!(byte, b',' | b']'));
        parts.find_map(|part| part.trim_ascii().strip_prefix(b"c="))
    });
    match cache {
        _ if matches!(midgress, "1" | "2" | "true") => Outcome::NotViewer,
        _ if cacheable == "0" => Outcome::Origin,
        "1" => Outcome::Edge,
        "0" if kinds.clone().last() == Some(b"c") && !kinds.clone().any(|kind| kind == b"o") => Outcome::Edge,
        // A miss; numbers that aren't documented are left to the id.
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::identity::{IdMode, Ids};
    use super::super::parser::FileParser;
    use super::super::sniff;
    use super::super::testing::{requests, requests_with, verdicts, verdicts_with};
    use super::*;

    const LINE: &str = r#"{"version":"2","streamId":"12345","cp":"800123","reqId":"3f2fcdbd","reqTimeSec":"1773480413.123","bytes":"0","cliIP":"2001:db8:77::1","statusCode":"302","proto":"HTTPS","reqHost":"Go.example.com","reqMethod":"GET","reqPath":"/%E5%A5%BD","queryStr":"a=1&b=%20x","UA":"Slackbot%201.0%20(+https://api.slack.com/robots)","edgeIP":"192.0.2.200","country":"DE","cacheStatus":"1","cacheable":"1","referer":"https%3A%2F%2Fnews.example.org%2F","customField":"0.c8020002.1773480413.3f2fcdbd"}"#;
    const CRUMBS: &str = r#""cacheStatus":"0","breadcrumbs":"//BC/%5Ba=192.0.2.200,c=g,k=0,l=1%5D%5Ba=192.0.2.201,c="#;

    fn columns(names: &str, id_field: &str) -> Settings {
        let akamai = names.split_whitespace().map(str::to_owned).collect();
        Settings { akamai, akamai_id_field: id_field.to_owned(), ..Settings::default() }
    }

    #[test]
    fn a_line_is_read_whole() {
        requests(Format::AkamaiDs2, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("a=1&b=%20x", "https://news.example.org/"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:77::1"));
            assert_eq!((request.user_agent, request.country), ("Slackbot 1.0 (+https://api.slack.com/robots)", "DE"));
            assert_eq!(request.line_key, Some(&b"3f2fcdbd/192.0.2.200/1773480413"[..]));
        });
        assert_eq!(verdicts(Format::AkamaiDs2, LINE), ["edge"]);
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (r#""cacheStatus":"1""#, r#""cacheStatus":"0""#, "origin"),
            (r#""cacheStatus":"1""#, r#""cacheStatus":"3""#, "origin"),
            (r#""cacheStatus":"1","#, "", "origin"),
            (r#""cacheStatus":"1""#, &format!("{CRUMBS}c%5D\""), "edge"),
            (r#""cacheStatus":"1""#, &format!("{CRUMBS}o%5D\""), "origin"),
            (r#""cacheStatus":"1""#, &format!("{CRUMBS}o%5D%5Ba=1,c=c%5D\""), "origin"),
            (r#""cacheable":"1""#, r#""cacheable":"0""#, "origin"),
            (r#""cacheable":"1""#, r#""cacheable":1,"isMidgress":"0""#, "edge"),
            (r#""cacheable":"1""#, r#""cacheable":1,"isMidgress":2"#, "not_viewer"),
            (r#""statusCode":"302""#, r#""statusCode":302"#, "edge"),
            (r#""statusCode":"302""#, r#""statusCode":"0""#, "aborted"),
            (r#""statusCode":"302""#, r#""statusCode":"301""#, "not_redirect"),
            (r#""statusCode":"302","#, "", "bad_status"),
            (r#""GET""#, r#""HEAD""#, "edge"),
            (r#""GET""#, r#""PUT""#, "method"),
            (r#""reqMethod":"GET","#, "", "edge"),
            (r#""reqPath":"/%E5%A5%BD","#, "", "bad_request"),
            ("\"1773480413.123\"", "1773480413.25", "edge"),
            ("1773480413.123", "yesterday", "bad_timestamp"),
            (r#""reqId":"3f2fcdbd","#, "", "no_request_id"),
            (r#""UA":"Slackbot%201.0%20(+https://api.slack.com/robots)","#, "", "edge"),
            ("\"}", "", "bad_json"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(Format::AkamaiDs2, &changed), [verdict], "{from} -> {to}");
        }
    }

    #[test]
    fn a_plus_is_a_blank_only_in_form_encoding() {
        let arena = Arena::new();
        for (text, expected) in [
            ("Mozilla%2F5.0+%28Macintosh%3B+Intel%29", "Mozilla/5.0 (Macintosh; Intel)"),
            ("Mozilla%2f5.0+x", "Mozilla/5.0 x"),
            ("Slackbot%201.0%20(+https://api.slack.com/robots)", "Slackbot 1.0 (+https://api.slack.com/robots)"),
            ("Mozilla%2F5.0%20a+b", "Mozilla/5.0 a+b"),
            ("Mozilla%2F5.0 a+b", "Mozilla/5.0 a+b"),
            ("C++", "C++"),
            ("%E5%A5%BD%2", "好%2"),
            ("", ""),
        ] {
            assert_eq!(decoded(text, &arena), expected, "{text}");
        }
    }

    #[test]
    fn structured_streams_are_read_by_the_configured_order() {
        let settings = columns(
            "version cp reqId reqTimeSec - cliIP statusCode reqMethod reqPath queryStr UA edgeIP cacheStatus",
            "",
        );
        let line = "2 800123 3f2fcdbd 1773480413.123 0 203.0.113.9 302 GET /k7Qp2 - Mozilla/5.0%20(X11) 192.0.2.200 1";
        for line in [line.to_owned(), line.replace(' ', "\t")] {
            requests_with(Format::AkamaiDs2, &line, &settings, |request| {
                assert_eq!((request.code, request.query, request.user_agent), ("k7Qp2", "", "Mozilla/5.0 (X11)"));
                assert_eq!(request.line_key, Some(&b"3f2fcdbd/192.0.2.200/1773480413"[..]));
            });
            assert_eq!(verdicts_with(Format::AkamaiDs2, &line, &settings), ["edge"]);
            assert_eq!(sniff(line.as_bytes(), &settings).unwrap().unwrap().format, Format::AkamaiDs2);
        }
        for (line, verdict) in [
            (format!("{line} 7"), "too_many_columns"),
            (line.replace(" 1", ""), "cut_short"),
            (line.replace("1773480413.123", "-"), "bad_timestamp"),
        ] {
            assert_eq!(verdicts_with(Format::AkamaiDs2, &line, &settings), [verdict], "{line}");
        }
        assert_eq!(verdicts_with(Format::AkamaiDs2, LINE, &settings), ["edge"], "JSON is told by its brace");
        let fit = Format::AkamaiDs2.recognise(&Sample::of(line.as_bytes()), &Settings::default());
        assert!(fit.why.ends_with("and edge_logs.akamai.fields names no columns"), "{}", fit.why);
    }

    #[test]
    fn an_id_of_ones_own_is_the_key() {
        let settings = columns("", "customField");
        requests_with(Format::AkamaiDs2, LINE, &settings, |request| {
            assert_eq!(request.line_key, Some(&b"0.c8020002.1773480413.3f2fcdbd"[..]));
        });
        let without = LINE.replace("0.c8020002.1773480413.3f2fcdbd", "-");
        assert_eq!(verdicts_with(Format::AkamaiDs2, &without, &settings), ["no_request_id"]);
        assert!(id_problem("").is_none() && id_problem("customField").is_none() && id_problem("custom").is_some());
        assert_eq!(IdMode::Auto.resolve_for("akamai", &Settings::default()), Ids::StatusOnly);
        assert_eq!(IdMode::Auto.resolve_for("akamai", &settings), Ids::Trusted);
    }

    #[test]
    fn configured_names_are_checked() {
        let problems = |names: &str| problems(&columns(names, "").akamai);
        assert_eq!(problems(""), []);
        assert_eq!(problems("reqTimeSec - statusCode reqPath -"), []);
        assert_eq!(problems("reqTimeSec reqPath"), [FieldProblem::Missing { what: "what was answered (statusCode)" }]);
        assert!(
            matches!(&problems("reqTimeSec statusCode reqPath ua")[..], [FieldProblem::Unknown { given, .. }] if given == "ua")
        );
        assert!(READ.iter().all(|name| KNOWN.contains(name)));
    }

    #[test]
    fn a_layout_without_an_id_is_told() {
        let has_id =
            |file: &str, settings| FileParser::new(Format::AkamaiDs2, file.as_bytes(), settings).layout_has_id();
        assert!(has_id(LINE, Settings::default()) && has_id(LINE, columns("", "customField")));
        assert!(!has_id(&LINE.replace("reqId", "x"), Settings::default()));
        assert!(!has_id(&LINE.replace("customField", "x"), columns("", "customField")));
    }
}
