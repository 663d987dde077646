//! The samples that formats are developed against, read from the shared folder beside the project when it is there:
//! each line must come to what its `.expected.json` says.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::edge::format::Sample;
use crate::edge::judge::{Entry, Found};
use crate::edge::target::Verb;

/// The reason shown for a parent cache's line that says it answered.
const PARENT_HIT: &str = "parent_hit";

/// What one record came to, and what it was before it was judged.
#[derive(Debug)]
struct Seen {
    verdict: &'static str,
    reason: Option<&'static str>,
    entry: Option<Value>,
}

fn samples() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases/cdn");
    if !folder.is_dir() {
        println!("skipped: no samples at {}", folder.display());
        return None;
    }
    Some(folder)
}

/// What a configuration says of the samples' formats.
fn settings() -> Settings {
    let realtime = "timestamp c-ip sc-status cs-method cs-host cs-uri-stem x-edge-request-id cs-user-agent cs-referer \
                    cs-uri-query x-edge-response-result-type x-edge-result-type x-edge-detailed-result-type c-country";
    Settings { cloudfront_realtime: realtime.split_whitespace().map(str::to_owned).collect(), ..Settings::default() }
}

fn check(name: &str, log: &str) {
    let Some(folder) = samples() else { return };
    let expected: Value =
        serde_json::from_reader(File::open(folder.join(format!("{name}.expected.json"))).unwrap()).unwrap();
    let (format, seen) = read(name, File::open(folder.join(log)).unwrap());
    let lines = expected["lines"].as_array().unwrap();
    assert_eq!(seen.len(), lines.len(), "lines of {log}");
    for (seen, line) in seen.iter().zip(lines) {
        if line["kind"] == "batch" {
            let records = line["records"].as_array().unwrap();
            assert_eq!(seen.len(), records.len(), "{log}, {line:#}");
            records.iter().zip(seen).for_each(|(record, seen)| check_record(format, log, record, seen, "record"));
        } else {
            assert_eq!(seen.len(), 1, "{log}, {line:#}\n{seen:#?}");
            check_record(format, log, line, &seen[0], line["kind"].as_str().unwrap());
        }
    }
    check_joined(log, &seen, lines);
}

/// Where a request has two lines, what they say together.
fn check_joined(log: &str, seen: &[Vec<Seen>], lines: &[Value]) {
    let id = |seen: &Seen| seen.entry.as_ref().map(|entry| entry["request_id"].clone());
    let parents: Vec<_> = seen.iter().flatten().filter(|seen| seen.reason == Some(PARENT_HIT)).map(id).collect();
    for (seen, line) in seen.iter().zip(lines) {
        if let Some(class) = line["class_after_join"].as_str() {
            let joined = if parents.contains(&id(&seen[0])) { "edge" } else { seen[0].verdict };
            assert_eq!(joined, class, "{log}, {line:#}");
        }
    }
}

fn check_record(format: Format, log: &str, line: &Value, seen: &Seen, kind: &str) {
    let context = format!("{log}, {line:#}\n{seen:#?}");
    let verdict = match (kind, line["class"].as_str()) {
        // a HEAD is no click of a person, and becomes a row all the same
        ("record", Some("ignore")) if line["method"] == "HEAD" && line["status"] == 302 => seen.verdict,
        ("record", Some("edge")) if line["reason"].as_str().is_some_and(|why| why.contains("Function")) => "ignore",
        ("record", class) => class.unwrap(),
        (kind, _) => kind,
    };
    assert_eq!(seen.verdict, verdict, "{context}");
    if let Some(reason) = line["reason"].as_str().filter(|_| kind == "reject").and_then(reason_of) {
        assert_eq!(seen.reason, Some(reason), "{context}");
    }
    let Some(entry) = &seen.entry else { return };
    for (key, value) in line.as_object().unwrap() {
        match (key.as_str(), entry.get(key)) {
            ("time", Some(read)) => assert_eq!(*read, instant(value), "time of {context}"),
            ("status", Some(read)) => assert_eq!(read.as_i64(), value.as_i64().map(|s| s.max(0)), "{context}"),
            // of other methods none is kept
            ("method", Some(Value::Null)) if value != "GET" && value != "HEAD" => {}
            ("request_id", Some(read)) => assert!(names(format, read.as_str(), line), "request id of {context}"),
            (_, Some(read)) => assert_eq!(read, value, "{key} of {context}"),
            (_, None) => {}
        }
    }
    if line.get("query").is_none() {
        assert_eq!(entry["query"], Value::Null, "{context}");
    }
}

/// An instant as ours are: microseconds and no finer.
fn instant(value: &Value) -> Value {
    crate::edge::clock::rfc3339(value.as_str().unwrap().as_bytes()).unwrap().to_string().into()
}

/// Whether a line key names the request as the sample says: some providers need more than the id (design §4.1).
fn names(format: Format, key: Option<&str>, line: &Value) -> bool {
    let id = line["request_id"].as_str();
    match format.provider() {
        "akamai" => key.zip(id).is_some_and(|(key, id)| key.starts_with(id)),
        "gcp" => line["insert_id"].as_str().is_none_or(|id| key.is_some_and(|key| key.starts_with(id))),
        _ => key == id,
    }
}

/// Our word for a sample's reason, where it says which.
fn reason_of(words: &str) -> Option<&'static str> {
    [
        ("invalid JSON", "bad_json"),
        ("JSON cut short", "bad_json"),
        ("empty request id", "no_request_id"),
        ("no request id", "no_request_id"),
        ("not an HTTP request line", "bad_request"),
        ("empty request line", "bad_request"),
        ("BADREQ", "bad_request"),
        ("malformed request line", "bad_request"),
        ("cut short", "cut_short"),
        ("time is not a number", "bad_timestamp"),
    ]
    .into_iter()
    .find_map(|(part, reason)| words.contains(part).then_some(reason))
}

/// Every line's records.
fn read(name: &str, file: File) -> (Format, Vec<Vec<Seen>>) {
    let mut reader = LineReader::new(file, ReadLimits::default()).unwrap();
    let head = reader.head().unwrap().to_vec();
    let format = sniff(&head, &settings()).unwrap().unwrap().format;
    assert_eq!(format.as_str(), name);
    let mut parser = FileParser::new(format, &head, settings());
    assert!(parser.layout_has_id());
    let arena = Arena::new();
    let mut seen: Vec<Vec<Seen>> = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        let job = parser.job(block);
        let mut layout = format.layout(&Sample::of(&head), &settings());
        job.parse(&arena, |raw, line| {
            seen.resize_with(raw.number as usize, Vec::new);
            layout = layout.after_header(raw.bytes).unwrap_or_else(|| Arc::clone(&layout));
            let mut entries = Vec::new();
            layout.parse(raw.bytes, &arena, &mut |found| {
                entries.push(if let Found::Entry(found) = found { Some(fields(&found)) } else { None });
            });
            let of_line = &mut seen[raw.number as usize - 1];
            let (verdict, reason) = verdict(line);
            of_line.push(Seen { verdict, reason, entry: entries.into_iter().nth(of_line.len()).flatten() });
        });
    }
    assert_eq!(reader.finish().unwrap().lines, seen.len() as u64);
    (format, seen)
}

/// With ids trusted, whatever the provider: the samples' policy.
fn verdict(line: Line<'_>) -> (&'static str, Option<&'static str>) {
    match line {
        Line::Header => ("header", None),
        Line::Ignored(why) => ("ignore", Some(why.as_str())),
        Line::ParentHit { .. } => ("ignore", Some(PARENT_HIT)),
        Line::Reject(reject) => ("reject", Some(reject.reason)),
        Line::Request(request) => match Ids::Trusted.key(&request) {
            Err(reject) => ("reject", Some(reject.reason)),
            Ok(_) if request.class == EdgeClass::Edge => ("edge", None),
            Ok(_) => ("origin", None),
        },
    }
}

/// A request in the samples' words.
fn fields(entry: &Entry<'_>) -> Value {
    let request = &entry.request;
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    serde_json::json!({
        "path": request.path,
        "code": request.code,
        "query": text(request.query),
        "method": match entry.verb { Verb::Known(method) => Some(method.as_str()), _ => None },
        "status": request.status,
        "time": request.time.to_string(),
        "client_ip": request.address.map(|address| address.to_string()),
        "user_agent": text(request.user_agent),
        "referer": text(request.referrer),
        "request_id": request.line_key.map(|key| String::from_utf8_lossy(key).into_owned()),
    })
}

#[test]
fn nginx_json_sample() {
    check("nginx-json", "nginx-json.log");
}

#[test]
fn nginx_combined_sample() {
    check("nginx-combined", "nginx-combined.log");
}

#[test]
fn cloudfront_v1_sample() {
    check("cloudfront-v1", "cloudfront-v1.log");
}

#[test]
fn cloudfront_v1_sample_in_two_members() {
    check("cloudfront-v1", "cloudfront-v1.two-members.log.gz");
}

#[test]
fn cloudfront_v2_json_sample() {
    check("cloudfront-v2-json", "cloudfront-v2-json.log");
}

#[test]
fn cloudfront_realtime_sample() {
    check("cloudfront-realtime", "cloudfront-realtime.log");
}

#[test]
fn cloudflare_sample() {
    check("cloudflare", "cloudflare.log");
}

#[test]
fn gcp_lb_sample() {
    check("gcp-lb", "gcp-lb.log");
}

#[test]
fn azure_front_door_sample() {
    check("azure-front-door", "azure-front-door.log");
}

#[test]
fn fastly_sample() {
    check("fastly", "fastly.log");
}

#[test]
fn akamai_ds2_sample() {
    check("akamai-ds2", "akamai-ds2.log");
}

#[test]
fn bunny_sample() {
    check("bunny", "bunny.log");
}

#[test]
fn varnish_sample() {
    check("varnish", "varnish.log");
}

#[test]
fn caddy_sample() {
    check("caddy", "caddy.log");
}

#[test]
fn haproxy_sample() {
    check("haproxy", "haproxy.log");
}

#[test]
fn alb_sample() {
    check("alb", "alb.log");
}

#[test]
fn every_sample_is_taken_for_its_format_and_no_other() {
    let Some(folder) = samples() else { return };
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".log") else { continue };
        let mut reader = LineReader::new(File::open(&path).unwrap(), ReadLimits::default()).unwrap();
        let sample = Sample::of(reader.head().unwrap());
        let fits = |format: &&Format| format.recognise(&sample, &settings()).fits();
        let fitting: Vec<&str> = Format::ALL.iter().filter(fits).map(|format| format.as_str()).collect();
        assert_eq!(fitting, [name]);
        seen.push(name.to_owned());
    }
    assert!(seen.len() >= 15, "{seen:?}");
}
