//! The samples that formats are developed against, read from the shared folder beside the project when it is there:
//! each line must come to what its `.expected.json` says.

use std::fs::File;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::edge::format::Sample;
use crate::edge::judge::{Entry, Found};
use crate::edge::target::Verb;

/// What one line came to, and what it was before it was judged.
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

fn check(name: &str, log: &str) {
    let Some(folder) = samples() else { return };
    let expected: Value =
        serde_json::from_reader(File::open(folder.join(format!("{name}.expected.json"))).unwrap()).unwrap();
    let seen = read(name, File::open(folder.join(log)).unwrap());
    let lines = expected["lines"].as_array().unwrap();
    assert_eq!(seen.len(), lines.len(), "lines of {log}");
    for (seen, line) in seen.iter().zip(lines) {
        let context = format!("{log}, {line:#}\n{seen:#?}");
        let verdict = match (line["kind"].as_str().unwrap(), line["class"].as_str(), line["method"].as_str()) {
            ("record", Some("ignore"), Some("HEAD")) => "edge",
            ("record", Some("edge"), _) if line["reason"].as_str().is_some_and(|why| why.contains("Function")) => {
                "ignore"
            }
            ("record", class, _) => class.unwrap(),
            (kind, _, _) => kind,
        };
        assert_eq!(seen.verdict, verdict, "{context}");
        if line["kind"] == "reject" {
            assert_eq!(seen.reason, Some(reason_of(line["reason"].as_str().unwrap())), "{context}");
        }
        let Some(entry) = &seen.entry else { continue };
        for (key, value) in line.as_object().unwrap() {
            if let Some(read) = entry.get(key) {
                assert_eq!(read, value, "{key} of {context}");
            }
        }
        if line.get("query").is_none() {
            assert_eq!(entry["query"], Value::Null, "{context}");
        }
    }
}

/// Our word for a sample's reason.
fn reason_of(words: &str) -> &'static str {
    [
        ("invalid JSON", "bad_json"),
        ("empty request id", "no_request_id"),
        ("not an HTTP request line", "bad_request"),
        ("empty request line", "bad_request"),
        ("cut short", "cut_short"),
    ]
    .into_iter()
    .find_map(|(part, reason)| words.contains(part).then_some(reason))
    .unwrap_or_else(|| panic!("a reason with no word of ours: {words}"))
}

fn read(name: &str, file: File) -> Vec<Seen> {
    let mut reader = LineReader::new(file, ReadLimits::default()).unwrap();
    let head = reader.head().unwrap().to_vec();
    let format = sniff(&head).unwrap().unwrap().format;
    assert_eq!(format.as_str(), name);
    let mut parser = FileParser::new(format, &head, Settings::default());
    assert!(parser.layout_has_id());
    let ids = IdMode::Auto.resolve(format.provider());
    let arena = Arena::new();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        let job = parser.job(block);
        let mut layout = format.layout(&Sample::of(&head), &Settings::default());
        job.parse(&arena, |raw, line| {
            layout = layout.after_header(raw.bytes).unwrap_or_else(|| Arc::clone(&layout));
            let mut entry = None;
            layout.parse(raw.bytes, &arena, &mut |found| {
                if let Found::Entry(found) = found {
                    entry = Some(fields(&found));
                }
            });
            let (verdict, reason) = match line {
                Line::Header => ("header", None),
                Line::Ignored(why) => ("ignore", Some(why.as_str())),
                Line::Reject(reject) => ("reject", Some(reject.reason)),
                Line::Request(request) => match ids.key(&request) {
                    Err(reject) => ("reject", Some(reject.reason)),
                    Ok(_) if request.class == EdgeClass::Edge => ("edge", None),
                    Ok(_) => ("origin", None),
                },
            };
            seen.push(Seen { verdict, reason, entry });
        });
    }
    assert_eq!(reader.finish().unwrap().lines, seen.len() as u64);
    seen
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
        // The samples drop trailing zeros of a fraction; theirs have three digits or none.
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
fn no_other_sample_is_taken_for_one_of_ours() {
    let Some(folder) = samples() else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(format) = name.strip_suffix(".log") else { continue };
        let bytes = std::fs::read(&path).unwrap();
        let sniffed = sniff(LineReader::new(Cursor::new(bytes), ReadLimits::default()).unwrap().head().unwrap());
        match format.parse::<Format>() {
            Ok(format) => assert_eq!(sniffed.unwrap().unwrap().format, format),
            Err(_) => assert!(matches!(sniffed, Err(SniffError::None { .. })), "{name}: {sniffed:?}"),
        }
    }
}
