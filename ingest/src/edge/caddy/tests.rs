use schemas::Method;

use super::super::format::Format;
use super::super::parser::FileParser;
use super::super::sniff;
use super::super::testing::{requests, verdicts};
use super::*;

const LINE: &str = r#"{"level":"info","ts":1773480413.1234567,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"198.51.100.5","remote_port":"41342","client_ip":"2001:db8:31::7","proto":"HTTP/2.0","method":"GET","host":"Go.example.com","uri":"/%E5%A5%BD?s=1","headers":{"User-Agent":["He said \"hi\" 好"],"Referer":["https://news.example.org/"],"Accept-Language":["nl"],"Sec-Gpc":["1"],"Cookie":["REDACTED"],"X-Request-Id":["from-client"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.0009,"size":0,"status":302,"resp_headers":{"Server":["Caddy"],"Cache-Status":["Souin; hit; ttl=7; key=GET-https-go.example.com-/k7Qp2"]},"request_id":"2ba96288-3f00-4860-a6e9-5675f14021bd"}"#;
const ID: &str = r#","request_id":"2ba96288-3f00-4860-a6e9-5675f14021bd""#;

#[test]
fn a_line_is_read_whole() {
    requests(Format::Caddy, LINE, |request| {
        assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123456Z");
        assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
        assert_eq!((request.query, request.referrer), ("s=1", "https://news.example.org/"));
        assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
        assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:31::7"));
        assert_eq!((request.user_agent, request.language), ("He said \"hi\" 好", "nl"));
        assert_eq!((request.asked.gpc, request.asked.dnt), (true, false));
        assert_eq!(request.line_key, Some(&b"2ba96288-3f00-4860-a6e9-5675f14021bd"[..]));
    });
    assert_eq!(verdicts(Format::Caddy, LINE), ["edge"]);
}

#[test]
fn each_change_to_a_line_has_its_verdict() {
    for (from, to, verdict) in [
        ("Souin; hit; ttl=7", "Souin; fwd=uri-miss; stored", "origin"),
        ("Cache-Status", "X-Other", "origin"),
        (r#""resp_headers":{"Server""#, r#""resp_headers":null,"x":{"Server""#, "origin"),
        ("\"status\":302", "\"status\":308", "not_redirect"),
        ("\"status\":302", "\"status\":0", "aborted"),
        ("\"status\":302", "\"status\":\"\"", "bad_status"),
        ("GET", "HEAD", "edge"),
        ("GET", "TRACE", "method"),
        ("\"GET\"", "\"\"", "bad_request"),
        (r#""uri":"/"#, r#""uri":"x/"#, "bad_request"),
        ("1773480413.1234567", "\"yesterday\"", "bad_timestamp"),
        (ID, "", "no_request_id"),
        (r#""request_id":"2ba9"#, r#""uuid":"2ba9"#, "edge"),
        ("http.log.access.log0\",\"msg\":\"handled request", "http.log.error\",\"msg\":\"dial tcp", "not_access"),
        ("http.log.access.log0", "http.log.access", "edge"),
        (r#""logger":"http.log.access.log0","msg":"handled request","#, "", "edge"),
        (r#"5675f14021bd"}"#, "", "bad_json"),
    ] {
        let changed = LINE.replacen(from, to, 1);
        assert_ne!(changed, LINE);
        // Where the ids are is told by the good lines around it.
        let verdicts = verdicts(Format::Caddy, &format!("{LINE}\n{changed}\n{LINE}\n"));
        assert_eq!(verdicts, ["edge", verdict, "edge"], "{from} -> {to}");
    }
    let message = r#"{"level":"info","ts":1773480423.1,"logger":"tls.cache.maintenance","msg":"started"}"#;
    assert_eq!(verdicts(Format::Caddy, message), ["not_access"]);
}

#[test]
fn each_spelling_of_the_time_is_read() {
    for (ts, expected) in [
        ("1773480413.5", "2026-03-14T09:26:53.500Z"),
        ("1773480413", "2026-03-14T09:26:53Z"),
        ("1773480413123.4567", "2026-03-14T09:26:53.123456Z"),
        ("1773480413123456789", "2026-03-14T09:26:53.123456Z"),
        (r#""2026-03-14T10:26:53.250+0100""#, "2026-03-14T09:26:53.250Z"),
        (r#""2026-03-14T09:26:53Z""#, "2026-03-14T09:26:53Z"),
        (r#""2026-03-14T09:26:53.123456789Z""#, "2026-03-14T09:26:53.123456Z"),
        (r#""2026/03/14 09:26:53""#, "2026-03-14T09:26:53Z"),
        (r#""2026/03/14 09:26:53.250""#, "2026-03-14T09:26:53.250Z"),
        (r#""14/Mar/2026:10:26:53 +0100""#, "2026-03-14T09:26:53Z"),
    ] {
        let line = LINE.replace("1773480413.1234567", ts);
        let mut times = Vec::new();
        requests(Format::Caddy, &line, |request| times.push(request.time.to_string()));
        assert_eq!(times, [expected], "{ts}");
    }
}

#[test]
fn older_and_filtered_lines_are_read_as_far_as_they_go() {
    let address = |request: &str| {
        let line = format!(
            r#"{{"ts":1773480413,"logger":"http.log.access","request":{{{request},"method":"GET","uri":"/k"}},"status":302,"request_id":"r1"}}"#
        );
        let mut addresses = Vec::new();
        requests(Format::Caddy, &line, |read| addresses.push(read.address.map(|address| address.to_string())));
        addresses
    };
    for (request, expected) in [
        (r#""remote_addr":"[2001:db8::7]:51514""#, Some("2001:db8::7")),
        (r#""remote_ip":"203.0.113.7","client_ip":"""#, Some("203.0.113.7")),
        (r#""remote_ip":"203.0.113.7","client_ip":"203.0.113.8""#, Some("203.0.113.8")),
        (r#""remote_ip":"REDACTED""#, None),
        (r#""headers":null"#, None),
        (r#""headers":"REDACTED""#, None),
        (r#""headers":{"User-Agent":"bare","Referer":[]}"#, None),
    ] {
        assert_eq!(address(request), [expected.map(str::to_owned)], "{request}");
    }
}

#[test]
fn the_id_is_the_operators_field_before_the_clients_header() {
    let key = |file: &str| {
        let mut keys = Vec::new();
        requests(Format::Caddy, file, |read| {
            keys.push(read.line_key.map(|key| String::from_utf8_lossy(key).into_owned()))
        });
        keys
    };
    assert_eq!(key(&LINE.replace(ID, "")), [Some("from-client".to_owned())]);
    assert_eq!(key(&format!("{LINE}\n{}", LINE.replace(ID, "")))[1], None, "no mixture of the two");
    let has_id = |file: &str| FileParser::new(Format::Caddy, file.as_bytes(), Settings::default()).layout_has_id();
    assert!(has_id(LINE) && has_id("") && !has_id(&LINE.replace(ID, "").replace("X-Request-Id", "X-Other")));
}

#[test]
fn other_messages_don_t_hide_what_a_file_is() {
    let message = r#"{"level":"info","ts":1773480423.1,"logger":"tls.cache.maintenance","msg":"started"}"#;
    let file = format!("{message}\n{message}\n{message}\n{LINE}\n");
    let sniffed = sniff(file.as_bytes(), &Settings::default()).unwrap().unwrap();
    assert_eq!(sniffed.format, Format::Caddy);
    assert_eq!(sniffed.why, "1 of the first 4 lines are Caddy's access log, 3 are other messages of it");
}
