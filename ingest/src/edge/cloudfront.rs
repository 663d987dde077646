//! What CloudFront's formats share: the names of its fields, what they come to, its three words for how a request
//! ended, and its encoding of values.
//!
//! Values carry one layer of percent-encoding by CloudFront over what the client sent: gone once, it is the wire's
//! path; gone twice, the code. A hyphen is a missing value.

use schemas::UtcMicros;
use schemas::privacy::Asked;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::fields::{Keys, Place};
use super::identity::well_formed_key;
use super::judge::{Entry, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Target, Verb};

/// How many fields are read.
pub const PLACES: usize = 18;

/// The fields that are read, by every spelling: in standard logs, in real-time logs, in Parquet files (hyphens become
/// underscores there, as in the columns of Athena's tables).
pub static KEYS: Keys = Keys::new(&[
    ("date", Place::Slot(0)),
    ("time", Place::Slot(1)),
    ("timestamp", Place::Slot(2)),
    ("timestamp(ms)", Place::Slot(3)),
    ("timestamp_ms", Place::Slot(3)),
    ("timestamp-ms", Place::Slot(3)),
    ("c-ip", Place::Slot(4)),
    ("c_ip", Place::Slot(4)),
    ("cs-method", Place::Slot(5)),
    ("cs_method", Place::Slot(5)),
    ("cs-uri-stem", Place::Slot(6)),
    ("cs_uri_stem", Place::Slot(6)),
    ("sc-status", Place::Slot(7)),
    ("sc_status", Place::Slot(7)),
    ("cs(Referer)", Place::Slot(8)),
    ("cs-referer", Place::Slot(8)),
    ("cs_referer", Place::Slot(8)),
    ("cs(User-Agent)", Place::Slot(9)),
    ("cs-user-agent", Place::Slot(9)),
    ("cs_user_agent", Place::Slot(9)),
    ("cs-uri-query", Place::Slot(10)),
    ("cs_uri_query", Place::Slot(10)),
    ("x-edge-result-type", Place::Slot(11)),
    ("x_edge_result_type", Place::Slot(11)),
    ("x-edge-request-id", Place::Slot(ID)),
    ("x_edge_request_id", Place::Slot(ID)),
    ("x-host-header", Place::Slot(13)),
    ("x_host_header", Place::Slot(13)),
    ("x-edge-response-result-type", Place::Slot(14)),
    ("x_edge_response_result_type", Place::Slot(14)),
    ("x-edge-detailed-result-type", Place::Slot(15)),
    ("x_edge_detailed_result_type", Place::Slot(15)),
    ("c-country", Place::Slot(16)),
    ("c_country", Place::Slot(16)),
    ("cs(Host)", Place::Slot(17)),
    ("cs-host", Place::Slot(17)),
    ("cs_host", Place::Slot(17)),
]);

/// Where fields go that aren't read.
pub const REST: usize = PLACES;
/// The method's place.
const METHOD: usize = 5;
/// The status's place.
pub const STATUS: usize = 7;
/// The request id's place.
pub const ID: usize = 12;

/// A record's values as they are written, by place; missing ones are empty.
pub type Fields<'a> = [&'a [u8]; PLACES + 1];

/// Which fields a layout has, by place.
pub type Has = [bool; PLACES + 1];

/// The place of a field, by any of its names.
pub fn place(name: &[u8]) -> usize {
    std::str::from_utf8(name).ok().and_then(|name| KEYS.slot(name)).unwrap_or(REST)
}

/// Whether a layout has the fields without which a record says nothing: a time, the path, the status.
pub fn is_enough(has: &Has) -> bool {
    ((has[0] && has[1]) || has[2] || has[3]) && has[6] && has[7]
}

/// In which kind of log a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `x-host-header` is the host that the client asked for, `cs(Host)` the distribution's own.
    Standard,
    /// The other way round, and the path has the query behind it.
    RealTime,
}

/// A request from its record's values. `has` says which of them the layout has at all.
pub fn entry<'a>(values: &Fields<'a>, has: &Has, dialect: Dialect, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let [
        _,
        _,
        _,
        _,
        ip,
        method,
        stem,
        status,
        referrer,
        agent,
        query,
        result,
        id,
        header,
        response,
        detailed,
        country,
        host,
        _,
    ] = *values;
    let host = if dialect == Dialect::Standard { header } else { host };
    let (path, behind) = match dialect {
        Dialect::Standard => (target::without_fragment(decoded(stem, arena)), &b""[..]),
        Dialect::RealTime => {
            let Target { path, query } = target::split(decoded(stem, arena));
            (path, query)
        }
    };
    let query = if is_value(query) { decoded(query, arena) } else { behind };
    let verb = if has[METHOD] { Verb::read(method).ok_or(Reject::BAD_REQUEST)? } else { Verb::Unlogged };
    let request = EdgeRequest {
        time: instant(values).ok_or(Reject::BAD_TIMESTAMP)?,
        class: EdgeClass::Origin,
        host: arena.lower(arena.text(decoded(host, arena))),
        path: arena.text(path),
        code: target::code(path, arena),
        query: arena.text(query),
        method: None,
        status: status_code(status)?,
        address: address(ip),
        user_agent: user_agent(agent, arena),
        referrer: arena.text(decoded(referrer, arena)),
        country: if is_value(country) { arena.text(country) } else { "" },
        region: "",
        city: "",
        asked: Asked::default(),
        language: "",
        line_key: well_formed_key(id).then_some(id),
    };
    Ok(Entry { request, verb, outcome: outcome(result, response, detailed) })
}

/// The finest time that is there.
fn instant(values: &Fields<'_>) -> Option<UtcMicros> {
    let [date, time, seconds, millis, ..] = *values;
    clock::any(millis).or_else(|| clock::any(seconds)).or_else(|| clock::date_and_time(date, time))
}

/// `000` and a hyphen: the client left before there was a status.
fn status_code(column: &[u8]) -> Result<u16, Reject> {
    if !is_value(column) {
        return Ok(0);
    }
    std::str::from_utf8(column).ok().and_then(|text| text.parse().ok()).ok_or(Reject::BAD_STATUS)
}

/// How a request ended. `detailed` is empty in old layouts, `response` in the oldest.
///
/// The response type says what was sent to the client and wins over the result type, which becomes `Error` when the
/// client leaves in the middle. The detailed type alone knows of Origin Shield.
pub fn outcome(result: &[u8], response: &[u8], detailed: &[u8]) -> Outcome {
    if detailed == b"OriginShieldHit" {
        return Outcome::Edge;
    }
    if result == b"Error" && is_no_answer(detailed) {
        return Outcome::Aborted;
    }
    match if is_value(response) { response } else { result } {
        b"Hit" => Outcome::Edge,
        b"Error" => Outcome::Aborted,
        b"Redirect" | b"LimitExceeded" | b"CapacityExceeded" => Outcome::EdgeMade,
        b"FunctionGeneratedResponse" | b"LambdaGeneratedResponse" => Outcome::Function,
        other if other.starts_with(b"Function") || other.starts_with(b"Lambda") => Outcome::EdgeMade,
        // Miss, RefreshHit; what isn't known is left to the id.
        _ => Outcome::Origin,
    }
}

/// Details of an error that left no answer to count: the origin failed, or was never asked.
fn is_no_answer(detailed: &[u8]) -> bool {
    detailed == b"AbortedOrigin"
        || detailed == b"ClientHungUpRequest"
        || detailed == b"ClientGeoBlocked"
        || detailed.starts_with(b"Origin")
        || detailed.starts_with(b"InvalidRequest")
}

/// Whether a column holds something.
pub fn is_value(column: &[u8]) -> bool {
    !column.is_empty() && column != b"-"
}

/// A value as the client sent it: without the layer of percent-encoding that CloudFront puts on.
pub fn decoded<'a>(column: &'a [u8], arena: &'a Arena) -> &'a [u8] {
    if is_value(column) { arena.percent(column) } else { b"" }
}

/// A user agent. Old logs encode it twice, which shows in a `%20` and no blank after the first layer is gone.
pub fn user_agent<'a>(column: &'a [u8], arena: &'a Arena) -> &'a str {
    let once = decoded(column, arena);
    let twice = memchr::memchr(b' ', once).is_none() && memchr::memmem::find(once, b"%20").is_some();
    arena.text(if twice { arena.percent(once) } else { once })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_has_its_outcome() {
        for (result, response, detailed, expected) in [
            ("Hit", "Hit", "Hit", Outcome::Edge),
            ("Miss", "Miss", "Miss", Outcome::Origin),
            ("RefreshHit", "RefreshHit", "RefreshHit", Outcome::Origin),
            ("Miss", "Miss", "OriginShieldHit", Outcome::Edge),
            ("Redirect", "Redirect", "Redirect", Outcome::EdgeMade),
            ("LimitExceeded", "LimitExceeded", "LimitExceeded", Outcome::EdgeMade),
            ("CapacityExceeded", "CapacityExceeded", "CapacityExceeded", Outcome::EdgeMade),
            ("Error", "Hit", "ClientCommError", Outcome::Edge),
            ("Error", "Miss", "ClientCommError", Outcome::Origin),
            ("Error", "Miss", "AbortedOrigin", Outcome::Aborted),
            ("Error", "Error", "OriginCommError", Outcome::Aborted),
            ("Error", "Error", "ClientHungUpRequest", Outcome::Aborted),
            ("Error", "Error", "-", Outcome::Aborted),
            ("FunctionGeneratedResponse", "FunctionGeneratedResponse", "", Outcome::Function),
            ("LambdaGeneratedResponse", "LambdaGeneratedResponse", "", Outcome::Function),
            ("LambdaExecutionError", "LambdaExecutionError", "", Outcome::EdgeMade),
            ("Hit", "-", "-", Outcome::Edge),
            ("Miss", "", "", Outcome::Origin),
            ("", "", "", Outcome::Origin),
            ("SomethingNew", "SomethingNew", "SomethingNew", Outcome::Origin),
        ] {
            let outcome = outcome(result.as_bytes(), response.as_bytes(), detailed.as_bytes());
            assert_eq!(outcome, expected, "{result} {response} {detailed}");
        }
    }

    #[test]
    fn agents_lose_a_second_layer_only_where_it_shows() {
        let arena = Arena::new();
        for (column, expected) in [
            ("Mozilla/5.0%2520(X11;%2520Linux%2520x86_64)", "Mozilla/5.0 (X11; Linux x86_64)"),
            ("cli%2520v1%20x", "cli%20v1 x"),
            ("Slackbot%201.0%20(+https://api.slack.com/robots)", "Slackbot 1.0 (+https://api.slack.com/robots)"),
            ("Mozilla/5.0 (X11)", "Mozilla/5.0 (X11)"),
            ("curl/8.5.0", "curl/8.5.0"),
            ("caf%E9", "caf\u{fffd}"),
            ("-", ""),
        ] {
            assert_eq!(user_agent(column.as_bytes(), &arena), expected);
        }
    }
}
