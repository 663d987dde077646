use schemas::Method;

use super::super::format::Format;
use super::super::parser::FileParser;
use super::super::testing::{requests, requests_with, verdicts, verdicts_with};
use super::super::{SniffError, sniff};
use super::*;

const LINE: &str = r#"<134>2026-03-14T09:26:10Z cache-fra-eddf8230021 shortlinks[411]: {"timestamp":"2026-03-14T10:26:10+0100","client_ip":"2001:db8:44::9","geo_country":"DE","request_sec_gpc":"1","geo_region":"BE","geo_city":"berlin","host":"Go.example.com","url":"/k7Qp2?q=a|b","request_method":"GET","request_referer":"https://ö.example/","request_user_agent":"weird \"agent\"\tä","response_state":"HIT","response_status":302,"response_body_size":0,"fastly_is_edge":true,"request_id":"fc84c813d96f14c23e057c0a0a5d1268"}"#;

fn configured(pairs: &[(&str, &str)]) -> Settings {
    let fastly = pairs.iter().map(|(name, key)| ((*name).to_owned(), (*key).to_owned())).collect();
    Settings { fastly, ..Settings::default() }
}

#[test]
fn a_line_is_read_whole() {
    requests(Format::Fastly, LINE, |request| {
        assert_eq!(request.time.to_string(), "2026-03-14T09:26:10Z");
        assert_eq!((request.host, request.path, request.code), ("go.example.com", "/k7Qp2", "k7Qp2"));
        assert_eq!((request.query, request.referrer), ("q=a|b", "https://ö.example/"));
        assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
        assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:44::9"));
        assert_eq!((request.user_agent, request.country), ("weird \"agent\"\tä", "DE"));
        assert_eq!((request.region, request.city), ("BE", "berlin"));
        assert_eq!((request.asked.gpc, request.asked.dnt), (true, false));
        assert_eq!(request.line_key, Some(&b"fc84c813d96f14c23e057c0a0a5d1268"[..]));
    });
    assert_eq!(verdicts(Format::Fastly, LINE), ["edge"]);
}

#[test]
fn each_change_to_a_line_has_its_verdict() {
    for (from, to, verdict) in [
        (r#""HIT""#, r#""HIT-CLUSTER""#, "edge"),
        (r#""HIT""#, r#""HIT-STALE-WAIT-CLUSTER""#, "edge"),
        (r#""HIT""#, r#""HIT-REFRESH""#, "origin"),
        (r#""HIT""#, r#""MISS-WAIT-CLUSTER""#, "origin"),
        (r#""HIT""#, r#""HITPASS-WAIT""#, "origin"),
        (r#""HIT""#, r#""PASS""#, "origin"),
        (r#""HIT""#, r#""SOMETHING""#, "origin"),
        (r#""HIT""#, r#""""#, "origin"),
        (r#""HIT""#, r#""HIT-SYNTH""#, "edge_redirect"),
        (r#""HIT""#, r#""BG-ERROR-RECV""#, "edge_redirect"),
        (r#""HIT""#, r#""NONE""#, "edge_redirect"),
        (r#""HIT","response_status":302"#, r#""ERROR","response_status":503"#, "not_redirect"),
        (r#"edge":true"#, r#"edge":false"#, "parent_hit"),
        (r#"edge":true"#, r#"edge":"0""#, "parent_hit"),
        (
            r#""HIT","response_status":302,"response_body_size":0,"fastly_is_edge":true"#,
            r#""MISS","fastly_is_edge":false,"response_status":302"#,
            "not_viewer",
        ),
        (r#"edge":true"#, r#"edge":"1","visits_this_service":0"#, "edge"),
        (r#""fastly_is_edge":true"#, r#""visits_this_service":"1""#, "parent_hit"),
        (r#""GET""#, r#""FASTLYPURGE""#, "method"),
        (r#""GET""#, r#""""#, "bad_request"),
        (r#""request_method":"GET","#, "", "edge"),
        ("302", r#""302""#, "edge"),
        ("302", "null", "bad_status"),
        ("/k7Qp2", "https://go.example.com/k7Qp2", "edge"),
        (r#""url":"/k"#, r#""url":"k"#, "bad_request"),
        ("2026-03-14T10:26:10+0100", "1773480370", "edge"),
        ("2026-03-14T10:26:10+0100", "(null)", "bad_timestamp"),
        ("fc84c813d96f14c23e057c0a0a5d1268", "", "no_request_id"),
        (r#"weird \"agent\""#, r"bad %22agent\x22", "bad_json"),
        (r#","request_id":"fc84c813d96f14c23e057c0a0a5d1268"}"#, "", "bad_json"),
        (r#""host""#, r#""url":"/x","host""#, "bad_json"),
        ("<134>2026-03-14T09:26:10Z cache-fra-eddf8230021 shortlinks[411]: ", "", "edge"),
        ("<134>2026-03-14T09:26:10Z", "2026-03-14T09:26:10Z", "edge"),
    ] {
        let changed = LINE.replacen(from, to, 1);
        assert_ne!(changed, LINE);
        assert_eq!(verdicts(Format::Fastly, &changed), [verdict], "{from} -> {to}");
    }
    assert_eq!(verdicts(Format::Fastly, "<134>2026-03-14T09:26:14Z c s[411]: (null)"), ["bad_json"]);
}

#[test]
fn keys_can_be_configured() {
    let settings = configured(&[
        ("time", "t"),
        ("url", "u"),
        ("status", "s"),
        ("client_ip", "ip"),
        ("request_id", "rid"),
        ("query", "q"),
        ("state", "st"),
    ]);
    let line = r#"{"t":"1773480370.5","u":"http://Go.example.com:80/k","q":"a=1","s":"302","ip":"203.0.113.9","rid":"r1","st":"HIT","request_method":"GET","timestamp":"no","request_id":"other"}"#;
    requests_with(Format::Fastly, line, &settings, |request| {
        assert_eq!((request.host, request.code, request.query), ("go.example.com", "k", "a=1"));
        assert_eq!(request.time.to_string(), "2026-03-14T09:26:10.500Z");
        assert_eq!(request.line_key, Some(&b"r1"[..]));
    });
    assert_eq!(verdicts_with(Format::Fastly, line, &settings), ["edge"]);
    let sniffed = sniff(line.as_bytes(), &settings).unwrap().unwrap();
    assert_eq!(sniffed.why, "1 of the first 1 lines are JSON objects with the keys of edge_logs.fastly.fields");
    let Err(SniffError::None { readings, .. }) = sniff(line.as_bytes(), &Settings::default()) else { panic!() };
    let ours = readings.iter().find(|reading| reading.format == Format::Fastly).unwrap();
    assert!(ours.why.contains("none with timestamp, url and response_status"), "{}", ours.why);
}

#[test]
fn a_log_with_nginxs_names_is_fastlys_only_where_it_says_what_fastly_says() {
    let settings = configured(&[("time", "time"), ("url", "uri"), ("status", "status"), ("client_ip", "remote_addr")]);
    let nginx = r#"{"time":"2026-03-14T09:26:10Z","remote_addr":"203.0.113.9","method":"GET","uri":"/k","status":"302","cache":"HIT","request_id":"r1"}"#;
    let ours = nginx.replace("\"cache\"", "\"response_state\"");
    assert_eq!(sniff(nginx.as_bytes(), &settings).unwrap().unwrap().format, Format::NginxJson);
    assert_eq!(sniff(ours.as_bytes(), &settings).unwrap().unwrap().format, Format::Fastly);
}

#[test]
fn configured_names_are_checked() {
    let problems = |pairs: &[(&str, &str)]| problems(&configured(pairs).fastly);
    assert_eq!(problems(&[]), []);
    assert_eq!(problems(&[("time", "t"), ("response_state", "s"), ("request_id", "id")]), []);
    assert!(
        matches!(&problems(&[("reqest_id", "x")])[..], [FieldProblem::Unknown { given, known }] if given == "reqest_id" && known.contains(&"request_id"))
    );
    assert_eq!(
        problems(&[("status", "s"), ("response_status", "s")]),
        [FieldProblem::Twice { given: "status".to_owned() }]
    );
    assert_eq!(problems(&[("request_id", "host")]), [FieldProblem::Twice { given: "host".to_owned() }]);
    assert_eq!(problems(&[("url", "")]), [FieldProblem::Missing { what: "a key for url" }]);
}

#[test]
fn a_layout_without_an_id_is_told() {
    let has_id = |file: &str| FileParser::new(Format::Fastly, file.as_bytes(), Settings::default()).layout_has_id();
    assert!(has_id(LINE));
    assert!(!has_id(&LINE.replace("request_id", "other_id")));
}
