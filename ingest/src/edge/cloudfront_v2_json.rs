//! CloudFront standard logs, version 2, as JSON: one object a record, the fields that were chosen, in any order.
//!
//! ```text
//! {"timestamp(ms)":"1773480413123","c-ip":"203.0.113.10","cs-method":"GET","cs-uri-stem":"/k7Qp2","sc-status":"302",…}
//! ```
//! Every value is a text, a hyphen where there is none; pipelines in between may have made numbers of some. The rows of
//! Parquet files come here as well (see `rows`), under their columns' names.

use std::sync::Arc;

use super::arena::Arena;
use super::cloudfront::{self, Dialect, Has, ID, KEYS, PLACES};
use super::fields::{self, Values};
use super::format::{Fit, Layout, Sample, Settings};
use super::judge::{Entry, Found};
use super::request::Reject;

/// How many of the first lines are such objects.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let lacks = "date and time (or timestamp), cs-uri-stem and sc-status";
    fields::fit::<PLACES>(sample, &KEYS, "CloudFront's", lacks, |values| cloudfront::is_enough(&has(values)))
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(CloudFrontV2Json { has_id: fields::has::<PLACES>(sample, &KEYS, ID) })
}

#[derive(Debug)]
struct CloudFrontV2Json {
    has_id: bool,
}

impl Layout for CloudFrontV2Json {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        fields::each::<PLACES>(line, arena, &KEYS, &mut |values| {
            found(values.and_then(|values| entry(&values, arena)).into());
        });
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

fn has(values: &Values<'_, PLACES>) -> Has {
    let mut has = [false; PLACES + 1];
    has.iter_mut().zip(values).for_each(|(has, value)| *has = value.is_present());
    has
}

fn entry<'a>(values: &Values<'a, PLACES>, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let mut fields: cloudfront::Fields<'a> = [b""; PLACES + 1];
    fields.iter_mut().zip(values).for_each(|(field, value)| *field = value.text(arena).as_bytes());
    let has = has(values);
    // A status that isn't there at all is another thing than one that nobody waited for.
    if !has[cloudfront::STATUS] {
        return Err(Reject::BAD_STATUS);
    }
    cloudfront::entry(&fields, &has, Dialect::Standard, arena)
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::request::EdgeClass;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const FORMAT: Format = Format::CloudFrontV2Json;
    const LINE: &str = r#"{"timestamp":"1773480413","DistributionId":"EDFDVBD6EXAMPLE","date":"2026-03-14","time":"09:26:53","x-edge-location":"LHR50-P2","c-ip":"2001:db8:0:1::7","cs-method":"GET","cs(Host)":"d111111abcdef8.cloudfront.net","cs-uri-stem":"/%25E5%25A5%25BD","sc-status":"302","cs(Referer)":"https://social.example/a?x=%257B1%257D","cs(User-Agent)":"Mozilla/5.0%20(X11;%20Linux)","cs-uri-query":"s=a%2520b","x-edge-result-type":"Miss","x-edge-request-id":"HIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ==","x-host-header":"Go.example.com","x-edge-response-result-type":"Hit","x-edge-detailed-result-type":"Hit","timestamp(ms)":"1773480413123","c-country":"DE"}"#;

    #[test]
    fn a_line_is_read_whole() {
        requests(FORMAT, LINE, |request| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=a%20b", "https://social.example/a?x=%7B1%7D"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!(request.address.map(|address| address.to_string()).as_deref(), Some("2001:db8:0:1::7"));
            assert_eq!((request.user_agent, request.country), ("Mozilla/5.0 (X11; Linux)", "DE"));
            assert_eq!(request.line_key, Some(&b"HIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ=="[..]));
        });
        assert_eq!(verdicts(FORMAT, LINE), ["edge"]);
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (r#"type":"Hit","timestamp"#, r#"type":"-","timestamp"#, "edge"),
            (r#""Hit","x-edge-d"#, r#""Miss","x-edge-d"#, "origin"),
            (r#""Hit","timestamp"#, r#""OriginShieldHit","timestamp"#, "edge"),
            (r#""302""#, "302", "edge"),
            (r#""302""#, r#""000""#, "aborted"),
            (r#""302""#, r#""-""#, "aborted"),
            (r#""302""#, r#""404""#, "not_redirect"),
            (r#""302""#, r#""x""#, "bad_status"),
            ("sc-status", "status", "bad_status"),
            (r#""GET""#, r#""HEAD""#, "edge"),
            (r#""GET""#, r#""POST""#, "method"),
            (r#""GET""#, r#""-""#, "bad_request"),
            ("cs-uri-stem", "uri", "bad_request"),
            (r#""1773480413123""#, "1773480413123", "edge"),
            (r#""1773480413123""#, r#""soon""#, "edge"),
            ("HIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ==", "-", "no_request_id"),
            ("x-edge-request-id", "id", "no_request_id"),
            (r#""DE"}"#, r#""DE","some-new-field":{"a":[1]}}"#, "edge"),
            (r#","c-country":"DE"}"#, "", "bad_json"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(FORMAT, &changed), [verdict], "{from} -> {to}");
        }
        let timeless = LINE.replace("1773480413", "-").replace("2026-03-14", "-");
        assert_eq!(verdicts(FORMAT, &timeless), ["bad_timestamp"]);
    }

    #[test]
    fn the_finest_time_counts() {
        for (from, time) in [
            ("\"timestamp(ms)\":\"1773480413123\"", "2026-03-14T09:26:54Z"),
            ("\"timestamp\":\"1773480414\",", "2026-03-14T09:26:53.123Z"),
            ("\"date\":\"2026-03-14\",", "2026-03-14T09:26:53.123Z"),
        ] {
            let line = LINE.replace("\"1773480413\"", "\"1773480414\"").replace(from, &from.replace("\":\"", "\":\"x"));
            requests(FORMAT, &line, |request| assert_eq!(request.time.to_string(), time, "{from}"));
            assert_eq!(verdicts(FORMAT, &line), ["edge"], "{from}");
        }
    }

    #[test]
    fn columns_of_a_table_go_by_their_names_too() {
        let line = r#"{"date":"2026-03-14","time":"09:26:53","c_ip":"203.0.113.7","cs_method":"GET","cs_host":"d1.cloudfront.net","cs_uri_stem":"/k7Qp2","sc_status":302,"cs_Referer":"-","cs_User_Agent":"curl/8.5.0","cs_uri_query":"-","x_edge_result_type":"Hit","x_edge_request_id":"id-1","x_host_header":"go.example.com","x_edge_response_result_type":"Hit","x_edge_detailed_result_type":"Hit","timestamp_ms":1773480413123}"#;
        requests(FORMAT, line, |request| {
            assert_eq!((request.host, request.code, request.user_agent), ("go.example.com", "k7Qp2", "curl/8.5.0"));
            assert_eq!((request.query, request.referrer), ("", ""));
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
        });
        assert_eq!(verdicts(FORMAT, line), ["edge"]);
    }

    #[test]
    fn a_selection_without_an_id_or_a_method_is_told() {
        let has_id = |file: &str| FileParser::new(FORMAT, file.as_bytes(), Settings::default()).layout_has_id();
        assert!(has_id(LINE) && has_id("") && has_id(&LINE.replace("HIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ==", "-")));
        assert!(!has_id(&LINE.replace("x-edge-request-id", "x-forwarded-for")));
        requests(FORMAT, &LINE.replace("cs-method", "cs-protocol"), |request| assert_eq!(request.method, None));
    }
}
