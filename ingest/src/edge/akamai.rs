//! What Akamai's streams share: the names of their fields, and the encoding of their values.

use super::arena::Arena;
use super::field_names::{FieldProblem, list_problems};

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

/// A value as the client sent it. In a value encoded as forms are, a plus is a blank: it shows in marks that are
/// encoded only there, and in that no blank is.
pub(super) fn decoded<'a>(text: &'a str, arena: &'a Arena) -> &'a str {
    let has = |escape: &str| text.as_bytes().windows(3).any(|bytes| bytes.eq_ignore_ascii_case(escape.as_bytes()));
    let as_forms = text.contains('+')
        && !text.contains(' ')
        && !has("%20")
        && ["%28", "%2f", "%3b"].iter().any(|escape| has(escape));
    arena.text(if as_forms { arena.form(text.as_bytes()) } else { arena.percent(text.as_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn configured_names_are_checked() {
        let problems = |names: &str| problems(&names.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(problems(""), []);
        assert_eq!(problems("reqTimeSec - statusCode reqPath -"), []);
        assert_eq!(problems("reqTimeSec reqPath"), [FieldProblem::Missing { what: "what was answered (statusCode)" }]);
        assert!(
            matches!(&problems("reqTimeSec statusCode reqPath ua")[..], [FieldProblem::Unknown { given, .. }] if given == "ua")
        );
        assert!(id_problem("").is_none() && id_problem("customField").is_none() && id_problem("custom").is_some());
    }
}
