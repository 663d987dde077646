//! CloudFront real-time logs: tab-separated, no header. Which columns there are, and in which order, is what the
//! real-time log configuration says, and has to be told (`edge_logs.cloudfront_realtime.fields`).
//!
//! A row of another number of columns is rejected, as its values would be taken for others.

use std::sync::Arc;

use super::arena::Arena;
use super::cloudfront::{self, Dialect, Fields, Has, ID, PLACES};
use super::format::{Fit, Layout, Sample, Settings};
use super::judge::{Entry, Found};
use super::request::Reject;

/// The configuration key.
const KEY: &str = "edge_logs.cloudfront_realtime.fields";
/// Columns of a row, at least: fewer are no log.
const FEW: usize = 4;

/// How many of the first lines are rows of the configured columns.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let of = sample.lines.len();
    let layout = CloudFrontRealtime::of(&settings.cloudfront_realtime);
    if layout.places.is_empty() {
        let rows = sample.lines.iter().filter(|line| begins_like_a_row(line)).count();
        let why = if rows * 2 >= of && rows > 0 {
            format!(
                "rows that begin with a time and have no header, as real-time logs do, but {KEY} doesn't say which \
                 columns they have"
            )
        } else {
            format!("{KEY} names no columns")
        };
        return Fit { matched: 0, of, why };
    }
    let arena = Arena::new();
    let matched = sample.lines.iter().filter(|line| layout.entry(line, &arena).is_ok()).count();
    let columns = layout.places.len();
    let why = if !cloudfront::is_enough(&layout.has) {
        format!("{KEY} lacks timestamp, cs-uri-stem or sc-status")
    } else if matched > 0 {
        format!("{matched} of the first {of} lines have the {columns} columns of {KEY}")
    } else {
        match sample.lines.iter().find(|line| begins_like_a_row(line)).map(|line| columns_of(line).count()) {
            Some(seen) if seen != columns => format!("{KEY} names {columns} columns; the first row has {seen}"),
            _ => format!("no line has the {columns} columns of {KEY}"),
        }
    };
    Fit { matched, of, why }
}

/// Rows are read by the configured columns.
pub fn layout(_sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(CloudFrontRealtime::of(&settings.cloudfront_realtime))
}

fn columns_of(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b'\t')
}

/// Whether a line begins with an epoch time and has several columns.
fn begins_like_a_row(line: &[u8]) -> bool {
    let mut columns = columns_of(line);
    columns.next().and_then(super::clock::epoch).is_some() && columns.count() + 1 >= FEW
}

/// The configured columns.
#[derive(Debug)]
struct CloudFrontRealtime {
    /// The place of each column; empty where none are configured.
    places: Vec<u8>,
    has: Has,
}

impl CloudFrontRealtime {
    fn of(names: &[String]) -> Self {
        let mut has: Has = [false; PLACES + 1];
        let places = names.iter().map(|name| cloudfront::place(name.trim().as_bytes()));
        let places = places.inspect(|place| has[*place] = true).map(|place| place as u8).collect();
        Self { places, has }
    }

    fn entry<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        if !cloudfront::is_enough(&self.has) {
            return Err(Reject::NO_HEADER);
        }
        let mut values: Fields<'a> = [b""; PLACES + 1];
        let mut columns = columns_of(line);
        for place in &self.places {
            values[usize::from(*place)] = columns.next().ok_or(Reject::CUT_SHORT)?;
        }
        if columns.next().is_some() {
            return Err(Reject::TOO_MANY_COLUMNS);
        }
        cloudfront::entry(&values, &self.has, Dialect::RealTime, arena)
    }
}

impl Layout for CloudFrontRealtime {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(self.entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        self.has[ID]
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::request::{EdgeClass, EdgeRequest};
    use super::super::sniff::{SniffError, sniff};
    use super::super::testing::{requests_with, verdicts_with};
    use super::*;

    const FORMAT: Format = Format::CloudFrontRealtime;
    const NAMES: &str = "timestamp c-ip time-to-first-byte sc-status cs-method cs-host cs-uri-stem x-edge-request-id x-host-header cs-user-agent cs-referer cs-uri-query x-edge-response-result-type x-edge-result-type x-edge-detailed-result-type c-country";
    const ROW: &str = "1773480413.123\t2001:db8::10\t0.001\t302\tGET\tGo.example.com\t/%25E5%25A5%25BD?s=a%2520b\tVj0d4sS-2GnQ7NGm46VGm4B==\td1.cloudfront.net\tMozilla/5.0%20(X11)\thttps://a.example/\ts=a%2520b\tHit\tMiss\t-\tFR";

    fn settings(names: &str) -> Settings {
        Settings { cloudfront_realtime: names.split(' ').map(str::to_owned).collect(), ..Settings::default() }
    }

    fn why(file: &str, names: &str) -> String {
        recognise(&Sample::of(file.as_bytes()), &settings(names)).why
    }

    #[test]
    fn a_row_is_read_whole() {
        let check = |request: &EdgeRequest<'_>| {
            assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123Z");
            assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
            assert_eq!((request.query, request.referrer), ("s=a%20b", "https://a.example/"));
            assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
            assert_eq!((request.user_agent, request.country), ("Mozilla/5.0 (X11)", "FR"));
            assert_eq!(request.line_key, Some(&b"Vj0d4sS-2GnQ7NGm46VGm4B=="[..]));
        };
        requests_with(FORMAT, ROW, &settings(NAMES), check);
        assert_eq!(verdicts_with(FORMAT, ROW, &settings(NAMES)), ["edge"]);
        // the query is in the path's column too
        let bare = NAMES.replace("cs-uri-query", "cs-bytes");
        requests_with(FORMAT, ROW, &settings(&bare), check);
    }

    #[test]
    fn each_change_to_a_row_has_its_verdict() {
        for (from, to, verdict) in [
            ("\tHit\tMiss", "\tMiss\tHit", "origin"),
            ("\tMiss\t-\t", "\tError\tClientCommError\t", "edge"),
            ("\t302\t", "\t000\t", "aborted"),
            ("\tGET\t", "\tHEAD\t", "edge"),
            ("1773480413.123", "2026-03-14", "bad_timestamp"),
            ("\tVj0d4sS-2GnQ7NGm46VGm4B==", "\t-", "no_request_id"),
            ("\tFR", "", "cut_short"),
            ("\tFR", "\tFR\t", "too_many_columns"),
        ] {
            let changed = ROW.replacen(from, to, 1);
            assert_ne!(changed, ROW);
            assert_eq!(verdicts_with(FORMAT, &changed, &settings(NAMES)), [verdict], "{from} -> {to}");
        }
        assert_eq!(verdicts_with(FORMAT, ROW, &Settings::default()), ["no_header"]);
    }

    #[test]
    fn what_is_missing_is_told() {
        assert!(why(ROW, NAMES).starts_with("1 of the first 1 lines have the 16 columns"));
        let cut = NAMES.strip_suffix(" c-country").unwrap();
        assert_eq!(why(ROW, cut), format!("{KEY} names 15 columns; the first row has 16"));
        assert_eq!(why("x\ty\n", NAMES), format!("no line has the 16 columns of {KEY}"));
        assert!(why(ROW, &NAMES.replace("sc-status", "status")).ends_with("lacks timestamp, cs-uri-stem or sc-status"));
        let Err(SniffError::None { readings, .. }) = sniff(ROW.as_bytes(), &Settings::default()) else { panic!() };
        let reading = readings.iter().find(|reading| reading.format == FORMAT).unwrap();
        assert!(reading.why.contains("as real-time logs do, but edge_logs.cloudfront_realtime.fields"), "{reading:?}");
    }

    #[test]
    fn a_list_without_an_id_is_told() {
        let has_id = |names: &str| FileParser::new(FORMAT, ROW.as_bytes(), settings(names)).layout_has_id();
        assert!(has_id(NAMES));
        assert!(!has_id(&NAMES.replace("x-edge-request-id", "cs-bytes")));
    }
}
