//! CloudFront standard logs as tables: W3C extended, tab-separated, columns named by a `#Fields:` line. Names decide,
//! never places: there have been layouts of 12 to 33 columns, and joined files change theirs in the middle.
//!
//! Version 2 of the logs writes the same when its output format is W3C, with the columns that were chosen, finer times
//! among them. Its columns may be parted by blanks, which no value contains.

use std::sync::Arc;

use super::arena::Arena;
use super::cloudfront::{self, Dialect, Fields, Has, ID, PLACES, REST};
use super::format::{Fit, Layout, Sample, Settings};
use super::judge::{Entry, Found};
use super::request::Reject;

const FIELDS: &[u8] = b"#Fields:";

/// What a `#Fields:` line makes of rows.
#[derive(Debug, Clone)]
struct CloudFrontV1 {
    /// The place of each column; empty before the first `#Fields:` line, or when that lacks what is needed.
    places: Vec<u8>,
    has: Has,
}

/// How many of the first lines are headers, or rows of the columns that they name.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let arena = Arena::new();
    let (mut layout, mut named, mut headers, mut matched) = (CloudFrontV1::none(), 0, 0, 0);
    for line in &sample.lines {
        if line.starts_with(b"#") {
            if let Some(fields) = CloudFrontV1::of_header(line) {
                named = named.max(fields.places.len());
                layout = fields;
            }
            headers += 1;
        } else {
            matched += usize::from(layout.entry(line, &arena).is_ok());
        }
    }
    let of = sample.lines.len();
    if named > 0 {
        matched += headers;
    }
    let why = match named {
        0 if sample.lines.iter().any(|line| line.starts_with(FIELDS)) => {
            "its #Fields line lacks date and time (or timestamp), cs-uri-stem or sc-status".to_owned()
        }
        0 => "no #Fields line".to_owned(),
        _ => {
            format!("a #Fields line names {named} columns of CloudFront, and {matched} of the first {of} lines fit it")
        }
    };
    Fit { matched, of, why }
}

/// Rows are read by the `#Fields:` line before them.
pub fn layout(_sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(CloudFrontV1::none())
}

impl Layout for CloudFrontV1 {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(self.entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        self.has[ID]
    }

    fn header_mark(&self) -> Option<u8> {
        Some(b'#')
    }

    fn after_header(&self, line: &[u8]) -> Option<Arc<dyn Layout>> {
        line.starts_with(FIELDS).then(|| {
            let layout = Self::of_header(line).unwrap_or_else(Self::none);
            Arc::new(layout) as Arc<dyn Layout>
        })
    }
}

impl CloudFrontV1 {
    fn none() -> Self {
        Self { places: Vec::new(), has: [false; PLACES + 1] }
    }

    /// `None` when the line names no columns, or lacks one that is needed.
    fn of_header(line: &[u8]) -> Option<Self> {
        let names = line.strip_prefix(FIELDS)?;
        let mut layout = Self::none();
        for name in names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()) {
            // A name that comes twice counts where it comes first.
            let place = Some(cloudfront::place(name)).filter(|place| !layout.has[*place]).unwrap_or(REST);
            layout.has[place] = true;
            layout.places.push(place as u8);
        }
        cloudfront::is_enough(&layout.has).then_some(layout)
    }

    fn entry<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        if self.places.is_empty() {
            return Err(Reject::NO_HEADER);
        }
        let mark = if memchr::memchr(b'\t', line).is_some() { b'\t' } else { b' ' };
        let mut values: Fields<'a> = [b""; PLACES + 1];
        let mut places = self.places.iter();
        let mut start = 0;
        for end in memchr::memchr_iter(mark, line).chain([line.len()]) {
            let Some(place) = places.next() else { return Err(Reject::TOO_MANY_COLUMNS) };
            values[usize::from(*place)] = &line[start..end];
            start = end + 1;
        }
        if places.next().is_some() {
            return Err(Reject::CUT_SHORT);
        }
        cloudfront::entry(&values, &self.has, Dialect::Standard, arena)
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::request::EdgeClass;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const NAMES_33: &str = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end";
    const ROW_33: &str = "2026-03-14\t09:26:53\tHEL51-P6\t512\t2001:db8:0:1::7\tGET\td111111abcdef8.cloudfront.net\t/%25E5%25A5%25BD\t302\thttps://social.example/a?x=%257B1%257D\tMozilla/5.0%20(X11;%20Linux)\ts=a%2520b\t-\tMiss\tHIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ==\tGo.example.com\thttps\t221\t0.002\t203.0.113.200,%20198.51.100.3\tTLSv1.3\tTLS_AES_128_GCM_SHA256\tHit\tHTTP/2.0\t-\t-\t50412\t0.002\tHit\ttext/html\t0\t-\t-";
    const NAMES_12: &str = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query";
    const ROW_12: &str = "2014-05-23\t01:13:11\tFRA2\t182\t192.0.2.10\tGET\td111111abcdef8.cloudfront.net\t/k7Qp2\t302\t-\tMozilla/4.0%2520(compatible)\t-";

    #[test]
    fn a_row_is_read_whole() {
        let file = format!("#Version: 1.0\n{NAMES_33}\n{ROW_33}\n");
        requests(Format::CloudFrontV1, &file, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=a%20b", "https://social.example/a?x=%7B1%7D"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:0:1::7"));
            assert_eq!(request.user_agent, "Mozilla/5.0 (X11; Linux)");
            assert_eq!(request.line_key, Some(&b"HIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ=="[..]));
        });
        assert_eq!(verdicts(Format::CloudFrontV1, &file), ["header", "header", "edge"]);
    }

    #[test]
    fn each_change_to_a_row_has_its_verdict() {
        for (from, to, verdict) in [
            ("\tHit\tHTTP", "\tMiss\tHTTP", "origin"),
            ("\tHit\tHTTP", "\t-\tHTTP", "origin"),
            ("\tHit\ttext", "\tOriginShieldHit\ttext", "edge"),
            ("\t302\t", "\t000\t", "aborted"),
            ("\t302\t", "\t-\t", "aborted"),
            ("\t302\t", "\t503\t", "not_redirect"),
            ("\t302\t", "\tx\t", "bad_status"),
            ("\tGET\t", "\tHEAD\t", "edge"),
            ("\tGET\t", "\tOPTIONS\t", "method"),
            ("\tGET\t", "\t-\t", "bad_request"),
            ("/%25E5", "%25E5", "bad_request"),
            ("2026-03-14", "2026-02-30", "bad_timestamp"),
            ("2026-03-14", "-", "bad_timestamp"),
            ("HIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ==", "-", "no_request_id"),
            ("(X11;%20Linux)", "(X11; Linux)", "edge"),
            ("\t-\t-\t50412", "\t50412", "cut_short"),
            ("\ttext/html", "\ttext/html\tmore", "too_many_columns"),
        ] {
            let changed = ROW_33.replacen(from, to, 1);
            assert_ne!(changed, ROW_33);
            let file = format!("{NAMES_33}\n{changed}\n{ROW_33}\n");
            assert_eq!(verdicts(Format::CloudFrontV1, &file), ["header", verdict, "edge"], "{from} -> {to}");
        }
    }

    #[test]
    fn names_decide_and_may_change_in_the_middle() {
        let file = format!(
            "{ROW_12}\n#Version: 1.0\r\n{NAMES_33}\r\n{ROW_33}\r\n{NAMES_12}\n{ROW_12}\n{ROW_33}\n#Fields: date\n{ROW_12}"
        );
        let expected = [
            "no_header",
            "header",
            "header",
            "edge",
            "header",
            "no_request_id",
            "too_many_columns",
            "header",
            "no_header",
        ];
        assert_eq!(verdicts(Format::CloudFrontV1, &file), expected);
        let more = format!("{NAMES_33} asn new-one\n{ROW_33}\t64496\tx\n");
        assert_eq!(verdicts(Format::CloudFrontV1, &more), ["header", "edge"]);
        let turned =
            "#Fields: sc-status  cs-uri-stem\ttime date x-edge-request-id\n302\t/k\t09:26:53\t2026-03-14\tid\n";
        assert_eq!(verdicts(Format::CloudFrontV1, turned), ["header", "origin"]);
    }

    #[test]
    fn the_oldest_layout_has_no_id() {
        let has_id =
            |names: &str| FileParser::new(Format::CloudFrontV1, names.as_bytes(), Settings::default()).layout_has_id();
        assert!(has_id(NAMES_33));
        assert!(!has_id(NAMES_12));
        requests(Format::CloudFrontV1, &format!("{NAMES_12}\n{ROW_12}\n"), |request| {
            assert_eq!((request.user_agent, request.host, request.line_key), ("Mozilla/4.0 (compatible)", "", None));
        });
    }

    #[test]
    fn version_2_writes_finer_times_and_may_part_columns_by_blanks() {
        let names = "#Fields: timestamp timestamp(ms) date time c-country cs-uri-stem sc-status x-edge-request-id";
        let row = "1773480413\t1773480413123\t2026-03-14\t09:26:53\tDE\t/k7Qp2\t302\tid-1";
        for file in [
            format!("#Version: 1.0\n{names}\n{row}\n"),
            format!("#Version: 1.0\n{names}\n{row}\n").replace('\t', " "),
            format!("#Version: 1.0\n{}\n{row}\n", names.replace(' ', "\t").replace("s:\t", "s:")),
        ] {
            assert_eq!(verdicts(Format::CloudFrontV1, &file), ["header", "header", "origin"], "{file}");
            requests(Format::CloudFrontV1, &file, |request| {
                assert_eq!((request.code, request.country, request.method), ("k7Qp2", "DE", None));
                assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
            });
        }
        for (from, to, time) in [
            ("1773480413123", "-", "2026-03-14T09:26:53Z"),
            ("1773480413\t1773480413123", "-\t-", "2026-03-14T09:26:53Z"),
            ("1773480413\t1773480413123", "1773480413.5\t", "2026-03-14T09:26:53.500Z"),
        ] {
            let file = format!("{names}\n{}\n", row.replace(from, to));
            let mut seen = 0;
            requests(Format::CloudFrontV1, &file, |request| {
                seen += 1;
                assert_eq!(request.time.to_string(), time, "{from} -> {to}");
            });
            assert_eq!(seen, 1);
        }
    }
}
