use schemas::Method;

use super::super::format::Format;
use super::super::identity::{IdMode, Ids};
use super::super::parser::FileParser;
use super::super::sniff;
use super::super::testing::{requests, requests_with, verdicts, verdicts_with};
use super::*;

const LINE: &str = r#"{"version":"2","streamId":"12345","cp":"800123","reqId":"3f2fcdbd","reqTimeSec":"1773480413.123","bytes":"0","cliIP":"2001:db8:77::1","statusCode":"302","proto":"HTTPS","reqHost":"Go.example.com","reqMethod":"GET","reqPath":"/%E5%A5%BD","queryStr":"a=1&b=%20x","UA":"Slackbot%201.0%20(+https://api.slack.com/robots)","edgeIP":"192.0.2.200","country":"DE","state":"LOWER%20SAXONY","city":"G%C3%96TTINGEN","cacheStatus":"1","cacheable":"1","referer":"https%3A%2F%2Fnews.example.org%2F","customField":"0.c8020002.1773480413.3f2fcdbd"}"#;
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
        assert_eq!((request.region, request.city), ("LOWER SAXONY", "GÖTTINGEN"));
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
fn structured_streams_are_read_by_the_configured_order() {
    let settings =
        columns("version cp reqId reqTimeSec - cliIP statusCode reqMethod reqPath queryStr UA edgeIP cacheStatus", "");
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

/// As Akamai's own samples have it.
#[test]
fn a_path_without_its_first_slash_is_a_path() {
    let fields = "reqTimeSec statusCode reqPath reqId edgeIP cacheStatus";
    let column = "1773480413.123 302 hello 3f2fcdbd 192.0.2.200 1";
    for (line, settings) in [
        (LINE.replace("/%E5%A5%BD", "hello"), Settings::default()),
        (column.to_owned(), columns(fields, "")),
        (column.replace(' ', "\t"), columns(fields, "")),
    ] {
        requests_with(Format::AkamaiDs2, &line, &settings, |request| {
            assert_eq!((request.path, request.code), ("/hello", "hello"), "{line}");
        });
        assert_eq!(sniff(line.as_bytes(), &settings).unwrap().unwrap().format, Format::AkamaiDs2, "{line}");
    }
    for (path, whole, code) in
        [("hello?a=1", "/hello", "hello"), ("http", "/http", "http"), ("a%2Fb/", "/a%2Fb/", "a/b")]
    {
        requests(Format::AkamaiDs2, &LINE.replace("/%E5%A5%BD", path), |request| {
            assert_eq!((request.path, request.code), (whole, code));
        });
    }
}

#[test]
fn what_is_refused_names_what_is_missing_and_nothing_that_is_there() {
    let why = |line: &str| Format::AkamaiDs2.recognise(&Sample::of(line.as_bytes()), &Settings::default()).why;
    for (line, expected) in [
        (r#"{"a":1}"#.to_owned(), "without reqTimeSec, statusCode, reqPath"),
        (LINE.replace("reqPath", "path"), "without reqPath"),
        (LINE.replace("1773480413.123", "yesterday"), "their reqTimeSec can't be read"),
        (
            LINE.replace("reqPath", "path").replace(r#""statusCode":"302""#, r#""statusCode":"found""#),
            "without reqPath, and their statusCode can't be read",
        ),
    ] {
        assert_eq!(why(&line), format!("JSON objects, but {expected}"), "{line}");
    }
}

#[test]
fn an_id_of_ones_own_is_the_key() {
    let settings = columns("", "customField");
    requests_with(Format::AkamaiDs2, LINE, &settings, |request| {
        assert_eq!(request.line_key, Some(&b"0.c8020002.1773480413.3f2fcdbd"[..]));
    });
    let without = LINE.replace("0.c8020002.1773480413.3f2fcdbd", "-");
    assert_eq!(verdicts_with(Format::AkamaiDs2, &without, &settings), ["no_request_id"]);
    assert_eq!(IdMode::Auto.resolve_for("akamai", &Settings::default()), Ids::StatusOnly);
    assert_eq!(IdMode::Auto.resolve_for("akamai", &settings), Ids::Trusted);
}

#[test]
fn a_layout_without_an_id_is_told() {
    let has_id = |file: &str, settings| FileParser::new(Format::AkamaiDs2, file.as_bytes(), settings).layout_has_id();
    assert!(has_id(LINE, Settings::default()) && has_id(LINE, columns("", "customField")));
    assert!(!has_id(&LINE.replace("reqId", "x"), Settings::default()));
    assert!(!has_id(&LINE.replace("customField", "x"), columns("", "customField")));
}

#[test]
fn what_is_read_can_be_configured() {
    let all: Vec<String> = READ.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(super::super::akamai::problems(&all), []);
}
