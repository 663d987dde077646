use schemas::Method;

use super::super::format::Format;
use super::super::parser::FileParser;
use super::super::testing::{requests, requests_with, verdicts, verdicts_with};
use super::*;

const LINE: &str = r#"Mar 14 09:26:53 lb1 haproxy[14389]: 2001:db8:31::a:33318 [14/Mar/2026:09:26:53.123] fe~ links/s1 0/0/1/2/3 302 250 - - ---- 1/1/0/0/0 0/0 {odd #22agent#22 #7B1#7D|https://news.example.org/} "GET /%E5%A5%BD?s=1 HTTP/1.1" CB00710A:8225_0A000001:01BB_69B52A1D_0001:3835"#;
const BRACES: &str = "{odd #22agent#22 #7B1#7D|https://news.example.org/} ";
const ID: &str = "CB00710A:8225_0A000001:01BB_69B52A1D_0001:3835";

#[test]
fn a_line_is_read_whole() {
    requests(Format::Haproxy, LINE, |request| {
        assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
        assert_eq!((request.host, request.path, request.code, request.query), ("", "/%E5%A5%BD", "好", "s=1"));
        assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Origin));
        assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:31::a"));
        assert_eq!((request.user_agent, request.referrer), ("odd \"agent\" {1}", "https://news.example.org/"));
        assert_eq!(request.line_key, Some(ID.as_bytes()));
    });
    assert_eq!(verdicts(Format::Haproxy, LINE), ["origin"]);
}

#[test]
fn each_change_to_a_line_has_its_verdict() {
    for (from, to, verdict) in [
        ("links/s1", "fe/<NOSRV>", "edge_redirect"),
        ("links/s1", "fe/<CACHE>", "edge"),
        (" ---- ", " LR-- ", "edge_redirect"),
        (" ---- ", " PR-- ", "edge_redirect"),
        (" ---- ", " CD-- ", "origin"),
        (" 302 250 ", " -1 250 ", "aborted"),
        (" 302 250 ", " 503 +250 ", "not_redirect"),
        (" 302 250 ", " x 250 ", "bad_status"),
        ("0/0/1/2/3", "0/0/1/2/+3", "origin"),
        ("GET /%E5%A5%BD?s=1 HTTP/1.1", "<BADREQ>", "bad_request"),
        ("GET /%E5%A5%BD?s=1 HTTP/1.1", "GET /long HTTP", "origin"),
        ("GET ", "HEAD ", "origin"),
        ("GET ", "PUT ", "method"),
        (BRACES, "", "origin"),
        (BRACES, "{} ", "origin"),
        (BRACES, "{a|b} {text/html} ", "origin"),
        ("14/Mar", "14/Mrz", "bad_timestamp"),
        ("14/Mar/2026:09:26:53.123", "14/Mar/2026:09:26:53 +0100", "origin"),
        ("[14/Mar/2026:09:26:53.123] ", "", "bad_line"),
        ("links/s1 0/0/1/2/3 302", "links/s1 0/0/3 302", "bad_line"),
        ("Mar 14 09:26:53 lb1 haproxy[14389]: ", "", "origin"),
        ("Mar 14 09:26:53 lb1", "<134>1 [x] [14/03/2026]", "origin"),
        (ID, "-", "no_request_id"),
        (ID, "", "no_request_id"),
        (" HTTP/1.1\" CB00710A:8225_0A000001:01BB_69B52A1D_0001:3835", "", "cut_short"),
        (
            " 0/0 {odd #22agent#22 #7B1#7D|https://news.example.org/} \"GET /%E5%A5%BD?s=1 HTTP/1.1\" CB00710A:8225_0A000001:01BB_69B52A1D_0001:3835",
            "",
            "cut_short",
        ),
    ] {
        let changed = LINE.replacen(from, to, 1);
        assert_ne!(changed, LINE);
        // Whether there is an id is told by the good lines around it.
        let verdicts = verdicts(Format::Haproxy, &format!("{LINE}\n{changed}\n{LINE}\n"));
        assert_eq!(verdicts, ["origin", verdict, "origin"], "{from} -> {to}");
    }
}

#[test]
fn addresses_lose_what_stands_behind_the_last_colon() {
    for (text, expected) in [
        ("203.0.113.9:33317", Some("203.0.113.9")),
        ("2001:db8::1:58340", Some("2001:db8::1")),
        ("[2001:db8::1]:58340", Some("2001:db8::1")),
        ("::ffff:203.0.113.9:1", Some("203.0.113.9")),
        ("unix:1", None),
        ("-", None),
    ] {
        assert_eq!(client(text.as_bytes()).map(|address| address.to_string()).as_deref(), expected, "{text}");
    }
}

#[test]
fn zone_and_captures_are_configured() {
    let captures = ["host", "user-agent", "-"].map(str::to_owned).to_vec();
    let settings =
        Settings { haproxy_timezone: Tz::America__New_York, haproxy_captures: captures.clone(), ..Settings::default() };
    let line = LINE.replace(BRACES, "{Go.example.com|a#7Cb|198.51.100.1} ");
    requests_with(Format::Haproxy, &line, &settings, |request| {
        assert_eq!((request.host, request.user_agent, request.referrer), ("go.example.com", "a|b", ""));
        assert_eq!(request.time.to_string(), "2026-03-14T13:26:53.123Z");
    });
    assert_eq!(verdicts_with(Format::Haproxy, &line, &settings), ["origin"]);
    // without a word on them, three can't be told apart
    requests(Format::Haproxy, &line, |request| assert_eq!((request.host, request.user_agent), ("", "")));
    let fit = Format::Haproxy.recognise(&Sample::of(line.as_bytes()), &Settings::default());
    assert!(fit.fits() && fit.why.contains("they hold 3 captured headers"), "{}", fit.why);
    assert_eq!(problems(&captures), []);
    assert!(matches!(&problems(&["user_agent".to_owned()])[..], [FieldProblem::Unknown { .. }]));
}

#[test]
fn places_and_who_asks_for_privacy_are_captured() {
    let captures = ["cf-ipcountry", "cf-region-code", "cf-ipcity", "sec-gpc", "dnt"].map(str::to_owned).to_vec();
    let settings = Settings { haproxy_captures: captures, ..Settings::default() };
    requests_with(Format::Haproxy, &LINE.replace(BRACES, "{NL|NH|Den Haag||1} "), &settings, |request| {
        assert_eq!((request.country, request.region, request.city), ("NL", "NH", "Den Haag"));
        assert_eq!((request.asked.gpc, request.asked.dnt), (false, true));
    });
}

#[test]
fn a_layout_without_an_id_is_told() {
    let has_id = |file: &str, settings| FileParser::new(Format::Haproxy, file.as_bytes(), settings).layout_has_id();
    let bare = LINE.replace(ID, "");
    assert!(has_id(LINE, Settings::default()) && !has_id(&bare, Settings::default()));
    let settings = Settings { haproxy_captures: vec!["x-request-id".to_owned()], ..Settings::default() };
    assert!(has_id(&bare, settings.clone()));
    requests_with(Format::Haproxy, &bare.replace(BRACES, "{id-7} "), &settings, |request| {
        assert_eq!(request.line_key, Some(&b"id-7"[..]));
    });
}

#[test]
fn a_url_in_the_request_names_the_host() {
    let line = LINE.replace("GET /", "GET https://Go.example.com/").replace("HTTP/1.1", "HTTP/2.0");
    requests(Format::Haproxy, &line, |request| {
        assert_eq!((request.host, request.path), ("go.example.com", "/%E5%A5%BD"));
    });
}
