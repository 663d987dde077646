use schemas::Method;

use super::super::format::Format;
use super::super::testing::{requests_with, verdicts, verdicts_with};
use super::super::{SniffError, sniff};
use super::*;

const COMBINED: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $upstream_cache_status $request_id"#;
const COMBINED_LINE: &str = r#"2001:db8:31::5 - jo [x] doe [14/Mar/2026:11:26:53 +0200] "GET /%E5%A5%BD?s=1 HTTP/2.0" 302 0 "https://news.example.org/" "bad \x22agent\x22 \x5C \xE5\xA5\xBD" HIT 2ceb65d3ed0c5af6e38ef489d8072a59"#;
const JSON: &str = r#"escape=json '{"time_iso8601":"$time_iso8601","msec":"$msec","remote_addr":"$remote_addr","host":"$host","request_method":"$request_method",' '"request_uri":"$request_uri","status":"$status","http_referer":"$http_referer","http_user_agent":"$http_user_agent",' '"upstream_cache_status":"$upstream_cache_status","upstream_status":"$upstream_status","request_id":"$request_id"}'"#;
const JSON_LINE: &str = r#"{"time_iso8601":"2026-03-14T10:26:53+01:00","msec":"1773480413.123","remote_addr":"203.0.113.10","host":"Go.example.com","request_method":"GET","request_uri":"/%E5%A5%BD?s=1","status":"302","http_referer":"https://news.example.org/","http_user_agent":"say \"hi\" \\ \u0001","upstream_cache_status":"HIT","upstream_status":"","request_id":"87edc48b25ee78e474b46ddef4d1cff6"}"#;

fn settings(log_format: &str) -> Settings {
    Settings { nginx_log_format: log_format.to_owned(), ..Settings::default() }
}

/// Everything that two layouts read of a line, to be compared.
fn read(format: Format, log_format: &str, line: &str) -> Vec<String> {
    let mut read = Vec::new();
    let settings = settings(log_format);
    requests_with(format, line, &settings, |request| read.push(format!("{request:?}")));
    read.extend(verdicts_with(format, line, &settings).into_iter().map(str::to_owned));
    read
}

#[test]
fn the_built_in_formats_are_read_alike() {
    let id = "2ceb65d3ed0c5af6e38ef489d8072a59";
    for (from, to) in [
        ("", ""),
        (" HIT ", " EXPIRED "),
        (" HIT ", " - "),
        (" 302 ", " 499 "),
        (" 302 ", " x "),
        ("GET ", "HEAD "),
        ("GET ", "DELETE "),
        ("GET /%E5%A5%BD?s=1 HTTP/2.0", ""),
        ("GET /%E5%A5%BD?s=1 HTTP/2.0", r"\x16\x03\x01\x02\x00"),
        ("GET /%E5%A5%BD?s=1 HTTP/2.0", "GET /a b HTTP/1.1"),
        ("14/", "32/"),
        (id, "-"),
        (id, "2ceb65d3"),
        (r#"\xBD" HIT 2ceb65d3ed0c5af6e38ef489d8072a59"#, ""),
        (" HIT 2ceb65d3ed0c5af6e38ef489d8072a59", ""),
    ] {
        let line = COMBINED_LINE.replacen(from, to, 1);
        let (ours, theirs) = (read(Format::NginxLogFormat, COMBINED, &line), {
            // a good line shows the built-in format its columns
            let mut read = read(Format::NginxCombined, "", &format!("{COMBINED_LINE}\n{line}"));
            read.retain(|request| !request.starts_with("EdgeRequest") || !from.is_empty() || request.contains("jo"));
            read
        });
        assert_eq!(ours.last(), theirs.last(), "{from} -> {to}");
    }
    assert_eq!(read(Format::NginxLogFormat, COMBINED, COMBINED_LINE), read(Format::NginxCombined, "", COMBINED_LINE));
    for (from, to) in [
        ("", ""),
        (r#""HIT""#, r#""MISS""#),
        (r#""HIT""#, r#""""#),
        (r#""302""#, r#""-""#),
        (id, ""),
        ("1cff6", "1cff"),
    ] {
        let line = JSON_LINE.replacen(from, to, 1);
        assert_eq!(read(Format::NginxLogFormat, JSON, &line), read(Format::NginxJson, "", &line), "{from} -> {to}");
    }
}

#[test]
fn a_line_of_ones_own_is_read_whole() {
    let format = r#"$msec|$http_x_forwarded_for|$remote_addr|"$request_method $scheme://$host$uri$is_args$args"|$status|"$http_user_agent"|$request_id|$geoip2_country_code|$geoip2_region_code|$geoip2_city|$http_dnt"#;
    let line = r#"<190>Mar 14 09:26:53 web nginx: 1773480413.123|198.51.100.1, 198.51.100.2|203.0.113.9|"GET https://Go.example.com/k7Qp2?u=a/b"|302|"a \"b\" \x22c\x22 | d"|op-1|NL|-|Den Haag|1"#;
    requests_with(Format::NginxLogFormat, line, &settings(format), |request| {
        assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
        assert_eq!((request.host, request.path, request.query), ("go.example.com", "/k7Qp2", "u=a/b"));
        assert_eq!((request.method, request.status), (Some(Method::Get), 302));
        assert_eq!(request.address, Some([203, 0, 113, 9].into()));
        assert_eq!((request.user_agent, request.line_key), (r#"a "b" "c" | d"#, Some(&b"op-1"[..])));
        assert_eq!((request.country, request.region, request.city), ("NL", "", "Den Haag"));
        assert_eq!((request.asked.gpc, request.asked.dnt), (false, true));
    });
    assert_eq!(verdicts_with(Format::NginxLogFormat, line, &settings(format)), ["origin"]);
    let bare = line.split_once("nginx: ").unwrap().1;
    assert_eq!(verdicts_with(Format::NginxLogFormat, bare, &settings(format)), ["origin"]);
}

#[test]
fn each_change_to_a_line_has_its_verdict() {
    let format = r#"$time_iso8601 $request_method $request_uri $status $upstream_cache_status $request_id"#;
    let line = "2026-03-14T10:26:53+01:00 GET /a b?c=1 302 HIT op-1";
    for (from, to, verdict) in [
        ("", "", "edge"),
        ("HIT", "MISS", "origin"),
        ("GET", "-", "bad_request"),
        ("/a", "a", "bad_request"),
        ("302", "0", "aborted"),
        (" op-1", "", "cut_short"),
        (" HIT op-1", "", "cut_short"),
        ("op-1", "-", "no_request_id"),
        ("op-1", "op-1 more", "bad_line"),
        ("2026-03-14", "2026-13-14", "bad_timestamp"),
        (" ", ",", "bad_line"),
    ] {
        let changed = line.replace(from, to);
        let verdicts =
            verdicts_with(Format::NginxLogFormat, if from.is_empty() { line } else { &changed }, &settings(format));
        assert_eq!(verdicts, [verdict], "{from} -> {to}");
    }
}

#[test]
fn unescaped_values_may_hold_anything() {
    let format = r#"escape=none $msec "$http_user_agent" "$request" $status"#;
    let line = r#"1773480413.123 "a \x22 " b" "GET /k HTTP/1.1" 302"#;
    requests_with(Format::NginxLogFormat, line, &settings(format), |request| {
        assert_eq!((request.user_agent, request.code), (r#"a \x22 " b"#, "k"));
    });
    assert_eq!(verdicts_with(Format::NginxLogFormat, line, &settings(format)), ["no_request_id"]);
}

#[test]
fn the_configured_format_goes_before_the_built_in_ones() {
    for (text, line, other) in [(COMBINED, COMBINED_LINE, Format::NginxCombined), (JSON, JSON_LINE, Format::NginxJson)]
    {
        let configured = sniff(line.as_bytes(), &settings(text)).unwrap().unwrap();
        assert_eq!(configured.format, Format::NginxLogFormat);
        assert_eq!(configured.why, "1 of the first 1 lines are as edge_logs.nginx.log_format says");
        assert_eq!(sniff(line.as_bytes(), &settings("")).unwrap().unwrap().format, other);
        let fit = other.recognise(&Sample::of(line.as_bytes()), &settings(text));
        assert!(!fit.fits() && fit.why.ends_with("which goes before"), "{}", fit.why);
    }
    assert_eq!(sniff(JSON_LINE.as_bytes(), &settings(COMBINED)).unwrap().unwrap().format, Format::NginxJson);
    let Err(SniffError::None { readings, .. }) = sniff(b"x", &settings("$status")) else { panic!() };
    assert!(readings.iter().any(|reading| reading.why.contains("can't be used: it lacks a time")));
}

#[test]
fn a_line_that_fits_in_a_thousand_ways_is_given_up() {
    let format = "$a b$b b$c b$d b$msec $request_uri $status";
    let line = "b".repeat(50) + &" b".repeat(3000);
    assert_eq!(verdicts_with(Format::NginxLogFormat, &line, &settings(format)), ["bad_line"]);
    assert_eq!(verdicts(Format::NginxLogFormat, "anything"), ["bad_line"]);
}
