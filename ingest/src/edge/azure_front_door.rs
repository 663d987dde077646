//! Azure Front Door's access log, standard, premium and classic: one object a line, as a storage account gets them, or
//! an object with a list of them, as an Event Hub does.
//!
//! ```text
//! {"time":"2026-03-14T09:26:53.1234567Z","category":"FrontDoorAccessLog","properties":{"httpStatusCode":"302",
//!  "requestUri":"https://go.example.com:443/k7Qp2","cacheStatus":"HIT","socketIp":"203.0.113.10",…}}
//! ```
//! Numbers are texts. The client is `socketIp`: `clientIp` is what it claims in `X-Forwarded-For`. Health probes and
//! the firewall write to the same stream, as other categories. A classic profile writes a second record on a miss, the
//! parent cache's, and says that it was not received from a client.

use std::sync::Arc;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::fields::{self, Keys, Place, Values};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Target, Verb};
use schemas::privacy::Asked;

const PLACES: usize = 13;
const CATEGORY: usize = 1;
const ID: usize = 2;
const URI: usize = 4;

static RECORDS: Keys = Keys::new(&[
    ("records", Place::Each(&RECORD)),
    ("time", Place::Slot(0)),
    ("category", Place::Slot(CATEGORY)),
    ("properties", Place::Within(&PROPERTIES)),
]);
static RECORD: Keys = Keys::new(&[
    ("time", Place::Slot(0)),
    ("category", Place::Slot(CATEGORY)),
    ("properties", Place::Within(&PROPERTIES)),
]);
static PROPERTIES: Keys = Keys::new(&[
    ("trackingReference", Place::Slot(ID)),
    ("httpMethod", Place::Slot(3)),
    ("requestUri", Place::Slot(URI)),
    ("httpStatusCode", Place::Slot(5)),
    ("userAgent", Place::Slot(6)),
    ("clientIp", Place::Slot(7)),
    ("socketIp", Place::Slot(8)),
    ("cacheStatus", Place::Slot(9)),
    ("hostName", Place::Slot(10)),
    ("referer", Place::Slot(11)),
    ("referrer", Place::Slot(11)),
    ("isReceivedFromClient", Place::Slot(12)),
]);

/// How many of the first lines are records of Front Door. Those of other categories may stand between requests, but a
/// file without requests is none of ours.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let lacks = "time, category, and requestUri in properties";
    let is_record = |values: &Values<'_, PLACES>| values[0].is_present() && values[CATEGORY].is_present();
    let is_request = |values: &Values<'_, PLACES>| is_record(values) && values[URI].is_present();
    let requests = fields::fit::<PLACES>(sample, &RECORDS, "Azure Front Door's", lacks, is_request);
    if requests.matched == 0 {
        return requests;
    }
    fields::fit::<PLACES>(sample, &RECORDS, "Azure Front Door's", lacks, is_record)
}

/// Keys are read by name in every record; the first ones only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(AzureFrontDoor { has_id: fields::has::<PLACES>(sample, &RECORDS, ID) })
}

#[derive(Debug)]
struct AzureFrontDoor {
    has_id: bool,
}

impl Layout for AzureFrontDoor {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        fields::each::<PLACES>(line, arena, &RECORDS, &mut |values| {
            found(values.and_then(|values| entry(&values, arena)).into());
        });
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

fn entry<'a>(values: &Values<'a, PLACES>, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let text = |slot: usize| values[slot].text(arena);
    // The classic log spells it with a small d.
    if !text(CATEGORY).eq_ignore_ascii_case("FrontDoorAccessLog") {
        return Err(Reject::NOT_ACCESS);
    }
    let uri = text(URI).as_bytes();
    let Target { path, query } = target::split(uri);
    let host = if values[10].is_some() { text(10) } else { arena.text(target::host(uri)) };
    let peer = if values[8].is_some() { text(8) } else { text(7) };
    let id = text(ID).as_bytes();
    let request = EdgeRequest {
        time: clock::rfc3339(text(0).as_bytes()).ok_or(Reject::BAD_TIMESTAMP)?,
        class: EdgeClass::Origin,
        host: arena.lower(host),
        path: arena.text(path),
        code: target::code(path, arena),
        query: arena.text(query),
        method: None,
        status: text(5).parse().map_err(|_| Reject::BAD_STATUS)?,
        address: address(peer.as_bytes()),
        user_agent: text(6),
        referrer: text(11),
        country: "",
        region: "",
        city: "",
        asked: Asked::default(),
        language: "",
        line_key: well_formed_key(id).then_some(id),
    };
    let verb = Verb::read(text(3).as_bytes()).ok_or(Reject::BAD_REQUEST)?;
    Ok(Entry { request, verb, outcome: outcome(text(9), text(12)) })
}

/// How a request ended, by `cacheStatus` and `isReceivedFromClient`.
fn outcome(cache: &str, from_client: &str) -> Outcome {
    let is_parent = from_client.eq_ignore_ascii_case("false");
    match cache {
        "HIT" | "REMOTE_HIT" | "TCP_HIT" | "TCP_REMOTE_HIT" if is_parent => Outcome::ParentHit,
        _ if is_parent => Outcome::NotViewer,
        "HIT" | "REMOTE_HIT" | "TCP_HIT" | "TCP_REMOTE_HIT" => Outcome::Edge,
        // Answered by the rules engine, or refused.
        "N/A" => Outcome::EdgeMade,
        // MISS, PARTIAL_HIT, CONFIG_NOCACHE, PRIVATE_NOSTORE; what isn't known is left to the id.
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::super::format::Format;
    use super::super::parser::FileParser;
    use super::super::testing::{requests, verdicts};
    use super::*;

    const FORMAT: Format = Format::AzureFrontDoor;
    const LINE: &str = r#"{"time":"2026-03-14T09:26:53.1234567Z","resourceId":"/SUBSCRIPTIONS/0","category":"FrontDoorAccessLog","operationName":"Microsoft.Cdn/Profiles/AccessLog/Write","properties":{"trackingReference":"20260314T092601Z-6088d3cc2ff0522140ec","httpMethod":"GET","requestUri":"https://Go.example.com:443/%E5%A5%BD?s=a%20b","userAgent":"Mozilla/5.0 (X11)","clientIp":"192.0.2.66","socketIp":"203.0.113.19","httpStatusCode":"302","cacheStatus":"HIT","errorInfo":"NoError","ErrorInfo":"NoError","hostName":"Go.example.com","referer":"https://news.example.org/"}}"#;
    const PROBE: &str = r#"{"time":"2026-03-14T09:27:08Z","category":"FrontDoorHealthProbeLog","properties":{"healthProbeId":"9642","httpVerb":"HEAD"}}"#;

    #[test]
    fn a_line_is_read_whole() {
        for line in [LINE.to_owned(), LINE.replace(r#""hostName":"Go.example.com","#, "")] {
            requests(FORMAT, &line, |request| {
                assert_eq!(request.time.to_string(), "2026-03-14T09:26:53.123456Z");
                assert_eq!((request.host, request.path, request.code), ("go.example.com", "/%E5%A5%BD", "好"));
                assert_eq!((request.query, request.referrer), ("s=a%20b", "https://news.example.org/"));
                assert_eq!((request.method, request.status, request.class), (Some(Method::Get), 302, EdgeClass::Edge));
                assert_eq!(request.address, Some([203, 0, 113, 19].into()), "what the socket says");
                assert_eq!(request.user_agent, "Mozilla/5.0 (X11)");
                assert_eq!(request.line_key, Some(&b"20260314T092601Z-6088d3cc2ff0522140ec"[..]));
            });
            assert_eq!(verdicts(FORMAT, &line), ["edge"]);
        }
    }

    #[test]
    fn each_change_to_a_line_has_its_verdict() {
        for (from, to, verdict) in [
            (r#""HIT""#, r#""REMOTE_HIT""#, "edge"),
            (r#""HIT""#, r#""MISS""#, "origin"),
            (r#""HIT""#, r#""PARTIAL_HIT""#, "origin"),
            (r#""HIT""#, r#""CONFIG_NOCACHE""#, "origin"),
            (r#""HIT""#, r#""CACHE_NOCONFIG""#, "origin"),
            (r#""HIT""#, r#""PRIVATE_NOSTORE""#, "origin"),
            (r#""HIT""#, r#""N/A""#, "edge_redirect"),
            (r#""HIT""#, r#""HIT","isReceivedFromClient":true"#, "edge"),
            (r#""HIT""#, r#""HIT","isReceivedFromClient":false"#, "parent_hit"),
            (r#""HIT""#, r#""HIT","isReceivedFromClient":"False""#, "parent_hit"),
            (r#""302""#, "302", "edge"),
            (r#""302""#, r#""499""#, "aborted"),
            (r#""302""#, r#""0""#, "aborted"),
            (r#""302""#, r#""307""#, "not_redirect"),
            (r#""302""#, r#""""#, "bad_status"),
            (r#""GET""#, r#""HEAD""#, "edge"),
            (r#""GET""#, r#""POST""#, "method"),
            ("httpMethod", "httpVerb", "bad_request"),
            ("requestUri", "uri", "bad_request"),
            ("2026-03-14T", "2026-03-14X", "bad_timestamp"),
            ("20260314T092601Z-6088d3cc2ff0522140ec", "", "no_request_id"),
            ("FrontDoorAccessLog", "FrontdoorAccessLog", "edge"),
            ("FrontDoorAccessLog", "FrontDoorWebApplicationFirewallLog", "not_access"),
            ("\"category\"", "\"kind\"", "not_access"),
            ("}}", "}", "bad_json"),
        ] {
            let changed = LINE.replacen(from, to, 1);
            assert_ne!(changed, LINE);
            assert_eq!(verdicts(FORMAT, &changed), [verdict], "{from} -> {to}");
        }
    }

    #[test]
    fn a_list_in_one_line_is_as_good_as_lines() {
        let miss = LINE.replace("\"HIT\"", "\"MISS\"");
        let batch = format!("{{\"records\":[{LINE},{PROBE},{miss}]}}\n");
        assert_eq!(verdicts(FORMAT, &batch), ["edge", "not_access", "origin"]);
        assert_eq!(verdicts(FORMAT, "{\"records\":[]}\n"), [""; 0]);
        assert!(recognise(&Sample::of(batch.as_bytes()), &Settings::default()).fits());
        let parser = FileParser::new(FORMAT, batch.as_bytes(), Settings::default());
        assert!(parser.layout_has_id());
    }

    #[test]
    fn other_categories_do_no_harm_among_requests() {
        let fits = |file: &str| recognise(&Sample::of(file.as_bytes()), &Settings::default()).fits();
        assert!(fits(&format!("{PROBE}\n{PROBE}\n{PROBE}\n{LINE}\n")));
        assert!(!fits(&format!("{PROBE}\n")));
    }

    #[test]
    fn records_without_an_id_are_told() {
        let has_id = |file: &str| FileParser::new(FORMAT, file.as_bytes(), Settings::default()).layout_has_id();
        assert!(has_id(LINE) && has_id(""));
        assert!(!has_id(&LINE.replace("trackingReference", "reference")));
    }
}
